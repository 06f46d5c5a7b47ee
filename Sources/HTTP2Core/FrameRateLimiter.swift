/// How much a peer may send that does not bring a request or an answer forward
/// (`HTTP2SessionDelegate.session(_:didBearBurden:)`).
///
/// A value: a bucket of tokens that fills with time.
package struct FrameRateLimiter: Sendable {
    private let capacity: Double
    private let tokensASecond: Double
    private var tokens: Double
    private var filledAt: UInt64

    /// - Parameters:
    ///   - burst: what may come at once.
    ///   - rate: how many a second may come for ever.
    ///   - now: nanoseconds of a monotonic clock.
    package init(burst: Int, rate: Int, now: UInt64) {
        capacity = Double(burst)
        tokensASecond = Double(rate)
        tokens = Double(burst)
        filledAt = now
    }

    /// Takes a token, or so many; false when there are not that many left.
    package mutating func consume(_ count: Double = 1, at now: UInt64) -> Bool {
        if now > filledAt {
            tokens = min(capacity, tokens + Double(now - filledAt) * tokensASecond / 1e9)
            filledAt = now
        }
        guard tokens >= count else { return false }
        tokens -= count
        return true
    }

    /// Gives tokens back: something was done that lets the peer send such frames in good faith.
    package mutating func earn(_ count: Int) {
        tokens = min(capacity, tokens + Double(count))
    }
}
