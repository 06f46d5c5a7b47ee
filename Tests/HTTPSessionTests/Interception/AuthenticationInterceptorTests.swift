// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("The authentication interceptor", .onOwnThreads)
struct AuthenticationInterceptorTests {
    private struct Token: AuthenticationCredential {
        let value: String
        var requiresRefresh = false
    }

    private struct Refused: Error {}

    /// Tokens `t1`, `t2`, … in the order of refreshes.
    private final class Tokens: Authenticator {
        let refreshes = Monitor(0)
        /// True, or not there: refreshes end at once.
        let gate: Monitor<Bool>?
        let fails: Bool

        init(gate: Monitor<Bool>? = nil, fails: Bool = false) {
            self.gate = gate
            self.fails = fails
        }

        func apply(_ credential: Token, to request: inout HTTPSessionRequest) throws {
            request.headers["Authorization"] = "Bearer \(credential.value)"
        }

        func refresh(_ credential: Token, for manager: HTTPSessionManager) async throws -> Token {
            let number = refreshes.with { count in
                count += 1
                return count
            }
            if let gate { try await eventually("the gate") { gate.with { $0 } } }
            if fails { throw Refused() }
            // As a program would: over the same session, without this interceptor.
            let response = try await manager.data(for: manager.url("token"), method: .post)
            return Token(value: response.response.status == 200 ? "t\(number)" : "none")
        }

        func didRequest(_ request: HTTPSessionRequest, with response: ResponseHead, failDueTo failure: RequestFailure)
            -> Bool
        {
            response.status == 401
        }

