// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Upgrade to another protocol", .onOwnThreads)
struct UpgradeTests {
    private static let offer = [
        "Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]
    private static let switching =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nX-Origin: here\r\n\r\n"

    private func request(_ stage: Stage, _ path: String = "/chat", fields: [String] = offer) -> String {
        ProxyUnderTest.request("GET", stage.url(path), fields: fields)
    }

    /// An origin that switches, and sends back what comes then.
    private static func echo(_ connection: OriginConnection) throws {
        _ = try connection.readRequestHead()
        try connection.write(switching)
        while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
    }

    @Test("the request reaches the pinned origin, and bytes follow 101 both ways")
    func relayed() throws {
        let stage = try Stage(script: Self.echo)
        let client = try stage.proxy.connect()
        try client.send(request(stage, fields: Self.offer + ["X-Own: 1", "Keep-Alive: timeout=5", "TE: gzip"]))
        let response = try client.readResponseHead()
        #expect(response.status == 101)
        #expect(response["Connection"] == "Upgrade" && response["Upgrade"] == "WebSocket")
        #expect(response["X-Origin"] == "here" && response["Via"] != nil)
        #expect(response["Content-Length"] == nil && response["Transfer-Encoding"] == nil)
        // As much as fits into the buffers on the way.
        let data = patternBytes(100_000)
        try client.send(data)
        client.finishSending()
        #expect(try firstDifference(client.readToEnd(), data) == nil)
        let seen = try #require(stage.origin.requests.first)
        #expect(seen.target == "/chat" && seen["Host"] == Stage.host)
        #expect(seen["Connection"] == "Upgrade" && seen["Upgrade"] == "websocket")
        #expect(seen["Sec-WebSocket-Key"] == "dGhlIHNhbXBsZSBub25jZQ==" && seen["X-Own"] == "1")
        #expect(seen["Keep-Alive"] == nil && seen["TE"] == nil && seen["Via"] != nil)
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.integer("status") == 101)
        #expect(line.string("url") == "https://\(Stage.host)/chat")
        #expect(line.string("error") == nil, "\(line.text)")
        #expect(line.integer("bytesSent") == data.count && line.integer("bytesReceived") == data.count)
        #expect(line.object("pinning")?["verdict"] as? String == "pass")
        #expect(line.transactions.first?["status"] as? Int == 101)
        #expect(line.transactions.first?["responseStart"] != nil)
    }

    @Test("a gateway's client can upgrade, too")
    func gateway() throws {
        let stage = try Stage({ $0.addGateway(to: Stage.host) }, script: Self.echo)
        let client = try stage.proxy.connect(to: 1)
        try client.send("GET /chat HTTP/1.1\r\nHost: localhost\r\n\(Self.offer.joined(separator: "\r\n"))\r\n\r\n")
        #expect(try client.readResponseHead().status == 101)
        try client.send("ping")
        client.finishSending()
        #expect(try client.readToEnd() == Array("ping".utf8))
    }

    @Test("a wrong pin is a 502, and the origin gets nothing")
    func wrongPin() throws {
        let stage = try Stage({ $0.pin(Stage.host, to: .unrelated(9)) }, script: Self.echo)
        let response = try stage.proxy.exchange(request(stage))
        #expect(response.status == 502 && response.problemCode == "pin_mismatch")
        #expect(try stage.origin.waitForClosed().map(\.applicationBytes) == [0])
    }

    @Test("early bytes of origin and client are delivered")
    func early() throws {
        let gate = Gate()
        let stage = try Stage { connection in
            _ = try connection.readRequestHead()
            try gate.pass()
            try connection.write(Self.switching + "first words")
            try connection.write(connection.read())
        }
        let client = try stage.proxy.connect()
        try client.send(request(stage) + "eager")
        try stage.origin.wait(for: "the request") { $0.first?.requests.isEmpty == false ? true : nil }
        #expect(stage.origin.applicationBytes < 600)
        gate.open()
        #expect(try client.readResponseHead().status == 101)
        client.finishSending()
        #expect(try client.readToEnd() == Array("first wordseager".utf8))
    }

