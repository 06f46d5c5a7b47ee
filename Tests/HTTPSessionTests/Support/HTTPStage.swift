// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport

@testable import HTTPSessionCore
@testable import SessionCore

/// An `HTTPSessionManager` with a base URL, and the origin there, whose key is pinned.
final class HTTPStage: Sendable {
    static let server = try! TestPKI.shared.server("127.0.0.1")

    let origin: ScriptedOrigin
    let manager: HTTPSessionManager

    /// - Parameter path: of the base URL.
    init(
        path: String = "/v1",
        pin: PublicKeyPin = server.pin,
        interceptor: (any RequestInterceptor)? = nil,
        monitors: [any EventMonitor] = [],
        _ change: (inout HTTPSessionManager.Configuration) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws {
        origin = try ScriptedOrigin(Self.server, script: script)
        var configuration = HTTPSessionManager.Configuration()
        change(&configuration)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        trust.policies[try Host("127.0.0.1")] = try .pinning(pin)
        manager = try HTTPSessionManager(
            baseURL: "https://127.0.0.1:\(origin.port)\(path)",
            configuration: configuration,
            serverTrust: trust,
            interceptor: interceptor,
            eventMonitors: monitors
        )
    }

    convenience init(
        path: String = "/v1",
        interceptor: (any RequestInterceptor)? = nil,
        monitors: [any EventMonitor] = [],
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws {
        try self.init(path: path, interceptor: interceptor, monitors: monitors) { connection in
            while let request = try connection.readRequest() { try connection.write(response(request)) }
        }
    }

    /// Says in JSON what came.
    static func echo(_ request: HTTPMessage) -> String {
        // The answer to HEAD has no body, whatever its length says.
        guard request.method != "HEAD" else {
            return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n"
        }
        let seen: HTTPSessionCore.JSONValue = [
            "method": .string(request.method), "target": .string(request.target),
            "type": .string(request["Content-Type"] ?? ""), "body": .string(request.text),
        ]
        return OriginResponse.text(
            String(decoding: seen.serialized(), as: UTF8.self),
            fields: ["Content-Type: application/json"]
        )
    }

    /// `response` for each request in turn; the last of them for all that follow.
    static func inTurn(_ responses: [String]) -> @Sendable (HTTPMessage) -> String {
        let left = Monitor(responses)
        return { _ in left.with { $0.count > 1 ? $0.removeFirst() : $0[0] } }
    }

    static func status(_ status: String, fields: [String] = []) -> String {
        OriginResponse.text("{}", status: status, fields: ["Content-Type: application/json"] + fields)
    }

    func end() async { await manager.invalidateSession(cancelingTasks: true) }
}
