// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The body of a response that is not delivered, because another request follows (a redirect, credentials, the cache).
///
/// A short body is read to its end, so that the connection can be reused; the transfer of a longer one is cancelled.
/// A value: the caller reports the bytes, and cancels.
package struct UnwantedBody: Sendable {
    /// Bytes that are read at most for the sake of the connection.
    package static let limit = 64 << 10
    private var received = 0

    package init() {}

    /// Whether a body with this framing is worth reading; false when its length exceeds the limit already.
    package static func isWorthReading(_ framing: BodyFraming) -> Bool {
        if case .length(let count) = framing { count <= limit } else { true }
    }

    /// Counts received bytes.
    ///
    /// - Returns: false when the body exceeds the limit, and the transfer has to be cancelled.
    package mutating func didReceive(_ count: Int) -> Bool {
        received += count
        return received <= Self.limit
    }
}
