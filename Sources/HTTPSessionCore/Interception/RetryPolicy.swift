// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
public import SessionCore

/// Retries requests that failed for a temporary reason, after increasing delays: exponential back-off with jitter. By
/// default only idempotent methods are retried (RFC 9110, section 9.2.2).
///
/// The delay before retry number n, from 0, is `exponentialBackoffScale * exponentialBackoffBase ^ n`, at most
/// `maximumDelay`, less a random part of up to `jitter`, so that clients that failed together do not retry together.
/// `Retry-After` (section 10.2.3) is a minimum; a response that demands more than `maximumDelay` is not retried.
public struct RetryPolicy: RequestInterceptor {
    /// Timeouts and temporary faults of the server.
    public static let defaultRetryableHTTPStatusCodes: Set<Int> = [408, 500, 502, 503, 504]
    /// The idempotent methods (RFC 9110, section 9.2.2).
    public static let defaultRetryableHTTPMethods: Set<HTTPMethod> = [.delete, .get, .head, .options, .put, .trace]
    /// Temporary failures: name lookup, connections, time limits, responses that were cut off.
    public static let defaultRetryableErrorCodes: Set<SessionError.Code> = [
        .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout, .proxyRefused, .responseTimeout, .stalled,
        .responseTruncated, .limitReached,
    ]

    /// The largest number of retries.
    public var retryLimit: Int
    /// The factor between two delays, at least 1.
    public var exponentialBackoffBase: Double
    /// The delay before the first retry.
    public var exponentialBackoffScale: Duration
    /// The longest delay, also for `Retry-After`.
    public var maximumDelay: Duration
    /// From 0 (the delay is exact) to 1 (the delay is random, from 0 to its full length).
    public var jitter: Double
    /// The methods that are retried.
    public var retryableHTTPMethods: Set<HTTPMethod>
    /// The statuses that are retried when the serializer rejects them.
    public var retryableHTTPStatusCodes: Set<Int>
    /// The error codes that are retried; those of rejected servers, addresses and redirects have no effect.
    public var retryableErrorCodes: Set<SessionError.Code>

    /// Alamofire's defaults, with a jitter of one half.
    public init(
        retryLimit: Int = 2,
        exponentialBackoffBase: Double = 2,
        exponentialBackoffScale: Duration = .milliseconds(500),
        maximumDelay: Duration = .seconds(60),
        jitter: Double = 0.5,
        retryableHTTPMethods: Set<HTTPMethod> = defaultRetryableHTTPMethods,
        retryableHTTPStatusCodes: Set<Int> = defaultRetryableHTTPStatusCodes,
        retryableErrorCodes: Set<SessionError.Code> = defaultRetryableErrorCodes
    ) {
        self.retryLimit = retryLimit
        self.exponentialBackoffBase = exponentialBackoffBase
        self.exponentialBackoffScale = exponentialBackoffScale
        self.maximumDelay = maximumDelay
        self.jitter = jitter
        self.retryableHTTPMethods = retryableHTTPMethods
        self.retryableHTTPStatusCodes = retryableHTTPStatusCodes
        self.retryableErrorCodes = retryableErrorCodes
    }

    /// `retryWithDelay`, or `doNotRetry`.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        guard
            let delay = delay(
                before: request.retryCount,
                method: request.request.method,
                failure: failure,
                now: Int(Clock.seconds),
                chance: Double.random(in: 0...1)
            )
        else { return .doNotRetry }
        return .retryWithDelay(delay)
    }

    /// The delay before retry number `count`, from 0; nil for no retry.
    ///
    /// - Parameters:
    ///   - now: seconds since 1970, for a date in `Retry-After`.
    ///   - chance: from 0 to 1.
    func delay(
        before count: Int,
        method: HTTPMethod,
        failure: RequestFailure,
        now: Int,
        chance: Double
    ) -> Duration? {
        guard count < retryLimit, retryableHTTPMethods.contains(method), isPassing(failure) else { return nil }
        let longest = max(0, maximumDelay / .seconds(1))
        let scale = max(0, exponentialBackoffScale / .seconds(1))
        // A large count yields infinity, which the bound removes.
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
        case .serialization(let error): retryableHTTPStatusCodes.contains(error.response.response.status)
        case .adaptation, .retry: false
        }
    }

    /// The seconds of `Retry-After` from now; nil when the response has none.
    private static func retryAfter(_ response: ResponseHead, now: Int) -> Int? {
        guard let text = response.fields.value(for: "Retry-After") else { return nil }
        if !text.isEmpty, text.utf8.allSatisfy(ASCII.isDigit) { return Int(text) ?? Int.max }
        return HTTPDate.parse(Array(text.utf8).span, now: now).map { max(0, $0.subtractingSaturated(now)) }
    }
}
