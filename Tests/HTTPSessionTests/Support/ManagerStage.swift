// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport

@testable import HTTPSessionCore
@testable import SessionCore

/// A manager, and origins that it reaches under names of their own.
final class ManagerStage: Sendable {
    static let host = "api.example.com"
    static let other = "cdn.example.com"
    static let server = try! TestPKI.shared.server(host, other, "127.0.0.1")

    let origin: ScriptedOrigin
    let manager: URLSessionManager
    /// The calls of the hooks and handlers of a test, in order.
    let log = Monitor<[String]>([])

    /// - Parameters:
    ///   - pinned: hosts whose key is pinned.
    ///   - policies: of other hosts.
    ///   - successor: the certificate of the origin's second and later connections.
    ///   - script: the origin's; it serves `host` and `other`, over TLS.
    init(
        pinned: [String] = [],
        policies: [String: SecurityPolicy] = [:],
        successor: TestServer? = nil,
        plain: ScriptedOrigin? = nil,
        loop: SessionLoop? = nil,
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws {
        origin = try ScriptedOrigin(Self.server, successor: successor, script: script)
        var configuration = URLSessionManager.Configuration()
        for name in [Self.host, Self.other] {
            configuration.resolve[try Host(name)] = (host: try Host("127.0.0.1"), port: origin.port)
        }
        if let plain {
            configuration.resolve[try Host("plain.example.com")] = (host: try Host("127.0.0.1"), port: plain.port)
        }
        change(&configuration)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        for name in pinned { trust.policies[try Host(name)] = try .pinning(Self.server.pin) }
        for (name, policy) in policies { trust.policies[try Host(name)] = policy }
        manager = try URLSessionManager(configuration: configuration, serverTrust: trust, loop: loop)
    }

    convenience init(
        pinned: [String] = [],
        policies: [String: SecurityPolicy] = [:],
        plain: ScriptedOrigin? = nil,
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in },
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws {
        try self.init(pinned: pinned, policies: policies, plain: plain, change) { connection in
            while let request = try connection.readRequest() { try connection.write(response(request)) }
        }
    }

    static func url(_ path: String, _ host: String = ManagerStage.host) -> String { "https://\(host)\(path)" }

    func note(_ entry: String) { log.with { $0.append(entry) } }

    /// Waits until the log's last entry is that one.
    func wait(for entry: String) async throws -> [String] {
        try await eventually(entry) { log.with { $0.contains(entry) } }
        return log.with { $0 }
    }

    func end() async { await manager.invalidateSession(cancelingTasks: true) }
}

extension OriginResponse {
    static func redirect(_ location: String, status: String = "302 Found", body: String = "") -> String {
        text(body, status: status, fields: ["Location: \(location)"])
    }
}

extension Error {
    var sessionCode: SessionError.Code? { (self as? SessionError)?.code }
}
