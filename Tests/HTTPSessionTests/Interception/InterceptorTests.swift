import HTTPCore
import TestSupport
import Testing

@testable import HTTPSession
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

    @Test("what is only an adapter never retries, what is only a retrier adapts nothing")
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

    @Test("several of none leave requests alone, and retry none")
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

    @Test("after a retrier that decides no other is asked")
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
