// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("The course of a request to its origin")
struct RequestCourseTests {
    private class Named {
        let name: String
        init(_ name: String) { self.name = name }
    }

    private final class Stream {
        let name: String
        init(_ name: String) { self.name = name }
    }

    private final class Shared: Named, SharedPlace {
        var hasRoom: Bool { true }
        var isIdle: Bool { true }
    }

    private final class Request: PoolRequest {
        var isShareable: Bool { true }
        func canUse(_ connection: Named) -> Bool { true }
        func canShare(_ connection: Shared) -> Bool { true }
        func canAwait(_ dial: Shared) -> Bool { true }
        func canJoin(_ dial: Shared) -> Bool { true }
    }

    private typealias Course = RequestCourse<Request, Named, Stream>

    /// The phases that a request can be in.
    private enum Place: String, CaseIterable {
        case idle, entering, queued, awaiting, placed, connecting, ready, exchanging, promised, sharing, streaming
    }

    private static func course(in place: Place) -> Course {
        var course = Course()
        switch place {
        case .idle: break
        case .entering: course.enterAgain()
        case .queued: course.queue()
        case .awaiting: _ = course.await(Shared("dial of all"))
        case .placed: _ = course.take()
        case .connecting: course.dial(Named("dial"))
        case .ready: _ = course.use(Named("connection"))
        case .exchanging: course.begin(on: Named("connection"))
        case .promised: _ = course.share(Shared("shared"))
        case .sharing: course.begin(on: Stream("stream"))
        case .streaming: course.stream()
        }
        return course
    }

    private static func place(of course: Course) -> Place {
        switch course.phase {
        case .idle: .idle
        case .entering: .entering
        case .queued: .queued
        case .awaiting: .awaiting
        case .placed: .placed
        case .connecting: .connecting
        case .ready: .ready
        case .exchanging: .exchanging
        case .promised: .promised
        case .sharing: .sharing
        case .streaming: .streaming
        }
    }

    private static func words(_ wait: Course.Wait) -> String {
        switch wait {
        case .none: "none"
        case .queue: "queue"
        case .dial(let dial): dial.name
        }
    }

    private static func words(_ departure: Course.Departure) -> String {
        switch departure {
        case .nothing: "nothing"
        case .leaveQueue: "leave the queue"
        case .leaveDial(let dial): "leave the \(dial.name)"
        case .leave: "leave"
        case .cancel(let dial): "cancel the \(dial.name), leave"
        case .give(let connection): "give the \(connection.name), leave"
        case .withdrawPromise(let connection): "withdraw from \(connection.name)"
        case .endStream(let stream): "end the \(stream.name)"
        }
    }

    @Test("each event leads to its phase")
    func phases() {
        for place in Place.allCases { #expect(Self.place(of: Self.course(in: place)) == place) }
        var course = Self.course(in: .connecting)
        course.dialDidFail()
        #expect(Self.place(of: course) == .placed)
    }

    @Test("a step to a connection ends the wait for a place or dial")
    func waits() {
        for place in Place.allCases {
            let expected = place == .queued ? "queue" : place == .awaiting ? "dial of all" : "none"
            var course = Self.course(in: place)
            #expect(Self.words(course.take()) == expected && Self.place(of: course) == .placed)
            course = Self.course(in: place)
            #expect(Self.words(course.use(Named("other"))) == expected && Self.place(of: course) == .ready)
            course = Self.course(in: place)
            #expect(Self.words(course.share(Shared("other"))) == expected && Self.place(of: course) == .promised)
            course = Self.course(in: place)
            #expect(Self.words(course.await(Shared("other"))) == expected && Self.place(of: course) == .awaiting)
            #expect(Self.words(course.take()) == "other", "and then for this one")
        }
    }

    @Test("a request awaits the dial that it has joined last, and no other")
    func awaiting() {
        let (first, second) = (Shared("first"), Shared("second"))
        var course = Course()
        #expect(!course.isAwaiting(first))
        _ = course.await(first)
        #expect(course.isAwaiting(first) && !course.isAwaiting(second))
        _ = course.await(second)
        #expect(!course.isAwaiting(first) && course.isAwaiting(second))
        course.enterAgain()
        #expect(!course.isAwaiting(second))
    }

    @Test("a request begins by entering the pool, or on what it has got")
    func beginnings() {
        for place in Place.allCases {
            let words =
                switch Self.course(in: place).beginning {
                case .nothing: "nothing"
                case .enterPool: "enter"
                case .send(let connection): connection.name
                case .share(let connection): connection.name
                }
            switch place {
            case .entering: #expect(words == "enter")
            case .ready: #expect(words == "connection")
            case .promised: #expect(words == "shared")
            default: #expect(words == "nothing", "\(place)")
            }
        }
    }

    @Test("only a request that goes out has a connection, or a stream")
    func connections() {
        for place in Place.allCases {
            let course = Self.course(in: place)
            #expect(course.connection?.name == (place == .exchanging ? "connection" : nil))
            #expect(course.sharedStream?.name == (place == .sharing ? "stream" : nil))
            #expect(course.isExchanging == (place == .exchanging) && course.isSharing == (place == .sharing))
        }
    }

    @Test("a replaced session gives back what has not gone out")
    func handBack() {
        for place in Place.allCases {
            let words =
                switch Self.course(in: place).handBack {
                case .goOn: "goes on"
                case .give: "given back"
                case .takeBack(let stream): "asks the \(stream.name)"
                }
            switch place {
            case .idle, .exchanging, .streaming: #expect(words == "goes on", "\(place)")
            case .sharing: #expect(words == "asks the stream")
            default: #expect(words == "given back", "\(place)")
            }
        }
    }

    @Test("a connection that is dropped leaves the place to the request")
    func dropped() {
        for place in Place.allCases {
            var course = Self.course(in: place)
            let isOwn = place == .ready || place == .exchanging
            #expect(course.dropConnection()?.name == (isOwn ? "connection" : nil), "\(place)")
            #expect(Self.place(of: course) == .placed && Self.words(course.end()) == "leave")
        }
    }

    @Test("each end gives back what the request has, once")
    func ends() {
        let all = [
            "nothing", "nothing", "leave the queue", "leave the dial of all", "leave", "cancel the dial, leave",
            "give the connection, leave", "give the connection, leave", "withdraw from shared", "end the stream",
            "leave",
        ]
        for (place, expected) in zip(Place.allCases, all) {
            var course = Self.course(in: place)
            #expect(Self.words(course.end()) == expected, "\(place)")
            #expect(Self.place(of: course) == .idle && Self.words(course.end()) == "nothing")
        }
    }
}
