// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("CONNECT makes a tunnel to an unpinned host", .onOwnThreads)
struct TunnelTests {
    fileprivate static let host = "open.example.com"

    /// A proxy that tunnels to an origin, to which every connection of the host goes.
    private struct TunnelStage {
        let origin: ScriptedOrigin
        let proxy: ProxyUnderTest

        init(
            _ change: (inout ProxySettings) -> Void = { _ in },
            server: TestServer? = nil,
            script: @escaping ScriptedOrigin.Script = { connection in
                while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
            }
        ) throws {
            origin = try ScriptedOrigin(server, script: script)
            var settings = ProxySettings(trusting: Stage.pki)
            settings.resolve(TunnelTests.host, to: origin.port)
            settings.members["defaults"] = ["connect": "tunnel"]
            change(&settings)
            proxy = try ProxyUnderTest(settings)
        }

        /// A client whose CONNECT has been answered with 200.
        func tunnel(receiveBuffer: Int32? = nil) throws -> TestClient {
            let client = try TestClient(port: proxy.port, receiveBuffer: receiveBuffer)
            try client.send(TunnelTests.connect())
            let response = try client.readResponseHead(to: "CONNECT")
            #expect(response.status == 200)
            #expect(response["Content-Length"] == nil && response["Transfer-Encoding"] == nil)
            return client
        }

        func line() throws -> LogLine { try #require(try proxy.waitForTaskLines(1).first) }
    }

    fileprivate static func connect(_ authority: String = "\(host):443") -> String {
        "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n\r\n"
    }

    private static let hello = ClientHelloBytes(host).bytes

    @Test("with traces and ids the response to a CONNECT is a whole head")
    func identity() throws {
        let stage = try TunnelStage({ settings in
            settings.members["tracing"] = ["sample": 1]
            settings.members["requestID"] = ["field": "X-Request-Id"]
        })
        let client = try stage.proxy.connect()
        try client.send(Self.connect())
        let response = try client.readResponseHead(to: "CONNECT")
        #expect(response.status == 200 && response.fields.map(\.name).sorted() == ["Date", "X-Request-Id"])
        client.close()
        #expect(try stage.line().string("requestId") == response["X-Request-Id"])
    }

    @Test("curl gets an HTTPS page through it, and verifies the certificate itself")
    func curl() throws {
        let server = try Stage.pki.server(Self.host)
        let stage = try TunnelStage(server: server) { connection in
            while let request = try connection.readRequest() { try connection.respond("tunnelled \(request.target)") }
        }
        let folder = try TemporaryFolder()
        let anchors = try folder.write(Stage.pki.root.certificate.pem, as: "root.pem")
        let finished = try Programs.run(
            try Programs.path(of: "curl"),
            [
                "-sS", "--noproxy", "", "--proxy", "http://127.0.0.1:\(stage.proxy.port)", "--cacert", anchors,
                "https://\(Self.host)/page",
            ],
            environment: Programs.environment,
            seconds: 60
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output == "tunnelled /page")
        let line = try stage.line()
        #expect(line.string("method") == "CONNECT")
        #expect(line.string("url") == "\(Self.host):443")
        #expect(line.integer("status") == 200)
        // curl does not wait for the origin's last words, and its close is a reset when they come all the same.
        #expect([nil, "client_closed"].contains(line.string("error")), "\(line.text)")
        #expect(line.object("pinning") == nil)
        #expect(try #require(line.integer("bytesSent")) > 300)
        #expect(try #require(line.integer("bytesReceived")) > 500)
        #expect(line.transactions.first?["remoteAddress"] as? String == "127.0.0.1:\(stage.origin.port)")
    }

    @Test("bytes pass unchanged both ways, and each side ends separately")
    func bytes() throws {
        let data = patternBytes(3 << 20)
        let stage = try TunnelStage(script: { connection in
            var received: [UInt8] = []
            while case let bytes = connection.read(), !bytes.isEmpty { received += bytes }
            try connection.write(received)
        })
        let client = try stage.tunnel()
        try client.send(Self.hello)
        try client.send(data)
        client.finishSending()
        #expect(try client.readToEnd() == Self.hello + data)
        let line = try stage.line()
        #expect(line.integer("bytesSent") == Self.hello.count + data.count)
        #expect(line.integer("bytesReceived") == Self.hello.count + data.count)
        #expect(line.string("error") == nil, "\(line.text)")
    }

