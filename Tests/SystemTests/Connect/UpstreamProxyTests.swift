// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("Origins behind another proxy", .onOwnThreads)
struct UpstreamProxyTests {
    private static let server = try! Stage.pki.server(Stage.host)

    /// A pinned host that only the other proxy reaches.
    private func settings(_ upstream: Any, pin: PublicKeyPin = server.pin) -> ProxySettings {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.pin(Stage.host, to: pin)
        settings.members["upstreamProxy"] = upstream
        return settings
    }

    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { request in OriginResponse.text("answer to \(request.target)") }
    }

    @Test("a pinned origin is reached through a tunnel, under its pin")
    func rightPin() throws {
        let origin = try Self.origin()
        let upstream = try TunnelProxy(to: origin.port)
        let proxy = try ProxyUnderTest(settings("http://user:pa%40ss@127.0.0.1:\(upstream.port)"))
        let response = try proxy.get("http://\(Stage.host)/secret-path", fields: ["X-Secret: hidden-value"])
        #expect(response.status == 200 && response.text == "answer to /secret-path")
        let asked = upstream.asked.with { $0 }
        #expect(asked.count == 1)
        #expect(asked.first?.hasPrefix("CONNECT \(Stage.host):443 HTTP/1.1\r\n") == true)
        #expect(
            asked.first?.contains("Proxy-Authorization: Basic \(Data("user:pa@ss".utf8).base64EncodedString())") == true
        )
        let seen = String(decoding: upstream.seen.with { $0 }, as: UTF8.self)
        #expect(!seen.isEmpty && !seen.contains("secret-path") && !seen.contains("hidden-value"))
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(line.object("pinning")?["verdict"] as? String == "pass")
        #expect(line.transactions.first?["remoteAddress"] as? String == "127.0.0.1:\(upstream.port)")
        #expect(!line.text.contains("pa@ss") && !line.text.contains("pa%40ss"))
    }

    @Test("a wrong pin is refused through it, and nothing is sent")
    func wrongPin() throws {
        let origin = try Self.origin()
        let upstream = try TunnelProxy(to: origin.port)
        let proxy = try ProxyUnderTest(settings("http://127.0.0.1:\(upstream.port)", pin: .unrelated(8)))
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "pin_mismatch")
        #expect(try origin.waitForClosed().map(\.applicationBytes) == [0])
        #expect(upstream.asked.with { $0.count } == 1)
    }

    @Test("a SOCKS proxy gets the name, and looks it up")
    func socks() throws {
        let origin = try Self.origin()
        let upstream = try TunnelProxy(to: origin.port, isSOCKS: true)
        let proxy = try ProxyUnderTest(settings("socks5h://127.0.0.1:\(upstream.port)"))
        #expect(try proxy.get("http://\(Stage.host)/").status == 200)
        #expect(upstream.asked.with { $0 } == ["\(Stage.host):443"])
        // Nothing but "no authentication" (RFC 1928): GSS-API would be negotiated in calls that block.
        #expect(upstream.greetings.with { $0 } == [[5, 1, 0]])
    }

    @Test("plain http, tunnels and upgrades use it; hosts with \"none\" do not")
    func otherWays() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            let first = connection.read()
            if String(decoding: first, as: UTF8.self).hasPrefix("GET") {
                try connection.respond("plain")
            } else {
                try connection.write(first)
                connection.readToEnd()
            }
        }
        let upstream = try TunnelProxy(to: origin.port)
        var settings = settings("http://127.0.0.1:\(upstream.port)")
        settings.members["defaults"] = ["connect": "tunnel"]
        settings.resolve("direct.example.com", to: origin.port)
        settings.hosts["direct.example.com"]?["upstreamProxy"] = "none"
        let proxy = try ProxyUnderTest(settings)
        #expect(try proxy.get("http://plain.example.com/").text == "plain")
        #expect(try proxy.get("http://direct.example.com/").text == "plain")
        let client = try proxy.connect()
        try client.send("CONNECT open.example.com:443 HTTP/1.1\r\nHost: open.example.com:443\r\n\r\n")
        #expect(try client.readResponseHead(to: "CONNECT").status == 200)
        let hello = ClientHelloBytes("open.example.com").bytes
        try client.send(hello)
        #expect(try client.receive(upTo: hello.count) == hello)
        #expect(
            upstream.asked.with { $0.map { $0.prefix { $0 != "\r\n" } } } == [
                "CONNECT plain.example.com:80 HTTP/1.1", "CONNECT open.example.com:443 HTTP/1.1",
            ]
        )
    }

    @Test("the credentials may stand in a file or in the environment")
    func credentials() throws {
        let origin = try Self.origin()
        let upstream = try TunnelProxy(to: origin.port)
        let url = "http://127.0.0.1:\(upstream.port)"
        var fromFile = settings(["url": url, "credentialsFile": "proxy.secret"])
        fromFile.files["proxy.secret"] = "file:s3cret\n"
        let first = try ProxyUnderTest(fromFile)
        #expect(try first.get("http://\(Stage.host)/").status == 200)
        let second = try ProxyUnderTest(
            settings(["url": url, "credentialsEnvironment": "TEST_UPSTREAM_CREDENTIALS"]),
            environment: ["TEST_UPSTREAM_CREDENTIALS": "variable:s3cret"]
        )
        #expect(try second.get("http://\(Stage.host)/").status == 200)
        let expected = ["file:s3cret", "variable:s3cret"].map { "Basic \(Data($0.utf8).base64EncodedString())\r\n" }
        let asked = upstream.asked.with { $0 }
        #expect(asked.count == 2)
        for (head, credentials) in zip(asked, expected) { #expect(head.contains(credentials)) }
    }

    @Test("a refusal is a 502 that says so", arguments: [407, 403, 503])
    func refusal(status: Int) throws {
        let origin = try Self.origin()
        let upstream = try TunnelProxy(
            to: origin.port,
            response: "HTTP/1.1 \(status) No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n"
        )
        let proxy = try ProxyUnderTest(settings("http://user:s3cret@127.0.0.1:\(upstream.port)"))
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "proxy_refused")
        #expect(response.text.contains("proxy") && response.text.contains("\(status)"))
        #expect(response.text.contains("credentials") == (status == 407))
        #expect(!response.text.contains("s3cret"))
        #expect(origin.connections.isEmpty)
    }

    @Test("a refusal ends with its head: its body is not read")
    func endlessRefusal() throws {
        let origin = try ScriptedOrigin(nil) { request in OriginResponse.text("answer to \(request.target)") }
        let upstream = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequestHead()
            try connection.write(
                "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 90000000000\r\n\r\n"
            )
            while true { try connection.write([UInt8](repeating: 0x78, count: 16 << 10)) }
        }
        var settings = settings("http://127.0.0.1:\(upstream.port)")
        settings.members["workers"] = 1
        settings.resolve("direct.example.com", to: origin.port)
        settings.hosts["direct.example.com"]?["upstreamProxy"] = "none"
        let proxy = try ProxyUnderTest(settings)
        let refused = try proxy.connect()
        try refused.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/"))
        try upstream.wait(for: "the begin of the body") { $0.first.map { $0.bytesWritten > 100 } == true ? true : nil }
        #expect(try proxy.get("http://direct.example.com/x").text == "answer to /x")
        let response = try refused.readResponse()
        #expect(response.status == 502 && response.problemCode == "proxy_refused" && response.text.contains("407"))
        _ = try upstream.waitForClosed()
    }

    @Test("the address rules cover names behind it, and the proxy's own")
    func addressRules() throws {
        let origin = try Self.origin()
        let upstream = try TunnelProxy(to: origin.port)
        let byName = try ProxyUnderTest(settings("http://localhost:\(upstream.port)"))
        let denied = try byName.get("http://\(Stage.host)/")
        #expect(denied.status == 403 && denied.problemCode == "address_denied")
        #expect(denied.text.contains("proxy"))
        let byAddress = try ProxyUnderTest(settings("http://127.0.0.1:\(upstream.port)"))
        let literal = try byAddress.get("http://169.254.169.254/latest/meta-data")
        #expect(literal.status == 403 && literal.problemCode == "address_denied")
        #expect(upstream.asked.with { $0.isEmpty })
    }

    @Test("a missing proxy is a 502")
    func absent() throws {
        let (held, port) = try TestSocket.reserveRefusingPort()
        defer { close(held) }
        let response = try ProxyUnderTest(settings("http://127.0.0.1:\(port)")).get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "connect_failed")
    }
}
