// SPDX-License-Identifier: Apache-2.0
/// Limits the rate of frames that advance no request or response (`HTTP2SessionDelegate.session(_:didReceiveCostlyFrame:)`).
///
/// A value: a token bucket.
package struct FrameRateLimiter: Sendable {
    private let capacity: Double
    private let tokensASecond: Double
    private var tokens: Double
    private var filledAt: UInt64

    /// - Parameters:
    ///   - burst: the size of the bucket.
    ///   - rate: the sustained rate, in tokens a second.
    ///   - now: nanoseconds of a monotonic clock.
    package init(burst: Int, rate: Int, now: UInt64) {
        capacity = Double(burst)
        tokensASecond = Double(rate)
        tokens = Double(burst)
        filledAt = now
    }

    /// The budget for decoded fields of one connection, in bytes (`HTTP2SessionDelegate.session(_:mayDecode:)`): a burst of
    /// many large heads, and then so much in a second that it costs a twentieth of a loop.
    ///
    /// - Parameter headBytes: the limit for one head.
    package static func decoding(headBytes: Int, now: UInt64) -> FrameRateLimiter {
        FrameRateLimiter(burst: max(16 << 20, 2 * headBytes), rate: 32 << 20, now: now)
    }

    /// Consumes tokens; false when there are not enough.
    package mutating func consume(_ count: Double = 1, at now: UInt64) -> Bool {
        if now > filledAt {
            tokens = min(capacity, tokens + Double(now - filledAt) * tokensASecond / 1e9)
            filledAt = now
        }
        guard tokens >= count else { return false }
        tokens -= count
        return true
    }
}
