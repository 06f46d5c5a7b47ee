import HTTPCore
package import IOCore

/// One exchange on a connection of HTTP/2. A class to inherit from: the session calls what is open here, in this order:
/// fields and `didReceiveHead` for each field block (1xx heads, the head, trailers), data, `didReceiveEnd`; and once,
/// whatever happened, `didClose`.
///
/// All of them but `hasRoom` are called from within `HTTP2Session.receive` or `produce`: whoever is called may submit,
/// but must not receive or produce.
open class HTTP2Stream {
    /// 0 before it is opened.
    package internal(set) var identifier: Int32 = 0
    /// The connection; nil before it is opened and after it has closed.
    package internal(set) weak var session: HTTP2Session?
    /// Bytes of the body that wait for the peer's credit.
    package var output = ByteBuffer()
    /// The last byte of what we say has gone.
    package internal(set) var hasEnded = false
    /// The peer has said all.
    package internal(set) var peerHasEnded = false
    package internal(set) var isClosed = false

    /// Its place among the session's streams.
    var place = -1
    var outputEnds = false
    var trailers: HTTPFields?
    /// nghttp2 has asked in vain for bytes.
    var isDeferred = false
    var isRoomNotificationPlanned = false
    var wasResetByPeer = false
    /// Nothing more of it is delivered; it is being reset.
    var isMalformed = false

    package init() {}

    /// One field of a head or of trailers: `name` in lower case and valid, `value` valid.
    ///
    /// - Returns: false to have the stream reset as malformed.
    open func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool { true }

    /// A field of the block was too large to be handed on; what came in its place means nothing. Called before
    /// `didReceiveHead`.
    open func didOmitField() {}

    /// A field block is complete.
    ///
    /// - Parameter endsStream: nothing follows.
    /// - Returns: false to have the stream reset as malformed.
    open func didReceiveHead(endsStream: Bool) -> Bool { true }

    /// Bytes of the body; gone after the call. Credit for more is given with `HTTP2Session.consume`.
    open func didReceiveData(_ bytes: borrowing Span<UInt8>) {}

    /// The peer has said all, and it is whole.
    open func didReceiveEnd() {}

    /// Some of `output` has gone.
    open func hasRoom() {}

    /// The last byte of what we say has been put on the connection.
    open func didEnd() {}

    /// It is over: `noError` when both sides have said all.
    ///
    /// - Parameter byPeer: whether a frame of the peer's ended it, rather than we did.
    open func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) {}
}

/// Who is told what concerns a whole connection. A class to inherit from.
open class HTTP2SessionDelegate {
    package init() {}

    /// A client begins a request.
    ///
    /// - Returns: nil to refuse it (REFUSED_STREAM: it may be sent again elsewhere).
    open func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? { nil }

    /// The peer has sent something that brings no request or answer forward: PING, SETTINGS, PRIORITY, RST_STREAM, unknown
    /// frames, DATA with next to nothing in it, more fields than are taken. Each makes work, and none is bounded by flow
    /// control (CVE-2019-9512 to 9518, CVE-2023-44487, CVE-2025-8671).
    ///
    /// - Parameters:
    ///   - session: may be terminated.
    ///   - weight: 1 is a PING.
    open func session(_ session: HTTP2Session, didBearBurden weight: Double) {}

    /// The peer gives credit.
    open func sessionDidReceiveWindowUpdate(_ session: HTTP2Session) {}

    /// The peer ends the connection: streams above `lastStream` were not looked at, and are closed as refused.
    open func session(_ session: HTTP2Session, didReceiveGoAway code: HTTP2ErrorCode, lastStream: Int32) {}

    /// The answer to a ping has come.
    open func sessionDidReceivePong(_ session: HTTP2Session) {}

    /// The peer has sent its settings.
    open func sessionDidReceiveSettings(_ session: HTTP2Session) {}

    /// There is something to write that was not there before.
    open func sessionHasOutput(_ session: HTTP2Session) {}
}
