// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Trailers both ways", .onOwnThreads)
struct TrailerTests {
    private static func upload(_ trailers: String, fields: [String] = []) -> String {
        let head = ProxyUnderTest.request(
            "POST",
            "http://\(Stage.host)/",
            fields: ["Transfer-Encoding: chunked"] + fields
        )
        return "\(head)4\r\nbody\r\n0\r\n\(trailers)\r\n"
    }

    @Test("rule 43: trailers of a request pass, except those of framing and routing")
    func request() throws {
        let stage = try Stage { request in
            OriginResponse.text(request.trailers.map { "\($0.name): \($0.value)" }.joined(separator: "; "))
        }
        let client = try stage.proxy.connect()
        let trailers = """
            X-Sum: 1\r
            Content-Length: 5\r
            Host: other.example\r
            Authorization: Basic x\r
            Proxy-Authorization: Basic y\r
            Transfer-Encoding: chunked\r
            X-Sum: 2\r

            """
        try client.send(Self.upload(trailers, fields: ["Trailer: X-Sum"]))
        #expect(try client.readResponse(to: "POST").text == "X-Sum: 1; X-Sum: 2")
        let request = try #require(stage.origin.requests.first)
        #expect(request["Trailer"] == "X-Sum")
        #expect(request["X-Sum"] == nil)
        #expect(request.text == "body")
        // And those after it have none.
        for _ in 0..<3 {
            try client.send(Self.upload(""))
            #expect(try client.readResponse(to: "POST").text == "")
        }
        #expect(stage.origin.connections.count == 1)
    }

    @Test("rule 44: TE: trailers is written anew, other codings are not")
    func transferEncodings() throws {
        let stage = try Stage { OriginResponse.text("\($0["TE"] ?? "none") \($0["Connection"] ?? "none")") }
        for (field, expected) in [
            ("TE: trailers", "trailers TE"), ("TE: gzip, trailers;q=0.5", "trailers TE"), ("TE: gzip", "none none"),
            ("X: 1", "none none"),
        ] {
            #expect(try stage.get(fields: [field]).text == expected, "\(field)")
        }
    }

    @Test("trailers of an HTTP/2 response follow its last chunk")
    func http2Response() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(200, stream: request.stream)
                try script.body("body", stream: request.stream, ends: false)
                // A head without :status: HEADERS with END_STREAM (RFC 9113, section 8.1).
                let field: [UInt8] = [0x00, 5] + Array("x-sum".utf8) + [1] + Array("1".utf8)
                try script.send(.headers, flags: 5, stream: request.stream, field)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        let proxy = try ProxyUnderTest(settings)
        for _ in 0..<2 {
            let response = try proxy.get("http://\(Stage.host)/", fields: ["TE: trailers"])
            #expect(response.text == "body")
            #expect(response.trailers.map { "\($0.name): \($0.value)" } == ["x-sum: 1"])
        }
    }
}
