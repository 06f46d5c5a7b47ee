/// How many frames a peer may send that do not bring a request or an answer forward: PING, SETTINGS, PRIORITY,
/// RST_STREAM, empty DATA, unknown frames. Each makes work, and none is bounded by flow control (CVE-2019-9512 to 9518,
/// CVE-2023-44487, CVE-2025-8671).
///
/// A value: a bucket of tokens that fills with time.
package struct FrameAllowance: Sendable {
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

    /// Takes a token; false when there is none left.
    package mutating func take(at now: UInt64) -> Bool {
        if now > filledAt {
            tokens = min(capacity, tokens + Double(now - filledAt) * tokensASecond / 1e9)
            filledAt = now
        }
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// Gives tokens back: something was done that lets the peer send such frames in good faith.
    package mutating func earn(_ count: Int) {
        tokens = min(capacity, tokens + Double(count))
    }
}
