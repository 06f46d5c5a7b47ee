// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTP2Core
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

/// RFC 8441: which connection a WebSocket takes, and how its stream ends. What holds over both transports is in `WebSocketTests`.
@Suite("A WebSocket beside HTTP/2", .onOwnThreads)
struct WebSocketHTTP2Tests {
    private typealias Notes = WebSocketStage.Notes

    /// Opens a WebSocket that comes over HTTP/1.1, and returns its messages.
    private static func echoOverHTTP1(_ connection: OriginConnection, _ notes: Notes) throws {
        guard let request = try connection.readRequestHead() else { throw NoRequest() }
        notes.with { $0.append("connection") }
        var peer = try WebSocketPeer(connection, request)
        try peer.echo()
    }

    /// Opens the next WebSocket on a stream.
    private static func openStream(_ side: HTTP2ServerSide, _ notes: Notes) throws -> HTTP2ServerSide.Stream {
        guard let stream = try side.nextTunnel() else { throw NoRequest() }
        notes.with { $0.append("stream") }
        try side.respond(stream, 200)
        return stream
    }

    private func expectEcho(_ socket: WebSocketTask) async throws {
        try await socket.send(.string("a"))
        #expect(try await socket.receive() == .string("a"))
    }

    // MARK: Which connection

    @Test("without a kept connection a WebSocket goes over HTTP/1.1") func noConnection() async throws {
        let stage = try WebSocketStage(script: Self.echoOverHTTP1)
        let socket = try stage.manager.webSocketTask(with: WebSocketStage.url)
        try await socket.open()
        try await expectEcho(socket)
        #expect(stage.notes.with { $0 } == ["connection"])
        await stage.end()
    }

