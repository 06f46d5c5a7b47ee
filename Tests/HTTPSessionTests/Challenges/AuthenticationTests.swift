// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("HTTP authentication", .onOwnThreads)
struct AuthenticationTests {
    private typealias Stage = ManagerStage
    private static let right = Credential(user: "user", password: "right")
    /// `user:right` in Base64.
    private static let basic = "Basic dXNlcjpyaWdodA=="

    private static func unauthorized(_ challenge: String...) -> String {
        OriginResponse.text("no", status: "401 Unauthorized", fields: challenge.map { "WWW-Authenticate: \($0)" })
    }

    private static func space(_ method: ProtectionSpace.AuthenticationMethod, realm: String? = "r") throws
        -> ProtectionSpace
    {
        ProtectionSpace(host: try Host(Stage.host), realm: realm, authenticationMethod: method)
    }

    private func basicStage() throws -> Stage {
        try Stage { request in
            request["Authorization"] == Self.basic
                ? OriginResponse.text("yes") : Self.unauthorized("Basic realm=\"r\"")
        }
    }

    @Test("a credential satisfies a challenge, and later tasks below that path send it unasked")
    func basic() async throws {
        let stage = try basicStage()
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/a/b?x=/y/")))
        task.delegate.credential = Self.right
        let response = try await task.value()
        #expect(response.data == Array("yes".utf8))
        #expect(response.metrics.earlierTransactions.map(\.status) == [401])
        #expect(response.metrics.redirectCount == 0)
        #expect(task.currentRequest.headers.value(for: "Authorization") == nil)
        for path in ["/a/c", "/other"] {
            #expect(
                try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url(path))).value().response.status
                    == 200
            )
        }
        let seen = stage.origin.requests.map { "\($0.target) \($0["Authorization"] != nil)" }
        #expect(seen == ["/a/b?x=/y/ false", "/a/b?x=/y/ true", "/a/c true", "/other false", "/other true"])
        #expect(stage.origin.connections.count == 1)
        await stage.end()
    }

    @Test("the storage's credential is proposed; one for the task alone is not remembered")
    func storage() async throws {
        let stage = try basicStage()
        let storage = try #require(stage.manager.configuration.credentialStorage)
        let once = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        once.delegate.credential = Credential(user: "user", password: "right", persistence: .none)
        #expect(try await once.value().response.status == 200)
        #expect(storage.spaces.isEmpty)
        let without = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value()
        #expect(without.response.status == 401)
        storage.setDefaultCredential(Self.right, for: try Self.space(.httpBasic, realm: nil))
        #expect(
            try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value().response.status
                == 200
        )
        #expect(try storage.defaultCredential(for: Self.space(.httpBasic))?.user == "user")
        #expect(try storage.defaultCredential(for: Self.space(.httpDigest)) == nil)
        await stage.end()
    }

    @Test("a refused credential is not retried: the 401 is the response")
    func previousFailure() async throws {
        let stage = try basicStage()
        let wrong = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        wrong.delegate.credential = Credential(user: "user", password: "wrong")
        #expect(try await wrong.value().response.status == 401)
        #expect(stage.origin.requests.count == 2)
        stage.manager.sessionDidReceiveAuthenticationChallenge = { _ in .performDefaultHandling }
        stage.manager.taskDidReceiveChallenge = { [stage] _, challenge in
            stage.note(
                "\(challenge.previousFailureCount) \(challenge.failureResponse?.status ?? 0) \(challenge.protectionSpace.realm ?? "")"
            )
            return .useCredential(
                Credential(user: "user", password: challenge.previousFailureCount < 2 ? "wrong" : "right")
            )
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        #expect(try await task.value().response.status == 200)
        #expect(stage.log.with { $0 } == ["0 401 r", "1 401 r", "2 401 r"])
        await stage.end()
    }

    @Test("a hook that never gives up is stopped")
    func endless() async throws {
        let stage = try Stage { _ in Self.unauthorized("Basic realm=r") }
        stage.manager.sessionDidReceiveAuthenticationChallenge = { _ in .performDefaultHandling }
        stage.manager.taskDidReceiveChallenge = { _, _ in .useCredential(Self.right) }
        let response = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value()
        #expect(response.response.status == 401)
        #expect(stage.origin.requests.count == 11)
        await stage.end()
    }

    @Test("a hook cancels, or lets one way after the other pass")
    func dispositions() async throws {
        let stage = try Stage { request in
            request["Authorization"] == "Bearer token"
                ? OriginResponse.text("yes")
                : Self.unauthorized("Basic realm=r", "Digest realm=r, nonce=n, qop=auth", "Bearer realm=r")
        }
        stage.manager.sessionDidReceiveAuthenticationChallenge = { _ in .performDefaultHandling }
        stage.manager.taskDidReceiveChallenge = { [stage] task, challenge in
            stage.note("\(challenge.protectionSpace.authenticationMethod)")
            switch challenge.protectionSpace.authenticationMethod {
            case .bearer: return .useCredential(Credential(bearerToken: "token", persistence: .none))
            case .httpBasic: return .performDefaultHandling
            default: return task.taskDescription == "cancel" ? .cancelAuthenticationChallenge : .rejectProtectionSpace
            }
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        #expect(try await task.value().response.status == 200)
        #expect(stage.log.with { $0 } == ["httpDigest", "bearer"])
        let cancelled = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        cancelled.taskDescription = "cancel"
        await #expect { try await cancelled.value() } throws: { $0.sessionCode == .cancelled }
        let own = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        own.delegate.taskDidReceiveChallenge = { _, _ in .rejectProtectionSpace }
        #expect(try await own.value().response.status == 401)
        let wrongKind = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        wrongKind.delegate.taskDidReceiveChallenge = { _, _ in .useCredential(.serverTrust) }
        await #expect { try await wrongKind.value() } throws: { $0.sessionCode == .requestInvalid }
        await stage.end()
    }

    /// The answers of a Digest server that takes each nonce twice.
    private static func digest(_ request: HTTPMessage, nonces: Monitor<[String: Int]>) -> String {
        let challenge = HTTPChallenge.list(Array((request["Authorization"] ?? "").utf8)).first?.parameters ?? [:]
        let nonce = challenge["nonce"] ?? ""
        return nonces.with { uses in
            let first = MessageDigest.sha256.hex("user:r:right")
            let second = MessageDigest.sha256.hex("\(request.method):\(request.target)")
            let expected = MessageDigest.sha256.hex(
                "\(first):\(nonce):\(challenge["nc"] ?? ""):\(challenge["cnonce"] ?? ""):auth:\(second)"
            )
            let count = Int(challenge["nc"] ?? "", radix: 16) ?? 0
            let isKnown = uses[nonce].map { count == $0 + 1 && count <= 2 } ?? false
            let isRight = challenge["response"] == expected
            if isKnown, isRight {
                uses[nonce] = count
                return OriginResponse.text("yes \(count)")
            }
            let fresh = "n\(uses.count)"
            uses[fresh] = 0
            let stale = isRight && uses[nonce] != nil ? ", stale=true" : ""
            return Self.unauthorized(
                "Digest realm=\"r\", nonce=\"\(fresh)\", qop=\"auth\", algorithm=SHA-256\(stale)",
                "Basic realm=\"r\""
            )
        }
    }

    @Test("Digest counts uses of a nonce over all tasks, and replaces a stale one")
    func digest() async throws {
        let nonces = Monitor<[String: Int]>([:])
        let stage = try Stage { Self.digest($0, nonces: nonces) }
        let failures = Monitor<[Int]>([])
        stage.manager.sessionDidReceiveAuthenticationChallenge = { _ in .performDefaultHandling }
        stage.manager.taskDidReceiveChallenge = { _, challenge in
            failures.with { $0.append(challenge.previousFailureCount) }
            return .useCredential(Self.right)
        }
        var responses: [String] = []
        for path in ["/a", "/b?c=d", "/e"] {
            let response = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url(path))).value()
            responses.append(String(decoding: response.data, as: UTF8.self))
        }
        #expect(responses == ["yes 1", "yes 2", "yes 1"])
        #expect(failures.with { $0 } == [0])
        // Two for the first, one for the second; the third finds its nonce stale.
        #expect(stage.origin.requests.count == 5)
        #expect(stage.origin.requests.allSatisfy { !($0["Authorization"] ?? "").hasPrefix("Basic") })
        await stage.end()
    }

    @Test("the server's next nonce is taken")
    func nextNonce() async throws {
        let stage = try Stage { request in
            guard let value = request["Authorization"] else {
                return Self.unauthorized("Digest realm=r, nonce=first, qop=auth")
            }
            let next = value.contains("nonce=\"first\"") ? "second" : "third"
            return OriginResponse.text(value, fields: ["Authentication-Info: nextnonce=\"\(next)\", qop=auth"])
        }
        try #require(stage.manager.configuration.credentialStorage).setDefaultCredential(
            Self.right,
            for: Self.space(.httpDigest)
        )
        for nonce in ["first", "second", "third"] {
            let response = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value()
            let sent = try #require(HTTPChallenge.list(response.data).first).parameters
            #expect(sent["nonce"] == nonce && sent["nc"] == "00000001")
        }
        await stage.end()
    }

    @Test("a credential stays with its origin: a redirect elsewhere gets none")
    func redirects() async throws {
        let stage = try Stage { request in
            if request["Host"] == Stage.other { return Self.unauthorized("Basic realm=\"r\"") }
            if request["Authorization"] == nil { return Self.unauthorized("Basic realm=\"r\"") }
            return OriginResponse.redirect(request.target == "/" ? "/again" : Stage.url("/", Stage.other))
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.delegate.credential = Self.right
        let response = try await task.value()
        #expect(response.response.status == 401)
        #expect(response.metrics.redirectCount == 2)
        let seen = stage.origin.requests.map { "\($0["Host"] ?? "")\($0.target) \($0["Authorization"] ?? "-")" }
        #expect(
            seen == [
                "\(Stage.host)/ -", "\(Stage.host)/ \(Self.basic)", "\(Stage.host)/again \(Self.basic)",
                "\(Stage.other)/ -",
            ]
        )
        await stage.end()
    }

    @Test("a repeated request sends bytes again, and a stream as the hook renews it")
    func bodies() async throws {
        let stage = try basicStage()
        let bytes = try stage.manager.uploadTask(
            with: HTTPSessionRequest(url: Stage.url("/1/"), method: .post),
            from: [1, 2]
        )
        bytes.delegate.credential = Credential(user: "user", password: "right", persistence: .none)
        #expect(try await bytes.value().response.status == 200)
        stage.manager.taskNeedNewBodyStream = { [stage] _ in
            stage.note("stream")
            return .sequence(Pieces(all: [[3], [4]]))
        }
        let stream = try stage.manager.uploadTask(
            withStreamedRequest: HTTPSessionRequest(url: Stage.url("/2/"), method: .put)
        )
        stream.delegate.credential = Self.right
        #expect(try await stream.value().response.status == 200)
        #expect(stage.log.with { $0 } == ["stream", "stream"])
        #expect(stage.origin.requests.map(\.body) == [[1, 2], [1, 2], [3, 4], [3, 4]])
        await stage.end()
    }

    @Test("a user name with a colon cannot be sent as Basic", arguments: ["a:b", "a:\u{301}b"])
    func colon(user: String) async throws {
        let stage = try basicStage()
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.delegate.credential = Credential(user: user, password: "x")
        await #expect { try await task.value() } throws: { $0.sessionCode == .requestInvalid }
        #expect(stage.origin.requests.count == 1)
        await stage.end()
    }

    @Test("a bearer token is not sent without TLS")
    func plainBearer() async throws {
        let plain = try ScriptedOrigin(nil) { _ in Self.unauthorized("Bearer realm=r") }
        let stage = try Stage(plain: plain) { _ in OriginResponse.text("") }
        let url = "http://plain.example.com/"
        let proposed = try stage.manager.dataTask(with: HTTPSessionRequest(url: url))
        proposed.delegate.credential = Credential(bearerToken: "secret")
        #expect(try await proposed.value().response.status == 401)
        let insisted = try stage.manager.dataTask(with: HTTPSessionRequest(url: url))
        insisted.delegate.taskDidReceiveChallenge = { _, _ in .useCredential(Credential(bearerToken: "secret")) }
        await #expect { try await insisted.value() } throws: { $0.sessionCode == .requestInvalid }
        #expect(plain.requests.count == 2)
        #expect(plain.requests.allSatisfy { $0["Authorization"] == nil })
        await stage.end()
    }

    @Test("nginx takes Basic credentials, and refuses wrong ones")
    func nginx() async throws {
        let folder = try TemporaryFolder()
        let users = try folder.write("user:{PLAIN}right\n", as: "users")
        let nginx = try NginxOrigin(
            Stage.server,
            directives: ["auth_basic \"the realm\"", "auth_basic_user_file \(users)"]
        )
        let manager = try URLSessionManager(serverTrust: SessionTrust(anchors: TestPKI.shared.anchors))
        for (password, status) in [("wrong", 401), ("right", 204)] {
            let task = try manager.dataTask(with: HTTPSessionRequest(url: "https://127.0.0.1:\(nginx.port)/files/none"))
            task.delegate.credential = Credential(user: "user", password: password)
            let response = try await task.value()
            #expect(response.response.status == (status == 204 ? 404 : 401))
        }
        let spaces = try #require(manager.configuration.credentialStorage).spaces
        #expect(spaces.map(\.realm) == ["the realm"])
        await manager.invalidateSession(cancelingTasks: true)
    }
}

/// Pieces that an asynchronous sequence gives.
struct Pieces: AsyncSequence, Sendable {
    let all: [[UInt8]]

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: ArraySlice<[UInt8]>

        mutating func next() async -> [UInt8]? { rest.popFirst() }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: all[...]) }
}
