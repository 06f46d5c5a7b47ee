// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Streaming in pieces", .onOwnThreads)
struct LiveStreamTests {
    /// How the origin sends events: nothing of that may make the client wait.
    enum Framing: String, CaseIterable {
        case chunked, untilClose, http2
    }

    @Test("server-sent events reach the client each before the next is sent", arguments: Framing.allCases)
    func events(framing: Framing) throws {
        let gates = (0..<5).map { _ in Gate() }
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: framing == .http2 ? ["h2"] : []) { connection in
            if framing == .http2 {
                let script = try HTTP2Script(connection)
                guard let request = try script.nextRequest() else { return }
                try script.head(200, fields: [("content-type", "text/event-stream")], stream: request.stream)
                for (number, gate) in gates.enumerated() {
                    try gate.pass()
                    try script.body("data: \(number)\n\n", stream: request.stream, ends: number == 4)
                }
                connection.readToEnd()
                return
            }
            guard try connection.readRequest() != nil else { return }
            let coding = framing == .chunked ? "Transfer-Encoding: chunked\r\n" : ""
            try connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\(coding)\r\n")
            for (number, gate) in gates.enumerated() {
                try gate.pass()
                let event = "data: \(number)\n\n"
                try connection.write(framing == .chunked ? "9\r\n\(event)\r\n" : event)
            }
            if framing == .chunked { try connection.write("0\r\n\r\n") }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        if framing == .http2 { settings.hosts[Stage.host]?["httpVersion"] = "2" }
        let proxy = try ProxyUnderTest(settings)
        let client = try proxy.connect()
        try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/events"))
        #expect(try client.readResponseHead()["Content-Type"] == "text/event-stream")
        for (number, gate) in gates.enumerated() {
            gate.open()
            var text = ""
            while !text.contains("data: \(number)\n\n") {
                let bytes = try client.receive()
                try #require(!bytes.isEmpty, "the stream ended before event \(number)")
                text += String(decoding: bytes, as: UTF8.self)
            }
        }
    }

    @Test("each piece of an upload reaches the origin before the next", arguments: [true, false])
    func upload(hasLength: Bool) throws {
        let stage = try Stage { connection in
            guard let head = try connection.readRequestHead() else { return }
            let whole = try connection.readBody(of: head)
            try connection.respond(whole.text)
        }
        let client = try stage.proxy.connect()
        let framing = hasLength ? "Content-Length: 15" : "Transfer-Encoding: chunked"
        try client.send("PUT \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\n\(framing)\r\n\r\n")
        try stage.origin.wait(for: "the head") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        for number in 0..<5 {
            let before = stage.origin.applicationBytes
            let piece = "<\(number)>"
            try client.send(hasLength ? piece : "3\r\n\(piece)\r\n")
            try stage.origin.wait(for: "piece \(number)") { records in
                records.reduce(0) { $0 + $1.applicationBytes } >= before + 3 ? true : nil
            }
        }
        if !hasLength { try client.send("0\r\n\r\n") }
        #expect(try client.readResponse(to: "PUT").text == "<0><1><2><3><4>")
    }

    @Test("a client and an origin that speak at once hear each other")
    func bothWays() throws {
        let stage = try Stage { connection in
            guard try connection.readRequestHead() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            // Each chunk of the request is answered with one.
            for _ in 0..<3 {
                let seen = connection.read()
                guard !seen.isEmpty else { return }
                try connection.write("4\r\npong\r\n")
            }
            try connection.write("0\r\n\r\n")
            connection.readToEnd()
        }
        let client = try stage.proxy.connect()
        try client.send("POST \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nTransfer-Encoding: chunked\r\n\r\n")
        #expect(try client.readResponseHead(to: "POST").status == 200)
        for _ in 0..<3 {
            try client.send("4\r\nping\r\n")
            var text = ""
            while !text.contains("pong") {
                let bytes = try client.receive()
                try #require(!bytes.isEmpty)
                text += String(decoding: bytes, as: UTF8.self)
            }
        }
    }
}