    @Test("a slow client stops the origin and loses nothing")
    func slowClient() throws {
        // More than the kernel takes on both sides of the proxy.
        let data = patternBytes(48 << 20)
        let stage = try TunnelStage(script: { connection in
            _ = connection.read()
            try connection.write(data)
            connection.finishWriting()
            connection.readToEnd()
        })
        let client = try stage.tunnel(receiveBuffer: 16 << 10)
        try client.send(Self.hello)
        let written = try stage.origin.wait(for: "the origin to be held back") { records in
            records.first.flatMap { $0.bytesWritten > 0 ? $0.bytesWritten : nil }
        }
        #expect(written < data.count)
        #expect(try firstDifference(client.readToEnd(), data) == nil)
        // The client has not ended: what it still sends goes on.
        try client.send("last words")
        client.finishSending()
        #expect(try stage.origin.waitForClosed().first?.applicationBytes == Self.hello.count + 10)
        #expect(try stage.line().string("error") == nil)
    }

    @Test("a hello in many pieces and records passes unchanged")
    func pieces() throws {
        var hello = ClientHelloBytes(Self.host)
        hello.recordSize = 9
        let stage = try TunnelStage()
        let client = try stage.tunnel()
        for byte in hello.bytes { try client.send([byte]) }
        client.finishSending()
        #expect(try client.readToEnd() == hello.bytes)
    }

    @Test("early bytes of the client pass before its response")
    func eager() throws {
        let stage = try TunnelStage()
        let client = try stage.proxy.connect()
        try client.send(Array(Self.connect().utf8) + Self.hello)
        #expect(try client.readResponseHead(to: "CONNECT").status == 200)
        client.finishSending()
        #expect(try client.readToEnd() == Self.hello)
    }

    // MARK: Refusals behind the 200

    @Test(
        "bytes that are no hello for the tunnel's host stay back",
        arguments: [
            (ClientHelloBytes("pinned.example.com").bytes, "asks for pinned.example.com", [21, 3, 3, 0, 2, 2, 112]),
            (ClientHelloBytes().bytes, "names no server", [21, 3, 3, 0, 2, 2, 109]),
            (Array("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n".utf8), "not TLS", []),
            ([22, 3, 1, 0, 4, 2, 0, 0, 0], "broken", [21, 3, 3, 0, 2, 2, 50]),
        ] as [([UInt8], String, [UInt8])]
    )
    func refusedHello(bytes: [UInt8], reason: String, alert: [UInt8]) throws {
        let stage = try TunnelStage()
        let client = try stage.tunnel()
        try client.send(bytes)
        #expect(try client.readToEnd() == alert)
        #expect(try stage.origin.waitForClosed().map(\.applicationBytes) == [0])
        let line = try stage.line()
        #expect(line.integer("status") == 200)
        #expect(line.string("error") == "connect_denied")
        #expect(line.string("errorDetails")?.contains(reason) == true, "\(line.text)")
        #expect(line.integer("bytesSent") == 0)
    }

    @Test("a silent client times out after timeouts.head")
    func silence() throws {
        let stage = try TunnelStage { $0.members["defaults"] = ["connect": "tunnel", "timeouts": ["head": "200ms"]] }
        let client = try stage.tunnel()
        try client.send([22])
        #expect(try client.isAtEnd())
        #expect(try stage.origin.waitForClosed().map(\.applicationBytes) == [0])
        #expect(try stage.line().string("errorDetails")?.contains("timeouts.head") == true)
    }

    @Test("a silent tunnel ends after timeouts.stall")
    func stall() throws {
        let stage = try TunnelStage { $0.members["defaults"] = ["connect": "tunnel", "timeouts": ["stall": "200ms"]] }
        let client = try stage.tunnel()
        try client.send(Self.hello)
        #expect(try client.receive(upTo: Self.hello.count) == Self.hello)
        #expect(throws: TestSocket.Failure.self) { _ = try client.readToEnd() }
        #expect(try stage.line().string("error") == "stalled")
    }

    // MARK: Refusals in place of the 200

    @Test(
        "a denied tunnel gets 403 with the remedy, and the connection stays",
        arguments: [
            ("pinned.example.com:443", "connect_denied", "never"),
            ("sub.pinned.example.com:443", "connect_denied", "absolute form"),
            ("192.0.2.7:443", "connect_denied", "A pin file names 192.0.2.7"),
            ("\(host):8443", "connect_denied", "access.connectPorts"),
            ("denied.example.com:443", "connect_denied", "absolute form"),
            ("forbidden.example.com:443", "host_denied", "access.denyHosts"),
            ("127.0.0.1:443", "address_denied", "loopback"),
            ("[::1]:443", "address_denied", "loopback"),
        ]
    )
    func refusedHead(authority: String, code: String, remedy: String) throws {
        let stage = try TunnelStage { settings in
            settings.pin("pinned.example.com", to: .unrelated(5), with: ["includeSubdomains": true])
            settings.pin("192.0.2.7", to: .unrelated(5), with: ["enforcePinning": false])
            settings.hosts["denied.example.com"] = ["connect": "deny"]
            settings.members["access"] = ["denyHosts": ["forbidden.example.com"]]
        }
        let client = try stage.proxy.connect()
        for _ in 0..<2 {
            try client.send(Self.connect(authority))
            let response = try client.readResponse(to: "CONNECT")
            #expect(response.status == 403)
            #expect(response.problemCode == code)
            #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=") == true)
            if remedy != "never" { #expect(response.text.contains(remedy), "\(response.text)") }
        }
        // The same connection makes a tunnel afterwards.
        try client.send(Self.connect())
        #expect(try client.readResponseHead(to: "CONNECT").status == 200)
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines.allSatisfy { $0.string("error") == code && $0.string("method") == "CONNECT" })
        #expect(lines.first?.string("url") == authority)
    }

