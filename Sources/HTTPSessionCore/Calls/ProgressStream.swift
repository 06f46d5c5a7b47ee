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

    func attach(to task: SessionTask) {
        relay(of: task).setHandler({ [continuation] in _ = continuation.yield($0) }, on: queue, name: name)
    }

    func detach(from task: SessionTask) {
        relay(of: task).setHandler(nil, on: queue, name: name)
    }

    private func relay(of task: SessionTask) -> ProgressRelay {
        switch body {
        case .sent: task.delegate.sending
        case .received: task.delegate.receiving
        }
    }
}
