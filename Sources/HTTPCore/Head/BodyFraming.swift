// SPDX-License-Identifier: Apache-2.0
/// The length of a message body, and the way to find its end (RFC 9112 6).
package enum BodyFraming: Hashable, Sendable {
    /// No body, and no field about one.
    case none
    /// Exactly this number of bytes; 0 if the head says so.
    case length(Int)
    /// Chunks, then optional trailers.
    case chunked
    /// All bytes until the connection closes (responses of HTTP/1), or until the stream ends (HTTP/2).
    case untilClose

    package var hasBody: Bool { self != .none && self != .length(0) }
}

/// The limits of a request head. A longer one is refused as soon as possible.
package struct HeadLimits: Hashable, Sendable {
    /// The whole head, request line and last empty line included, in bytes: 431 above.
    package var headBytes: Int
    /// The request target, in bytes: 414 above.
    package var targetBytes: Int
    /// The method, in bytes: 501 above.
    package var methodBytes: Int
    /// Field lines: 431 above.
    package var fieldCount: Int
    /// Whether a Host that differs from the authority of the target is refused, or else replaced (RFC 9112, section
    /// 3.2.2).
    package var strictHost: Bool

    package init(
        headBytes: Int = 65_536,
        targetBytes: Int = 8192,
        methodBytes: Int = 32,
        fieldCount: Int = 100,
        strictHost: Bool = false
    ) {
        self.headBytes = headBytes
        self.targetBytes = targetBytes
        self.methodBytes = methodBytes
        self.fieldCount = fieldCount
        self.strictHost = strictHost
    }
}
