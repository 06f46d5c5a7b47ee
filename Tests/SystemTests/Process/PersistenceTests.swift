// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Connections of clients", .onOwnThreads)
struct PersistenceTests {
    @Test("rule 51: pipelined requests get responses in order")
    func pipelined() throws {
        let stage = try Stage { OriginResponse.text("answer to \($0.target) with \($0.text)") }
        let client = try stage.proxy.connect()
        var all = ""
        for number in 0..<50 {
            let isPost = number % 3 == 0
            all += ProxyUnderTest.request(
                isPost ? "POST" : "GET",
                stage.url("/\(number)"),
                body: isPost ? "body \(number)" : nil
            )
        }
        try client.send(all)
        for number in 0..<50 {
            let response = try client.readResponse()
            let body = number % 3 == 0 ? "body \(number)" : ""
            #expect(response.text == "answer to /\(number) with \(body)")
        }
    }

    @Test("rule 3: requests byte by byte, behind an empty line, are served")
    func byteByByte() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        for byte in Array(("\r\n" + ProxyUnderTest.request("GET", stage.url("/slow"))).utf8) { try client.send([byte]) }
        #expect(try client.readResponse().text == "/slow")
    }

    @Test("an HTTP/1.0 client gets its response and the connection's end")
    func version10() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send("GET \(stage.url("/old")) HTTP/1.0\r\n\r\n")
        let response = try client.readResponse()
        #expect(response.text == "/old")
        #expect(response["Connection"] == "close")
        #expect(try client.isAtEnd())
        #expect(stage.origin.requests.first?.startLine == "GET /old HTTP/1.1")
    }

    @Test("an HTTP/1.0 client that asks for it keeps its connection")
    func version10KeepAlive() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        for path in ["/1", "/2"] {
            try client.send("GET \(stage.url(path)) HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            let response = try client.readResponse()
            #expect(response.text == path)
            #expect(response["Connection"]?.lowercased() == "keep-alive")
        }
    }

    @Test("Connection: close is honoured")
    func close() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/last"), fields: ["Connection: close"]))
        let response = try client.readResponse()
        #expect(response.text == "/last")
        #expect(response["Connection"] == "close")
        #expect(try client.isAtEnd())
    }

    @Test("an origin that closes after its response leaves the client's connection open")
    func originCloses() throws {
        let stage = try Stage { connection in
            guard let request = try connection.readRequest() else { return }
            try connection.respond(request.target, fields: ["Connection: close", "Keep-Alive: timeout=1"])
        }
        let client = try stage.proxy.connect()
        for path in ["/1", "/2", "/3"] {
            try client.send(ProxyUnderTest.request("GET", stage.url(path)))
            let response = try client.readResponse()
            #expect(response.text == path)
            #expect(response["Connection"] == nil)
            #expect(response["Keep-Alive"] == nil)
        }
        #expect(stage.origin.connections.count == 3)
    }

    @Test("a connection to the origin is kept and used again")
    func reuse() throws {
        let stage = try Stage({ $0.members["workers"] = 1 }) { OriginResponse.text($0.target) }
        for number in 0..<5 { #expect(try stage.get("/\(number)").text == "/\(number)") }
        #expect(stage.origin.connections.count == 1)
        let lines = try stage.proxy.waitForTaskLines(5)
        #expect(lines.map { $0.transactions.first?["reusedConnection"] as? Bool } == [false, true, true, true, true])
    }

    @Test("an idle connection is closed after timeouts.idle")
    func idle() throws {
        let stage = try Stage({ $0.setTimeouts(["idle": "200ms", "head": "200ms"]) }) { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        _ = try client.readResponse()
        #expect(try client.isAtEnd())
        // One that never says anything, too.
        #expect(try stage.proxy.connect().isAtEnd())
    }
}
