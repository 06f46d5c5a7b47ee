// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport

/// One pinned host and one host that is tunnelled to, behind a proxy that serves every way in, with one worker, so that
/// what is sent first is taken first.
struct WayStage {
    typealias Way = ReloadPutOffTests.Way
    static let open = "open.example.com"

    let proxy: ProxyUnderTest
    /// The proxy in front of the origins; it may have been started with other settings.
    let settings: ProxySettings
    let origin: ScriptedOrigin
    let plain: ScriptedOrigin
    let server: TestServer
    /// The local CA's certificate.
    let authority: String
    /// The time limit of the clients, in seconds.
    var patience = Int(Patience.seconds)
    private let folder: TemporaryFolder

    /// - Parameters:
    ///   - gate: what requests for `/held` wait for, and upgrades to `/held`.
    ///   - always: changes all settings.
    ///   - start: changes those that the proxy is started with.
    init(
        _ gate: Gate = Gate(),
        always: (inout ProxySettings) -> Void = { _ in },
        start: (inout ProxySettings) -> Void = { _ in }
    ) throws {
        folder = try TemporaryFolder()
        let made = try Programs.run(
            try Programs.built("pinproxy"),
            ["ca", "init", "--dir", folder.path, Stage.host]
        )
        guard made.exitCode == 0 else { throw ChildProcess.Failure(description: made.errors) }
        authority = "\(folder.path)/pinproxy-ca.pem"
        server = try Stage.pki.server(Stage.host)
        let script: ScriptedOrigin.Script = { connection in
            while let request = try connection.readRequest() {
                if request["Upgrade"] != nil {
                    let switching =
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                    try connection.write(switching)
                    while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
                    return
                }
                if request.target == "/held" { try gate.pass() }
                if request["If-None-Match"] != nil {
                    // The tag names another version than the stored one: the whole is asked for then.
                    try connection.write("HTTP/1.1 304 Not Modified\r\nETag: \"other\"\r\n\r\n")
                    continue
                }
                if let control = Self.control(of: request.target) {
                    try connection.respond(request.target, fields: ["ETag: \"a\"", "Cache-Control: \(control)"])
                    continue
                }
                try connection.respond(request.body.isEmpty ? request.target : "\(request.body.count)")
            }
        }
        origin = try ScriptedOrigin(server, script: script)
        plain = try ScriptedOrigin(nil) { connection in
            while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["workers"] = 1
        settings.listeners[0]["http2"] = true
        settings.members["interception"] = [
            "certificate": authority, "key": "\(folder.path)/pinproxy-ca.key",
        ]
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["connect"] = "intercept"
        settings.resolve(Self.open, to: plain.port)
        settings.hosts[Self.open]?["connect"] = "tunnel"
        always(&settings)
        self.settings = settings
        start(&settings)
        // The host that is tunnelled to goes where the other one goes, as far as the start is concerned.
        if let place = settings.hosts[Stage.host]?["resolve"] as? String, place != "127.0.0.1:\(origin.port)" {
            settings.hosts[Self.open]?["resolve"] = place
        }
        proxy = try ProxyUnderTest(settings)
    }

    /// The lifetimes of the origin's responses, by their paths.
    private static func control(of target: String) -> String? {
        if target.hasPrefix("/private") { return "private" }
        if target.hasPrefix("/validated") { return "no-cache" }
        if target.hasPrefix("/refreshed") { return "max-age=0, stale-while-revalidate=600" }
        return nil
    }

    /// Returns when the worker has taken what was sent to it before.
    func settle() throws { try proxy.settle() }

    /// Takes the one place that there is at each host.
    func hold(_ isStream: Bool) throws -> [TestClient] {
        guard isStream else {
            let client = try proxy.connect()
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/held"))
            try origin.wait(for: "the first") { $0.contains { !$0.requests.isEmpty } ? true : nil }
            return [client]
        }
        let tunnel = try proxy.connect()
        try tunnel.send("CONNECT \(Self.open):443 HTTP/1.1\r\nHost: \(Self.open):443\r\n\r\n")
        _ = try tunnel.readResponseHead(to: "CONNECT")
        let upgrade = try proxy.connect()
        try upgrade.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/chat", fields: Self.offer))
        _ = try upgrade.readResponseHead()
        return [tunnel, upgrade]
    }

    fileprivate static let offer = [
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]

    /// A request that was sent; how it ends.
    struct Started {
        let outcome: () throws -> String
    }

    /// Sends a request.
    ///
    /// - Parameter path: of a GET.
    func start(_ way: Way, path: String = "/get", fields: [String] = []) throws -> Started {
        try WayClient(port: proxy.port, patience: patience).start(way, path: path, fields: fields)
    }
}

/// Sends requests to a `WayStage`, from any thread.
struct WayClient: Sendable {
    typealias Way = ReloadPutOffTests.Way
    let port: UInt16
    /// The time limit in seconds.
    var patience = Int(Patience.seconds)

