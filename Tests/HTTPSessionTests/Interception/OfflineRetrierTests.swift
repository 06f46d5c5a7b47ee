// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionStubs
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Retries when the network is back", .onOwnThreads)
struct OfflineRetrierTests {
    /// The network as a test wants it.
    private final class Network: Sendable {
        let hosts = Monitor<[Host?]>([])
        let listeners = Monitor<[@Sendable (Bool) -> Void]>([])

        func tell(_ isReachable: Bool) {
            for listener in listeners.with({ $0 }) { listener(isReachable) }
        }

        func retrier(_ wait: Duration = .seconds(3600), retryLimit: Int = 3) -> OfflineRetrier {
            var retrier = OfflineRetrier(maximumWait: wait, retryLimit: retryLimit)
            retrier.watch = { [self] host, tell in
                hosts.with { $0.append(host) }
                listeners.with { $0.append(tell) }
                return self
            }
            return retrier
        }
    }

    private func request(_ retrier: OfflineRetrier) throws -> DataRequest {
        let manager = try HTTPSessionManager(
            serverTrust: SessionTrust(anchors: TestPKI.shared.anchors),
            interceptor: retrier
        )
        return try manager.request(.post, "https://away.example.com/")
    }

    private static let connectFailed = RequestFailure.session(SessionError(.connectFailed, ""))

    @Test("the retrier waits for the host's network, or for any if it is unresolved")
    func waits() async throws {
        for (code, host) in [(SessionError.Code.connectFailed, "away.example.com"), (.dnsFailed, nil)] {
            let network = Network()
            let retrier = network.retrier()
            let request = try request(retrier)
            let decision = beside { await retrier.retry(request, dueTo: .session(SessionError(code, ""))) }
            try await eventually("to listen") { network.listeners.with { !$0.isEmpty } }
            network.tell(false)
            network.tell(false)
            network.tell(true)
            #expect(try await decision.value.retryRequired)
            #expect(network.hosts.with { $0.map { $0?.description } } == [host])
            await request.manager.invalidateSession(cancelingTasks: true)
        }
    }

    @Test("with a network present all the time the failure has another cause")
    func present() async throws {
        let network = Network()
        let retrier = network.retrier()
        let request = try request(retrier)
        let decision = beside { await retrier.retry(request, dueTo: Self.connectFailed) }
        try await eventually("to listen") { network.listeners.with { !$0.isEmpty } }
        network.tell(true)
        #expect(try await !decision.value.retryRequired)
        await request.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("other failures, and one more than the limit, are left to others at once")
    func others() async throws {
        let network = Network()
        let retrier = network.retrier()
        let request = try request(retrier)
        for code in SessionError.Code.allCases where code != .connectFailed && code != .dnsFailed {
            #expect(await !retrier.retry(request, dueTo: .session(SessionError(code, ""))).retryRequired)
        }
        #expect(await !network.retrier(retryLimit: 0).retry(request, dueTo: Self.connectFailed).retryRequired)
        #expect(network.hosts.with { $0.isEmpty })
        await request.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a stub's failures are not those of the network")
    func stubs() async throws {
        let origin = StubOrigin()
        try origin.route(.get, "*", failure: StubFailure(.connectFailed))
        var configuration = HTTPSessionManager.Configuration()
        configuration.answerRequests(with: origin)
        let network = Network()
        let manager = try HTTPSessionManager(configuration: configuration, interceptor: network.retrier())
        let failure = await #expect(throws: RequestFailure.self) { try await manager.get("https://away.example.com/") }
        #expect(failure?.sessionError?.code == .connectFailed && network.hosts.with { $0.isEmpty })
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("the wait ends with its limit, and when it is cancelled")
    func ends() async throws {
        let network = Network()
        let short = network.retrier(.milliseconds(1))
        let request = try request(short)
        #expect(await !short.retry(request, dueTo: Self.connectFailed).retryRequired)
        let long = network.retrier()
        let decision = beside { await long.retry(request, dueTo: Self.connectFailed) }
        try await eventually("to listen") { network.listeners.with { $0.count == 2 } }
        decision.cancel()
        #expect(try await !decision.value.retryRequired)
        await request.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a request that failed without a network goes out when it is back")
    func wholeWay() async throws {
        let refusing = try TestSocket.reserveRefusingPort()
        let network = Network()
        let manager = try HTTPSessionManager(
            baseURL: "http://127.0.0.1:\(refusing.port)",
            serverTrust: SessionTrust(anchors: TestPKI.shared.anchors),
            interceptor: network.retrier(retryLimit: 1)
        )
        let request = try manager.request(.post, "x")
        let outcome = beside { try await request.response(serializer: .data) }
        try await eventually("to listen") { network.listeners.with { !$0.isEmpty } }
        network.tell(false)
        network.tell(true)
        let failure = await #expect(throws: RequestFailure.self) { _ = try await outcome.value }
        #expect(failure?.sessionError?.code == .connectFailed)
        #expect(request.retryCount == 1 && request.tasks.count == 2)
        await manager.invalidateSession(cancelingTasks: true)
        withExtendedLifetime(refusing) {}
    }

    @Test("waiting requests continue together when the network is back, or end together")
    func together() async throws {
        let network = Network()
        let retrier = network.retrier()
        let requests = try (0..<3).map { _ in try request(retrier) }
        for round in 1...2 {
            let decisions = requests.map { request in beside { await retrier.retry(request, dueTo: Self.connectFailed) }
            }
            try await eventually("to listen") { network.listeners.with { $0.count == 3 * round } }
            network.tell(false)
            network.tell(true)
            for decision in decisions { #expect(try await decision.value.retryRequired) }
        }
        let short = network.retrier(.milliseconds(1))
        let decisions = requests.map { request in beside { await short.retry(request, dueTo: Self.connectFailed) } }
        for decision in decisions { #expect(try await !decision.value.retryRequired) }
        for request in requests { await request.manager.invalidateSession(cancelingTasks: true) }
    }
}
