// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import HTTPSessionCore

@Suite("Progress on the queues of its handlers")
struct ProgressRelayTests {
    /// Runs its work when the test says so.
    private final class ManualQueue: Sendable {
        private let held = Monitor<[@Sendable () -> Void]>([])

        var queue: CallbackQueue { CallbackQueue { [held] work in held.with { $0.append(work) } } }

        func run() {
            let works = held.with { exchange(&$0, with: []) }
            for work in works { work() }
        }
    }

    private static func figure(_ bytes: Int64) -> TaskProgress { TaskProgress(completedBytes: bytes, totalBytes: nil) }

    @Test("a handler is only called on its own queue, also when it replaces another")
    func replacedHandler() {
        let relay = ProgressRelay()
        let (first, second) = (ManualQueue(), ManualQueue())
        let log = Monitor<[String]>([])
        func handler(_ name: String) -> ProgressRelay.Handler {
            { step in log.with { $0.append("\(name) \(step.completedBytes)") } }
        }
        relay.setHandler(handler("first"), on: first.queue)
        relay.report(Self.figure(1))
        relay.setHandler(handler("second"), on: second.queue)
        first.run()
        #expect(log.with { $0 }.isEmpty)
        second.run()
        #expect(log.with { $0 } == ["second 1"])
        relay.report(Self.figure(2))
        relay.report(Self.figure(3))
        first.run()
        second.run()
        #expect(log.with { $0 } == ["second 1", "second 3"])
        // The last figure is not lost.
        relay.report(Self.figure(4))
        relay.setHandler(handler("third"), on: first.queue)
        relay.end()
        second.run()
        first.run()
        #expect(log.with { $0 } == ["second 1", "second 3", "third 4"])
    }

    @Test("a handler that was removed is not called with a figure that was due")
    func removedHandler() {
        let relay = ProgressRelay()
        let queue = ManualQueue()
        let calls = Monitor(0)
        relay.setHandler({ _ in calls.with { $0 += 1 } }, on: queue.queue)
        relay.report(Self.figure(1))
        relay.setHandler(nil, on: queue.queue)
        queue.run()
        #expect(calls.with { $0 } == 0)
    }
}
