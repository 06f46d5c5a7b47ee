// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Adapters, retriers and several of them", .onOwnThreads)
struct InterceptorTests {
    private struct Mine: Error {}

    private static let failure = RequestFailure.session(SessionError(.stalled, "too long"))

    /// A request that is never carried out, for interceptors that need one.
    private func withRequest(_ body: (DataRequest) async throws -> Void) async throws {
        let manager = try HTTPSessionManager(serverTrust: SessionTrust(anchors: TestPKI.shared.anchors))
        try await body(manager.request(HTTPSessionRequest(url: "https://api.example.com/")))
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a verdict tells whether, when and why not")
    func verdicts() {
        let verdicts: [RetryResult] = [
            .retry, .retryWithDelay(.seconds(1)), .doNotRetry, .doNotRetryWithError(Mine()),
        ]
        #expect(verdicts.map(\.retryRequired) == [true, true, false, false])
        #expect(verdicts.map(\.delay) == [nil, .seconds(1), nil, nil])
        #expect(verdicts.map { $0.error is Mine } == [false, false, false, true])
    }

    @Test("an adapter alone never retries, and a retrier alone adapts nothing")
    func defaults() async throws {
        try await withRequest { request in
            let adapter = Adapter { request, _ in
                await Task.yield()
                return request
            }
            #expect(await !adapter.retry(request, dueTo: Self.failure).retryRequired)
            let retrier = Retrier { _, _ in
                await Task.yield()
                return .retry
            }
            #expect(await retrier.retry(request, dueTo: Self.failure).retryRequired)
            let adapted = try await retrier.adapt(request.originalRequest, for: request)
            #expect(adapted.url == request.originalRequest.url)
        }
    }

    @Test("an interceptor of two closures adapts and retries its request")
    func closures() async throws {
        try await withRequest { request in
            let interceptor = Interceptor { original, subject in
                var adapted = original
                adapted.headers["X-Same"] = "\(subject === request)"
                return adapted
            } retry: { subject, _ in
                subject === request ? .retryWithDelay(.seconds(3)) : .doNotRetry
            }
            #expect(interceptor.adapters.count == 1 && interceptor.retriers.count == 1)
            let adapted = try await interceptor.adapt(request.originalRequest, for: request)
            #expect(adapted.headers["X-Same"] == "true")
            #expect(await interceptor.retry(request, dueTo: Self.failure).delay == .seconds(3))
        }
    }

    @Test("interceptors have names where one is expected")
    func names() async throws {
        func adapter(_ adapter: any RequestAdapter) -> any RequestAdapter { adapter }
        func retrier(_ retrier: any RequestRetrier) -> any RequestRetrier { retrier }
        func interceptor(_ interceptor: (any RequestInterceptor)?) -> (any RequestInterceptor)? { interceptor }
        try await withRequest { request in
            let adapting = adapter(
                .adapter { original, _ in
                    var adapted = original
                    adapted.headers["X-Own"] = "seen"
                    return adapted
                }
            )
            #expect(try await adapting.adapt(request.originalRequest, for: request).headers["X-Own"] == "seen")
            let retrying = retrier(.retrier { _, _ in .retry })
            #expect(await retrying.retry(request, dueTo: Self.failure).retryRequired)
            let both = try #require(interceptor(.interceptor(adapters: [adapting], retriers: [retrying])))
            #expect(try await both.adapt(request.originalRequest, for: request).headers["X-Own"] == "seen")
            #expect(await both.retry(request, dueTo: Self.failure).retryRequired)
            let none = try #require(
                interceptor(
                    .interceptor { original, _ in
                        original
                    } retry: { _, _ in
                        .doNotRetry
                    }
                )
            )
            #expect(await !none.retry(request, dueTo: Self.failure).retryRequired)
        }
        let policy = try #require(interceptor(.retryPolicy(retryLimit: 7)) as? RetryPolicy)
        #expect(policy.retryLimit == 7)
        #expect(policy.retryableHTTPStatusCodes == RetryPolicy.defaultRetryableHTTPStatusCodes)
        let lost = interceptor(
            .connectionLost(
                retryLimit: 3,
                exponentialBackoffBase: 4,
                exponentialBackoffScale: .milliseconds(250),
                retryableHTTPMethods: [.delete, .get]
            )
        )
        let own = try #require(lost as? RetryPolicy)
        #expect(own.retryLimit == 3 && own.exponentialBackoffBase == 4)
        #expect(own.exponentialBackoffScale == .milliseconds(250) && own.retryableHTTPMethods == [.delete, .get])
        #expect(own.retryableHTTPStatusCodes.isEmpty && own.retryableErrorCodes == [.responseTruncated])
        let offline = try #require(
            interceptor(.offlineRetrier(maximumWait: .seconds(5), retryLimit: 1)) as? OfflineRetrier
        )
        #expect(offline.maximumWait == .seconds(5) && offline.retryLimit == 1)
        #expect(interceptor(.deflateCompressor) is RequestCompressor)
    }

    @Test("a group of no interceptors leaves requests alone and retries none")
    func none() async throws {
        try await withRequest { request in
            let none = Interceptor()
            #expect(none.adapters.isEmpty && none.retriers.isEmpty)
            let adapted = try await none.adapt(request.originalRequest, for: request)
            #expect(adapted.url == request.originalRequest.url)
            #expect(await !none.retry(request, dueTo: Self.failure).retryRequired)
        }
    }

    @Test("an adapter that throws ends the adaptation, wherever it stands", arguments: [0, 1, 2])
    func throwing(place: Int) async throws {
        let asked = Monitor<[Int]>([])
        let adapters = (0..<3).map { number in
            Adapter { request, _ in
                asked.with { $0.append(number) }
                if number == place { throw Mine() }
                return request
            }
        }
        try await withRequest { request in
            await #expect(throws: Mine.self) {
                try await Interceptor(adapters: adapters).adapt(request.originalRequest, for: request)
            }
        }
        #expect(asked.with { $0 } == Array(0...place))
    }

    @Test("after a retrier decides, no other is asked")
    func deciding() async throws {
        let decisions: [(RetryResult, Bool)] = [
            (.retry, true), (.retryWithDelay(.seconds(1)), true), (.doNotRetryWithError(Mine()), true),
            (.doNotRetry, false),
        ]
        try await withRequest { request in
            for (decision, decides) in decisions {
                let asked = Monitor(false)
                let first = Retrier { _, _ in decision }
                let second = Retrier { _, _ in
                    asked.with { $0 = true }
                    return .retry
                }
                let result = await Interceptor(interceptors: [first, second]).retry(request, dueTo: Self.failure)
                #expect(asked.with { $0 } != decides)
                #expect(result.delay == decision.delay)
                #expect(result.retryRequired == (decides ? decision.retryRequired : true))
            }
        }
    }
}