    @Test("bytes behind a refused CONNECT are no request: the connection closes")
    func refusedEager() throws {
        let stage = try TunnelStage()
        let client = try stage.proxy.connect()
        try client.send(
            Self.connect("\(Self.host):22") + "GET http://\(Self.host)/smuggled HTTP/1.1\r\nHost: \(Self.host)\r\n\r\n"
        )
        let response = try client.readResponse(to: "CONNECT")
        #expect(response.status == 403)
        #expect(response["Connection"] == "close")
        #expect(try client.isAtEnd())
        #expect(stage.origin.connections.isEmpty)
    }

    @Test("without \"connect\" every CONNECT is denied, with the alternatives")
    func deniedByDefault() throws {
        let stage = try TunnelStage { $0.members["defaults"] = nil }
        let response = try stage.proxy.exchange(Self.connect(), method: "CONNECT")
        #expect(response.status == 403 && response.problemCode == "connect_denied")
        #expect(response.text.contains("absolute form"))
    }

    @Test("with unpinnedHosts deny no host may be tunnelled")
    func unpinnedDenied() throws {
        let stage = try TunnelStage { $0.members["unpinnedHosts"] = "deny" }
        let response = try stage.proxy.exchange(Self.connect(), method: "CONNECT")
        #expect(response.status == 403 && response.problemCode == "unpinned_denied")
    }

    @Test("a gateway makes no tunnels")
    func gateway() throws {
        let stage = try TunnelStage { $0.addGateway(to: Self.host) }
        let response = try stage.proxy.exchange(Self.connect(), method: "CONNECT", on: 1)
        #expect(response.status == 403 && response.problemCode == "connect_denied")
    }

    @Test("a CONNECT with a body is refused")
    func withBody() throws {
        let stage = try TunnelStage()
        let authority = "\(Self.host):443"
        let response = try stage.proxy.exchange(
            "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\nContent-Length: 3\r\n\r\nabc",
            method: "CONNECT"
        )
        #expect(response.status == 400)
        #expect(stage.origin.connections.isEmpty)
    }

    @Test("an unreachable origin is a 502, and the connection stays")
    func unreachable() throws {
        let (held, port) = try TestSocket.reserveRefusingPort()
        defer { close(held) }
        let stage = try TunnelStage { $0.resolve("down.example.com", to: port) }
        let client = try stage.proxy.connect()
        for _ in 0..<2 {
            try client.send(Self.connect("down.example.com:443"))
            let response = try client.readResponse(to: "CONNECT")
            #expect(response.status == 502 && response.problemCode == "connect_failed")
        }
    }

    // MARK: Ends

    @Test("an origin's reset reaches the client behind its bytes")
    func originResets() throws {
        let stage = try TunnelStage(script: { connection in
            let hello = connection.read()
            try connection.write(hello)
            _ = connection.read()
            connection.close(.reset)
        })
        let client = try stage.tunnel()
        try client.send(Self.hello)
        #expect(try client.receive(upTo: Self.hello.count) == Self.hello)
        try client.send("x")
        #expect(throws: TestSocket.Failure.self) { _ = try client.readToEnd() }
        #expect(try stage.line().string("error") == "response_truncated")
    }

    @Test("a client's reset ends the origin's side at once")
    func clientResets() throws {
        let stage = try TunnelStage()
        let client = try stage.tunnel()
        try client.send(Self.hello)
        #expect(try client.receive(upTo: Self.hello.count) == Self.hello)
        client.reset()
        try stage.origin.waitForClosed()
        #expect(try stage.line().string("error") == "client_closed")
    }

    @Test("a stop gives a tunnel the time of the drain")
    func drain() throws {
        let stage = try TunnelStage { $0.members["defaults"] = ["connect": "tunnel", "timeouts": ["drain": "500ms"]] }
        let client = try stage.tunnel()
        try client.send(Self.hello)
        #expect(try client.receive(upTo: Self.hello.count) == Self.hello)
        stage.proxy.signal(SIGTERM)
        try Patience.poll(for: "the listener to close") { (try? stage.proxy.connect()) == nil ? true : nil }
        try client.send("still on")
        #expect(try client.receive(upTo: 8) == Array("still on".utf8))
        #expect(try stage.proxy.waitForExit().exitCode == 0)
        #expect(stage.proxy.taskLines.map { $0.string("error") } == ["cancelled"])
    }
}
