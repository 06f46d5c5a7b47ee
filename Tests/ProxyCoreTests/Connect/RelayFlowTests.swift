// SPDX-License-Identifier: Apache-2.0
import SessionCore
import Testing

@testable import ProxyCore

@Suite("How the relay of two connections goes on")
final class RelayFlowTests {
    private var flow = RelayFlow()

    private static let phases: [RelayFlow.Phase] = [.dialling, .opening, .relaying, .finishing, .closed]

    private static func flow(in phase: RelayFlow.Phase) -> RelayFlow {
        var flow = RelayFlow()
        switch phase {
        case .dialling: break
        case .opening: flow.takeOver(checksFirstBytes: true)
        case .relaying: flow.takeOver(checksFirstBytes: false)
        case .finishing:
            flow.takeOver(checksFirstBytes: false)
            _ = flow.streamEnded(nil)
        case .closed: flow.end()
        }
        return flow
    }

    private func close(hasOutput: Bool = false, isDraining: Bool = false) -> String {
        flow.close(hasOutput: hasOutput, isDraining: isDraining).map { text($0) } ?? "nothing"
    }

    private func text(_ end: RelayFlow.End) -> String {
        (end.resets ? "reset " : "close ") + (end.problem?.code.rawValue ?? "well")
    }

    private func allDelivered() -> String {
        switch flow.allDelivered() {
        case .wait: "wait"
        case .shutDown: "shut down"
        case .close(let end): text(end)
        }
    }

    @Test("A relay's phases follow each other")
    func phases() {
        #expect(Self.phases.map { Self.flow(in: $0).phase } == Self.phases)
        flow.takeOver(checksFirstBytes: true)
        flow.beginRelaying()
        #expect(flow.phase == .relaying)
    }

    // MARK: Input

    @Test("The client is read once its connection is the relay's, until it has ended")
    func input() {
        for phase in Self.phases {
            flow = Self.flow(in: phase)
            #expect(flow.wantsInput(pending: 0) == (phase == .opening || phase == .relaying))
            _ = flow.inputEnded()
            #expect(!flow.wantsInput(pending: 0))
        }
    }

    @Test("The client is paused while 256 KB wait for the origin")
    func pausedClient() {
        flow.takeOver(checksFirstBytes: false)
        #expect(flow.wantsInput(pending: (256 << 10) - 1) && !flow.wantsInput(pending: 256 << 10))
        // Nothing waits there before the relaying begins.
        flow = Self.flow(in: .opening)
        #expect(flow.wantsInput(pending: 256 << 10))
    }

    @Test("The end of the input is passed on once, when the relaying has begun")
    func inputEnd() {
        for phase in Self.phases {
            flow = Self.flow(in: phase)
            let expected: RelayFlow.InputEnd =
                switch phase {
                case .opening: .refuse
                case .relaying: .passOn
                case .dialling, .finishing, .closed: .ignore
                }
            #expect(flow.inputEnded() == expected && flow.inputEnded() == .ignore)
            #expect(flow.phase == phase)
        }
    }

    // MARK: Output

    @Test("The origin pauses at 256 KB that wait, and goes on below 64 KB")
    func pausedOrigin() {
        flow.takeOver(checksFirstBytes: false)
        #expect(flow.delivered(waiting: (256 << 10) - 1) == .proceed && !flow.resumes(waiting: 0))
        #expect(flow.delivered(waiting: 256 << 10) == .pause)
        #expect(!flow.resumes(waiting: 64 << 10) && flow.resumes(waiting: (64 << 10) - 1))
        #expect(flow.resumes(waiting: 0) == false, "it goes on once")
    }

    @Test("The client gets the origin's end once, behind all that waited")
    func originEnd() {
        flow.takeOver(checksFirstBytes: false)
        #expect(allDelivered() == "wait")
        flow.originEnded()
        #expect(flow.phase == .relaying && flow.wantsInput(pending: 0), "the other direction goes on")
        #expect(allDelivered() == "shut down" && allDelivered() == "wait")
    }

    @Test("A client gets what waits, then a reset if the stream broke")
    func streamEnd() {
        for phase in [RelayFlow.Phase.opening, .relaying] {
            for (error, end) in [(nil, "close well"), (SessionError(.stalled, "x"), "reset stalled")] {
                flow = Self.flow(in: phase)
                #expect(flow.streamEnded(error) == .deliverRest && flow.phase == .finishing)
                #expect(allDelivered() == end && flow.phase == .closed)
            }
        }
    }

    @Test("A stream that fails while it is dialled gives the client's connection back")
    func otherStreamEnds() {
        #expect(flow.streamEnded(SessionError(.stalled, "x")) == .giveBack && flow.phase == .closed)
        for phase in [RelayFlow.Phase.finishing, .closed] {
            flow = Self.flow(in: phase)
            #expect(flow.streamEnded(SessionError(.stalled, "x")) == .ignore && flow.phase == phase)
        }
        // The first end counts.
        flow = Self.flow(in: .finishing)
        _ = flow.streamEnded(SessionError(.stalled, "x"))
        #expect(allDelivered() == "close well")
    }

    // MARK: The end

    @Test("A relay closes well where one side has ended, and resets incomplete output")
    func close() {
        for (clientEnds, originEnds, hasOutput, end) in [
            (false, false, false, "reset client_closed"), (true, false, false, "reset well"),
            (false, true, false, "close well"), (true, true, false, "close well"),
            (false, true, true, "reset client_closed"), (true, true, true, "reset well"),
        ] {
            flow = Self.flow(in: .relaying)
            if clientEnds { _ = flow.inputEnded() }
            if originEnds { flow.originEnded() }
            #expect(close(hasOutput: hasOutput) == end)
            #expect(flow.phase == .closed && close(hasOutput: hasOutput) == "nothing")
        }
    }

    @Test("A relay that ends because the process stops says so")
    func draining() {
        for (clientEnds, originEnds) in [(false, false), (false, true), (true, false), (true, true)] {
            flow = Self.flow(in: .relaying)
            if clientEnds { _ = flow.inputEnded() }
            if originEnds { flow.originEnded() }
            #expect(close(isDraining: true) == (originEnds ? "close cancelled" : "reset cancelled"))
        }
    }
}
