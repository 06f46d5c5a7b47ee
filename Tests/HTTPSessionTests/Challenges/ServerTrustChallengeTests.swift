// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Challenges within TLS", .onOwnThreads)
struct ServerTrustChallengeTests {
    private typealias Stage = ManagerStage

    private static func ok(_ request: HTTPMessage) -> String { OriginResponse.text(request.target) }

    private func get(_ stage: Stage, _ path: String = "/") async throws -> Int {
        try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url(path))).value().response.status
    }

    @Test("the session's hook is called once a connection, with the policy's result")
    func asked() async throws {
        let stage = try Stage(pinned: [Stage.host], responding: Self.ok)
        stage.manager.sessionDidReceiveAuthenticationChallenge = { [stage] challenge in
            let space = challenge.protectionSpace
            stage.note(
                "\(space.authenticationMethod) \(space.host):\(space.port) \(challenge.serverTrust?.verdict.rawValue ?? "") \(stage.origin.applicationBytes)"
            )
            return .useCredential(.serverTrust)
        }
        stage.manager.taskDidReceiveChallenge = { [stage] _, _ in
            stage.note("task")
            return .cancelAuthenticationChallenge
        }
        #expect(try await get(stage, "/1") == 200)
        #expect(try await get(stage, "/2") == 200)
        #expect(stage.log.with { $0 } == ["serverTrust \(Stage.host):443 pass 0"])
        await stage.end()
    }

    @Test(
        "a hook may refuse an accepted server: nothing is sent, the connection is closed",
        arguments: [(0, SessionError.Code.certificateUntrusted), (1, .cancelled), (2, .requestInvalid)]
    )
    func refused(number: Int, code: SessionError.Code) async throws {
        let stage = try Stage(pinned: [Stage.host], responding: Self.ok)
        stage.manager.sessionDidReceiveAuthenticationChallenge = { _ in
            [
                .rejectProtectionSpace, .cancelAuthenticationChallenge,
                .useCredential(Credential(user: "", password: "")),
            ][
                number
            ]
        }
        for _ in 0..<2 { await #expect { try await get(stage) } throws: { $0.sessionCode == code } }
        #expect(stage.origin.applicationBytes == 0)
        stage.manager.sessionDidReceiveAuthenticationChallenge = nil
        #expect(try await get(stage) == 200)
        #expect(stage.origin.connections.count == 3)
        await stage.end()
    }

    @Test("no hook accepts what a policy refuses, and none is called")
    func neverLoosened() async throws {
        let wrong = try TestPKI.shared.server("elsewhere.example.com")
        let origin = try ScriptedOrigin(wrong, responding: Self.ok)
        let stage = try Stage(pinned: [Stage.host], responding: Self.ok)
        var configuration = URLSessionManager.Configuration()
        for name in [Stage.host, Stage.other] {
            configuration.resolve[try Host(name)] = (host: try Host("127.0.0.1"), port: origin.port)
        }
        let manager = try URLSessionManager(configuration: configuration, serverTrust: stage.manager.serverTrust)
        manager.sessionDidReceiveAuthenticationChallenge = { [stage] _ in
            stage.note("asked")
            return .useCredential(.serverTrust)
        }
        manager.taskDidReceiveChallenge = { [stage] _, _ in
            stage.note("asked")
            return .useCredential(.serverTrust)
        }
        for (host, code) in [
            (Stage.host, SessionError.Code.certificateHostMismatch), (Stage.other, .certificateHostMismatch),
        ] {
            let task = try manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/", host)))
            await #expect { try await task.value() } throws: { $0.sessionCode == code }
        }
        try origin.waitForClosed(2)
        #expect(origin.applicationBytes == 0)
        #expect(stage.log.with { $0 }.isEmpty)
        await manager.invalidateSession(cancelingTasks: true)
        await stage.end()
    }

    @Test("without a session hook the task's is called, anew for the next connection")
    func taskHook() async throws {
        let stage = try Stage(responding: Self.ok)
        let first = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        first.delegate.taskDidReceiveChallenge = { _, challenge in
            challenge.protectionSpace.authenticationMethod == .serverTrust
                ? .rejectProtectionSpace : .performDefaultHandling
        }
        await #expect { try await first.value() } throws: { $0.sessionCode == .certificateUntrusted }
        #expect(try await get(stage) == 200)
        await stage.end()
    }

    @Test("the streams of a refused HTTP/2 connection do not use it")
    func http2() async throws {
        let nginx = try NginxOrigin(Stage.server, http2: true)
        var configuration = URLSessionManager.Configuration()
        configuration.httpVersion = .http2
        let manager = try URLSessionManager(
            configuration: configuration,
            serverTrust: SessionTrust(anchors: TestPKI.shared.anchors)
        )
        let before = try nginx.requestCount()
        let asked = Monitor(0)
        manager.sessionDidReceiveAuthenticationChallenge = { _ in
            asked.with { count in
                count += 1
                return count == 1 ? .rejectProtectionSpace : .performDefaultHandling
            }
        }
        let url = "https://127.0.0.1:\(nginx.port)/plain"
        let tasks = try (0..<4).map { _ in try manager.dataTask(with: HTTPSessionRequest(url: url)) }
        for task in tasks { task.resume() }
        var failed = 0
        for task in tasks {
            do { _ = try await task.value() } catch {
                failed += 1
                #expect(error.code == .certificateUntrusted)
            }
        }
        #expect(failed == 1)
        #expect(asked.with { $0 } >= 2)
        #expect(try nginx.requestCount() == before + 4)
        await manager.invalidateSession(cancelingTasks: true)
    }

    // MARK: Client certificates

    private static let clients = try! TestPKI("clients")

    private static func identity() throws -> ClientIdentity {
        var builder = CertificateBuilder.server(hosts: ["client"], validity: TestPKI.validity)
        builder.extendedKeyUsage = ["clientAuth"]
        let client = try clients.server(builder)
        return try ClientIdentity(
            certificate: Array(client.chainPEM.utf8),
            privateKey: Array(client.privateKeyPEM.utf8)
        )
    }

    /// nginx that tells whether a client certificate was good.
    private func nginx(protocols: String) throws -> (NginxOrigin, URLSessionManager) {
        let folder = try TemporaryFolder()
        let file = try folder.write(Self.clients.root.certificate.pem, as: "clients.pem")
        let nginx = try NginxOrigin(
            Stage.server,
            directives: [
                "ssl_protocols \(protocols)", "ssl_verify_client optional", "ssl_client_certificate \(file)",
                "ssl_verify_depth 3", "return 200 $ssl_client_verify",
            ]
        )
        let manager = try URLSessionManager(serverTrust: SessionTrust(anchors: TestPKI.shared.anchors))
        return (nginx, manager)
    }

    @Test("a client certificate comes from the hook, the task or the storage", arguments: ["TLSv1.2", "TLSv1.3"])
    func clientCertificate(protocols: String) async throws {
        let identity = try Self.identity()
        for source in ["none", "hook", "task", "storage", "rejected"] {
            let (nginx, manager) = try nginx(protocols: protocols)
            let task = try manager.dataTask(with: HTTPSessionRequest(url: "https://127.0.0.1:\(nginx.port)/who"))
            let space = ProtectionSpace(
                host: try Host("127.0.0.1"),
                port: nginx.port,
                authenticationMethod: .clientCertificate
            )
            switch source {
            case "hook":
                manager.sessionDidReceiveAuthenticationChallenge = { challenge in
                    challenge.protectionSpace == space
                        ? .useCredential(Credential(identity: identity)) : .performDefaultHandling
                }
            case "task": task.delegate.credential = Credential(identity: identity)
            case "none": break
            default:
                try #require(manager.configuration.credentialStorage).setDefaultCredential(
                    Credential(identity: identity),
                    for: space
                )
            }
            if source == "rejected" {
                task.delegate.taskDidReceiveChallenge = { _, challenge in
                    challenge.protectionSpace == space ? .rejectProtectionSpace : .performDefaultHandling
                }
            }
            let response = try await task.value()
            let isShown = source != "none" && source != "rejected"
            #expect(String(decoding: response.data, as: UTF8.self) == (isShown ? "SUCCESS" : "NONE"), "\(source)")
            await manager.invalidateSession(cancelingTasks: true)
        }
    }

    @Test("a hook may cancel or fail within the handshake", arguments: ["TLSv1.2", "TLSv1.3"])
    func cancelledIdentity(protocols: String) async throws {
        for (disposition, code) in [
            (ChallengeDisposition.cancelAuthenticationChallenge, SessionError.Code.cancelled),
            (.useCredential(.serverTrust), .requestInvalid),
        ] {
            let (nginx, manager) = try nginx(protocols: protocols)
            let before = try nginx.requestCount()
            manager.sessionDidReceiveAuthenticationChallenge = { challenge in
                challenge.protectionSpace.authenticationMethod == .clientCertificate
                    ? disposition : .performDefaultHandling
            }
            let task = try manager.dataTask(with: HTTPSessionRequest(url: "https://127.0.0.1:\(nginx.port)/who"))
            await #expect { try await task.value() } throws: { $0.sessionCode == code }
            #expect(try nginx.requestCount() == before + 1)
            await manager.invalidateSession(cancelingTasks: true)
        }
    }
}
