// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@Suite("Unreachable and slow origins", .onOwnThreads)
struct UnreachableOriginTests {
    private func response(_ url: String, _ change: (inout ProxySettings) -> Void = { _ in }) throws -> HTTPMessage {
        var settings = ProxySettings(trusting: Stage.pki)
        change(&settings)
        let proxy = try ProxyUnderTest(settings)
        return try proxy.get(url)
    }

    @Test("rule 56: a host without an address gives 502 dns_failed")
    func unknownHost() throws {
        // No name server is asked for these names (RFC 7686).
        let response = try response("http://no-such-host.onion/")
        #expect(response.status == 502)
        #expect(response.problemCode == "dns_failed")
        #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=dns_error") == true)
    }

    @Test("rule 56: a refused connection gives 502 connect_failed")
    func refused() throws {
        let held = try TestSocket.reserveRefusingPort()
        defer { close(held.descriptor) }
        let response = try response("https://\(Stage.host)/") { $0.resolve(Stage.host, to: held.port) }
        #expect(response.status == 502)
        #expect(response.problemCode == "connect_failed")
        #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=connection_refused") == true)
    }

    @Test(
        "rule 56: a denied address gives 403, literal or resolved",
        arguments: ["localhost", "127.0.0.1", "127.0.0.2", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0"]
    )
    func deniedAddress(host: String) throws {
        let plain = try ScriptedOrigin(nil) { _ in }
        let response = try response("http://\(host):\(plain.port)/")
        #expect(response.status == 403)
        #expect(response.problemCode == "address_denied")
        #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=destination_ip_prohibited") == true)
        #expect(plain.connections.isEmpty)
    }

    @Test("own listeners are denied even where loopback is allowed")
    func ownListener() throws {
        let plain = try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil { try connection.respond("plain") }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["access"] = ["denyAddresses": [String]()]
        let proxy = try ProxyUnderTest(settings)
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let own = try proxy.get("http://\(host):\(proxy.port)/")
            #expect(own.status == 403, "\(host)")
            #expect(own.problemCode == "address_denied")
            #expect((own.problem["detail"] as? String)?.contains("own listeners") == true)
        }
        #expect(try proxy.get("http://127.0.0.1:\(plain.port)/").text == "plain")
    }

    @Test("the address of a host's resolve is open to that host alone")
    func resolveExemption() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        #expect(try stage.get("/x").text == "/x")
        #expect(try stage.proxy.get("http://127.0.0.1:\(stage.origin.port)/").problemCode == "address_denied")
        #expect(try stage.proxy.get("http://localhost:\(stage.origin.port)/").problemCode == "address_denied")
    }

    @Test("a silent origin gives 504 connect_timeout")
    func connectTimeout() throws {
        // The kernel completes the connection and no program accepts it, so the handshake waits for ever.
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        let response = try response("https://\(Stage.host)/") {
            $0.resolve(Stage.host, to: silent.port)
            $0.setTimeouts(["connect": "200ms"])
        }
        #expect(response.status == 504)
        #expect(response.problemCode == "connect_timeout")
        #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=connection_timeout") == true)
    }

    @Test("rule 56: an origin that does not respond gives 504 response_timeout", arguments: ["firstByte", "total"])
    func responseTimeout(name: String) throws {
        let stage = try Stage({ $0.setTimeouts([name: "300ms"]) }) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let response = try stage.get()
        #expect(response.status == 504)
        #expect(response.problemCode == "response_timeout")
        #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=http_response_timeout") == true)
        try stage.origin.waitForClosed()
    }

    @Test("a response that stalls is cut after timeouts.stall")
    func stalledResponse() throws {
        let stage = try Stage({ $0.setTimeouts(["stall": "300ms"]) }) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            connection.readToEnd()
        }
        let response = try stage.get()
        #expect(response.isTruncated)
        try stage.origin.waitForClosed()
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "stalled")
    }

    @Test("rule 37: a request body that stalls gives 408")
    func stalledUpload() throws {
        let stage = try Stage({ $0.setTimeouts(["stall": "300ms"]) }) { OriginResponse.text("\($0.body.count)") }
        let client = try stage.proxy.connect()
        try client.send("PUT \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: 100\r\n\r\nhalf")
        let response = try client.readResponse(to: "PUT")
        #expect(response.status == 408)
        #expect(response.problemCode == "request_timeout")
        #expect(try client.isAtEnd())
    }

    @Test("rule 37: an incomplete head gives 408")
    func slowHead() throws {
        let stage = try Stage({ $0.setTimeouts(["head": "300ms"]) }) { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send("GET \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\n")
        let response = try client.readResponse()
        #expect(response.status == 408)
        #expect(response.problemCode == "request_timeout")
        #expect(response["Connection"] == "close")
        #expect(try client.isAtEnd())
    }

    @Test("an unpinned host is reached over plain HTTP as requested")
    func plainHTTP() throws {
        let plain = try ScriptedOrigin(nil) { connection in
            while let request = try connection.readRequest() {
                try connection.respond("plain \(request["Host"] ?? "")")
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.resolve("plain.example.com", to: plain.port)
        let proxy = try ProxyUnderTest(settings)
        let response = try proxy.get("http://plain.example.com/")
        #expect(response.text == "plain plain.example.com")
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(line.string("url") == "http://plain.example.com/")
        #expect(line["pinning"] == nil)
        #expect(line.transactions.first?["tlsVersion"] == nil)
    }
}
