import HTTPCore
import SessionCore

/// Changes requests before they go out: credentials, signatures, fields. Asked before each attempt, with the request as
/// it was made at first.
public protocol RequestAdapter: Sendable {
    /// - Throws: whatever keeps the request from going out; it fails with `RequestFailure.adaptation`.
    func adapt(_ request: HTTPRequest, for subject: Request) async throws -> HTTPRequest
}

/// Says whether a request that has failed is made again.
///
/// Not asked about what may never be repeated: a server that the security policy refused, an address or a redirect that
/// is denied, a request that was cancelled.
public protocol RequestRetrier: Sendable {
    /// Asked after each failed attempt, off the session's loop; a delay of its own may be awaited here too.
    ///
    /// - Parameters:
    ///   - request: its `retryCount` tells how often it has been made again.
    ///   - failure: of the latest attempt; an answer with a status that the serializer refuses is one.
    func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult
}

/// What a retrier says.
public enum RetryResult: Sendable {
    /// Make it again, now.
    case retry
    /// Make it again after so long.
    case retryWithDelay(Duration)
    /// Ask the next retrier; after the last, the request fails.
    case doNotRetry
    /// The request fails with this error; other retriers are not asked.
    case doNotRetryWithError(any Error)

    /// Whether the request is to be made again.
    public var retryRequired: Bool {
        switch self {
        case .retry, .retryWithDelay: true
        case .doNotRetry, .doNotRetryWithError: false
        }
    }

    /// Nil where none is asked for.
    public var delay: Duration? { if case .retryWithDelay(let delay) = self { delay } else { nil } }
    /// Nil where none is given.
    public var error: (any Error)? { if case .doNotRetryWithError(let error) = self { error } else { nil } }
}

/// Both in one. A type that has only one of the two methods leaves the other as it is.
public protocol RequestInterceptor: RequestAdapter, RequestRetrier {}

extension RequestInterceptor {
    /// Leaves the request as it is.
    public func adapt(_ request: HTTPRequest, for subject: Request) async throws -> HTTPRequest { request }

    /// Lets the request fail.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult { .doNotRetry }
}

/// A `RequestAdapter` from a closure.
public struct Adapter: RequestInterceptor {
    private let closure: @Sendable (HTTPRequest, Request) async throws -> HTTPRequest

    /// An adapter that never retries.
    public init(_ adapt: @escaping @Sendable (HTTPRequest, Request) async throws -> HTTPRequest) {
        closure = adapt
    }

    /// What the closure makes of the request.
    public func adapt(_ request: HTTPRequest, for subject: Request) async throws -> HTTPRequest {
        try await closure(request, subject)
    }
}

/// A `RequestRetrier` from a closure.
public struct Retrier: RequestInterceptor {
    private let closure: @Sendable (Request, RequestFailure) async -> RetryResult

    /// A retrier that adapts nothing.
    public init(_ retry: @escaping @Sendable (Request, RequestFailure) async -> RetryResult) {
        closure = retry
    }

    /// What the closure says.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        await closure(request, failure)
    }
}

/// Several in a row. Each adapter gets what the one before it has made; the first retrier that says anything but
/// `doNotRetry` decides.
public struct Interceptor: RequestInterceptor {
    /// Asked in this order.
    public let adapters: [any RequestAdapter]
    /// Asked in this order.
    public let retriers: [any RequestRetrier]

    /// - Parameters:
    ///   - adapters: asked first, in this order.
    ///   - retriers: asked first, in this order.
    ///   - interceptors: both adapters and retriers, behind those named.
    public init(
        adapters: [any RequestAdapter] = [],
        retriers: [any RequestRetrier] = [],
        interceptors: [any RequestInterceptor] = []
    ) {
        self.adapters = adapters + interceptors
        self.retriers = retriers + interceptors
    }

    /// The request as the last adapter leaves it; the first that throws ends the request.
    public func adapt(_ request: HTTPRequest, for subject: Request) async throws -> HTTPRequest {
        var request = request
        for adapter in adapters { request = try await adapter.adapt(request, for: subject) }
        return request
    }

    /// What the first retrier says that says anything but `doNotRetry`.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        for retrier in retriers {
            let result = await retrier.retry(request, dueTo: failure)
            if case .doNotRetry = result { continue }
            return result
        }
        return .doNotRetry
    }
}

extension RequestFailure {
    /// Whether retriers are asked at all.
    var mayBeRetried: Bool { sessionError?.code.mayBeRetried ?? true }
}

extension SessionError.Code {
    /// False for what somebody has decided: policies, rules, the program itself. Asking again would be asking until the
    /// answer is another.
    var mayBeRetried: Bool {
        switch self {
        case .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .addressDenied, .redirectDenied,
            .sessionInvalidated, .cancelled:
            false
        default: true
        }
    }
}