        func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Token) -> Bool {
            request.headers.value(for: "Authorization") == "Bearer \(credential.value)"
        }
    }

    /// Takes one token, and gives new ones.
    private static func stage(
        _ interceptor: any RequestInterceptor,
        accepting token: String
    ) throws -> HTTPStage {
        try HTTPStage(interceptor: interceptor) { request in
            if request.target == "/v1/token" { return HTTPStage.status("200 OK") }
            return HTTPStage.status(request["Authorization"] == "Bearer \(token)" ? "200 OK" : "401 Unauthorized")
        }
    }

    @Test("a credential goes into each request")
    func applied() async throws {
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(), credential: Token(value: "t0"))
        let stage = try Self.stage(interceptor, accepting: "t0")
        _ = try await stage.manager.get("x")
        _ = try await stage.manager.post("x", parameters: ["a": 1])
        #expect(stage.origin.requests.map { $0["Authorization"] } == ["Bearer t0", "Bearer t0"])
        #expect(interceptor.authenticator.refreshes.with { $0 } == 0)
        await stage.end()
    }

    @Test("without a credential nothing goes out")
    func missing() async throws {
        let stage = try Self.stage(AuthenticationInterceptor(authenticator: Tokens()), accepting: "t0")
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .adaptation(let error) = failure, error as? AuthenticationError == .missingCredential else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(stage.origin.connections.isEmpty)
        await stage.end()
    }

    @Test("a credential that is about to expire is refreshed before the request goes out")
    func early() async throws {
        let old = Token(value: "t0", requiresRefresh: true)
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(), credential: old)
        let stage = try Self.stage(interceptor, accepting: "t1")
        _ = try await stage.manager.get("x")
        #expect(stage.origin.requests.map(\.target) == ["/v1/token", "/v1/x"])
        #expect(interceptor.credential?.value == "t1")
        await stage.end()
    }

    /// Answers at once, on the thread that asks.
    private struct Ready: Authenticator {
        func apply(_ credential: Token, to request: inout HTTPSessionRequest) throws {
            request.headers["Authorization"] = "Bearer \(credential.value)"
        }

        func refresh(_ credential: Token, for manager: HTTPSessionManager) async throws -> Token { Token(value: "t1") }

        func didRequest(_ request: HTTPSessionRequest, with response: ResponseHead, failDueTo failure: RequestFailure)
            -> Bool
        {
            response.status == 401
        }

        func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Token) -> Bool {
            request.headers["Authorization"] == "Bearer \(credential.value)"
        }
    }

    @Test("a refresh that does not wait, before the request and after its refusal", arguments: [true, false])
    func immediate(isEarly: Bool) async throws {
        let old = Token(value: "t0", requiresRefresh: isEarly)
        let interceptor = AuthenticationInterceptor(authenticator: Ready(), credential: old)
        let stage = try Self.stage(interceptor, accepting: "t1")
        _ = try await stage.manager.get("x")
        #expect(stage.origin.requests.count == (isEarly ? 1 : 2))
        #expect(interceptor.credential?.value == "t1")
        await stage.end()
    }

    @Test("one refresh serves all waiting requests, and those that were refused")
    func singleFlight() async throws {
        let gate = Monitor(false)
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(gate: gate), credential: Token(value: "t0"))
        // None is refused before all have gone out, or the others would wait for the refresh.
        let arrived = Monitor(0)
        let stage = try HTTPStage(interceptor: interceptor) { request in
            let isGood = request.target == "/v1/token" || request["Authorization"] == "Bearer t1"
            if isGood { return HTTPStage.status("200 OK") }
            arrived.with { $0 += 1 }
            _ = try? arrived.wait(for: "all requests") { $0 >= 16 ? true : nil }
            return HTTPStage.status("401 Unauthorized")
        }
        let manager = stage.manager
        let requests = try (0..<16).map { try manager.request(.get, "x/\($0)") }
        let waiting = requests.map { request in
            beside { try await request.response(serializer: JSONResponseSerializer()).response.response.status }
        }
        try await eventually("16 refusals") { stage.origin.requests.filter { $0.target != "/v1/token" }.count == 16 }
        // More come while the refresh is under way: they do not go out with the old one.
        let late = beside {
            try await manager.get("late", serializer: JSONResponseSerializer()).response.response.status
        }
        try await eventually("the refresh") { interceptor.authenticator.refreshes.with { $0 } == 1 }
        gate.with { $0 = true }
        for task in waiting + [late] { #expect(try await task.value == 200) }
        #expect(interceptor.authenticator.refreshes.with { $0 } == 1)
        #expect(stage.origin.requests.filter { $0.target == "/v1/token" }.count == 1)
        #expect(requests.allSatisfy { $0.retryCount == 1 })
        await stage.end()
    }

    @Test("a request refused with an older credential is repeated with the present one")
    func overtaken() async throws {
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(), credential: Token(value: "t0"))
        let stage = try HTTPStage(interceptor: interceptor) { connection in
            while let request = try connection.readRequest() {
                // Another request has brought a new one meanwhile.
                if request["Authorization"] == "Bearer t0" { interceptor.credential = Token(value: "t7") }
                let isGood = request["Authorization"] == "Bearer t7"
                try connection.write(HTTPStage.status(isGood ? "200 OK" : "401 Unauthorized"))
            }
        }
        _ = try await stage.manager.get("x")
        #expect(interceptor.authenticator.refreshes.with { $0 } == 0)
        #expect(stage.origin.requests.map { $0["Authorization"] } == ["Bearer t0", "Bearer t7"])
        await stage.end()
    }

    /// A credential that the test is told of when somebody judges it.
    private struct Judged: AuthenticationCredential {
        let value: String
        let isExpired: Bool
        let judge: @Sendable () -> Void

        var requiresRefresh: Bool {
            if isExpired { judge() }
            return isExpired
        }
    }

    /// Each credential is good for one refresh.
    private struct Rotating: Authenticator {
        let spent = Monitor<[String]>([])

        func apply(_ credential: Judged, to request: inout HTTPSessionRequest) throws {
            request.headers["Authorization"] = "Bearer \(credential.value)"
        }

        func refresh(_ credential: Judged, for manager: HTTPSessionManager) async throws -> Judged {
            spent.with { $0.append(credential.value) }
            return Judged(value: "t\(spent.with { $0.count })", isExpired: false) {}
        }

        func didRequest(_ request: HTTPSessionRequest, with response: ResponseHead, failDueTo failure: RequestFailure)
            -> Bool
        {
            response.status == 401
        }

        func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Judged) -> Bool {
            credential.judge()
            return request.headers["Authorization"] == "Bearer \(credential.value)"
        }
    }

    @Test("a request that a refresh has overtaken begins no second one", arguments: [true, false])
    func spentMeanwhile(isEarly: Bool) async throws {
        let gate = Gate()
        defer { gate.open() }
        let judgements = Monitor(0)
        let old = Judged(value: "t0", isExpired: isEarly) {
            let number = judgements.with { count in
                count += 1
                return count
            }
            // The first one takes until the refresh of the second is over.
            if number == 1 { try? gate.pass() }
        }
        let interceptor = AuthenticationInterceptor(authenticator: Rotating(), credential: old)
        let stage = try Self.stage(interceptor, accepting: "t1")
        let manager = stage.manager
        let first = beside {
            try await manager.get("a", serializer: JSONResponseSerializer()).response.response.status
        }
        try await eventually("the first judgement") { judgements.with { $0 } == 1 }
        let second = try await manager.get("b", serializer: JSONResponseSerializer()).response.response.status
        gate.open()
        #expect(try await first.value == 200)
        #expect(second == 200)
        #expect(interceptor.authenticator.spent.with { $0 } == ["t0"])
        #expect(interceptor.credential?.value == "t1")
        await stage.end()
    }

    @Test("a failed refresh ends the waiting requests with its error")
    func failedRefresh() async throws {
        let interceptor = AuthenticationInterceptor(
            authenticator: Tokens(fails: true),
            credential: Token(value: "t0")
        )
        let stage = try Self.stage(interceptor, accepting: "t1")
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .retry(let error, .serialization) = failure,
            (error as? CredentialRefreshError)?.underlying is Refused
        else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(interceptor.credential?.value == "t0")
        await stage.end()
    }

    @Test("a failed refresh before a request keeps it back, with its error")
    func failedEarlyRefresh() async throws {
        let interceptor = AuthenticationInterceptor(
            authenticator: Tokens(fails: true),
            credential: Token(value: "t0", requiresRefresh: true)
        )
        let stage = try Self.stage(interceptor, accepting: "t1")
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .adaptation(let error) = failure,
            (error as? CredentialRefreshError)?.underlying is Refused
        else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(stage.origin.connections.isEmpty)
        await stage.end()
    }

    @Test("a credential that is removed meanwhile ends the refused request")
    func takenAway() async throws {
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(), credential: Token(value: "t0"))
        let stage = try HTTPStage(interceptor: interceptor) { connection in
            while try connection.readRequest() != nil {
                interceptor.credential = nil
                try connection.write(HTTPStage.status("401 Unauthorized"))
            }
        }
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .retry(let error, .serialization) = failure, error as? AuthenticationError == .missingCredential
        else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(interceptor.authenticator.refreshes.with { $0 } == 0)
        await stage.end()
    }

    @Test("the interceptor ignores a request without a response")
    func noResponse() async throws {
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(), credential: Token(value: "t0"))
        let stage = try HTTPStage(interceptor: interceptor) { connection in
            _ = try connection.readRequest()
            connection.close(.reset)
        }
        let request = try stage.manager.request(.post, "x")
        let failure = await #expect(throws: RequestFailure.self) {
            try await request.response(serializer: JSONResponseSerializer())
        }
        #expect(failure?.sessionError?.code == .responseTruncated)
        #expect(request.retryCount == 0)
        await stage.end()
    }

    @Test("without a window refreshes are not counted")
    func noWindow() async throws {
        let interceptor = AuthenticationInterceptor(
            authenticator: Tokens(),
            credential: Token(value: "t0"),
            refreshWindow: nil
        )
        let stage = try Self.stage(interceptor, accepting: "t9")
        let request = try stage.manager.request(.get, "x")
        _ = try await request.response(serializer: JSONResponseSerializer())
        #expect(interceptor.authenticator.refreshes.with { $0 } == 9)
        #expect(request.retryCount == 9)
        await stage.end()
    }

    @Test("new credentials that fail too are not refreshed endlessly")
    func excessive() async throws {
        let interceptor = AuthenticationInterceptor(
            authenticator: Tokens(),
            credential: Token(value: "t0"),
            refreshWindow: .init(interval: .seconds(3600), maximumAttempts: 3)
        )
        let stage = try Self.stage(interceptor, accepting: "another")
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .retry(let error, _) = failure, error as? AuthenticationError == .excessiveRefresh else {
            Issue.record("another failure: \(String(describing: failure))")
            return
        }
        #expect(interceptor.authenticator.refreshes.with { $0 } == 3)
        await stage.end()
    }

    @Test("the interceptor ignores other failures")
    func otherFailures() async throws {
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(), credential: Token(value: "t0"))
        let stage = try HTTPStage(interceptor: interceptor) { _ in HTTPStage.status("500 Internal Server Error") }
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.response?.response.status == 500)
        #expect(stage.origin.requests.count == 1)
        await stage.end()
    }

    @Test("a credential that is set while a refresh is under way stays")
    func setMeanwhile() async throws {
        let gate = Monitor(false)
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(gate: gate), credential: Token(value: "t0"))
        let stage = try Self.stage(interceptor, accepting: "own")
        let manager = stage.manager
        let waiting = beside {
            try await manager.get("x", serializer: JSONResponseSerializer()).response.response.status
        }
        try await eventually("the refresh") { interceptor.authenticator.refreshes.with { $0 } == 1 }
        interceptor.credential = Token(value: "own")
        gate.with { $0 = true }
        #expect(try await waiting.value == 200)
        #expect(interceptor.credential?.value == "own")
        await stage.end()
    }

    @Test("cancelling one request leaves the refresh to the others")
    func cancelledWaiter() async throws {
        let gate = Monitor(false)
        let interceptor = AuthenticationInterceptor(authenticator: Tokens(gate: gate), credential: Token(value: "t0"))
        let stage = try Self.stage(interceptor, accepting: "t1")
        let manager = stage.manager
        let first = beside { try await manager.get("a", serializer: JSONResponseSerializer()).response.response.status }
        try await eventually("the refresh") { interceptor.authenticator.refreshes.with { $0 } == 1 }
        let second = beside {
            try await manager.get("b", serializer: JSONResponseSerializer()).response.response.status
        }
        first.cancel()
        await #expect(throws: RequestFailure.self) { try await first.value }
        gate.with { $0 = true }
        #expect(try await second.value == 200)
        #expect(interceptor.authenticator.refreshes.with { $0 } == 1)
        await stage.end()
    }
}
