// SPDX-License-Identifier: Apache-2.0
public import ServerTrust

/// Receives the events of a stream. A class to inherit from, one object for each stream.
///
/// All calls come on the session's loop, in this order: `streamTaskDidConnect`, bytes, `streamTaskReadClosed`, and exactly
/// once, whatever happened, `streamTaskDidComplete`. `streamTaskHasSpace` comes between them.
open class LoopStreamTaskDelegate {
    /// A delegate that takes everything and keeps nothing, until a subclass says otherwise.
    public init() {}

    /// The server wants a client certificate, and the security policy names none. Asked within the handshake.
    open func streamTaskNeedsClientIdentity(_ task: LoopStreamTask) -> ClientIdentityDecision { .none }

    /// The server has been accepted by the security policy: the delegate can still refuse it, before any byte has gone.
    ///
    /// - Returns: why the stream fails; nil to accept.
    open func streamTask(_ task: LoopStreamTask, mayTrust trust: ConnectionTrust) -> SessionError? { nil }

    /// The connection stands: dialled, and over TLS judged by the security policy. From now on bytes can be sent.
    open func streamTaskDidConnect(_ task: LoopStreamTask) {}

    /// Bytes from the other end. They are gone after the call.
    open func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow { .proceed }

    /// The other end has said all, and properly: a FIN without TLS, close_notify with it. Bytes can still be sent;
    /// `LoopStreamTask.closeWrite` ends the stream then.
    open func streamTaskReadClosed(_ task: LoopStreamTask) {}

    /// All bytes that were given to `LoopStreamTask.send` have gone to the system.
    open func streamTaskHasSpace(_ task: LoopStreamTask) {}

    /// The end: nil when both sides have said all, otherwise why the stream broke off. `LoopStreamTask.metrics` is complete.
    open func streamTaskDidComplete(_ task: LoopStreamTask, error: SessionError?) {}
}
