// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Origins that send informational responses without end", .onOwnThreads)
struct InformationalFloodTests {
    private static let hint = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    private static let flood = String(repeating: hint, count: 5000)

    private static func plays(_ text: String) -> ScriptedOrigin.Script {
        { connection in
            _ = try connection.readRequestHead()
            try connection.write(text)
            connection.readToEnd()
        }
    }

    @Test("the client gets 16 of them, then 502, also for an Upgrade", arguments: [false, true])
    func flood(isUpgrade: Bool) throws {
        let stage = try Stage(script: Self.plays(Self.flood))
        let fields = isUpgrade ? ["Connection: Upgrade", "Upgrade: websocket"] : []
        let response = try stage.get(fields: fields)
        #expect(response.status == 502 && response.problemCode == "response_invalid")
        #expect(response.text.contains("informational responses without end"))
        #expect(response.interim.count == 16)
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "response_invalid")
    }

    @Test("a response behind 20 of them is whole, as is a switch", arguments: [false, true])
    func some(isUpgrade: Bool) throws {
        let hints = String(repeating: Self.hint, count: 20)
        let final =
            isUpgrade
            ? "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            : OriginResponse.text("whole")
        let stage = try Stage(script: Self.plays(hints + final))
        let client = try stage.proxy.connect()
        let fields = isUpgrade ? ["Connection: Upgrade", "Upgrade: websocket"] : []
        try client.send(ProxyUnderTest.request("GET", stage.url(), fields: fields))
        let head = try client.readResponseHead()
        #expect(head.status == (isUpgrade ? 101 : 200) && head.interim.count == 16)
    }

    @Test("an HTTP/2 client of an HTTP/2 origin gets 16 of them, then 502")
    func http2() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            for _ in 0..<3000 { try script.head(103, fields: [("link", "</a>")], stream: request.stream) }
            connection.readToEnd()
        }
        let stage = try Stage({ settings in
            HTTP2ClientTests.takeHTTP2(&settings)
            settings.serve(Stage.host, server, at: origin.port)
            settings.hosts[Stage.host]?["httpVersion"] = "2"
        }) { _ in OriginResponse.text("not asked") }
        let peer = try HTTP2Peer(stage.proxy.connect())
        let stream = try peer.finish(peer.request(authority: Stage.host))
        #expect(stream.statuses == Array(repeating: 103, count: 16) + [502])
    }

    @Test("a background refresh ends, too")
    func refresh() throws {
        let asked = Monitor(0)
        let stage = try CacheFixture { connection in
            while try connection.readRequest() != nil {
                let number = asked.with { count in
                    count += 1
                    return count
                }
                guard number > 1 else {
                    try connection.respond(
                        "stored",
                        fields: ["Cache-Control: max-age=0, stale-while-revalidate=600", "Content-Type: text/plain"]
                    )
                    continue
                }
                try connection.write(Self.flood)
                connection.readToEnd()
            }
        }
        #expect(try stage.get().text == "stored")
        #expect(try stage.get().text == "stored")
        let lines = try stage.proxy.waitForTaskLines(3)
        #expect(lines.contains { $0.string("error") == "response_invalid" })
    }
}
