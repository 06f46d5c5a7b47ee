// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The signs of life of one HTTP/2 connection, as a value: when something came last, and whether the server is asked for one (PING).
/// Times are in nanoseconds of the loop's clock.
struct ConnectionLiveness {
    /// What follows a look at the connection.
    enum Look {
        case wait
        /// The server is asked.
        case ask
        /// It has been asked, and gives no sign: no new request goes there.
        case retire
        /// For so long that its requests need not wait on, either.
        case leave
    }

    /// When something of a response came last.
    private(set) var lastProgress: UInt64 = 0
    /// When bytes came last.
    private var lastBytes: UInt64
    /// When the server was asked last; 0 before.
    private var askedAt: UInt64 = 0

    private static let patience = TimeSpan.seconds(20).nanoseconds

    init(at now: UInt64) { lastBytes = now }

    mutating func didReceiveBytes(at now: UInt64) { lastBytes = now }

    mutating func didProgress(at now: UInt64) { lastProgress = now }

    /// Whether the server was asked, and nothing has come since.
    var isUnanswered: Bool { askedAt > lastBytes }

    /// Whether nothing has come since then.
    func hasBeenSilent(since then: UInt64) -> Bool { lastBytes < then }

    /// A request waits.
    ///
    /// - Parameter interval: of such looks. A server has two of them for its sign: it may be busy with something else.
    mutating func look(every interval: UInt64, at now: UInt64) -> Look {
        if isUnanswered {
            let wait = now &- askedAt
            guard wait >= 2 * interval else { return .wait }
            return wait >= Self.patience ? .leave : .retire
        }
        // Once until something of a response comes: gRPC's servers end connections on which PINGs come again and again without.
        guard now &- lastBytes >= interval, askedAt <= lastProgress else { return .wait }
        askedAt = now
        return .ask
    }
}