    @Test("without an announcement of the server a WebSocket goes over HTTP/1.1") func unannounced() async throws {
        let stage = try WebSocketStage { connection, notes in
            guard connection.number == 0 else { return try Self.echoOverHTTP1(connection, notes) }
            _ = try HTTP2ServerSide(connection, announces: false).nextTunnel()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        try await expectEcho(socket)
        #expect(stage.notes.with { $0 } == ["connection"])
        await stage.end()
    }

    @Test(
        "a stream that the server has not processed is replaced by HTTP/1.1",
        arguments: [HTTP2ErrorCode.refusedStream, .http11Required]
    )
    func refused(code: HTTP2ErrorCode) async throws {
        let stage = try WebSocketStage { connection, notes in
            guard connection.number == 0 else { return try Self.echoOverHTTP1(connection, notes) }
            let side = try HTTP2ServerSide(connection)
            side.refusal = code
            _ = try side.nextTunnel()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        try await expectEcho(socket)
        #expect(socket.response?.status == 101)
        #expect(stage.notes.with { $0 } == ["connection"])
        await stage.end()
    }

    @Test("WebSockets take half of the streams, and leave the others to requests") func half() async throws {
        let stage = try WebSocketStage { connection, notes in
            guard connection.number == 0 else { return try Self.echoOverHTTP1(connection, notes) }
            let side = try HTTP2ServerSide(connection, streamLimit: 4)
            _ = try Self.openStream(side, notes)
            _ = try Self.openStream(side, notes)
            while try side.readOn() {}
        }
        // All three in one turn, and a request beside them.
        let sockets = [
            try await stage.makeSocket(), try await stage.makeSocket(), try await stage.makeSocket(),
        ]
        for socket in sockets { socket.resume() }
        for socket in sockets { try await socket.open() }
        #expect(stage.notes.with { $0.sorted() } == ["connection", "stream", "stream"])
        try await stage.get("/beside")
        #expect(stage.origin.connections.count == 2)
        await stage.end()
    }

    @Test("a stream whose program takes nothing holds up no other request of the connection")
    func heldStream() async throws {
        let stage = try WebSocketStage { connection, _ in
            let side = try HTTP2ServerSide(connection)
            let stream = try Self.openStream(side, Notes([]))
            let peer = WebSocketPeer(over: StreamWire(side: side, stream: stream))
            // More than the windows of the stream and of the program.
            for _ in 0..<400 { try peer.send(WebSocketTestFrame(2, [UInt8](repeating: 7, count: 64 << 10))) }
            try peer.send(.close(1000))
            _ = try side.nextTunnel()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        for number in 0..<10 { try await stage.get("/\(number)") }
        #expect(stage.origin.connections.count == 1)
        var count = 0
        for try await message in socket.messages {
            if case .data(let bytes) = message { count += bytes.count }
        }
        #expect(count == 400 * (64 << 10))
        await stage.end()
    }

    @Test("a program that is late gets all messages of a stream that has ended")
    func lateProgram() async throws {
        let stage = try WebSocketStage { connection, notes in
            let side = try HTTP2ServerSide(connection)
            let stream = try Self.openStream(side, notes)
            let peer = WebSocketPeer(over: StreamWire(side: side, stream: stream))
            // More than wait for a program, in one DATA frame with the end.
            let messages = [WebSocketTestFrame](repeating: WebSocketTestFrame(2, [7]), count: 5000)
            try peer.send(messages + [.close(1000)])
            try side.end(stream)
            notes.with { $0.append("sent") }
            _ = try side.nextTunnel()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        try await eventually("the messages") { stage.notes.with { $0.contains("sent") } }
        // Its response comes behind them, on the same connection.
        try await stage.get("/behind")
        var count = 0
        for try await _ in socket.messages { count += 1 }
        #expect(count == 5000 && socket.closeCode == .normalClosure)
        #expect(stage.origin.connections.count == 1)
        await stage.end()
    }

    @Test("behind GOAWAY an open WebSocket goes on, and what follows gets another connection")
    func announcedEnd() async throws {
        let stage = try WebSocketStage { connection, notes in
            let side = try HTTP2ServerSide(connection)
            guard connection.number == 0 else {
                _ = try side.nextTunnel()
                return
            }
            let stream = try Self.openStream(side, notes)
            try side.announceEnd()
            var peer = WebSocketPeer(over: StreamWire(side: side, stream: stream))
            try peer.echo()
            try side.end(stream)
            while try side.readOn() {}
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        try await expectEcho(socket)
        try await stage.get("/next")
        #expect(stage.origin.connections.count == 2)
        try await expectEcho(socket)
        socket.cancel(with: .normalClosure)
        await socket.ended()
        #expect(socket.error == nil)
        await stage.end()
    }

    // MARK: The response

    @Test(
        "a response that opens nothing fails the task, which has its head",
        arguments: [(403, []), (204, []), (101, []), (200, [("sec-websocket-protocol", "other")])]
            as [(Int, [(String, String)])]
    )
    func declined(status: Int, fields: [(String, String)]) async throws {
        let stage = try WebSocketStage { connection, _ in
            let side = try HTTP2ServerSide(connection)
            guard let stream = try side.nextTunnel() else { throw NoRequest() }
            try side.respond(stream, status, fields, ends: status == 403)
            _ = try side.nextTunnel()
        }
        let socket = try await stage.makeSocket()
        await #expect { try await socket.open() } throws: { $0.sessionCode == .responseInvalid }
        await socket.ended()
        #expect(socket.response?.status == (status == 101 ? nil : status))
        try await stage.get("/after")
        #expect(stage.origin.connections.count == 1)
        await stage.end()
    }

    @Test("subprotocol and compression are agreed on as over HTTP/1.1") func agreement() async throws {
        let stage = try WebSocketStage(.http2) { opening in
            var peer = try opening.open([
                ("sec-websocket-protocol", "v1"), ("sec-websocket-extensions", "permessage-deflate"),
            ])
            try peer.echo()
        }
        var options = WebSocketOptions()
        options.compression = WebSocketCompression()
        let socket = try await stage.makeSocket(protocols: ["v2", "v1"], options: options)
        #expect(try await socket.open() == "v1")
        try await socket.send(.string(String(repeating: "a", count: 1000)))
        #expect(try await socket.receive() == .string(String(repeating: "a", count: 1000)))
        await stage.end()
    }

    @Test("the time to the response is limited, and a silent connection takes no more") func silence() async throws {
        let stage = try WebSocketStage { connection, notes in
            guard connection.number == 0 else { return try Self.echoOverHTTP1(connection, notes) }
            let side = try HTTP2ServerSide(connection)
            while let stream = try side.nextTunnel() {
                if stream.request[":path"] == "/feed" { try side.respond(stream, 200) }
            }
        }
        try await stage.get("/before")
        var silent = HTTPSessionRequest(url: "wss://\(ManagerStage.host)/silent")
        silent.timeouts = TaskTimeouts(firstByte: .milliseconds(100))
        var request = HTTPSessionRequest(url: WebSocketStage.url)
        request.timeouts = TaskTimeouts(stall: .milliseconds(1), total: .seconds(600))
        let socket = try stage.manager.webSocketTask(with: request)
        try await socket.open()
        let late = try stage.manager.webSocketTask(with: silent)
        await #expect { try await late.open() } throws: { $0.sessionCode == .responseTimeout }
        // One that is open rests for any time.
        #expect(socket.closeCode == .invalid && socket.error == nil)
        let next = try stage.manager.webSocketTask(with: WebSocketStage.url)
        try await next.open()
        #expect(next.response?.status == 101)
        await stage.end()
    }

    // MARK: The end

    /// Frame by frame, since the server of HTTP2Core would reset a stream that the client has not ended.
    @Test("END_STREAM of the server is met with the Close frame and END_STREAM") func properEnd() async throws {
        let frames = Monitor<[String]>([])
        let stage = try WebSocketStage { connection, _ in
            let script = try HTTP2Script(connection)
            // SETTINGS_ENABLE_CONNECT_PROTOCOL.
            try script.send(.settings, stream: 0, [0, 8, 0, 0, 0, 1])
            guard let get = try script.nextRequest() else { throw NoRequest() }
            try script.head(200, stream: get.stream)
            try script.body("at /before", stream: get.stream)
            guard let connect = try script.nextRequest() else { throw NoRequest() }
            frames.with { $0.append("head \(connect.endsStream)") }
            try script.head(200, stream: connect.stream)
            try script.send(
                .data,
                flags: 1,
                stream: connect.stream,
                WebSocketTestFrame.close(1000).bytes(isMasked: false)
            )
            var reader = WebSocketTestReader(expectsMask: true)
            while let frame = try script.next() {
                guard frame.kind == .data, frame.stream == connect.stream else {
                    frames.with { $0.append("\(frame.kind.map { "\($0)" } ?? "-") \(frame.stream)") }
                    break
                }
                reader.append(frame.payload)
                if let close = try reader.next() { frames.with { $0.append("close \(close.closeCode ?? 0)") } }
                guard !frame.endsStream else {
                    frames.with { $0.append("end") }
                    break
                }
            }
            // Another request on the same connection: no RST_STREAM is before it.
            guard let next = try script.next() else { throw NoRequest() }
            frames.with { $0.append("\(next.kind.map { "\($0)" } ?? "-") \(next.stream - connect.stream)") }
            try script.head(200, stream: next.stream)
            try script.body("at /after", stream: next.stream)
            _ = try script.next()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        await #expect(throws: SessionError.self) { try await socket.receive() }
        await socket.ended()
        #expect(socket.error == nil && socket.closeCode == .normalClosure)
        try await stage.get("/after")
        #expect(frames.with { $0 } == ["head false", "close 1000", "end", "headers 2"])
        await stage.end()
    }

    @Test("cancel resets the stream with CANCEL, and the connection goes on") func cancelled() async throws {
        let stage = try WebSocketStage { connection, notes in
            let side = try HTTP2ServerSide(connection)
            let stream = try Self.openStream(side, notes)
            while stream.ending == nil, try side.readOn() {}
            notes.with { $0.append("\(stream.ending?.name ?? "-")") }
            _ = try side.nextTunnel()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        socket.cancel()
        await socket.ended()
        #expect(socket.error?.code == .cancelled)
        try await stage.get("/after")
        try await eventually("the reset") { stage.notes.with { $0 == ["stream", "\(HTTP2ErrorCode.cancel.name)"] } }
        #expect(stage.origin.connections.count == 1)
        await stage.end()
    }

    @Test("a reset of the server fails the task, and the connection goes on") func resetByServer() async throws {
        let stage = try WebSocketStage { connection, notes in
            let side = try HTTP2ServerSide(connection)
            let stream = try Self.openStream(side, notes)
            try side.reset(stream, .cancel)
            _ = try side.nextTunnel()
        }
        let socket = try await stage.makeSocket()
        socket.resume()
        await #expect { try await socket.receive() } throws: { $0.sessionCode == .responseTruncated }
        await socket.ended()
        #expect(socket.error?.code == .responseTruncated && socket.closeCode == .abnormalClosure)
        try await stage.get("/after")
        #expect(stage.origin.connections.count == 1)
        await stage.end()
    }

    @Test("the connection's end fails the task, and no WebSocket is opened anew") func lost() async throws {
        let stage = try WebSocketStage { connection, notes in
            let side = try HTTP2ServerSide(connection)
            _ = try Self.openStream(side, notes)
        }
        let socket = try await stage.makeSocket()
        socket.resume()
        await #expect { try await socket.receive() } throws: { $0.sessionCode == .responseTruncated }
        #expect(stage.notes.with { $0 } == ["stream"])
        await stage.end()
    }

    // MARK: Another server

    /// With `PINPROXY_REQUIRE_CLIENTS=1`, which CI sets, a server that is missing fails the test.
    private static let runsHAProxy =
        (try? Programs.path(of: "haproxy")) != nil
        || ProcessInfo.processInfo.environment["PINPROXY_REQUIRE_CLIENTS"] == "1"

    @Test(
        "a WebSocket over HTTP/2 works through HAProxy with Python's websockets",
        .enabled(if: runsHAProxy),
        arguments: [true, false]
    )
    func beforePython(compresses: Bool) async throws {
        let folder = try TemporaryFolder()
        let program = try folder.write(Self.pythonServer, as: "server.py")
        // Debian's own Python has the package.
        let python = try ServerProgram("env") { port in
            ["/usr/bin/python3", program, "\(port)", compresses ? "deflate" : "none"]
        }
        let identity = try folder.write(
            ManagerStage.server.chainPEM + ManagerStage.server.privateKeyPEM,
            as: "identity.pem"
        )
        let server = try ServerProgram("haproxy") { port in
            [
                "-db", "-f",
                try folder.write(
                    """
                    defaults
                        mode http
                        timeout connect 30s
                        timeout client 60s
                        timeout server 60s
                        timeout tunnel 60s
                    frontend front
                        bind 127.0.0.1:\(port) ssl crt \(identity) alpn h2,http/1.1
                        default_backend back
                    backend back
                        server websockets 127.0.0.1:\(python.port)

                    """,
                    as: "haproxy.cfg"
                ),
            ]
        }
        var configuration = URLSessionManager.Configuration()
        configuration.httpVersion = .http2
        configuration.resolve[try Host(ManagerStage.host)] = (host: try Host("127.0.0.1"), port: server.port)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        trust.policies[try Host(ManagerStage.host)] = try .pinning(ManagerStage.server.pin)
        let manager = try URLSessionManager(configuration: configuration, serverTrust: trust)
        // It serves WebSockets alone, and says so.
        let request = HTTPSessionRequest(url: "https://\(ManagerStage.host)/")
        #expect(try await manager.dataTask(with: request).value().response.status == 426)
        var options = WebSocketOptions()
        options.compression = WebSocketCompression()
        options.maximumMessageSize = 2 << 20
        let socket = try manager.webSocketTask(with: WebSocketStage.url, protocols: ["echo"], options: options)
        #expect(try await socket.open() == "echo")
        #expect(socket.response?.status == 200 && socket.response?.majorVersion == 2)
        let extensions = socket.response?.fields.value(for: "Sec-WebSocket-Extensions")
        #expect((extensions?.hasPrefix("permessage-deflate") == true) == compresses)
        let text = String(repeating: "Größe und Wahrheit ", count: 60_000)
        for message in [.string(""), .string("a"), .string(text), .data([UInt8](text.utf8)), .string(text)]
            as [WebSocketTask.Message]
        {
            try await socket.send(message)
            #expect(try await socket.receive() == message)
        }
        try await socket.sendPing()
        // Several beside each other on the connection.
        let others = try (0..<5).map { _ in try manager.webSocketTask(with: WebSocketStage.url, protocols: ["echo"]) }
        for other in others { other.resume() }
        for (number, other) in others.enumerated() { try await other.send(.string("\(number)")) }
        for (number, other) in others.enumerated() {
            #expect(try await other.receive() == .string("\(number)"))
            #expect(other.response?.status == 200)
            other.cancel(with: .normalClosure)
        }
        for other in others {
            await other.ended()
            #expect(other.error == nil)
        }
        try await socket.send(.string("close 4321 over"))
        await #expect { try await socket.receive() } throws: { $0.sessionCode == .cancelled }
        #expect(socket.closeCode.rawValue == 4321 && socket.closeReason == "over")
        await socket.ended()
        #expect(socket.error == nil)
        await manager.invalidateSession(cancelingTasks: true)
    }

    private static let pythonServer = """
        import asyncio, sys, websockets

        async def echo(socket):
            async for message in socket:
                if isinstance(message, str) and message.startswith("close "):
                    _, code, reason = message.split()
                    return await socket.close(int(code), reason)
                await socket.send(message)

        async def main():
            port, compression = sys.argv[1:]
            async with websockets.serve(echo, "127.0.0.1", int(port), max_size=4 << 20, subprotocols=["echo"],
                                        compression="deflate" if compression == "deflate" else None):
                await asyncio.Future()

        asyncio.run(main())
        """
}
