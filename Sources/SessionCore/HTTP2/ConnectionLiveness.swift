// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The signs of life of one HTTP/2 connection, as a value: when something came last, and whether the server is asked for one (PING).
/// Times are in nanoseconds of the loop's clock.
struct ConnectionLiveness {
    /// The result of a check of the connection.
    enum Look {
        case wait
        /// A PING is sent to the server.
        case ask
        /// The server has not answered the PING: no new request goes there.
        case retire
        /// The server has been silent for so long that its requests fail, too.
        case leave
    }

    /// When something of a response came last.
    private(set) var lastProgress: UInt64 = 0
    /// When bytes came last.
    private var lastBytes: UInt64
    /// When the last PING was sent; 0 before the first.
    private var askedAt: UInt64 = 0

    private static let patience = TimeSpan.seconds(20).nanoseconds

    init(at now: UInt64) { lastBytes = now }

    mutating func didReceiveBytes(at now: UInt64) { lastBytes = now }

    mutating func didProgress(at now: UInt64) { lastProgress = now }

    /// Whether a PING was sent, and nothing has come since.
    var isUnanswered: Bool { askedAt > lastBytes }

    /// Whether nothing has come since then.
    func hasBeenSilent(since then: UInt64) -> Bool { lastBytes < then }

    /// Checks the connection, on behalf of a request that waits for its response.
    ///
    /// - Parameter interval: the time between such checks. A server has two intervals to answer a PING: it may be busy.
    mutating func look(every interval: UInt64, at now: UInt64) -> Look {
        if isUnanswered {
            let wait = now &- askedAt
            guard wait >= 2 * interval else { return .wait }
            return wait >= Self.patience ? .leave : .retire
        }
        // One PING, and no other until a part of a response has come: gRPC's servers close connections with many PINGs and no data.
        guard now &- lastBytes >= interval, askedAt <= lastProgress else { return .wait }
        askedAt = now
        return .ask
    }
}
