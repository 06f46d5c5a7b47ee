// SPDX-License-Identifier: Apache-2.0
/// What an origin may send before the final head of a response: informational (1xx) heads, which nothing else bounds
/// (RFC 9110, section 15.2).
///
/// A value: heads go in with their times, in nanoseconds of a monotonic clock; what becomes of each comes out.
package struct InformationalBudget: Sendable {
    package enum Verdict: Equatable, Sendable {
        case relay
        /// As many have been relayed as may be.
        case drop
        /// The exchange ends with `response_invalid`, for this reason.
        case excessive(String)
    }

    /// At most this many of one response are relayed. 100 (Continue) is not counted here: it is relayed once at most, and a
    /// client may wait for it.
    package static let relayed = 16
    /// At most this many may come in a second.
    package static let rate = 100

    /// The limit for the bytes of heads in a second.
    private let bytesASecond: Int
    private var relayedCount = 0
    private var secondBegan: UInt64 = 0
    private var count = 0
    private var bytes = 0

    /// - Parameter headBytes: the limit for one head; all that come in a second together are not larger, either.
    package init(headBytes: Int) { bytesASecond = headBytes }

    /// Counts a head.
    package mutating func receive(status: Int, byteCount: Int, at now: UInt64) -> Verdict {
        if count == 0 || now &- secondBegan >= 1_000_000_000 {
            secondBegan = now
            count = 0
            bytes = 0
        }
        count += 1
        bytes += byteCount
        guard count <= Self.rate else { return Self.excessive("more than \(Self.rate) in a second") }
        guard bytes <= bytesASecond else {
            return Self.excessive("more than \(bytesASecond) bytes of them in a second (limits.responseHeadBytes)")
        }
        if status == 100 { return .relay }
        guard relayedCount < Self.relayed else { return .drop }
        relayedCount += 1
        return .relay
    }

    private static func excessive(_ why: String) -> Verdict {
        .excessive("The origin sends informational responses without end: \(why).")
    }
}
