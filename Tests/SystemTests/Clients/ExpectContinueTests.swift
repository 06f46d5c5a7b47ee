// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Clients that expect 100 (Continue)", .onOwnThreads)
struct ExpectContinueTests {
    private static let head =
        "POST http://\(Stage.host)/ HTTP/1.1\r\nHost: \(Stage.host)\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"

    @Test("rule 48: the body is sent after the origin's 100 (Continue), not before")
    func originContinues() throws {
        let gate = Gate()
        let stage = try Stage { connection in
            while let head = try connection.readRequestHead() {
                if head["Expect"] != nil {
                    try gate.pass()
                    // Twice: the client is told once.
                    try connection.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\nX: 1\r\n\r\n")
                }
                let whole = try connection.readBody(of: head)
                try connection.respond("\(head["Expect"] ?? "none") \(whole.text)")
            }
        }
        let client = try stage.proxy.connect()
        try client.send(Self.head)
        try stage.origin.wait(for: "the head") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        gate.open()
        #expect(String(decoding: try client.receive(), as: UTF8.self) == "HTTP/1.1 100 Continue\r\n\r\n")
        try client.send("body")
        let response = try client.readResponse(to: "POST")
        #expect(response.interim.isEmpty)
        #expect(response.text == "100-continue body")
        try client.send(ProxyUnderTest.request("POST", stage.url(), body: "next"))
        #expect(try client.readResponse(to: "POST").text == "none next")
    }

    @Test("rule 48: the origin's final response is relayed, and no body is sent", arguments: [417, 401, 200])
    func originDeclines(status: Int) throws {
        let stage = try Stage { connection in
            guard let head = try connection.readRequestHead(), head["Expect"] != nil else { return }
            try connection.respond("no body, please", status: "\(status) Final", fields: [])
            connection.readToEnd()
        }
        let client = try stage.proxy.connect()
        try client.send(Self.head)
        let response = try client.readResponse(to: "POST")
        #expect(response.interim.isEmpty)
        #expect(response.status == status)
        #expect(response.text == "no body, please")
        // Body bytes that arrive now could not be told from a request.
        #expect(response["Connection"] == "close")
        #expect(try client.isAtEnd())
        // Once: a 417 is not a reason to send the request again without `Expect`.
        #expect(stage.origin.requests.count == 1)
        #expect(stage.origin.requests.allSatisfy { $0.body.isEmpty })
    }

    @Test("a client that does not wait is served")
    func impatient() throws {
        let stage = try Stage { OriginResponse.text("got \($0.text)") }
        let response = try stage.proxy.exchange(Self.head + "body", method: "POST")
        #expect(response.interim.isEmpty)
        #expect(response.text == "got body")
    }

    @Test("an expectation of HTTP/1.0 is ignored and not forwarded")
    func version10() throws {
        let stage = try Stage { OriginResponse.text("\($0["Expect"] ?? "none") \($0.text)") }
        let head = Self.head.replacing("HTTP/1.1", with: "HTTP/1.0")
        #expect(try stage.proxy.exchange(head + "body", method: "POST").text == "none body")
    }

    @Test("rule 48: with HTTP/2 the 100 follows the server's evaluation")
    func http2() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, http2: true)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        let proxy = try ProxyUnderTest(settings)
        let client = try proxy.connect()
        try client.send(Self.head.replacing("POST http://\(Stage.host)/", with: "PUT http://\(Stage.host)/files/put"))
        #expect(String(decoding: try client.receive(), as: UTF8.self) == "HTTP/1.1 100 Continue\r\n\r\n")
        try client.send("body")
        #expect(try client.readResponse(to: "PUT").status == 201)
        #expect(try origin.file("put") == Array("body".utf8))
    }

    @Test("curl's own Expect sends a large body after nginx's 100 (Continue)")
    func curl() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        let proxy = try ProxyUnderTest(settings)
        let body = patternBytes(3 << 20)
        let file = try proxy.folder.write(bytes: body, as: "upload")
        let curl = try Programs.run(
            "curl",
            [
                "-sS", "-v", "-x", "http://127.0.0.1:\(proxy.port)", "--expect100-timeout", "30", "-T", file,
                "http://\(Stage.host)/files/curl",
            ]
        )
        #expect(curl.errors.contains("< HTTP/1.1 100 Continue"), "\(curl.errors)")
        let isIntact = try origin.file("curl") == body
        #expect(isIntact)
    }

    @Test("a client that expects 100 of a refused host sends no body")
    func refusedHost() throws {
        let stage = try Stage({ $0.pin(Stage.host, to: .unrelated(2)) }) { OriginResponse.text("got \($0.text)") }
        let response = try stage.proxy.exchange(Self.head, method: "POST")
        #expect(response.interim.isEmpty)
        #expect(response.problemCode == "pin_mismatch")
    }
}
