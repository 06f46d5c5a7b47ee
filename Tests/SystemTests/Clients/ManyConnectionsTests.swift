// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Many client connections", .serialized, .earlyOnOwnThreads)
struct ManyConnectionsTests {
    @Test("each of 2,000 simultaneous connections gets its response")
    func twoThousand() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        // The last ones wait long for a connection where a sanitizer makes each handshake slow.
        settings.setTimeouts(["connect": "60s"])
        let proxy = try ProxyUnderTest(settings)
        let clients = try (0..<2000).map { _ in try proxy.connect() }
        for (number, client) in clients.enumerated() {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/echo/\(number)"))
        }
        var lost = 0
        for (number, client) in clients.enumerated() {
            let response = try? client.readResponse()
            if response?.status != 200 || response?.text != "GET /echo/\(number)\n" { lost += 1 }
        }
        #expect(lost == 0)
        // And all of them live on.
        for (number, client) in clients.enumerated() {
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/echo/again/\(number)"))
        }
        for (number, client) in clients.enumerated() {
            let response = try? client.readResponse()
            if response?.status != 200 || response?.text != "GET /echo/again/\(number)\n" { lost += 1 }
        }
        #expect(lost == 0)
        #expect(try proxy.waitForTaskLines(4000).count == 4000)
        for client in clients { client.close() }
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test("a connection beyond limits.connections gets 503 until another closes")
    func limit() throws {
        let stage = try Stage(
            { $0.members["limits"] = ["connections": 2] },
            responding: { OriginResponse.text($0.target) }
        )
        let first = try stage.proxy.connect()
        let second = try stage.proxy.connect()
        for client in [first, second] {
            try client.send(ProxyUnderTest.request("GET", stage.url("/a")))
            #expect(try client.readResponse().text == "/a")
        }
        let third = try stage.proxy.connect()
        let refusal = try third.readResponse()
        #expect(refusal.status == 503)
        #expect(refusal.problemCode == "limit_reached")
        #expect(refusal["Proxy-Status"]?.contains("error=connection_limit_reached") == true)
        #expect(refusal["Connection"] == "close")
        #expect(try third.isAtEnd())
        first.close()
        try Patience.poll(for: "room for another connection") {
            let client = try stage.proxy.connect()
            try client.send(ProxyUnderTest.request("GET", stage.url("/b")))
            return try client.readResponse().status == 200 ? true : nil
        }
        try second.send(ProxyUnderTest.request("GET", stage.url("/c")))
        #expect(try second.readResponse().text == "/c")
    }
}
