// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("The course of a connection attempt")
struct AttemptCourseTests {
    private typealias Fault = AttemptCourse.Fault

    private func course(
        isSecure: Bool = true,
        isTunnelled: Bool = false,
        isTrial: Bool = false,
        hasListSource: Bool = true
    ) -> AttemptCourse {
        AttemptCourse(isSecure: isSecure, isTunnelled: isTunnelled, isTrial: isTrial, hasListSource: hasListSource)
    }

    /// The step behind a failure, and what was tried for it.
    private func recovery(
        _ course: inout AttemptCourse,
        _ fault: Fault,
        areListsMissing: Bool = false,
        hasOthers: Bool = false,
        maySeeProfiles: Bool = false
    ) -> String {
        var tried = ""
        let recovery = course.didFail(
            fault,
            areListsMissing: areListsMissing,
            dialsNext: {
                tried += ", dials"
                return hasOthers
            },
            beginsTrial: {
                tried += ", tries"
                return maySeeProfiles
            }
        )
        return "\(recovery)\(tried)"
    }

    private static let faults: [Fault] =
        [.other]
        + [true, false].flatMap { isFirst in
            [true, false].flatMap { isCut in
                [
                    Fault.tunnel(isAnswered: isFirst, isCut: isCut),
                    .handshake(isEvaluated: isFirst, isCut: isCut, isOfferRefused: false),
                ]
            }
        }

    @Test("a tunnel comes before TLS, and a connection without TLS is accepted behind it")
    func steps() {
        #expect(course().didConnect() == .beginHandshake)
        #expect(course(isSecure: false).didConnect() == .acceptPlaintext)
        for isSecure in [true, false] {
            let course = course(isSecure: isSecure, isTunnelled: true)
            #expect(course.isTunnelled && course.didConnect() == .openTunnel)
            #expect(course.tunnelDidOpen() == (isSecure ? .beginHandshake : .acceptPlaintext))
        }
    }

    @Test("another address is dialled only if proxy and server have shown nothing")
    func addresses() {
        for (fault, leaves) in [
            (Fault.tunnel(isAnswered: false, isCut: false), true), (.tunnel(isAnswered: true, isCut: true), true),
            (.tunnel(isAnswered: true, isCut: false), false),
            (.handshake(isEvaluated: false, isCut: true, isOfferRefused: false), true),
            (.handshake(isEvaluated: false, isCut: false, isOfferRefused: false), false),
            (.handshake(isEvaluated: true, isCut: true, isOfferRefused: false), false), (.other, false),
        ] {
            var course = course()
            #expect(recovery(&course, fault, hasOthers: true) == (leaves ? "nextAddress, dials" : "fail"))
            #expect(course.isOver != leaves)
            var last = self.course()
            #expect(recovery(&last, fault) == (leaves ? "fail, dials" : "fail"))
        }
    }

    @Test("a server that takes nothing of the offer is asked by a trial")
    func trial() {
        let refused = Fault.handshake(isEvaluated: false, isCut: false, isOfferRefused: true)
        var course = course()
        #expect(recovery(&course, refused, areListsMissing: true, maySeeProfiles: true) == "explain, tries")
        #expect(!course.isOver && recovery(&course, .other) == "fail", "with the words of the trial")
        var known = self.course()
        #expect(recovery(&known, refused) == "fail, tries")
        var trial = self.course(isTrial: true)
        #expect(recovery(&trial, refused, maySeeProfiles: true) == "fail")
        var cut = self.course()
        let isCut = Fault.handshake(isEvaluated: false, isCut: true, isOfferRefused: true)
        #expect(recovery(&cut, isCut, hasOthers: true, maySeeProfiles: true) == "nextAddress, dials")
        #expect(recovery(&cut, isCut, maySeeProfiles: true) == "explain, dials, tries")
    }

    @Test("missing lists are awaited once, whatever has failed for them")
    func lists() {
        for fault in Self.faults {
            var course = course()
            #expect(course.awaitsLists(true) && !course.awaitsLists(false))
            #expect(recovery(&course, fault, areListsMissing: true).hasPrefix("awaitLists"))
            #expect(!course.isOver && !course.awaitsLists(true))
            #expect(recovery(&course, fault, areListsMissing: true).hasPrefix("fail"))
            var other = self.course()
            #expect(recovery(&other, fault).hasPrefix("fail"), "its lists are there")
        }
    }

    @Test("lists are not awaited without a source, or by a trial")
    func noLists() {
        for var course in [course(hasListSource: false), course(isTrial: true)] {
            #expect(!course.awaitsLists(true))
            #expect(recovery(&course, .other, areListsMissing: true) == "fail")
        }
    }

    @Test("an attempt is over once, and nothing follows")
    func over() {
        for fault in Self.faults + [.handshake(isEvaluated: false, isCut: true, isOfferRefused: true)] {
            var ended = course()
            #expect(!ended.isOver && ended.end() && ended.isOver)
            #expect(ended.end() == false)
            let after = recovery(&ended, fault, areListsMissing: true, hasOthers: true, maySeeProfiles: true)
            #expect(after == "nothing")
            var failed = course()
            _ = recovery(&failed, fault)
            #expect(failed.isOver && failed.end() == false)
        }
    }
}
