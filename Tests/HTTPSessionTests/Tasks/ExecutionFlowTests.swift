// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("The phases of a task's execution")
struct ExecutionFlowTests {
    private typealias PieceUse = ExecutionFlow.PieceUse

    private static let lost = SessionError(.responseTruncated, "lost")
    private static let other = SessionError(.internal, "other")

    private func name(_ step: ExecutionFlow.Step) -> String {
        switch step {
        case .nothing: "nothing"
        case .cancelHop: "cancel"
        case .send(let request): "send \(request.url)"
        case .awaitNetwork(let error): "network \(error.details)"
        case .finish(let error): "finish \(error?.details ?? "well")"
        }
    }

    private let next = HTTPSessionRequest(url: "http://next.test/")
    private let again = HTTPSessionRequest(url: "http://again.test/")
    private let sent = "send http://next.test/"
    private let cancelled = "finish \(SessionError.taskCancelled.details)"

    /// A flow with a hop under way.
    private func flow(awaitsNetwork: Bool = false) -> ExecutionFlow {
        var flow = ExecutionFlow(awaitsNetwork: awaitsNetwork)
        flow.beginHop()
        return flow
    }

    private func follow(_ flow: inout ExecutionFlow, after framing: BodyFraming = .none) {
        #expect(flow.follow(next, after: framing) == .allow)
    }

    // MARK: The next step

    @Test("the task ends like a hop with a final response")
    func final() {
        for error in [nil, Self.lost] {
            var flow = flow()
            #expect(name(flow.hopDidEnd(error)) == "finish \(error?.details ?? "well")")
        }
    }

    @Test("another request goes out when the hop before it has ended, well or not")
    func follows() {
        for error in [nil, Self.lost] {
            var flow = flow(awaitsNetwork: true)
            follow(&flow)
            #expect(name(flow.leaveHop()) == "nothing", "the hop goes on")
            #expect(name(flow.hopDidEnd(error)) == sent)
            flow.beginHop()
            #expect(name(flow.hopDidEnd(nil)) == "finish well", "it is sent once")
        }
    }

    @Test("the first failure ends the task, whatever follows it")
    func failure() {
        var flow = flow(awaitsNetwork: true)
        follow(&flow)
        #expect(name(flow.fail(Self.lost)) == "cancel")
        #expect(name(flow.fail(Self.other)) == "cancel")
        #expect(name(flow.hopDidEnd(Self.other)) == "finish lost")
        var idle = ExecutionFlow(awaitsNetwork: true)
        #expect(name(idle.fail(Self.lost)) == "finish lost")
        #expect(name(idle.fail(Self.other)) == "finish lost")
    }

    @Test("a cancelled task ends with its hop, and at once without one")
    func cancels() {
        var flow = flow(awaitsNetwork: true)
        follow(&flow)
        #expect(name(flow.cancel()) == "cancel")
        #expect(flow.receive(1) == .drop)
        #expect(name(flow.hopDidEnd(Self.lost)) == "finish lost", "that is how the cancelled hop ends")
        var idle = ExecutionFlow(awaitsNetwork: true)
        #expect(name(idle.cancel()) == cancelled)
        var wanted = self.flow()
        _ = wanted.cancel()
        #expect(wanted.receive(1) == .drop, "nobody wants the response any more")
        var failed = self.flow()
        failed.fail(Self.other)
        _ = failed.cancel()
        #expect(name(failed.hopDidEnd(Self.lost)) == "finish other")
    }

    @Test("a task ends once, and nothing follows")
    func ends() {
        var flow = flow()
        follow(&flow)
        #expect(!flow.isFinishing && flow.finish() && flow.isFinishing)
        #expect(flow.finish() == false)
        #expect(name(flow.cancel()) == "nothing" && name(flow.fail(Self.lost)) == "nothing")
        #expect(name(flow.leaveHop()) == "nothing" && flow.receive(1) == .deliver, "no request is kept")
        #expect(flow.setSuspended(true) == true, "it was not cancelled")
        var held = self.flow()
        held.holdBack()
        #expect(held.finish() && held.receive(1) == .deliver, "no hook decides any more")
    }

    @Test("a task that may wait for the network does so after an error alone")
    func network() {
        var flow = flow(awaitsNetwork: true)
        #expect(name(flow.hopDidEnd(Self.lost)) == "network lost")
        #expect(!flow.hasResponse)
        flow.beginHop()
        #expect(name(flow.hopDidEnd(nil)) == "finish well")
        var failed = self.flow(awaitsNetwork: true)
        failed.fail(Self.other)
        #expect(name(failed.hopDidEnd(Self.lost)) == "finish other")
    }

