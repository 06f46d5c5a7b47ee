// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Obsolete line folding (RFC 9112, section 5.2) without a field to fold: a parser that joins the line to the last field it
/// knows may join it to one of the response before, which is freed (curl #11101).
@Suite("Responses whose first field begins with a blank", .onOwnThreads)
struct FoldedFieldTests {
    /// Freed memory is overwritten, so that a use of a freed pointer always ends the program.
    private static let environment = ["MALLOC_PERTURB_": "165", "MALLOC_ARENA_MAX": "1"]
    private static let rounds = 20
    private static let long = String(repeating: "A", count: 4000)

    /// Asks by turns for answers that are in order and for others, each after one on the same connection.
    private func ask(_ proxy: ProxyUnderTest, _ url: String, expecting isRefused: Bool) throws {
        for round in 0..<Self.rounds {
            let good = try proxy.get("\(url)good")
            try #require(good.status == 200 && good.text == "hi", "round \(round): \(good.startLine) \(good.text)")
            let other = try proxy.get("\(url)other")
            try #require(other.status == (isRefused ? 502 : 200), "round \(round): \(other.startLine) \(other.text)")
            if isRefused {
                #expect(other.problemCode == "response_invalid")
                #expect(other.text.contains("response-folded-field"), "\(other.text)")
            }
        }
        #expect(try proxy.terminate().exitCode == 0)
    }

    private static func script(_ response: String) -> ScriptedOrigin.Script {
        { connection in
            while let request = try connection.readRequest() {
                guard request.target.hasSuffix("other") else {
                    try connection.respond("hi", fields: ["X-One: 1", "X-Two: 2", "X-Three: 3"])
                    continue
                }
                try connection.write(response)
            }
        }
    }

    /// The blank, and what stands around it.
    private static let heads: [@Sendable (String) -> String] = [
        { "HTTP/1.1 200 OK\r\n\($0)X: \(long)\r\nContent-Length: 2\r\n\r\nhi" },
        { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\($0)X: \(long)\r\nContent-Length: 2\r\n\r\nhi" },
        { "HTTP/1.1 103 Early Hints\r\n\($0)X: \(long)\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" },
        { "HTTP/1.0 200 OK\r\n\($0)X: a\r\nContent-Length: 2\r\n\r\nhi" },
    ]

    @Test(
        "a folded first field is refused, from pinned and plain origins",
        arguments: [true, false],
        heads.indices
    )
    func origin(isPinned: Bool, head: Int) throws {
        for blank in [" ", "\t", ""] {
            let script = Self.script(Self.heads[head](blank))
            func setUp(_ settings: inout ProxySettings) { settings.members["workers"] = 1 }
            if isPinned {
                let stage = try Stage(setUp, environment: Self.environment, script: script)
                try ask(stage.proxy, stage.url(), expecting: !blank.isEmpty)
            } else {
                let origin = try ScriptedOrigin(nil, script: script)
                var settings = ProxySettings(trusting: Stage.pki)
                setUp(&settings)
                settings.resolve("plain.example.com", to: origin.port)
                let proxy = try ProxyUnderTest(settings, environment: Self.environment)
                try ask(proxy, "http://plain.example.com/", expecting: !blank.isEmpty)
            }
        }
    }

    @Test("a folded first field of a proxy's response to CONNECT is refused")
    func upstreamProxy() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server) { OriginResponse.text($0.target) }
        let upstream = try TunnelProxy(to: origin.port, response: "HTTP/1.1 200 OK\r\n X: \(Self.long)\r\n\r\n")
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["workers"] = 1
        settings.pin(Stage.host, to: server.pin)
        settings.members["upstreamProxy"] = "http://127.0.0.1:\(upstream.port)"
        let proxy = try ProxyUnderTest(settings, environment: Self.environment)
        for _ in 0..<Self.rounds {
            let response = try proxy.get("http://\(Stage.host)/")
            try #require(response.problemCode == "proxy_refused", "\(response.startLine) \(response.text)")
        }
        #expect(upstream.asked.with { $0.count } == Self.rounds)
        #expect(try proxy.terminate().exitCode == 0)
    }
}
