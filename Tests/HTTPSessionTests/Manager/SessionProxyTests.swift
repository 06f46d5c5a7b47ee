// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A session behind a proxy", .onOwnThreads)
struct SessionProxyTests {
    private typealias Stage = ManagerStage

    /// A manager whose connections all go through the proxy.
    private func manager(
        _ proxy: SessionProxy,
        policies: [Host: SecurityPolicy] = [:],
        httpVersion: Endpoint.HTTPVersion = .http1
    ) throws -> URLSessionManager {
        var configuration = URLSessionManager.Configuration()
        configuration.proxy = proxy
        configuration.httpVersion = httpVersion
        let trust = SessionTrust(anchors: TestPKI.shared.anchors, policies: policies)
        return try URLSessionManager(configuration: configuration, serverTrust: trust)
    }

    private func get(_ manager: URLSessionManager, _ url: String) async throws -> DataResponse {
        try await manager.dataTask(with: HTTPSessionRequest(url: url)).value()
    }

    @Test("requests go through tunnels; pins hold inside, and credentials reach the proxy alone")
    func tunnels() async throws {
        let origin = try ScriptedOrigin(Stage.server) { request in OriginResponse.text(request.target) }
        let proxy = try TunnelProxy(to: origin.port)
        let setting = SessionProxy(
            host: try Host("127.0.0.1"),
            port: proxy.port,
            credentials: (user: "user", password: "right")
        )
        let manager = try manager(
            setting,
            policies: [
                try Host(Stage.host): try .pinning(Stage.server.pin),
                try Host(Stage.other): try .pinning(.unrelated(7)),
            ]
        )
        for path in ["/1", "/2"] {
            let response = try await get(manager, Stage.url(path))
            #expect(response.data == Array(path.utf8))
            #expect(response.response.fields.value(for: "X-Proxy") == nil)
            #expect(response.metrics.transaction.connection?.evaluation?.verdict == .pass)
        }
        await #expect { try await get(manager, Stage.url("/", Stage.other)) } throws: { $0.sessionCode == .pinMismatch }
        let asked = proxy.asked.with { $0 }
        #expect(
            asked.map { $0.prefix { $0 != "\r\n" } } == [
                "CONNECT \(Stage.host):443 HTTP/1.1", "CONNECT \(Stage.other):443 HTTP/1.1",
            ]
        )
        #expect(asked.allSatisfy { $0.contains("Proxy-Authorization: Basic dXNlcjpyaWdodA==\r\n") })
        #expect(origin.requests.map(\.target) == ["/1", "/2"])
        #expect(origin.requests.allSatisfy { $0["Proxy-Authorization"] == nil && $0["Host"] == Stage.host })
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("hosts without TLS have tunnels too, and HTTP/2 goes through them")
    func kinds() async throws {
        let plain = try ScriptedOrigin(nil) { request in OriginResponse.text(request.target) }
        let proxy = try TunnelProxy(to: plain.port)
        let first = try manager(SessionProxy(host: try Host("127.0.0.1"), port: proxy.port))
        #expect(try await get(first, "http://plain.example.com/a?b").data == Array("/a?b".utf8))
        #expect(proxy.asked.with { $0.first?.hasPrefix("CONNECT plain.example.com:80 ") } == true)
        await first.invalidateSession(cancelingTasks: true)
        let nginx = try NginxOrigin(Stage.server, http2: true)
        let second = try TunnelProxy(to: nginx.port)
        let manager = try manager(SessionProxy(host: try Host("127.0.0.1"), port: second.port), httpVersion: .http2)
        let response = try await get(manager, Stage.url("/plain"))
        #expect(response.response.status == 200 && response.response.majorVersion == 2)
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("SOCKS 5: the proxy looks up the name")
    func socks() async throws {
        let origin = try ScriptedOrigin(Stage.server) { request in OriginResponse.text(request.target) }
        let proxy = try TunnelProxy(to: origin.port, isSOCKS: true)
        let manager = try manager(SessionProxy(.socks5, host: try Host("127.0.0.1"), port: proxy.port))
        #expect(try await get(manager, Stage.url("/s")).data == Array("/s".utf8))
        #expect(proxy.asked.with { $0 } == ["\(Stage.host):443"])
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("an HTTPS proxy is verified by its pins before it gets a request")
    func secure() async throws {
        let origin = try ScriptedOrigin(Stage.server) { request in OriginResponse.text(request.target) }
        let identity = try TestPKI.shared.server("127.0.0.1")
        let proxy = try HTTPSProxy(identity, to: origin.port)
        let address = try Host("127.0.0.1")
        let credentials = (user: "user", password: "right")
        let setting = SessionProxy(.https, host: address, port: proxy.port, credentials: credentials)
        for isRight in [false, true] {
            let pins: SecurityPolicy = try .pinning(isRight ? identity.pin : .unrelated(7))
            let manager = try manager(setting, policies: [address: pins])
            if isRight {
                let response = try await get(manager, Stage.url("/1"))
                #expect(response.data == Array("/1".utf8))
                #expect(response.metrics.transaction.connection?.proxy?.evaluation?.verdict == .pass)
            } else {
                await #expect {
                    try await get(manager, Stage.url("/1"))
                } throws: {
                    $0.sessionCode == .proxyUntrusted
                }
                #expect(try proxy.waitForClosed().map(\.applicationBytes) == [0])
            }
            await manager.invalidateSession(cancelingTasks: true)
        }
        let asked = proxy.asked.with { $0 }
        #expect(asked.count == 1 && asked[0].contains("Proxy-Authorization: Basic dXNlcjpyaWdodA==\r\n"))
    }

    @Test("a proxy that refuses a tunnel fails the task, and nothing is sent")
    func refusal() async throws {
        let origin = try ScriptedOrigin(Stage.server) { request in OriginResponse.text(request.target) }
        let proxy = try TunnelProxy(
            to: origin.port,
            response: "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 0\r\n\r\n"
        )
        let manager = try manager(SessionProxy(host: try Host("127.0.0.1"), port: proxy.port))
        await #expect { try await get(manager, Stage.url("/")) } throws: { $0.sessionCode == .proxyRefused }
        #expect(origin.connections.isEmpty)
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a proxy can get plain requests without a tunnel, on one connection")
    func forwarding() async throws {
        // The proxy itself: what it gets is what goes on the wire.
        let proxy = try ScriptedOrigin(nil) { request in OriginResponse.text(request.target) }
        var setting = SessionProxy(host: try Host("127.0.0.1"), port: proxy.port, credentials: ("user", "right"))
        setting.tunnelsPlainRequests = false
        let first = try manager(setting)
        for url in ["http://plain.example.com/a?b", "http://plain.example.com/", "http://plain.example.com:8080/c"] {
            let response = try await get(first, url)
            #expect(response.response.status == 200 && response.data == Array(url.utf8))
        }
        let asked = proxy.requests
        #expect(asked.map { $0["Host"] } == ["plain.example.com", "plain.example.com", "plain.example.com:8080"])
        #expect(asked.allSatisfy { $0.method == "GET" && $0["Proxy-Authorization"] == "Basic dXNlcjpyaWdodA==" })
        #expect(proxy.connections.count == 2)
        let own = HTTPSessionRequest(
            url: "http://plain.example.com/own",
            headers: ["Proxy-Authorization": "Bearer mine"]
        )
        _ = try await first.dataTask(with: own).value()
        let last = proxy.requests.first { $0.target.hasSuffix("/own") }
        #expect(last?.fields.filter { $0.name == "Proxy-Authorization" }.map(\.value) == ["Bearer mine"])
        await first.invalidateSession(cancelingTasks: true)
    }

    @Test("with plain forwarding, https keeps tunnels, and pinned hosts still need TLS")
    func forwardingKeepsPins() async throws {
        let origin = try ScriptedOrigin(Stage.server) { request in
            request.target == "/away"
                ? OriginResponse.redirect("http://\(Stage.host)/plain") : OriginResponse.text(request.target)
        }
        let proxy = try TunnelProxy(to: origin.port)
        var setting = SessionProxy(host: try Host("127.0.0.1"), port: proxy.port, credentials: ("user", "right"))
        setting.tunnelsPlainRequests = false
        let manager = try manager(setting, policies: [try Host(Stage.host): try .pinning(Stage.server.pin)])
        #expect(try await get(manager, Stage.url("/1")).metrics.transaction.connection?.evaluation?.verdict == .pass)
        await #expect { try await get(manager, "http://\(Stage.host)/") } throws: { $0.sessionCode == .requestInvalid }
        await #expect { try await get(manager, Stage.url("/away")) } throws: { $0.sessionCode == .redirectDenied }
        #expect(proxy.asked.with { $0.map { $0.prefix { $0 != "\r\n" } } } == ["CONNECT \(Stage.host):443 HTTP/1.1"])
        #expect(origin.requests.map(\.target) == ["/1", "/away"])
        #expect(origin.requests.allSatisfy { $0["Proxy-Authorization"] == nil })
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("an exception is reached without the proxy")
    func exceptions() async throws {
        let origin = try ScriptedOrigin(Stage.server) { request in OriginResponse.text(request.target) }
        let proxy = try TunnelProxy(to: origin.port)
        let address = try Host("127.0.0.1")
        let manager = try manager(SessionProxy(host: address, port: proxy.port, exceptions: [address]))
        #expect(try await get(manager, "https://127.0.0.1:\(origin.port)/").response.status == 200)
        #expect(try await get(manager, Stage.url("/")).response.status == 200)
        #expect(proxy.asked.with { $0.count } == 1)
        await manager.invalidateSession(cancelingTasks: true)
    }
}