    // MARK: The response

    @Test("an undelivered short body is read to its end, a longer one cancelled")
    func unwanted() {
        let limit = UnwantedBody.limit
        var flow = flow()
        #expect(flow.receive(limit + 1) == .deliver)
        #expect(flow.follow(next, after: .length(limit)) == .allow && flow.follow(next, after: .chunked) == .allow)
        #expect(flow.follow(next, after: .length(limit + 1)) == .cancel)
        #expect(flow.receive(limit) == .drop && flow.receive(1) == .cancel)
        _ = flow.hopDidEnd(nil)
        flow.beginHop()
        #expect(flow.receive(1) == .deliver)
        follow(&flow)
        #expect(flow.receive(limit) == .drop, "each hop has its own")
    }

    @Test("a response is held back until the hook has decided")
    func heldBack() {
        var flow = flow()
        flow.holdBack()
        #expect(flow.receive(1) == .hold && flow.receive(0) == .hold)
        flow.release()
        #expect(flow.receive(1) == .deliver && flow.hasResponse)
        #expect(name(flow.leaveHop()) == "nothing")
        #expect(name(flow.hopDidEnd(Self.lost)) == "finish lost")
    }

    @Test("the end of a response that is held back waits for the hook, too")
    func heldBackEnd() {
        for error in [nil, Self.lost] {
            var flow = flow()
            flow.holdBack()
            #expect(name(flow.hopDidEnd(error)) == "nothing" && flow.hasResponse)
            flow.release()
            #expect(flow.receive(0) == .deliver)
            #expect(name(flow.leaveHop()) == "finish \(error?.details ?? "well")")
            #expect(!flow.hasResponse && name(flow.leaveHop()) == "nothing")
        }
    }

    @Test("the hook's next request goes out instead of the response that is held back")
    func followsHeldBack() {
        var flow = flow()
        flow.holdBack()
        #expect(name(flow.followHeldBack(next)) == "cancel")
        #expect(flow.receive(1) == .drop)
        #expect(name(flow.hopDidEnd(Self.lost)) == sent)
        var ended = self.flow(awaitsNetwork: true)
        ended.holdBack()
        _ = ended.hopDidEnd(Self.lost)
        #expect(name(ended.followHeldBack(next)) == sent)
        ended.beginHop()
        #expect(ended.receive(1) == .deliver)
    }

    @Test("a failure, or the end of the task, does not wait for the hook")
    func heldBackFailure() {
        var flow = flow()
        flow.holdBack()
        #expect(name(flow.fail(Self.lost)) == "cancel")
        #expect(name(flow.hopDidEnd(nil)) == "finish lost")
        var ended = self.flow()
        ended.holdBack()
        _ = ended.hopDidEnd(nil)
        #expect(name(ended.fail(Self.lost)) == "finish lost")
        var cancelled = self.flow()
        cancelled.holdBack()
        _ = cancelled.hopDidEnd(nil)
        #expect(name(cancelled.cancel()) == self.cancelled && cancelled.finish())
        #expect(name(cancelled.leaveHop()) == "nothing")
    }

    @Test("a held response that leads to another request is not delivered")
    func asksInstead() {
        var flow = flow()
        flow.holdBack()
        _ = flow.hopDidEnd(nil)
        flow.release()
        follow(&flow)
        #expect(flow.receive(0) == .drop)
        #expect(name(flow.leaveHop()) == sent)
    }

    // MARK: Suspension

    @Test("a hop runs unless the task is suspended or its consumer is slow")
    func runs() {
        var flow = flow()
        #expect(flow.isRunning && !flow.isSuspended)
        #expect(flow.setSuspended(true) && flow.isSuspended && !flow.isRunning)
        flow.setHeldByReader(true)
        #expect(flow.setSuspended(false) && !flow.isSuspended && !flow.isRunning)
        flow.setHeldByReader(false)
        #expect(flow.isRunning)
    }

    @Test("a cancelled task is neither suspended nor resumed")
    func cancelledIsNotSuspended() {
        var flow = flow()
        #expect(flow.setSuspended(true) == true)
        _ = flow.cancel()
        #expect(flow.setSuspended(false) == false && flow.isSuspended)
    }
}
