// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Fields of responses over HTTP/2", .onOwnThreads)
struct HTTP2ResponseFieldTests {
    /// A host of HTTP/2 whose responses have these fields.
    private func stage(_ fields: [(String, String)], trailers: [(String, String)] = []) throws -> (
        ProxyUnderTest, ScriptedOrigin
    ) {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let http2 = try HTTP2Script(connection)
            while let request = try http2.nextRequest() {
                try http2.head(200, fields: fields, stream: request.stream)
                try http2.body("hello", stream: request.stream, ends: trailers.isEmpty)
                guard !trailers.isEmpty else { continue }
                // HEADERS with END_STREAM and END_HEADERS, literals without indexing.
                let block = trailers.flatMap { name, value -> [UInt8] in
                    [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
                }
                try http2.send(.headers, flags: 5, stream: request.stream, block)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        settings.members["workers"] = 1
        return (try ProxyUnderTest(settings), origin)
    }

    @Test("values of HTTP/2 lose the white space around them, as in HTTP/1.1")
    func blanksOfHTTP2() throws {
        let (proxy, origin) = try stage(
            [("x-a", "  b c \t"), ("x-d", " "), ("content_length", "9"), ("content-length", "5")],
            trailers: [("x-sum", " 1 ")]
        )
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 200 && response.text == "hello", "\(response.text)")
        #expect(response["x-a"] == "b c" && response["x-d"] == "" && response["content_length"] == nil)
        #expect(try proxy.get("http://\(Stage.host)/").text == "hello")
        #expect(origin.connections.count == 1)
    }

    @Test(
        "a field that HTTP/2 forbids is refused by name and rule",
        arguments: [
            ("connection", "close", "response-connection-field"),
            ("transfer-encoding", "chunked", "response-connection-field"),
            ("te", "gzip", "response-connection-field"), ("X-Upper", "b", "response-upper-case-name"),
            ("x-null", "a\u{0}b", "response-field-value"), ("x-feed", "a\nb", "response-field-value"),
            ("x bad", "b", "response-field-name"), (":unknown", "b", "response-pseudo-field"),
            (":status", "200", "response-pseudo-field"), ("content-length", "+5", "response-content-length"),
        ]
    )
    func refusedByHTTP2(name: String, value: String, rule: String) throws {
        let (proxy, origin) = try stage([("x-secret", "hidden"), (name, value)])
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "response_invalid", "\(response.text)")
        #expect(
            response.text.contains("(rule \(rule), field \\\"\(name.replacing(" ", with: "?"))\\\")"),
            "\(response.text)"
        )
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(line.string("errorDetails")?.contains("rule \(rule)") == true)
        #expect(origin.connections.count == 1)
    }
}