    private static let bodyCount = 50_000

    /// Sends a request.
    ///
    /// - Parameter path: of a GET.
    func start(_ way: Way, path: String = "/get", fields: [String] = []) throws -> WayStage.Started {
        let client = try TestClient(port: port)
        client.setTimeouts(seconds: patience)
        func told(_ response: HTTPMessage) -> String {
            response.problemCode.map { "\(response.status) \($0)" } ?? "\(response.status)"
        }
        func connect(_ host: String) throws {
            let lines = ["CONNECT \(host):443 HTTP/1.1", "Host: \(host):443"] + fields
            try client.send(lines.joined(separator: "\r\n") + "\r\n\r\n")
        }
        switch way {
        case .get:
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)\(path)", fields: fields))
            return WayStage.Started { told(try client.readResponse()) }
        case .post:
            let body = String(repeating: "b", count: Self.bodyCount)
            try client.send(ProxyUnderTest.request("POST", "http://\(Stage.host)/post", fields: fields, body: body))
            return WayStage.Started {
                let response = try client.readResponse(to: "POST")
                guard response.status == 200 else { return told(response) }
                return response.text == "\(Self.bodyCount)" ? "200" : "a body of \(response.text)"
            }
        case .tunnel:
            try connect(WayStage.open)
            return WayStage.Started {
                let response = try client.readResponseHead(to: "CONNECT")
                guard response.status == 200 else { return told(try client.readBody(of: response)) }
                let hello = ClientHelloBytes(WayStage.open).bytes
                try client.send(hello)
                var echo: [UInt8] = []
                while echo.count < hello.count {
                    let bytes = try client.receive()
                    if bytes.isEmpty { return "the tunnel ended" }
                    echo += bytes
                }
                return echo == hello ? "200" : "the tunnel brought something else"
            }
        case .intercept:
            try connect(Stage.host)
            return WayStage.Started {
                let response = try client.readResponseHead(to: "CONNECT")
                return response.status == 200 ? "200" : told(try client.readBody(of: response))
            }
        case .upgrade:
            try client.send(
                ProxyUnderTest.request("GET", "http://\(Stage.host)/chat", fields: WayStage.offer + fields)
            )
            return WayStage.Started {
                let response = try client.readResponseHead()
                guard response.status == 101 else { return told(try client.readBody(of: response)) }
                try client.send("ping")
                return String(decoding: try client.receive(), as: UTF8.self) == "ping" ? "200" : "no echo"
            }
        case .http2:
            let peer = try HTTP2Peer(client)
            let stream = try peer.request(
                "POST",
                authority: Stage.host,
                fields: fields.map { line in
                    let parts = line.split(separator: ":", maxSplits: 1)
                    return (parts[0].lowercased(), parts[1].trimmingCharacters(in: .whitespaces))
                },
                body: [UInt8](repeating: 1, count: Self.bodyCount)
            )
            return WayStage.Started {
                let response = try peer.finish(stream)
                guard response.status == 200 else {
                    let code = response.text.range(of: #""error":""#).map {
                        response.text[$0.upperBound...].prefix { $0 != "\"" }
                    }
                    return "\(response.status ?? 0)" + (code.map { " \($0)" } ?? "")
                }
                return response.text == "\(Self.bodyCount)" ? "200" : "a body of \(response.text)"
            }
        }
    }
}
