// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore

/// Records what a hop of a task receives, and passes it on. Belongs to the session's loop.
final class RecordingDelegate: LoopTaskDelegate {
    private let inner: LoopTaskDelegate
    private let whenComplete: (RecordedExchange) -> Void
    private var exchange: RecordedExchange
    /// The session wants no body behind this head: it is redirected, for one.
    private var isUnwanted = false

    /// - Parameter limit: the longest body that is kept.
    init(
        _ request: SessionRequest,
        _ inner: LoopTaskDelegate,
        limit: Int,
        whenComplete: @escaping (RecordedExchange) -> Void
    ) {
        self.inner = inner
        self.whenComplete = whenComplete
        exchange = RecordedExchange(request, limit: limit)
    }

    func didSend(_ bytes: borrowing Span<UInt8>) { exchange.sent.append(bytes) }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        exchange.response = copy response
        let disposition = inner.task(task, didReceive: response)
        isUnwanted = disposition == .cancel
        return disposition
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        exchange.received.append(data)
        return inner.task(task, didReceive: data)
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        exchange.metrics = task.metrics
        if !isUnwanted { exchange.error = error }
        // Before the program learns that the task is complete.
        whenComplete(exchange)
        inner.taskDidComplete(task, error: error)
    }

    // MARK: Passed on

    override func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision {
        inner.taskNeedsClientIdentity(task)
    }

    override func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        inner.task(task, mayTrust: trust)
    }

    override func taskDidConnect(_ task: LoopTask) { inner.taskDidConnect(task) }

    override func taskNeedsBodyData(_ task: LoopTask) { inner.taskNeedsBodyData(task) }

    override func task(_ task: LoopTask, didReceiveInformational head: borrowing ResponseHead) {
        inner.task(task, didReceiveInformational: head)
    }

    override func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {
        inner.task(task, didReceiveTrailers: trailers)
    }

    override func task(_ task: LoopTask, willCache response: CachedResponse) -> CachedResponse? {
        inner.task(task, willCache: response)
    }

    override func task(_ task: LoopTask, didReceiveUnused head: borrowing ResponseHead) {
        inner.task(task, didReceiveUnused: head)
    }

    override func delegateForRefresh(of task: LoopTask) -> LoopTaskDelegate? { inner.delegateForRefresh(of: task) }
}
