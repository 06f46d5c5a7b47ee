// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("OPTIONS * and empty ports", .onOwnThreads)
struct ServerOptionsTests {
    private func stage(_ change: (inout ProxySettings) -> Void = { $0.addGateway(to: Stage.host) }) throws -> Stage {
        try Stage(
            change,
            responding: { OriginResponse.text("\($0.method) \($0.target) \($0["Host"] ?? "")", fields: ["Allow: GET"]) }
        )
    }

    @Test("a gateway forwards OPTIONS * unchanged, and logs the origin")
    func gateway() throws {
        let stage = try stage()
        let response = try stage.proxy.exchange(
            "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
            method: "OPTIONS",
            on: 1
        )
        #expect(response.status == 200 && response.text == "OPTIONS * \(Stage.host)")
        #expect(response["Allow"] == "GET")
        #expect(try stage.proxy.waitForTaskLines(1)[0].string("url") == "https://\(Stage.host)")
        // Under another name it is refused as any request.
        let other = "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        #expect(try stage.proxy.exchange(other, method: "OPTIONS", on: 1).status == 421)
        // The last hop answers itself (RFC 9110, section 7.6.2).
        let last = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: 0\r\n\r\n"
        let own = try stage.proxy.exchange(last, method: "OPTIONS", on: 1)
        #expect(own.status == 200 && own["Allow"]?.contains("OPTIONS") == true)
        #expect(stage.origin.requests.count == 1)
    }

    @Test("a gateway forwards OPTIONS * over HTTP/2")
    func gatewayHTTP2() throws {
        let stage = try stage(HTTP2ClientTests.takeHTTP2)
        let peer = try HTTP2Peer(stage.proxy.connect(to: 1))
        let response = try peer.finish(peer.request("OPTIONS", "*", authority: "localhost:\(stage.proxy.port(of: 1))"))
        #expect(response.status == 200 && response.text == "OPTIONS * \(Stage.host)")
    }

    @Test("a forward listener responds to OPTIONS * itself, or asks a named server")
    func forward() throws {
        let stage = try stage()
        let client = try stage.proxy.connect()
        try client.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let response = try client.readResponse(to: "OPTIONS")
        #expect(response.status == 200 && response.body.isEmpty)
        #expect(response["Allow"]?.contains("OPTIONS") == true && response["Connection"] == nil)
        #expect(stage.origin.connections.isEmpty)
        try client.send("OPTIONS http://\(Stage.host) HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n")
        #expect(try client.readResponse(to: "OPTIONS").text == "OPTIONS * \(Stage.host)")
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines.map { $0.string("url") } == ["*", "https://\(Stage.host)"])
        #expect(lines.map { $0.integer("status") } == [200, 200])
    }

    @Test("a client without access to a forward listener gets no OPTIONS response")
    func forwardAuthentication() throws {
        let stage = try stage { settings in
            settings.files["tokens"] = "ci:\(String(repeating: "ab", count: 32))\n"
            settings.listeners[0]["authentication"] = ["bearer": ["file": "tokens"]]
        }
        let request = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"
        #expect(try stage.proxy.exchange(request, method: "OPTIONS").status == 407)
    }

    @Test("an empty port is the scheme's default", arguments: ["", ":"])
    func emptyPort(port: String) throws {
        let stage = try stage()
        for authority in ["\(Stage.host)\(port)", "\(Stage.host):80"] {
            let response = try stage.proxy.exchange(
                "GET http://\(Stage.host):/x HTTP/1.1\r\nHost: \(authority)\r\n\r\n"
            )
            #expect(response.text == "GET /x \(Stage.host)", "\(response.startLine) \(response.text)")
        }
        let gateway = try stage.proxy.exchange("GET /x HTTP/1.1\r\nHost: localhost\(port)\r\n\r\n", on: 1)
        #expect(gateway.text == "GET /x \(Stage.host)")
        let connect = try stage.proxy.exchange("CONNECT a.example: HTTP/1.1\r\nHost: a.example\r\n\r\n")
        #expect(connect.status == 400)
    }
}
