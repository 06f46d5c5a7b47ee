// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import ServerTrust

/// The delegate's decision about a response whose head has come.
public enum ResponseDisposition: Sendable {
    /// Have the body delivered.
    case allow
    /// End the task; nothing of the body is read.
    case cancel
}

/// Whether the origin may send on.
public enum BodyFlow: Sendable {
    /// More may come, as soon as it is there.
    case proceed
    /// The bytes were taken, but no more are wanted until `LoopTask.resumeReceiving`.
    case pause
}

/// Receives the events of a task. A class to inherit from, one object for each task.
///
/// All calls come on the manager's loop, in this order: `taskDidConnect`, informational heads, the response, data,
/// trailers, and exactly once, whatever happened, `taskDidComplete`.
open class LoopTaskDelegate {
    /// A delegate that takes everything and keeps nothing, until a subclass says otherwise.
    public init() {}

    /// The server of a new connection wants a client certificate, and the security policy names none. Asked within the
    /// handshake; the connection, with what is shown, serves later tasks too.
    open func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision { .none }

    /// A new connection's server, which the security policy has accepted: the delegate can still refuse it, before any
    /// byte of a request has gone out. Not asked again for tasks that use the connection later.
    ///
    /// - Returns: why the task fails; nil to accept.
    open func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? { nil }

    /// A connection that the security policy has accepted carries the task; now, and not before, the request goes out.
    open func taskDidConnect(_ task: LoopTask) {}

    /// The bytes that were given to `LoopTask.send` have gone: there is room for more.
    open func taskNeedsBodyData(_ task: LoopTask) {}

    /// A 1xx head (RFC 9110, section 15.2).
    open func task(_ task: LoopTask, didReceiveInformational head: borrowing ResponseHead) {}

    /// The final head.
    open func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition { .allow }

    /// Bytes of the body, without any transfer coding. They are gone after the call.
    open func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow { .proceed }

    /// The trailer section (RFC 9110, section 6.5).
    open func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {}

    /// The response is about to be stored in the session's cache; nothing of its body has come.
    ///
    /// - Returns: what is stored: the same, other fields; or nil to have nothing stored.
    open func task(_ task: LoopTask, willCache response: CachedResponse) -> CachedResponse? { response }

    /// A head from the origin that is not delivered: a stored response takes its place, because the origin has confirmed it
    /// (304) or because it may stand in for an error.
    open func task(_ task: LoopTask, didReceiveUnused head: borrowing ResponseHead) {}

    /// The delegate of a background request that revalidates the stored response which this task has received. The task may
    /// be complete before that request is. It is asked about the connection and about what is stored; nothing is delivered to it.
    open func delegateForRefresh(of task: LoopTask) -> LoopTaskDelegate? { nil }

    /// The end. `LoopTask.metrics` is complete; the error is nil when the complete response has been delivered.
    open func taskDidComplete(_ task: LoopTask, error: SessionError?) {}
}
