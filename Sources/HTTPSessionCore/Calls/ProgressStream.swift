// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// Passes the progress of a request's tasks on to an `AsyncStream`.
struct ProgressStream: Sendable {
    enum Body: Sendable {
        /// The request's body.
        case sent
        /// The response's body.
        case received
    }

    /// The name of its listener at the tasks.
    let name: String
    private let body: Body
    private let queue: CallbackQueue
    private let continuation: AsyncStream<TaskProgress>.Continuation

    init(_ body: Body, on queue: CallbackQueue, _ continuation: AsyncStream<TaskProgress>.Continuation) {
        name = "stream " + String(UInt64.random(in: 0 ... .max), radix: 36)
        self.body = body
        self.queue = queue
        self.continuation = continuation
    }

    /// - Parameter isUnderWay: whether the task may have counted bytes already, which are then delivered, too.
    func attach(to task: SessionTask, isUnderWay: Bool) {
        let handler: ProgressRelay.Handler = { [continuation] in _ = continuation.yield($0) }
        let relay = self.relay(of: task)
        guard isUnderWay else { return relay.setHandler(handler, on: queue, name: name) }
        // The task is kept until the call: it may end before.
        relay.addListener(handler, on: queue, name: name) { [self] in present(of: task) }
    }

    func detach(from task: SessionTask) {
        relay(of: task).setHandler(nil, on: queue, name: name)
    }

    /// nil before the first byte.
    private func present(of task: SessionTask) -> TaskProgress? {
        let counts = task.count { _ in }
        let progress =
            switch body {
            case .sent: TaskProgress(completedBytes: counts.sent, totalBytes: counts.expectedToSend)
            case .received: TaskProgress(completedBytes: counts.received, totalBytes: counts.expectedToReceive)
            }
        return progress.completedBytes > 0 ? progress : nil
    }

    private func relay(of task: SessionTask) -> ProgressRelay {
        switch body {
        case .sent: task.delegate.sending
        case .received: task.delegate.receiving
        }
    }
}
