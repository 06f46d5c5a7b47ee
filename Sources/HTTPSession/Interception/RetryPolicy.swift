public import HTTPCore
import IOCore
public import SessionCore

/// Makes requests again that failed for a passing reason, each time after a longer delay: exponential back-off with
/// jitter. Only methods that may be repeated (RFC 9110, section 9.2.2) are, unless told otherwise.
///
/// The delay before retry number n, from 0, is `exponentialBackoffScale * exponentialBackoffBase ^ n`, at most
/// `maximumDelay`, and of that a random part of up to `jitter` is taken off, so that clients that failed together do not
/// come back together. Where the answer says `Retry-After` (section 10.2.3), that is the least; an answer that asks for
/// more than `maximumDelay` is not waited for.
public struct RetryPolicy: RequestInterceptor {
    /// Timeout, the server's passing faults.
    public static let defaultRetryableStatusCodes: Set<Int> = [408, 500, 502, 503, 504]
    /// Those that may be repeated (RFC 9110, section 9.2.2).
    public static let defaultRetryableMethods: Set<HTTPMethod> = [.delete, .get, .head, .options, .put, .trace]
    /// What may be another time better: name lookup, connections, time limits, answers that broke off.
    public static let defaultRetryableErrorCodes: Set<SessionError.Code> = [
        .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout, .responseTimeout, .stalled, .responseTruncated,
        .limitReached,
    ]

    /// How often a request is made again, at most.
    public var retryLimit: Int
    /// At least 1.
    public var exponentialBackoffBase: Double
    /// The delay before the first retry.
    public var exponentialBackoffScale: Duration
    /// No delay is longer, whatever the answer asks for.
    public var maximumDelay: Duration
    /// From 0, no chance in it, to 1, anything between nothing and the whole delay.
    public var jitter: Double
    /// Requests of other methods are never made again.
    public var retryableMethods: Set<HTTPMethod>
    /// They count where the serializer refuses them.
    public var retryableStatusCodes: Set<Int>
    /// Codes of refused servers, addresses and redirects have no effect: these are never asked about.
    public var retryableErrorCodes: Set<SessionError.Code>

    /// Alamofire's defaults, with a jitter of one half.
    public init(
        retryLimit: Int = 2,
        exponentialBackoffBase: Double = 2,
        exponentialBackoffScale: Duration = .milliseconds(500),
        maximumDelay: Duration = .seconds(60),
        jitter: Double = 0.5,
        retryableMethods: Set<HTTPMethod> = defaultRetryableMethods,
        retryableStatusCodes: Set<Int> = defaultRetryableStatusCodes,
        retryableErrorCodes: Set<SessionError.Code> = defaultRetryableErrorCodes
    ) {
        self.retryLimit = retryLimit
        self.exponentialBackoffBase = exponentialBackoffBase
        self.exponentialBackoffScale = exponentialBackoffScale
        self.maximumDelay = maximumDelay
        self.jitter = jitter
        self.retryableMethods = retryableMethods
        self.retryableStatusCodes = retryableStatusCodes
        self.retryableErrorCodes = retryableErrorCodes
    }

    /// For connections that were lost, and nothing else: Alamofire's `ConnectionLostRetryPolicy`.
    public static func connectionLost(retryLimit: Int = 2) -> RetryPolicy {
        RetryPolicy(retryLimit: retryLimit, retryableStatusCodes: [], retryableErrorCodes: [.responseTruncated])
    }

    /// `retryWithDelay`, or `doNotRetry`.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        guard
            let delay = delay(
                before: request.retryCount,
                method: request.request.method,
                failure: failure,
                now: Int(Clock.realtime / 1_000_000),
                chance: Double.random(in: 0...1)
            )
        else { return .doNotRetry }
        return .retryWithDelay(delay)
    }

    /// How long to wait before retry number `count`, from 0; nil for no retry.
    ///
    /// - Parameters:
    ///   - now: seconds since 1970, for a `Retry-After` that is a date.
    ///   - chance: from 0 to 1.
    func delay(
        before count: Int,
        method: HTTPMethod,
        failure: RequestFailure,
        now: Int,
        chance: Double
    ) -> Duration? {
        guard count < retryLimit, retryableMethods.contains(method), isPassing(failure) else { return nil }
        let longest = max(0, maximumDelay / .seconds(1))
        let scale = max(0, exponentialBackoffScale / .seconds(1))
        // A large count makes an infinity, which the bound takes away.
        var backoff = scale
        for _ in 0..<min(count, 1024) { backoff *= max(1, exponentialBackoffBase) }
        backoff = min(longest, backoff)
        let delay = backoff * (1 - min(1, max(0, jitter)) * chance)
        guard let wanted = failure.response.flatMap({ Self.retryAfter($0.response, now: now) }) else {
            return .seconds(delay)
        }
        return Double(wanted) <= longest ? .seconds(max(delay, Double(wanted))) : nil
    }

    private func isPassing(_ failure: RequestFailure) -> Bool {
        switch failure {
        case .session(let error): retryableErrorCodes.contains(error.code) && error.code.mayBeRetried
        case .serialization(let error): retryableStatusCodes.contains(error.response.response.status)
        case .adaptation, .retry: false
        }
    }

    /// Seconds from now; nil when the answer does not say.
    private static func retryAfter(_ response: ResponseHead, now: Int) -> Int? {
        guard let text = response.fields.value(for: "Retry-After") else { return nil }
        if !text.isEmpty, text.utf8.allSatisfy(ASCII.isDigit) { return Int(text) ?? Int.max }
        return HTTPDate.parse(Array(text.utf8).span, now: now).map { max(0, $0 - now) }
    }
}
