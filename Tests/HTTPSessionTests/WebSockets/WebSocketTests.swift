// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing
import WebSocketCore

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A WebSocket", .onOwnThreads)
struct WebSocketTests {
    private static let url = WebSocketStage.url
    private let requests = Monitor<[HTTPMessage]>([])

    private static func echoStage(
        pinned: [String] = [ManagerStage.host],
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in }
    ) throws -> ManagerStage {
        try ManagerStage(pinned: pinned, change) { connection in
            var peer = try WebSocketPeer(connection)
            try peer.echo()
        }
    }

    private static func echoStage(over transport: WebSocketTransport) throws -> WebSocketStage {
        try WebSocketStage(transport) { opening in
            var peer = try opening.open()
            try peer.echo()
        }
    }

    private static func ended(_ socket: WebSocketTask) async {
        await withCheckedContinuation { done in socket.delegate.whenComplete { done.resume() } }
    }

    // MARK: Messages

    @Test(
        "a WebSocket sends and receives text and bytes over pinned TLS, and closes",
        arguments: WebSocketTransport.allCases
    )
    func messages(transport: WebSocketTransport) async throws {
        let stage = try WebSocketStage(transport) { [requests] opening in
            requests.with { $0.append(opening.request) }
            var peer = try opening.open()
            try peer.echo()
        }
        let socket = try await stage.makeSocket()
        #expect(try await socket.open() == nil)
        try await socket.send(.string("Grüße"))
        try await socket.send(.data([0, 255]))
        #expect(try await socket.receive() == .string("Grüße"))
        #expect(try await socket.receive() == .data([0, 255]))
        #expect(socket.closeCode == .invalid && socket.closeReason == nil)
        socket.cancel(with: .normalClosure, reason: "done")
        await Self.ended(socket)
        #expect(socket.error == nil)
        #expect(socket.closeCode == .normalClosure && socket.closeReason == "done")
        let metrics = try #require(socket.delegate.metrics)
        #expect(metrics.transaction.status == (transport == .http1 ? 101 : 200))
        #expect(metrics.transaction.protocolVersion == (transport == .http1 ? 11 : 20))
        #expect(metrics.transaction.connection?.evaluation?.verdict == .pass)
        let request = try #require(requests.with { $0.first })
        #expect(request["Sec-WebSocket-Version"] == "13" && request["Sec-WebSocket-Extensions"] == nil)
        switch transport {
        case .http1:
            #expect(request.target == "/feed" && request["Upgrade"] == "websocket")
            #expect(request["Connection"] == "Upgrade" && request["Sec-WebSocket-Key"] != nil)
        case .http2:
            #expect(request[":method"] == "CONNECT" && request[":protocol"] == "websocket")
            #expect(request[":scheme"] == "https" && request[":authority"] == ManagerStage.host)
            #expect(request[":path"] == "/feed" && request["Upgrade"] == nil && request["Connection"] == nil)
            #expect(request["Sec-WebSocket-Key"] == nil && request["Host"] == nil)
            #expect(stage.origin.connections.count == 1)
        }
        await stage.end()
    }

    @Test("messages are a sequence, which ends with the closing handshake", arguments: WebSocketTransport.allCases)
    func sequence(transport: WebSocketTransport) async throws {
        let stage = try WebSocketStage(transport) { opening in
            var peer = try opening.open()
            for number in 1...3 { try peer.send(WebSocketTestFrame(1, Array("\(number)".utf8))) }
            try peer.send(.close(4001, Array("enough".utf8)))
            _ = try peer.next()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        var seen: [WebSocketTask.Message] = []
        for try await message in socket.messages { seen.append(message) }
        #expect(seen == [.string("1"), .string("2"), .string("3")])
        #expect(socket.closeCode.rawValue == 4001 && socket.closeReason == "enough")
        await #expect(throws: SessionError.self) { try await socket.receive() }
        await #expect(throws: SessionError.self) { try await socket.send(.string("late")) }
        await Self.ended(socket)
        #expect(socket.error == nil)
        await stage.end()
    }

    @Test("a message of a megabyte goes both ways, in frames of 128 KB", arguments: WebSocketTransport.allCases)
    func megabyte(transport: WebSocketTransport) async throws {
        let frames = Monitor(0)
        let stage = try WebSocketStage(transport) { opening in
            var peer = try opening.open()
            var whole: [UInt8] = []
            while let frame = try peer.next(), frame.opcode < 8 {
                frames.with { $0 += 1 }
                whole += frame.payload
                if frame.isFinal { break }
            }
            try peer.send(WebSocketTestFrame(2, whole))
            try peer.echo()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        let bytes = patternBytes(1 << 20)
        try await socket.send(.data(bytes))
        #expect(try await socket.receive() == .data(bytes))
        #expect(frames.with { $0 } == 8)
        socket.cancel(with: .normalClosure)
        await Self.ended(socket)
        #expect(socket.error == nil)
        await stage.end()
    }

    @Test("handlers get the results, on the callback queue") func handlers() async throws {
        let stage = try Self.echoStage()
        let socket = try stage.manager.webSocketTask(with: Self.url)
        socket.resume()
        socket.send(.string("one")) { error in stage.note("sent \(error == nil)") }
        socket.receive { result in stage.note("received \((try? result.get()) == .string("one"))") }
        socket.sendPing { error in stage.note("pong \(error == nil)") }
        _ = try await stage.wait(for: "received true")
        let log = try await stage.wait(for: "pong true")
        #expect(log.contains("sent true"))
        await stage.end()
    }

    @Test(
        "the client responds to pings, and waits for the Pong to its own",
        arguments: WebSocketTransport.allCases
    )
    func pings(transport: WebSocketTransport) async throws {
        let stage = try WebSocketStage(transport) { opening in
            var peer = try opening.open()
            try peer.send(WebSocketTestFrame(9, Array("are you there".utf8)))
            // The client may have sent a ping of its own before it has received this one.
            while let frame = try peer.next(), frame != WebSocketTestFrame(10, Array("are you there".utf8)) {
                guard frame.opcode == 9 else { return }
                try peer.send(WebSocketTestFrame(10, frame.payload))
            }
            try peer.echo()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        try await socket.sendPing()
        try await socket.sendPing()
        socket.cancel(with: .goingAway)
        await Self.ended(socket)
        #expect(socket.error == nil && socket.closeCode == .goingAway)
        await stage.end()
    }

    // MARK: Back-pressure

    @Test("a program that receives nothing holds the server up", arguments: WebSocketTransport.allCases)
    func slowReader(transport: WebSocketTransport) async throws {
        let written = Monitor(0)
        let stage = try WebSocketStage(transport) { opening in
            var peer = try opening.open()
            let frame = WebSocketTestFrame(2, [UInt8](repeating: 7, count: 64 << 10))
            for _ in 0..<400 {
                try peer.send(frame)
                written.with { $0 += 1 }
            }
            try peer.send(.close(1000))
            _ = try peer.next()
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        // It stops when the buffers of both systems are full.
        var last = -1
        try await eventually("the server to stop") {
            Thread.sleep(forTimeInterval: 0.3)
            defer { last = written.with { $0 } }
            return last > 0 && last == written.with { $0 }
        }
        #expect(written.with { $0 } < 400)
        var count = 0
        for try await message in socket.messages {
            if case .data(let bytes) = message { count += bytes.count }
        }
        #expect(count == 400 * (64 << 10))
        await stage.end()
    }

    @Test("a server that reads nothing holds the program up", arguments: WebSocketTransport.allCases)
    func slowServer(transport: WebSocketTransport) async throws {
        let mayRead = Gate()
        let stage = try WebSocketStage(transport) { opening in
            var peer = try opening.open()
            try mayRead.pass()
            var count = 0
            while let frame = try peer.nextWhole(), frame.opcode == 2 { count += frame.payload.count }
            try peer.send(WebSocketTestFrame(8, [3, 232] + Array("\(count)".utf8)))
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        let sent = Monitor(0)
        let sending = beside {
            for _ in 0..<400 {
                try await socket.send(.data([UInt8](repeating: 7, count: 64 << 10)))
                sent.with { $0 += 1 }
            }
            socket.cancel(with: .normalClosure)
        }
        var last = -1
        try await eventually("the program to stop") {
            Thread.sleep(forTimeInterval: 0.3)
            defer { last = sent.with { $0 } }
            return last > 0 && last == sent.with { $0 }
        }
        #expect(sent.with { $0 } < 400)
        mayRead.open()
        try await sending.value
        await Self.ended(socket)
        #expect(socket.error == nil && socket.closeReason == "\(400 * (64 << 10))")
        await stage.end()
    }

    // MARK: The opening handshake

    @Test("a wrong pin ends a WebSocket before a byte is sent") func wrongPin() async throws {
        let wrong = try SecurityPolicy.pinning(TestPKI.shared.server("other.example.com").pin)
        let stage = try ManagerStage(policies: [ManagerStage.host: wrong]) { connection in
            _ = try WebSocketPeer(connection)
        }
        let socket = try stage.manager.webSocketTask(with: Self.url)
        do {
            try await socket.open()
            Issue.record("it was opened")
        } catch {
            #expect(error.code == .pinMismatch && error.evaluation?.verdict == .fail)
        }
        await stage.end()
        try stage.origin.waitForClosed()
        #expect(stage.origin.applicationBytes == 0)
    }

    @Test("the server chooses a subprotocol") func subprotocol() async throws {
        let stage = try ManagerStage(pinned: [ManagerStage.host]) { connection in
            var peer = try WebSocketPeer(connection, fields: ["Sec-WebSocket-Protocol: v1"])
            try peer.echo()
        }
        let socket = try stage.manager.webSocketTask(with: Self.url, protocols: ["v2", "v1"])
        socket.webSocketDelegate.didOpen = { _, chosen in stage.note("open \(chosen ?? "-")") }
        socket.webSocketDelegate.didClose = { _, code, reason in stage.note("close \(code) \(reason ?? "-")") }
        #expect(try await socket.open() == "v1")
        #expect(socket.subprotocol == "v1")
        #expect(stage.origin.requests.first?["Sec-WebSocket-Protocol"] == "v2, v1")
        socket.cancel(with: .normalClosure, reason: "bye")
        #expect(try await stage.wait(for: "close 1000 bye") == ["open v1", "close 1000 bye"])
        await stage.end()
    }

    @Test("the hook of the opening sees an open WebSocket, and may close it") func openHook() async throws {
        let stage = try ManagerStage(pinned: [ManagerStage.host]) { connection in
            var peer = try WebSocketPeer(connection, fields: ["Sec-WebSocket-Protocol: v1"])
            try peer.echo()
        }
        let socket = try stage.manager.webSocketTask(with: Self.url, protocols: ["v1"])
        socket.webSocketDelegate.didOpen = { task, _ in
            stage.note("open \(task.subprotocol ?? "-")")
            task.cancel(with: .normalClosure, reason: "bye")
        }
        socket.webSocketDelegate.didClose = { _, code, reason in stage.note("close \(code) \(reason ?? "-")") }
        socket.resume()
        #expect(try await stage.wait(for: "close 1000 bye") == ["open v1", "close 1000 bye"])
        await stage.end()
    }

    @Test("a response that opens nothing fails the task, which has its head") func refusals() async throws {
        let accept = "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA="
        for response in [
            OriginResponse.text("no", status: "403 Forbidden"),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\(accept)\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        ] {
            let stage = try ManagerStage(pinned: [ManagerStage.host]) { connection in
                _ = try connection.readRequestHead()
                try connection.write(response)
                connection.readToEnd()
            }
            let socket = try stage.manager.webSocketTask(with: Self.url)
            await #expect { try await socket.open() } throws: { $0.sessionCode == .responseInvalid }
            await #expect { try await socket.receive() } throws: { $0.sessionCode == .responseInvalid }
            await Self.ended(socket)
            #expect(socket.response?.status == (response.contains("403") ? 403 : 101))
            await stage.end()
        }
    }

    @Test("redirects, cookies and credentials are those of other tasks") func exchange() async throws {
        let stage = try ManagerStage(
            pinned: [ManagerStage.host],
            { $0.cookieStorage = CookieStorage() },
            script: { connection in
                while let request = try connection.readRequestHead() {
                    if request.target == "/feed" {
                        try connection.write(
                            OriginResponse.text(
                                "",
                                status: "302 Found",
                                fields: ["Location: /moved", "Set-Cookie: a=b; Secure"]
                            )
                        )
                    } else if request["Authorization"] == nil {
                        try connection.write(
                            OriginResponse.text(
                                "",
                                status: "401 Unauthorized",
                                fields: ["WWW-Authenticate: Basic realm=\"r\""]
                            )
                        )
                    } else {
                        var peer = try WebSocketPeer(connection, request)
                        return try peer.echo()
                    }
                }
            }
        )
        let socket = try stage.manager.webSocketTask(with: Self.url)
        socket.delegate.credential = Credential(user: "ada", password: "secret")
        try await socket.open()
        try await socket.send(.string("x"))
        #expect(try await socket.receive() == .string("x"))
        let requests = stage.origin.requests
        #expect(requests.map(\.target) == ["/feed", "/moved", "/moved"])
        #expect(requests.last?["Cookie"] == "a=b" && requests.last?["Authorization"]?.hasPrefix("Basic ") == true)
        // Each request has a key of its own.
        #expect(Set(requests.compactMap { $0["Sec-WebSocket-Key"] }).count == 3)
        await stage.end()
    }

    @Test("a request that is no opening handshake is refused at once") func invalidRequests() async throws {
        let stage = try Self.echoStage()
        let manager = stage.manager
        for make in [
            { try manager.webSocketTask(with: HTTPSessionRequest(url: Self.url, method: .post)) },
            { try manager.webSocketTask(with: HTTPSessionRequest(url: Self.url, body: .bytes([1]))) },
            { try manager.webSocketTask(with: HTTPSessionRequest(url: Self.url, headers: ["sec-websocket-key": "a"])) },
            { try manager.webSocketTask(with: Self.url, protocols: ["a", "a"]) },
            { try manager.webSocketTask(with: "wsss://\(ManagerStage.host)/") },
        ] as [() throws -> WebSocketTask] {
            #expect { _ = try make() } throws: { $0.sessionCode == .requestInvalid }
        }
        await stage.end()
    }

    @Test("the time to the response is limited, that of an open WebSocket is not") func timeouts() async throws {
        let stage = try ManagerStage(pinned: [ManagerStage.host]) { connection in
            guard let request = try connection.readRequestHead() else { return }
            if request.target == "/silent" { return connection.readToEnd() }
            var peer = try WebSocketPeer(connection, request)
            try peer.echo()
        }
        var silent = HTTPSessionRequest(url: "wss://\(ManagerStage.host)/silent")
        silent.timeouts = TaskTimeouts(firstByte: .milliseconds(100))
        let late = try stage.manager.webSocketTask(with: silent)
        await #expect { try await late.open() } throws: { $0.sessionCode == .responseTimeout }
        var request = HTTPSessionRequest(url: Self.url)
        request.timeouts = TaskTimeouts(stall: .milliseconds(1), total: .seconds(600))
        let socket = try stage.manager.webSocketTask(with: request)
        try await socket.open()
        try await Task.sleep(for: .milliseconds(50))
        try await socket.sendPing()
        await stage.end()
    }

    @Test("a WebSocket goes through the tunnel of a proxy, with TLS and without") func tunnel() async throws {
        let origin = try ScriptedOrigin(ManagerStage.server) { connection in
            var peer = try WebSocketPeer(connection)
            try peer.echo()
        }
        let plain = try ScriptedOrigin(nil) { connection in
            var peer = try WebSocketPeer(connection)
            try peer.echo()
        }
        for (scheme, port) in [("wss", origin.port), ("ws", plain.port)] {
            let proxy = try TunnelProxy(to: port)
            var configuration = URLSessionManager.Configuration()
            configuration.proxy = SessionProxy(host: try Host("127.0.0.1"), port: proxy.port)
            var trust = SessionTrust(anchors: TestPKI.shared.anchors)
            if scheme == "wss" { trust.policies[try Host(ManagerStage.host)] = try .pinning(ManagerStage.server.pin) }
            let manager = try URLSessionManager(configuration: configuration, serverTrust: trust)
            let socket = try manager.webSocketTask(with: "\(scheme)://\(ManagerStage.host)/feed")
            try await socket.open()
            try await socket.send(.string("through"))
            #expect(try await socket.receive() == .string("through"))
            #expect(proxy.asked.with { $0.first?.hasPrefix("CONNECT \(ManagerStage.host):") } == true)
            await manager.invalidateSession(cancelingTasks: true)
        }
        #expect(plain.requests.first?.target == "/feed")
    }

    // MARK: The end

    @Test("a server that violates the protocol is told so, and the task fails", arguments: WebSocketTransport.allCases)
    func violations(transport: WebSocketTransport) async throws {
        for (frame, told, code) in [
            (WebSocketTestFrame(1, reserved: 4, [65]), 1002, SessionError.Code.responseInvalid),
            (WebSocketTestFrame(1, [0xFF]), 1007, .responseInvalid),
            (WebSocketTestFrame(2, [UInt8](repeating: 0, count: 2001)), 1009, .responseTooLarge),
        ] as [(WebSocketTestFrame, UInt16, SessionError.Code)] {
            let seen = Monitor<UInt16?>(nil)
            let stage = try WebSocketStage(transport) { opening in
                var peer = try opening.open()
                try peer.send([WebSocketTestFrame(1, Array("before".utf8)), frame])
                let close = try peer.next()
                seen.with { $0 = close?.closeCode }
                while try peer.next() != nil {}
            }
            var options = WebSocketOptions()
            options.maximumMessageSize = 2000
            let socket = try await stage.makeSocket(options: options)
            try await socket.open()
            var messages: [WebSocketTask.Message] = []
            do {
                for try await message in socket.messages { messages.append(message) }
                Issue.record("it has ended without an error")
            } catch {
                #expect(error.code == code)
            }
            #expect(messages == [.string("before")])
            await Self.ended(socket)
            #expect(socket.closeCode.rawValue == told && socket.error?.code == code)
            await stage.end()
            try stage.origin.waitForClosed()
            #expect(seen.with { $0 } == told)
        }
    }

    @Test("a connection that ends without a Close frame fails the task", arguments: WebSocketTransport.allCases)
    func abnormal(transport: WebSocketTransport) async throws {
        let stage = try WebSocketStage(transport) { opening in
            let peer = try opening.open()
            try peer.send(WebSocketTestFrame(1, [65]))
        }
        let socket = try await stage.makeSocket()
        try await socket.open()
        #expect(try await socket.receive() == .string("A"))
        await #expect { try await socket.receive() } throws: { $0.sessionCode == .responseTruncated }
        await Self.ended(socket)
        #expect(socket.closeCode == .abnormalClosure)
        await stage.end()
    }

    @Test(
        "a missing reply to the Close frame is awaited for closeTimeout at most",
        arguments: WebSocketTransport.allCases
    )
    func lateClose(transport: WebSocketTransport) async throws {
        let stage = try WebSocketStage(transport) { opening in
            var peer = try opening.open()
            while try peer.next() != nil {}
        }
        var options = WebSocketOptions()
        options.closeTimeout = .milliseconds(100)
        let socket = try await stage.makeSocket(options: options)
        try await socket.open()
        socket.cancel(with: .normalClosure)
        await Self.ended(socket)
        #expect(socket.error?.code == .stalled && socket.closeCode == .abnormalClosure)
        await stage.end()
    }

    @Test("a cancelled task, session or receive ends what waits", arguments: WebSocketTransport.allCases)
    func cancellation(transport: WebSocketTransport) async throws {
        let stage = try Self.echoStage(over: transport)
        let socket = try await stage.makeSocket()
        try await socket.open()
        // The WebSocket is open behind a receive that was cancelled.
        let waiting = beside { try await socket.receive() }
        waiting.cancel()
        await #expect { try await waiting.value } throws: { $0.sessionCode == .cancelled }
        try await socket.send(.string("still"))
        #expect(try await socket.receive() == .string("still"))
        let other = beside { try await socket.receive() }
        socket.cancel()
        await #expect { try await other.value } throws: { $0.sessionCode == .cancelled }
        await Self.ended(socket)
        #expect(socket.error?.code == .cancelled)
        let never = try await stage.makeSocket()
        never.cancel(with: .normalClosure)
        await #expect { try await never.receive() } throws: { $0.sessionCode == .cancelled }
        let last = try await stage.makeSocket()
        try await last.open()
        await stage.end()
        await #expect { try await last.receive() } throws: { $0.sessionCode == .cancelled }
    }

    // MARK: Other servers

    @Test("Python's websockets agree, with compression and without", arguments: [true, false])
    func python(compresses: Bool) async throws {
        let folder = try TemporaryFolder()
        let files = try ManagerStage.server.write(to: folder, name: "server")
        let program = try folder.write(Self.pythonServer, as: "server.py")
        let server = try ServerProgram("env") { port in
            // Debian's own Python has the package.
            ["/usr/bin/python3", program, "\(port)", files.certificate, files.key, compresses ? "deflate" : "none"]
        }
        var configuration = URLSessionManager.Configuration()
        configuration.resolve[try Host(ManagerStage.host)] = (host: try Host("127.0.0.1"), port: server.port)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        trust.policies[try Host(ManagerStage.host)] = try .pinning(ManagerStage.server.pin)
        let manager = try URLSessionManager(configuration: configuration, serverTrust: trust)
        var options = WebSocketOptions()
        options.compression = WebSocketCompression()
        options.maximumMessageSize = 2 << 20
        let socket = try manager.webSocketTask(with: Self.url, protocols: ["echo"], options: options)
        #expect(try await socket.open() == "echo")
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
        try await socket.send(.string("close 4321 over"))
        await #expect { try await socket.receive() } throws: { $0.sessionCode == .cancelled }
        #expect(socket.closeCode.rawValue == 4321 && socket.closeReason == "over")
        await Self.ended(socket)
        #expect(socket.error == nil)
        let second = try manager.webSocketTask(with: Self.url, protocols: ["echo"], options: options)
        try await second.open()
        second.cancel(with: .normalClosure, reason: "bye")
        await Self.ended(second)
        #expect(second.error == nil && second.closeCode == .normalClosure)
        await manager.invalidateSession(cancelingTasks: true)
    }

    private static let pythonServer = """
        import asyncio, ssl, sys, websockets

        async def echo(socket):
            async for message in socket:
                if isinstance(message, str) and message.startswith("close "):
                    _, code, reason = message.split()
                    return await socket.close(int(code), reason)
                await socket.send(message)

        async def main():
            port, certificate, key, compression = sys.argv[1:]
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            async with websockets.serve(echo, "127.0.0.1", int(port), ssl=context, max_size=4 << 20, subprotocols=["echo"],
                                        compression="deflate" if compression == "deflate" else None):
                await asyncio.Future()

        asyncio.run(main())
        """
}
