// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Limits of the heads of responses", .onOwnThreads)
struct ResponseHeadLimitTests {
    enum Version: CaseIterable { case http1, http2 }

    /// The fields of the origin's answer: so many, each with a value of so many bytes.
    private struct Response {
        var count = 0
        var bytes = 0

        var fields: [(String, String)] {
            let value = String(repeating: "v", count: bytes)
            return (0..<count).map { ("x-\($0)", value) }
        }
    }

    private struct Way {
        let proxy: ProxyUnderTest
        let origin: ScriptedOrigin
        let response: Monitor<Response>

        func get(_ count: Int, _ bytes: Int, fields: [String] = []) throws -> HTTPMessage {
            response.with { $0 = Response(count: count, bytes: bytes) }
            return try proxy.get("http://\(Stage.host)/", fields: fields)
        }
    }

    private func way(_ version: Version, _ change: (inout ProxySettings) -> Void = { _ in }) throws -> Way {
        let server = try Stage.pki.server(Stage.host)
        let response = Monitor(Response())
        let origin = try ScriptedOrigin(server, protocols: version == .http2 ? ["h2"] : []) { connection in
            guard version == .http2 else {
                while try connection.readRequest() != nil {
                    try connection.respond("body", fields: response.with { $0.fields.map { "\($0.0): \($0.1)" } })
                }
                return
            }
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(200, fields: response.with { $0.fields }, stream: request.stream)
                try script.body("body", stream: request.stream)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["workers"] = 1
        if version == .http2 { settings.hosts[Stage.host]?["httpVersion"] = "2" }
        change(&settings)
        return Way(proxy: try ProxyUnderTest(settings), origin: origin, response: response)
    }

    @Test("a head within the limits passes whole", arguments: Version.allCases)
    func within(version: Version) throws {
        let way = try way(version)
        for (count, bytes) in [(3, 60_000), (400, 500), (490, 1)] {
            let response = try way.get(count, bytes)
            #expect(response.status == 200 && response.text == "body", "\(response.startLine) \(response.text)")
            #expect((0..<count).allSatisfy { response["x-\($0)"]?.utf8.count == bytes })
        }
        #expect(way.origin.connections.count == 1)
    }

    @Test(
        "a longer head is refused with its limit, and the connection stays",
        arguments: Version.allCases
    )
    func beyond(version: Version) throws {
        let way = try way(version)
        for (count, bytes, limit) in [
            (5, 60_000, "limits.responseHeadBytes"), (480, 600, "limits.responseHeadBytes"),
            (501, 1, "limits.responseHeadFields"),
        ] {
            let response = try way.get(count, bytes)
            #expect(response.status == 502, "\(count) \(bytes): \(response.startLine)")
            #expect(response.problemCode == "response_invalid")
            #expect(response.text.contains(limit), "\(response.text)")
            #expect(try way.get(1, 1).status == 200)
        }
    }

    @Test("the configuration's limits replace the defaults", arguments: Version.allCases)
    func configured(version: Version) throws {
        let strict = try way(version) {
            $0.members["limits"] = ["responseHeadBytes": "4KB", "responseHeadFields": 10]
        }
        #expect(try strict.get(9, 300).status == 200)
        #expect(try strict.get(9, 500).text.contains("limits.responseHeadBytes"))
        #expect(try strict.get(11, 1).text.contains("limits.responseHeadFields"))
        let wide = try way(version) {
            $0.members["limits"] = ["responseHeadBytes": "2MB", "responseHeadFields": 2000]
        }
        #expect(try wide.get(1500, 1000).status == 200)
        #expect(try wide.get(2001, 1).text.contains("limits.responseHeadFields"))
    }

    @Test("the limits cover the response to an offer to upgrade")
    func upgrade() throws {
        let way = try way(.http1) {
            $0.members["limits"] = ["responseHeadBytes": "128KB", "responseHeadFields": 10]
        }
        let offer = ["Connection: Upgrade", "Upgrade: websocket"]
        #expect(try way.get(1, 100000, fields: offer).status == 200)
        #expect(try way.get(1, 200000, fields: offer).text.contains("limits.responseHeadBytes"))
        #expect(try way.get(11, 1, fields: offer).text.contains("limits.responseHeadFields"))
    }

    @Test("a client of HTTP/2 gets a head of more than 64 KB")
    func http2Client() throws {
        let way = try way(.http1, HTTP2ClientTests.takeHTTP2)
        way.response.with { $0 = Response(count: 4, bytes: 40_000) }
        let peer = try HTTP2Peer(way.proxy.connect())
        let response = try peer.finish(peer.request(authority: Stage.host))
        #expect(response.status == 200 && response.text == "body")
        #expect(response.head["x-3"]?.utf8.count == 40_000)
    }
}