    @Test(
        "a response other than 101 is ordinary, and the connection closes",
        arguments: [
            "HTTP/1.1 426 Upgrade Required\r\nUpgrade: other\r\nConnection: upgrade\r\nContent-Length: 4\r\n\r\nsome",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nso\r\n2\r\nme\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nsome",
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nsome",
        ]
    )
    func declined(response: String) throws {
        let stage = try Stage { connection in
            _ = try connection.readRequestHead()
            for byte in response.utf8 { try connection.write([byte]) }
        }
        let client = try stage.proxy.connect()
        try client.send(request(stage))
        let head = try client.readResponse()
        #expect(head.text == "some")
        #expect(head["Connection"] == "close" && head["Upgrade"] == nil)
        #expect(head.interim.map(\.status) == (response.contains("103") ? [103] : []))
        #expect(try client.isAtEnd())
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == nil, "\(line.text)")
        #expect(line.integer("bytesReceived") == 4)
    }

    @Test(
        "an invalid response, or a switch to another protocol, is a 502",
        arguments: [
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "220 smtp\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n",
        ]
    )
    func badResponse(response: String) throws {
        let stage = try Stage { connection in
            _ = try connection.readRequestHead()
            try connection.write(response)
            connection.readToEnd()
        }
        let response = try stage.proxy.exchange(request(stage))
        #expect(response.status == 502 && response.problemCode == "response_invalid")
    }

    @Test("a response that breaks off breaks off for the client")
    func truncated() throws {
        let stage = try Stage { connection in
            _ = try connection.readRequestHead()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        }
        let client = try stage.proxy.connect()
        try client.send(request(stage))
        #expect(try client.readResponseHead().status == 200)
        _ = try? client.readToEnd()
        #expect(try stage.proxy.waitForTaskLines(1).first?.string("error") == "response_truncated")
    }

    @Test(
        "without the token, with a body, or to h2c it is ordinary",
        arguments: [
            ["Upgrade: websocket"], ["Connection: upgrade"], ["Connection: Upgrade", "Upgrade: h2c"],
            ["Connection: Upgrade", "Upgrade: websocket", "Content-Length: 2"],
            ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c, TLS/1.3", "HTTP2-Settings: AAMAAABk"],
        ]
    )
    func ignored(fields: [String]) throws {
        let stage = try Stage { request in
            OriginResponse.text("\(request["Upgrade"] ?? "none") \(request["HTTP2-Settings"] ?? "none")")
        }
        let body = fields.contains("Content-Length: 2") ? "ab" : ""
        let client = try stage.proxy.connect()
        try client.send(request(stage, fields: fields) + body)
        #expect(try client.readResponse().text == "none none")
        // It is kept, as after any request.
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        #expect(try client.readResponse().status == 200)
    }

    @Test("of several protocols those of this hop are left out")
    func several() throws {
        let stage = try Stage { request in OriginResponse.text(request["Upgrade"] ?? "none") }
        let response = try stage.proxy.exchange(
            request(stage, fields: ["Connection: Upgrade", "Upgrade: h2c, WebSocket", "Upgrade: foo/2"])
        )
        #expect(response.text == "WebSocket, foo/2")
    }

    @Test("the host's rules for fields and responses hold in every case")
    func rules() throws {
        let stage = try Stage({ settings in
            settings.hosts[Stage.host]?["headers"] = [
                "request": ["set": ["X-Given": "by the configuration"]], "response": ["remove": ["X-Origin"]],
            ]
            settings.hosts[Stage.host]?["responses"] = ["rules": [["contentType": "text/html", "then": "cancel"]]]
            settings.hosts[Stage.host]?["redirects"] = ["policy": "deny"]
        }) { connection in
            let request = try connection.readRequestHead()
            switch request?.target {
            case "/page": try connection.respond("<p>", fields: ["Content-Type: text/html"])
            case "/moved": try connection.respond("", status: "302 Found", fields: ["Location: https://\(Stage.host)/"])
            case "/plain": try connection.respond("plain", fields: ["Content-Type: text/plain", "X-Origin: here"])
            default: try connection.write(Self.switching)
            }
        }
        let switched = try stage.proxy.connect()
        try switched.send(request(stage))
        let response = try switched.readResponseHead()
        #expect(response.status == 101 && response["X-Origin"] == nil)
        let plain = try stage.proxy.exchange(request(stage, "/plain"))
        #expect(plain.status == 200 && plain.text == "plain" && plain["X-Origin"] == nil)
        #expect(try stage.proxy.exchange(request(stage, "/page")).problemCode == "response_denied")
        #expect(try stage.proxy.exchange(request(stage, "/moved")).problemCode == "redirect_denied")
        #expect(stage.origin.requests.allSatisfy { $0["X-Given"] == "by the configuration" })
    }

    @Test("a missing response after timeouts.firstByte is a 504")
    func silence() throws {
        let stage = try Stage({ $0.setTimeouts(["firstByte": "200ms"]) }, script: { $0.readToEnd() })
        let response = try stage.proxy.exchange(request(stage))
        #expect(response.status == 504 && response.problemCode == "response_timeout")
    }

    @Test("a silent connection ends after timeouts.stall, not with a reload")
    func stall() throws {
        let stage = try Stage({ $0.setTimeouts(["stall": "400ms"]) }, script: Self.echo)
        let client = try stage.proxy.connect()
        try client.send(request(stage))
        #expect(try client.readResponseHead().status == 101)
        try stage.reload { $0.setTimeouts(["stall": "5m"]) }
        try client.send("on")
        #expect(try client.receive() == Array("on".utf8))
        #expect(throws: TestSocket.Failure.self) { _ = try client.readToEnd() }
        #expect(try stage.proxy.waitForTaskLines(1).first?.string("error") == "stalled")
    }

    @Test("an origin that cuts TLS is a reset to the client")
    func ends() throws {
        for isClean in [true, false] {
            let stage = try Stage { connection in
                _ = try connection.readRequestHead()
                try connection.write(Self.switching + "bye")
                connection.close(isClean ? .clean : .cut)
            }
            let client = try stage.proxy.connect()
            try client.send(request(stage))
            #expect(try client.readResponseHead().status == 101)
            if isClean {
                #expect(try client.readToEnd() == Array("bye".utf8))
                client.close()
            } else {
                #expect(throws: TestSocket.Failure.self) { _ = try client.readToEnd() }
            }
            let line = try stage.proxy.waitForTaskLines(1).first
            #expect(line?.string("error") == (isClean ? nil : "response_truncated"))
        }
    }

    @Test("a stop gives a WebSocket the time of the drain")
    func drain() throws {
        let stage = try Stage({ $0.setTimeouts(["drain": "400ms"]) }, script: Self.echo)
        let client = try stage.proxy.connect()
        try client.send(request(stage))
        #expect(try client.readResponseHead().status == 101)
        stage.proxy.signal(SIGTERM)
        try Patience.poll(for: "the listener to close") { (try? stage.proxy.connect()) == nil ? true : nil }
        try client.send("on")
        #expect(try client.receive() == Array("on".utf8))
        #expect(try stage.proxy.waitForExit().exitCode == 0)
        #expect(stage.proxy.taskLines.map { $0.string("error") } == ["cancelled"])
    }

    @Test("Python's WebSocket client and server talk through a gateway")
    func webSocket() throws {
        let folder = try TemporaryFolder()
        let server = try Stage.pki.server(Stage.host)
        let files = try server.write(to: folder, name: "server")
        let script = try folder.write(
            """
            import asyncio, ssl, sys
            import websockets

            async def echo(socket):
                async for message in socket:
                    await socket.send(message)

            async def serve():
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(sys.argv[2], sys.argv[3])
                async with websockets.serve(echo, "127.0.0.1", 0, ssl=context, max_size=None) as server:
                    print("port", server.sockets[0].getsockname()[1], flush=True)
                    await asyncio.Future()

            async def talk():
                url = "ws://127.0.0.1:%s/chat" % sys.argv[2]
                async with websockets.connect(url, max_size=None, compression=None) as socket:
                    for message in ["a", "b" * 70000, b"c" * 3000000]:
                        await socket.send(message)
                        assert await socket.recv() == message
                    await (await socket.ping())
                print("closed", socket.close_code)

            asyncio.run(serve() if sys.argv[1] == "serve" else talk())
            """,
            as: "websocket.py"
        )
        let process = try ChildProcess(
            "/usr/bin/python3",
            [script, "serve", files.certificate, files.key],
            folder: folder.path
        )
        let port = try process.waitForOutput("the server's port") { output in
            output.split(separator: "\n").first { $0.hasPrefix("port ") }?.split(separator: " ").last.flatMap {
                UInt16($0)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: port)
        settings.addGateway(to: Stage.host)
        let proxy = try ProxyUnderTest(settings)
        let finished = try Programs.run(
            "/usr/bin/python3",
            [script, "talk", "\(proxy.port(of: 1))"],
            environment: Programs.environment,
            seconds: 60
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output == "closed 1000\n")
        let line = try #require(try proxy.waitForTaskLines(1).first)
        #expect(line.integer("status") == 101)
        #expect(line.string("error") == nil, "\(line.text)")
        #expect(line.object("pinning")?["verdict"] as? String == "pass")
    }
}
