// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("Origins behind an HTTPS proxy", .onOwnThreads)
struct HTTPSProxyTests {
    private static let server = try! Stage.pki.server(Stage.host)
    private static let identity = try! Stage.pki.server("127.0.0.1")

    /// A pinned host behind a pinned proxy.
    private func settings(_ port: UInt16, proxyPin: PublicKeyPin = identity.pin) -> ProxySettings {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin(Stage.host, to: Self.server.pin)
        settings.pin("127.0.0.1", to: proxyPin, with: ["ports": [Int(port)]])
        settings.members["upstreamProxy"] = "https://user:pa%40ss@127.0.0.1:\(port)"
        return settings
    }

    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { request in OriginResponse.text("answer to \(request.target)") }
    }

    @Test("a pinned origin is reached over all ways in, with both verdicts logged")
    func rightPin() throws {
        for version in ["1.1", "2"] {
            let folder = try TemporaryFolder()
            let origin = try version == "2" ? nil : Self.origin()
            let nginx = try version == "2" ? NginxOrigin(Self.server, http2: true) : nil
            let upstream = try HTTPSProxy(Self.identity, to: origin?.port ?? nginx!.port)
            var settings = settings(upstream.port)
            settings.hosts[Stage.host] = ["httpVersion": version]
            WayIn.addListeners(to: &settings, host: Stage.host, folder: folder)
            let proxy = try ProxyUnderTest(settings)
            for way in WayIn.allCases {
                let response = try way.get("/plain", of: Stage.host, through: proxy)
                #expect(response.status == 200, "\(way) \(response.text)")
            }
            let asked = upstream.asked.with { $0 }
            let credentials = "Proxy-Authorization: Basic \(Data("user:pa@ss".utf8).base64EncodedString())\r\n"
            #expect(asked.allSatisfy { $0.hasPrefix("CONNECT \(Stage.host):443 HTTP/1.1\r\n") })
            #expect(!asked.isEmpty && asked.allSatisfy { $0.contains(credentials) })
            let line = try #require(try proxy.waitForTaskLines(1).first)
            #expect(line.object("pinning")?["verdict"] as? String == "pass")
            let transaction = try #require(line.transactions.first)
            #expect(transaction["remoteAddress"] as? String == "127.0.0.1:\(upstream.port)")
            #expect(transaction["networkProtocolName"] as? String == (version == "2" ? "h2" : "http/1.1"))
            let hop = try #require(transaction["proxy"] as? [String: Any])
            #expect(hop["authority"] as? String == "127.0.0.1:\(upstream.port)")
            #expect((hop["pinning"] as? [String: Any])?["verdict"] as? String == "pass", "\(line.text)")
            #expect(hop["tlsVersion"] as? String == "TLSv1.3" && hop["cipher"] != nil)
            #expect((hop["offeredPins"] as? [String])?.first == "\(Self.identity.pin)")
            let times = [
                "connectStart", "proxySecureConnectionStart", "proxySecureConnectionEnd", "secureConnectionStart",
                "secureConnectionEnd", "connectEnd",
            ].map { (transaction[$0] as? NSNumber)?.doubleValue ?? -1 }
            #expect(times == times.sorted() && times.allSatisfy { $0 >= 0 }, "\(line.text)")
            #expect(!proxy.output.contains("pa@ss") && !proxy.output.contains("pa%40ss"))
        }
    }

    @Test("a proxy with another key is refused, and gets no byte")
    func wrongPin() throws {
        let origin = try Self.origin()
        let upstream = try HTTPSProxy(Self.identity, to: origin.port)
        let proxy = try ProxyUnderTest(settings(upstream.port, proxyPin: .unrelated(8)))
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "proxy_untrusted")
        #expect(response["Proxy-Status"]?.contains("tls_certificate_error") == true)
        #expect(response.problem["host"] as? String == "127.0.0.1", "\(response.text)")
        #expect(response.text.contains("\(Self.identity.pin)") && !response.text.contains("pa@ss"))
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "proxy_untrusted")
        // Neither the verdict nor the keys are the origin's.
        #expect(line.object("pinning") == nil, "\(line.text)")
        let transaction = try #require(line.transactions.first)
        #expect(transaction["offeredPins"] == nil && transaction["secureConnectionStart"] == nil, "\(line.text)")
        let hop = try #require(transaction["proxy"] as? [String: Any])
        #expect((hop["pinning"] as? [String: Any])?["verdict"] as? String == "fail", "\(line.text)")
        #expect((hop["offeredPins"] as? [String])?.first == "\(Self.identity.pin)")
        #expect(try upstream.waitForClosed().map(\.applicationBytes) == [0])
        #expect(origin.connections.isEmpty)
    }

    @Test(
        "plain http, tunnels and upgrades use it under its pins",
        arguments: [true, false]
    )
    func otherWays(isRight: Bool) throws {
        let origin = try ScriptedOrigin(nil) { connection in
            let first = connection.read()
            let text = String(decoding: first, as: UTF8.self)
            if text.hasPrefix("GET /chat") {
                try connection.write(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                )
                while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
            } else if text.hasPrefix("GET") {
                try connection.respond("plain")
            } else {
                try connection.write(first)
                while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
            }
        }
        let upstream = try HTTPSProxy(Self.identity, to: origin.port)
        var settings = settings(upstream.port, proxyPin: isRight ? Self.identity.pin : .unrelated(8))
        settings.members["defaults"] = ["connect": "tunnel"]
        let proxy = try ProxyUnderTest(settings)
        let plain = try proxy.get("http://plain.example.com/")
        #expect(isRight ? plain.text == "plain" : plain.problemCode == "proxy_untrusted")
        let client = try proxy.connect()
        try client.send("CONNECT open.example.com:443 HTTP/1.1\r\nHost: open.example.com:443\r\n\r\n")
        let tunnel = try client.readResponseHead(to: "CONNECT")
        #expect(tunnel.status == (isRight ? 200 : 502))
        if isRight {
            let bytes = ClientHelloBytes("open.example.com").bytes + patternBytes(100_000)
            try client.send(bytes)
            client.finishSending()
            #expect(try client.readToEnd() == bytes)
        }
        let upgrading = try proxy.connect()
        try upgrading.send(
            ProxyUnderTest.request(
                "GET",
                "http://plain.example.com/chat",
                fields: ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
            )
        )
        let response = try upgrading.readResponseHead()
        #expect(response.status == (isRight ? 101 : 502))
        if isRight {
            try upgrading.send("ping")
            upgrading.finishSending()
            #expect(try upgrading.readToEnd() == Array("ping".utf8))
            #expect(
                upstream.targets == [
                    "CONNECT plain.example.com:80 HTTP/1.1", "CONNECT open.example.com:443 HTTP/1.1",
                    "CONNECT plain.example.com:80 HTTP/1.1",
                ]
            )
        } else {
            #expect(try upstream.waitForClosed(3).allSatisfy { $0.applicationBytes == 0 })
            #expect(origin.connections.isEmpty)
        }
    }

    @Test("a reload that changes the proxy's pins retires its connections")
    func reload() throws {
        let origin = try Self.origin()
        let upstream = try HTTPSProxy(Self.identity, to: origin.port)
        var settings = settings(upstream.port)
        settings.members["workers"] = 1
        let proxy = try ProxyUnderTest(settings)
        for _ in 0..<2 { #expect(try proxy.get("http://\(Stage.host)/").status == 200) }
        #expect(upstream.targets.count == 1)
        settings.pin("127.0.0.1", to: .unrelated(8), with: ["ports": [Int(upstream.port)]])
        try proxy.reload(settings)
        #expect(try proxy.get("http://\(Stage.host)/").problemCode == "proxy_untrusted")
        settings.pin("127.0.0.1", to: Self.identity.pin, with: ["ports": [Int(upstream.port)]])
        try proxy.reload(settings)
        #expect(try proxy.get("http://\(Stage.host)/").status == 200)
        #expect(upstream.targets.count == 2)
        try origin.wait(for: "the end of the first connection") { $0[0].isClosed ? true : nil }
    }

    @Test("fetch with a configuration uses it, and shows its handshake", arguments: [true, false])
    func fetch(isRight: Bool) throws {
        let origin = try Self.origin()
        let upstream = try HTTPSProxy(Self.identity, to: origin.port)
        let folder = try TemporaryFolder()
        let pin = isRight ? Self.identity.pin : .unrelated(8)
        let config = try settings(upstream.port, proxyPin: pin).write(to: folder)
        let words = ["fetch", "--config", config, "--json", "--metrics", "-o", "\(folder.path)/out"]
        let fetched = try pinproxy(words + ["https://\(Stage.host)/x"])
        #expect(fetched.exitCode == (isRight ? 0 : 77), "\(fetched.errors)")
        let line = try #require(LogLine(fetched.output), "\(fetched.output)")
        let transaction = try #require(line.transactions.last)
        let hop = try #require(transaction["proxy"] as? [String: Any])
        #expect(hop["authority"] as? String == "127.0.0.1:\(upstream.port)")
        #expect(hop["verdict"] as? String == (isRight ? "pass" : "fail"))
        #expect((hop["offeredPins"] as? [String])?.first == (isRight ? nil : "\(Self.identity.pin)"))
        #expect(transaction["verdict"] as? String == (isRight ? "pass" : nil))
        #expect(transaction["proxySecureConnectionEnd"] != nil)
        let picture = fetched.errors.split(separator: "\n").map { String($0.prefix(14)).filter { $0 != " " } }
        let phases = ["connect", "proxyTLS", "tunnel", "TLS", "request"]
        #expect(picture.filter(phases.contains) == Array(phases.prefix(isRight ? 5 : 2)), "\(fetched.errors)")
        #expect(line.string("error") == (isRight ? nil : "proxy_untrusted"))
    }

    @Test(
        "pins verify checks the proxy's pins directly",
        arguments: [true, false]
    )
    func verify(isRight: Bool) throws {
        let origin = try Self.origin()
        let identity = try Stage.pki.server("localhost")
        let upstream = try HTTPSProxy(identity, to: origin.port)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin(Stage.host, to: Self.server.pin)
        settings.pin("localhost", to: isRight ? identity.pin : .unrelated(8), with: ["ports": [Int(upstream.port)]])
        settings.members["upstreamProxy"] = "https://localhost:\(upstream.port)"
        settings.members["access"] = ["denyAddresses": [String]()]
        let folder = try TemporaryFolder()
        let words = ["pins", "verify", "--config", try settings.write(to: folder), "--json"]
        let finished = try pinproxy(words)
        let lines = finished.output.split(separator: "\n").compactMap { LogLine(String($0)) }
        let checks = Dictionary(uniqueKeysWithValues: lines.map { ($0.string("host") ?? "", $0) })
        let (proxy, server) = (try #require(checks["localhost"]), try #require(checks[Stage.host]))
        #expect(finished.exitCode == (isRight ? 0 : 1), "\(finished.output)")
        #expect(proxy["passed"] as? Bool == isRight && server["passed"] as? Bool == isRight, "\(finished.output)")
        if isRight {
            #expect(proxy.string("matchedPin") == "\(identity.pin)")
            #expect(server.string("matchedPin") == "\(Self.server.pin)")
        } else {
            #expect(proxy.string("code") == "pin_mismatch" && server.string("code") == "proxy_untrusted")
            #expect(proxy.text.contains("\(identity.pin)"), "\(proxy.text)")
            #expect(!server.text.contains("\(identity.pin)"), "\(server.text)")
        }
        #expect(upstream.targets == (isRight ? ["CONNECT \(Stage.host):443 HTTP/1.1"] : []))
    }

    @Test("a refused tunnel is a 502 that says so", arguments: [407, 403, 503])
    func refusal(status: Int) throws {
        let origin = try Self.origin()
        let upstream = try HTTPSProxy(Self.identity, to: origin.port) { _ in
            "HTTP/1.1 \(status) No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n"
        }
        let response = try ProxyUnderTest(settings(upstream.port)).get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "proxy_refused")
        #expect(response.text.contains("\(status)") && response.text.contains("credentials") == (status == 407))
        #expect(!response.text.contains("pa@ss") && origin.connections.isEmpty)
    }

    @Test(
        "pinproxy can be such a proxy, and shows one its client certificate",
        arguments: [true, false]
    )
    func chained(hasCertificate: Bool) throws {
        let clients = try TestPKI("clients")
        var builder = CertificateBuilder.server(hosts: ["build agent 7"], validity: TestPKI.validity)
        builder.names = []
        builder.extendedKeyUsage = ["clientAuth"]
        let agent = try builder.identity(issuer: clients.intermediate)
        let origin = try Self.origin()
        var outer = ProxySettings(trusting: Stage.pki)
        outer.resolve(Stage.host, to: origin.port)
        outer.members["defaults"] = ["connect": "tunnel"]
        outer.files["own.pem"] = Self.identity.chainPEM
        outer.files["own.key"] = Self.identity.privateKeyPEM
        outer.files["clients.pem"] = clients.root.certificate.pem
        outer.listeners[0]["tls"] = ["certificate": "own.pem", "key": "own.key", "clientCA": "clients.pem"]
        let second = try ProxyUnderTest(outer)
        var inner = settings(second.port)
        inner.members["upstreamProxy"] = "https://127.0.0.1:\(second.port)"
        inner.files["pins/agent.pem"] = agent.certificate.pem + clients.intermediate.certificate.pem
        inner.files["pins/agent.key"] = agent.key.privateKeyPEM
        var members: [String: Any] = ["ports": [Int(second.port)]]
        if hasCertificate { members["clientCertificate"] = ["certificate": "agent.pem", "key": "agent.key"] }
        inner.pin("127.0.0.1", to: Self.identity.pin, with: members)
        let first = try ProxyUnderTest(inner)
        let response = try first.get("http://\(Stage.host)/through")
        if hasCertificate {
            #expect(response.status == 200 && response.text == "answer to /through", "\(response.text)")
            // The tunnel's line comes with its end.
            _ = try first.terminate()
            let line = try #require(try second.waitForTaskLines(1).first)
            #expect(line.string("user") == "CN = build agent 7", "\(line.text)")
        } else {
            #expect(response.status == 502 && response.text.contains("clientCertificate"), "\(response.text)")
            #expect(["proxy_refused", "proxy_handshake_failed"].contains(response.problemCode ?? ""))
            #expect(origin.connections.isEmpty)
        }
    }
}
