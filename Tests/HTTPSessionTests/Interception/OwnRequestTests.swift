// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionStubs
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

/// Interceptors that make requests with the manager that they are given.
@Suite("Requests of an interceptor itself", .onOwnThreads)
struct OwnRequestTests {
    private struct Token: AuthenticationCredential {
        let value: String
        var requiresRefresh = false
    }

    /// Gets tokens with the manager's interceptors, as a program that does not know better.
    private struct Tokens: Authenticator {
        func apply(_ credential: Token, to request: inout HTTPSessionRequest) throws {
            request.headers["Authorization"] = "Bearer \(credential.value)"
        }

        func refresh(_ credential: Token, for manager: HTTPSessionManager) async throws -> Token {
            let response = try await manager.post("token", serializer: .json)
            return Token(value: response.value["token"]?.string ?? "")
        }

        func didRequest(_ request: HTTPSessionRequest, with response: ResponseHead, failDueTo failure: RequestFailure)
            -> Bool
        {
            response.status == 401
        }

        func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Token) -> Bool {
            request.headers["Authorization"] == "Bearer \(credential.value)"
        }
    }

    private static func stage(
        _ interceptor: any RequestInterceptor,
        tokenStatus: String = "200 OK"
    ) throws -> HTTPStage {
        try HTTPStage(interceptor: interceptor) { request in
            if request.target == "/v1/token" {
                return OriginResponse.text(
                    "{\"token\":\"t1\"}",
                    status: tokenStatus,
                    fields: ["Content-Type: application/json"]
                )
            }
            return HTTPStage.status(request["Authorization"] == "Bearer t1" ? "200 OK" : "401 Unauthorized")
        }
    }

    @Test(
        "a refresh with the manager's own methods bypasses its interceptor alone",
        arguments: [true, false]
    )
    func refresh(isEarly: Bool) async throws {
        let authentication = AuthenticationInterceptor(
            authenticator: Tokens(),
            credential: Token(value: "t0", requiresRefresh: isEarly)
        )
        let key = Adapter { request, _ in
            var request = request
            request.headers["Key"] = "k"
            return request
        }
        let stage = try Self.stage(Interceptor(interceptors: [authentication, key]))
        let requests = (0..<8).map { number in
            beside { try await stage.manager.get("x\(number)").response.response.status }
        }
        for request in requests { #expect(try await request.value == 200) }
        let tokens = stage.origin.requests.filter { $0.target == "/v1/token" }
        #expect(tokens.count == 1 && tokens.allSatisfy { $0["Authorization"] == nil && $0["Key"] == "k" })
        await stage.end()
    }

    @Test("a refused refresh causes no further one")
    func refusedRefresh() async throws {
        let authentication = AuthenticationInterceptor(
            authenticator: Tokens(),
            credential: Token(value: "t0")
        )
        let stage = try Self.stage(authentication, tokenStatus: "401 Unauthorized")
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        guard case .retry(let error, _)? = failure else {
            return #expect(Bool(false), "\(String(describing: failure))")
        }
        let refused = (error as? CredentialRefreshError)?.underlying as? RequestFailure
        #expect(refused?.response?.status == 401)
        #expect(stage.origin.requests.map(\.target) == ["/v1/x", "/v1/token"])
        await stage.end()
    }

    @Test("adapters and retriers may make requests with their manager")
    func adapters() async throws {
        struct Asking: RequestInterceptor {
            func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
                var request = request
                request.headers["Asked"] = try await subject.manager.get("a", serializer: .string).value
                return request
            }
        }
        let closure = Adapter { request, subject in
            var request = request
            request.headers["Told"] = try await subject.manager.get("b", serializer: .string).value
            return request
        }
        let retrier = Retrier { request, _ in
            let response = try? await request.manager.get("c", serializer: .string)
            return response == nil && request.retryCount == 0 ? .retry : .doNotRetry
        }
        let stage = try HTTPStage(interceptor: Interceptor(interceptors: [Asking(), closure, retrier])) { request in
            request.target == "/v1/c" || request.target == "/v1/x"
                ? HTTPStage.status("500 Internal Server Error") : OriginResponse.text(String(request.target.suffix(1)))
        }
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.response?.response.status == 500)
        let sent = stage.origin.requests.filter { $0.target == "/v1/x" }
        #expect(sent.count == 2 && sent.allSatisfy { $0["Asked"] == "a" && $0["Told"] == "b" })
        await stage.end()
    }

    @Test("work that outlives its adapter is adapted again")
    func leftBehind() async throws {
        let gate = Monitor(false)
        let later = Monitor<Task<Int, any Error>?>(nil)
        let adapter = Adapter { request, subject in
            if request.url.hasSuffix("/first") {
                let task = Task {
                    try await eventually("the gate") { gate.with { $0 } }
                    return try await subject.manager.get("later").response.response.status
                }
                later.with { $0 = task }
            }
            var request = request
            request.headers["Key"] = "k"
            return request
        }
        let stage = try HTTPStage(interceptor: adapter) { _ in HTTPStage.status("200 OK") }
        _ = try await stage.manager.get("first")
        gate.with { $0 = true }
        #expect(try await later.with { $0 }?.value == 200)
        #expect(stage.origin.requests.map { $0["Key"] } == ["k", "k"])
        await stage.end()
    }

    // MARK: Time

    @Test("timeouts.total ends an adapter or retrier that does not return")
    func total() async throws {
        let stage = try HTTPStage(
            interceptor: Interceptor(
                adapt: { request, _ in
                    if request.url.hasSuffix("/adapt") { try await Self.forever() }
                    return request
                },
                retry: { request, failure in
                    guard request.originalRequest.url.hasSuffix("/retry") else { return .doNotRetry }
                    try? await Self.forever()
                    return .doNotRetry
                }
            ),
            responding: { _ in HTTPStage.status("503 Service Unavailable") }
        )
        let options = RequestOptions(timeouts: TaskTimeouts(total: .milliseconds(200)))
        for path in ["adapt", "retry"] {
            let failure = await #expect(throws: RequestFailure.self) {
                try await stage.manager.get(path, options: options)
            }
            #expect(failure?.sessionError?.code == .responseTimeout)
            #expect(failure?.sessionError?.details.contains("timeouts.total") == true)
        }
        #expect(stage.origin.requests.map(\.target) == ["/v1/retry"])
        await stage.end()
    }

    /// Does not end by its cancellation either.
    private static func forever() async throws {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            held.with { $0.append(continuation) }
        }
    }

    private static let held = Monitor<[CheckedContinuation<Void, Never>]>([])

    @Test("an adapter's time counts against timeouts.total")
    func rest() async throws {
        let gate = Gate()
        let stage = try HTTPStage(
            interceptor: Adapter { request, _ in
                try await Task.sleep(for: .milliseconds(30))
                return request
            },
            script: { connection in
                _ = try connection.readRequest()
                try gate.pass()
            }
        )
        let options = RequestOptions(timeouts: TaskTimeouts(total: .milliseconds(300)))
        let request = try stage.manager.request(.get, "x", options: options)
        await #expect(throws: RequestFailure.self) { try await request.response(serializer: .data) }
        #expect(request.task.map { $0.originalRequest.timeouts?.total ?? .seconds(1) < .milliseconds(300) } == true)
        #expect(request.request.timeouts?.total == .milliseconds(300))
        gate.open()
        await stage.end()
    }

    // MARK: Hosts

    private static func sent(
        _ hosts: CredentialHosts?,
        _ urls: [String],
        baseURL: String? = StubStage.base
    ) async throws -> [String?] {
        let tokens = Tokens()
        let credential = Token(value: "t1")
        let interceptor =
            hosts.map { AuthenticationInterceptor(authenticator: tokens, credential: credential, hosts: $0) }
            ?? AuthenticationInterceptor(authenticator: tokens, credential: credential)
        let stage = try StubStage(interceptor: interceptor, baseURL: baseURL)
        try stage.origin.route(nil, "*", response: .json(["a": 1]))
        var seen: [String?] = []
        for url in urls {
            _ = try await stage.manager.get(url)
            seen.append(stage.origin.requests.last?.value(for: "Authorization"))
        }
        await stage.end()
        return seen
    }

    @Test("a credential goes to the base URL's origin, or to named hosts, or everywhere")
    func hosts() async throws {
        let urls = [
            "x", "https://api.example.com/y", "https://API.example.com:443/y", "https://other.example.com/y",
            "http://api.example.com/y", "https://api.example.com:8443/y",
        ]
        let token = "Bearer t1"
        #expect(try await Self.sent(nil, urls) == [token, token, token, nil, nil, nil])
        #expect(try await Self.sent(.baseURL, urls) == [token, token, token, nil, nil, nil])
        let named = CredentialHosts.named([try Host("other.example.com")])
        #expect(try await Self.sent(named, urls) == [nil, nil, nil, token, nil, nil])
        #expect(try await Self.sent(.all, urls) == urls.map { _ in token })
        let absolute = Array(urls.dropFirst())
        #expect(try await Self.sent(named, absolute, baseURL: nil) == [nil, nil, token, nil, nil])
        await #expect {
            try await Self.sent(nil, absolute, baseURL: nil)
        } throws: { error in
            guard case .adaptation(let reason)? = error as? RequestFailure else { return false }
            return reason as? AuthenticationError == .missingHosts
        }
    }
}
