/// How long the body of a message is, and how its end is found (RFC 9112 6).
package enum BodyFraming: Hashable, Sendable {
    /// No body, and no field that speaks of one.
    case none
    /// Exactly that many bytes; 0 where the head says so.
    case length(Int)
    /// Chunks, then perhaps trailers.
    case chunked
    /// All that comes until the connection closes (responses of HTTP/1), or until the stream ends (HTTP/2).
    case untilClose

    package var hasBody: Bool { self != .none && self != .length(0) }
}

/// The bounds of a request head. What is longer is refused as soon as that is certain.
package struct HeadLimits: Hashable, Sendable {
    /// The whole head, request line and last empty line included, in bytes: 431 above.
    package var headBytes: Int
    /// The request target, in bytes: 414 above.
    package var targetBytes: Int
    /// The method, in bytes: 501 above.
    package var methodBytes: Int
    /// Field lines: 431 above.
    package var fieldCount: Int

    package init(headBytes: Int = 65_536, targetBytes: Int = 8192, methodBytes: Int = 32, fieldCount: Int = 100) {
        self.headBytes = headBytes
        self.targetBytes = targetBytes
        self.methodBytes = methodBytes
        self.fieldCount = fieldCount
    }
}
