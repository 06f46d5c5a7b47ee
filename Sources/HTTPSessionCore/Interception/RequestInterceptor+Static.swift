// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import SessionCore

// Interceptors by name where one is expected: `RequestOptions(interceptor: .retryPolicy(retryLimit: 5))`.

extension RequestAdapter where Self == Adapter {
    /// An adapter from a closure.
    ///
    /// - Parameter adapt: makes the request of each attempt from the original request.
    public static func adapter(
        _ adapt: @escaping @Sendable (HTTPSessionRequest, Request) async throws -> HTTPSessionRequest
    ) -> Adapter {
        Adapter(adapt)
    }
}

extension RequestRetrier where Self == Retrier {
    /// A retrier from a closure.
    ///
    /// - Parameter retry: decides about a retry.
    public static func retrier(
        _ retry: @escaping @Sendable (Request, RequestFailure) async -> RetryResult
    ) -> Retrier {
        Retrier(retry)
    }
}

extension RequestInterceptor where Self == Interceptor {
    /// Several interceptors in a row.
    ///
    /// - Parameters:
    ///   - adapters: called first, in this order.
    ///   - retriers: called first, in this order.
    ///   - interceptors: adapters and retriers, called after the others.
    public static func interceptor(
        adapters: [any RequestAdapter] = [],
        retriers: [any RequestRetrier] = [],
        interceptors: [any RequestInterceptor] = []
    ) -> Interceptor {
        Interceptor(adapters: adapters, retriers: retriers, interceptors: interceptors)
    }

    /// An interceptor of two closures.
    ///
    /// - Parameters:
    ///   - adapt: makes the request of each attempt from the original request.
    ///   - retry: decides about a retry.
    public static func interceptor(
        adapt: @escaping @Sendable (HTTPSessionRequest, Request) async throws -> HTTPSessionRequest,
        retry: @escaping @Sendable (Request, RequestFailure) async -> RetryResult
    ) -> Interceptor {
        Interceptor(adapt: adapt, retry: retry)
    }
}

extension RequestInterceptor where Self == RetryPolicy {
    /// A policy with the defaults of `RetryPolicy`.
    ///
    /// - Parameter retryLimit: the largest number of retries.
    public static func retryPolicy(retryLimit: Int = 2) -> RetryPolicy { RetryPolicy(retryLimit: retryLimit) }

    /// A policy for lost connections alone: Alamofire's `ConnectionLostRetryPolicy`.
    ///
    /// - Parameters:
    ///   - retryLimit: the largest number of retries.
    ///   - exponentialBackoffBase: the factor between two delays, at least 1.
    ///   - exponentialBackoffScale: the delay before the first retry.
    ///   - retryableHTTPMethods: the methods that are retried.
    public static func connectionLost(
        retryLimit: Int = 2,
        exponentialBackoffBase: Double = 2,
        exponentialBackoffScale: Duration = .milliseconds(500),
        retryableHTTPMethods: Set<HTTPMethod> = RetryPolicy.defaultRetryableHTTPMethods
    ) -> RetryPolicy {
        RetryPolicy(
            retryLimit: retryLimit,
            exponentialBackoffBase: exponentialBackoffBase,
            exponentialBackoffScale: exponentialBackoffScale,
            retryableHTTPMethods: retryableHTTPMethods,
            retryableHTTPStatusCodes: [],
            retryableErrorCodes: [.responseTruncated]
        )
    }
}

extension RequestInterceptor where Self == OfflineRetrier {
    /// A retrier that waits for the network.
    ///
    /// - Parameters:
    ///   - maximumWait: the longest wait for the network, for each retry.
    ///   - retryLimit: the largest number of retries.
    public static func offlineRetrier(maximumWait: Duration = .seconds(60), retryLimit: Int = 3) -> OfflineRetrier {
        OfflineRetrier(maximumWait: maximumWait, retryLimit: retryLimit)
    }
}

extension RequestInterceptor where Self == RequestCompressor {
    /// Compresses bodies with `deflate`, and fails for a request that has a `Content-Encoding`.
    public static var deflateCompressor: RequestCompressor { RequestCompressor() }
}
