// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// Changes requests before they are sent: credentials, signatures, fields. Called before each attempt, with the
/// original request.
///
/// Requests that it makes itself, with the manager of its subject, pass it by; other interceptors adapt them. The limit
/// `total` of the timeouts counts meanwhile.
public protocol RequestAdapter: Sendable {
    /// - Throws: any error; the request fails with `RequestFailure.adaptation`.
    func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest
}

/// Decides whether a failed request is sent again.
///
/// Not called for failures that must not be retried: a server that the security policy rejected, a denied address or
/// redirect, a cancelled request.
public protocol RequestRetrier: Sendable {
    /// Called after each failed attempt, not on the session's loop; it may wait for a delay of its own, at most as long as the
    /// limit `total` of the timeouts. About requests that it makes itself it is not asked.
    ///
    /// - Parameters:
    ///   - request: `retryCount` is the number of its retries so far.
    ///   - failure: the failure of the latest attempt; a status that the serializer rejects is a failure.
    func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult
}

/// The decision of a retrier.
public enum RetryResult: Sendable {
    /// Send the request again, at once.
    case retry
    /// Send the request again after a delay.
    case retryWithDelay(Duration)
    /// Leave the decision to the next retrier; after the last, the request fails.
    case doNotRetry
    /// The request fails with this error; other retriers are not called.
    case doNotRetryWithError(any Error)

    /// Whether the request is to be sent again.
    public var retryRequired: Bool {
        switch self {
        case .retry, .retryWithDelay: true
        case .doNotRetry, .doNotRetryWithError: false
        }
    }

    /// The delay before the retry; nil for none.
    public var delay: Duration? { if case .retryWithDelay(let delay) = self { delay } else { nil } }
    /// The error of `doNotRetryWithError`; nil in other cases.
    public var error: (any Error)? { if case .doNotRetryWithError(let error) = self { error } else { nil } }
}

/// An adapter and retrier in one. A type may implement only one of the two methods.
public protocol RequestInterceptor: RequestAdapter, RequestRetrier {}

extension RequestInterceptor {
    /// Returns the request unchanged.
    public func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
        request
    }

    /// Lets the request fail.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult { .doNotRetry }
}

/// A `RequestAdapter` from a closure.
public struct Adapter: RequestInterceptor, ClosureInterceptor {
    let identity = ClosureIdentity()
    private let closure: @Sendable (HTTPSessionRequest, Request) async throws -> HTTPSessionRequest

    /// An adapter that never retries.
    public init(_ adapt: @escaping @Sendable (HTTPSessionRequest, Request) async throws -> HTTPSessionRequest) {
        closure = adapt
    }

    /// The closure's request.
    public func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
        try await closure(request, subject)
    }
}

/// A `RequestRetrier` from a closure.
public struct Retrier: RequestInterceptor, ClosureInterceptor {
    let identity = ClosureIdentity()
    private let closure: @Sendable (Request, RequestFailure) async -> RetryResult

    /// A retrier that adapts nothing.
    public init(_ retry: @escaping @Sendable (Request, RequestFailure) async -> RetryResult) {
        closure = retry
    }

    /// The closure's decision.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        await closure(request, failure)
    }
}

/// Several interceptors in a row. Each adapter gets the request of the one before it; the first retrier with another
/// decision than `doNotRetry` decides.
public struct Interceptor: RequestInterceptor {
    /// Called in this order.
    public let adapters: [any RequestAdapter]
    /// Called in this order.
    public let retriers: [any RequestRetrier]

    /// - Parameters:
    ///   - adapters: called first, in this order.
    ///   - retriers: called first, in this order.
    ///   - interceptors: adapters and retriers, called after the others.
    public init(
        adapters: [any RequestAdapter] = [],
        retriers: [any RequestRetrier] = [],
        interceptors: [any RequestInterceptor] = []
    ) {
        self.adapters = adapters + interceptors
        self.retriers = retriers + interceptors
    }

    /// An interceptor of two closures, as an `Adapter` and a `Retrier` are of one.
    ///
    /// - Parameters:
    ///   - adapt: makes the request of each attempt from the original request.
    ///   - retry: decides about a retry.
    public init(
        adapt: @escaping @Sendable (HTTPSessionRequest, Request) async throws -> HTTPSessionRequest,
        retry: @escaping @Sendable (Request, RequestFailure) async -> RetryResult
    ) {
        self.init(adapters: [Adapter(adapt)], retriers: [Retrier(retry)])
    }

    /// The last adapter's request; the first adapter that throws ends the request.
    public func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
        var request = request
        for adapter in adapters { request = try await adapter.adaptOthers(request, for: subject) }
        return request
    }

    /// The first decision other than `doNotRetry`.
    public func retry(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        for retrier in retriers {
            let result = await retrier.retryOthers(request, dueTo: failure)
            if case .doNotRetry = result { continue }
            return result
        }
        return .doNotRetry
    }
}

// Requests that an interceptor makes itself pass it by. A row of interceptors asks each of them in this way.

extension RequestAdapter {
    /// Asks the adapter, unless the request is one of its own.
    func adaptOthers(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
        if self is Interceptor { return try await adapt(request, for: subject) }
        return try await InterceptorAtWork.call(self, subject.manager) {
            try await adapt(request, for: subject)
        } ?? request
    }
}

extension RequestRetrier {
    /// Asks the retrier, unless the request is one of its own.
    func retryOthers(_ request: Request, dueTo failure: RequestFailure) async -> RetryResult {
        if self is Interceptor { return await retry(request, dueTo: failure) }
        return await InterceptorAtWork.call(self, request.manager) {
            await retry(request, dueTo: failure)
        } ?? .doNotRetry
    }
}

extension RequestFailure {
    /// Whether retriers are called.
    var mayBeRetried: Bool { sessionError?.code.mayBeRetried ?? true }
}

extension SessionError.Code {
    /// False for decisions of policies, of rules and of the program, which a retry must not circumvent.
    var mayBeRetried: Bool {
        switch self {
        case .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .proxyUntrusted, .addressDenied,
            .credentialWithheld, .redirectDenied, .sessionInvalidated, .cancelled:
            false
        default: true
        }
    }
}
