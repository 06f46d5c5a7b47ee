// SPDX-License-Identifier: Apache-2.0
import HTTPCore
package import IOCore

/// One exchange on a connection of HTTP/2. A base class. The session calls its open methods in this order: fields and
/// `didReceiveHead` for each field block (1xx heads, the head, trailers), data, `didReceiveEnd`; and always once at the
/// end `didClose`.
///
/// All of them except `hasRoom` are called inside `HTTP2Session.receive` or `produce`: they may submit frames, but must
/// not call `receive` or `produce`.
open class HTTP2Stream {
    /// 0 before it is opened.
    package internal(set) final var identifier: Int32 = 0
    /// The connection; nil before it is opened and after it has closed.
    ///
    /// Not weak: for the rest of its life each retain of an object with a weak reference takes the slow way. The session clears
    /// it when it goes.
    package internal(set) final unowned(unsafe) var session: HTTP2Session?
    /// Bytes of the body that wait for flow-control credit.
    package var output = ByteBuffer()
    /// Whether the last byte of the local side was sent.
    package internal(set) final var hasEnded = false
    /// Whether the peer has ended its side.
    package internal(set) final var peerHasEnded = false
    package internal(set) final var isClosed = false
    /// At a client: whether a field block of the server has begun, of which nothing else may have come.
    package internal(set) final var hasReceivedFields = false

    /// Its place among the session's streams.
    final var index = -1
    final var outputEnds = false
    final var trailers: HeaderFields?
    /// Whether nghttp2 waits for more body bytes.
    final var isDeferred = false
    final var isRoomNotificationPlanned = false
    final var wasResetByPeer = false
    /// The head has been put on the connection, or is about to be.
    package internal(set) final var isHeadSent = false
    /// Bytes of heads that were submitted and have not been put on the connection.
    package internal(set) final var queuedHeadBytes = 0
    /// Whether it is being reset, and its memory was released.
    final var isReleased = false
    /// Whether it is being reset, so that nothing more is delivered.
    final var isMalformed = false

    package init() {}

    /// Receives one field of a head or of trailers: `name` in lower case and valid, `value` valid.
    ///
    /// - Returns: false to reset the stream as malformed.
    open func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool { true }

    /// Notifies that nghttp2 has refused a field, before the stream is reset as malformed.
    open func didRefuseField(name: borrowing Span<UInt8>) {}

    /// Notifies that a field of the block was too large and was replaced by a meaningless one. Called before
    /// `didReceiveHead`.
    open func didOmitField() {}

    /// Notifies that a field block is complete.
    ///
    /// - Parameter endsStream: whether nothing follows.
    /// - Returns: false to reset the stream as malformed.
    open func didReceiveHead(endsStream: Bool) -> Bool { true }

    /// Receives bytes of the body, which are valid only during the call. `HTTP2Session.consume` returns credit for
    /// them.
    open func didReceiveData(_ bytes: borrowing Span<UInt8>) {}

    /// Notifies that the peer has ended its side properly.
    open func didReceiveEnd() {}

    /// Notifies that a part of `output` was sent.
    open func hasRoom() {}

    /// Notifies that the last byte of the local side was produced.
    open func didEnd() {}

    /// Notifies that the stream has ended: with `noError` after a proper end of both sides.
    ///
    /// - Parameter byPeer: whether the peer ended it, not this side.
    open func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) {}
}

/// The receiver of events of a whole connection. A base class.
open class HTTP2SessionDelegate {
    package init() {}

    /// Notifies that a client begins a request.
    ///
    /// - Returns: nil to refuse it (REFUSED_STREAM: it may be sent again elsewhere).
    open func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? { nil }

    /// Notifies of a frame that advances no request or response: PING, SETTINGS, PRIORITY, RST_STREAM, unknown frames,
    /// nearly empty DATA, fields beyond the limit. Each causes work, and flow control does not limit them
    /// (CVE-2019-9512 to 9518, CVE-2023-44487, CVE-2025-8671).
    ///
    /// - Parameters:
    ///   - session: the session, which may be terminated.
    ///   - weight: the weight of the frame; a PING has 1.
    open func session(_ session: HTTP2Session, didReceiveCostlyFrame weight: Double) {}

    /// Asks whether the peer may have fields decoded: a reference of one byte stands for kilobytes (RFC 7541, section 7.3),
    /// so that neither the bytes of a connection nor the limit of a section bounds this work. It may `pause` the session.
    ///
    /// - Parameter bytes: the size of the fields, by RFC 9113, section 6.5.2.
    /// - Returns: false to end the connection.
    open func session(_ session: HTTP2Session, mayDecode bytes: Int) -> Bool { true }

    /// Notifies that the peer gives flow-control credit.
    open func sessionDidReceiveWindowUpdate(_ session: HTTP2Session) {}

    /// Notifies that the peer ends the connection: streams above `lastStream` were not processed, and are closed as
    /// refused.
    open func session(_ session: HTTP2Session, didReceiveGoAway code: HTTP2ErrorCode, lastStream: Int32) {}

    /// Notifies of a ping's acknowledgement.
    open func sessionDidReceivePong(_ session: HTTP2Session) {}

    /// Notifies that the peer's settings have arrived.
    open func sessionDidReceiveSettings(_ session: HTTP2Session) {}

    /// Notifies that there are new frames to write.
    open func sessionHasOutput(_ session: HTTP2Session) {}
}
