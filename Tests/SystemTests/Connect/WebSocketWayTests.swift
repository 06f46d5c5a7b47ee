// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing
import WebSocketCore

/// A client that is a program with this project's own library. Other clients: `UpgradeTests`, and Python's in `ClientMatrixTests`.
@Suite("The library's WebSocket through the running proxy to a pinned origin", .onOwnThreads)
struct WebSocketWayTests {
    enum Way: CaseIterable, CustomStringConvertible {
        /// `ws` to a gateway, which makes TLS to the origin.
        case gateway
        /// `wss` in a CONNECT that is intercepted.
        case intercepted
        /// `ws` in a CONNECT to port 80, which the proxy makes a request over TLS of.
        case upgradedScheme

        var description: String {
            switch self {
            case .gateway: "ws to a gateway"
            case .intercepted: "wss in an intercepted CONNECT"
            case .upgradedScheme: "ws in a CONNECT to port 80"
            }
        }
    }

    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        let made = try Programs.run(
            try Programs.built("pinproxy"),
            ["ca", "init", "--dir", folder.path, Stage.host]
        )
        try #require(made.exitCode == 0, "\(made.errors)")
    }

    /// Returns the messages of the client, by a machine of the server's role.
    private static func echo(_ connection: OriginConnection) throws {
        guard let head = try connection.readRequestHead() else { return }
        guard let key = head["Sec-WebSocket-Key"] else { return try connection.respond("at \(head.target)") }
        let accept = String(decoding: WebSocketKey.accept(Array(key.utf8)), as: UTF8.self)
        try connection.write(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: \(accept)\r\n\r\n"
        )
        var settings = WebSocketMachine.Settings()
        settings.role = .server
        var machine = WebSocketMachine(settings)
        while case let bytes = connection.read(), !bytes.isEmpty {
            var position = 0
            loop: while true {
                switch machine.next(bytes.span, &position) {
                case .message(let message):
                    machine.begin(message)
                    while !machine.writeNext() {}
                case .needsInput: break loop
                default: break
                }
            }
            let output = [UInt8](copying: machine.output.bytes)
            machine.output.removeAll()
            try connection.write(output)
            if machine.hasSentClose { return }
        }
    }

    private func stage(_ way: Way, _ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage(
            { settings in
                switch way {
                case .gateway: settings.addGateway(to: Stage.host)
                case .intercepted, .upgradedScheme:
                    settings.members["interception"] = [
                        "certificate": "\(folder.path)/pinproxy-ca.pem", "key": "\(folder.path)/pinproxy-ca.key",
                    ]
                    settings.hosts[Stage.host, default: [:]]["connect"] = "intercept"
                }
                change(&settings)
            },
            script: Self.echo
        )
    }

    private func manager(
        _ way: Way,
        _ stage: Stage,
        httpVersion: Endpoint.HTTPVersion = .http1
    ) throws -> URLSessionManager {
        var configuration = URLSessionManager.Configuration()
        configuration.httpVersion = httpVersion
        if way != .gateway { configuration.proxy = SessionProxy(host: try Host("127.0.0.1"), port: stage.proxy.port) }
        let anchors = TrustAnchors(certificates: try Certificate.certificates(file: "\(folder.path)/pinproxy-ca.pem"))
        return try URLSessionManager(configuration: configuration, serverTrust: SessionTrust(anchors: anchors))
    }

    private func url(_ way: Way, _ stage: Stage) -> String {
        switch way {
        case .gateway: "ws://127.0.0.1:\(stage.proxy.port(of: 1))/chat"
        case .intercepted: "wss://\(Stage.host)/chat"
        case .upgradedScheme: "ws://\(Stage.host)/chat"
        }
    }

    @Test("messages go both ways, and the closing handshake ends them", arguments: Way.allCases)
    func rightPin(way: Way) async throws {
        let stage = try stage(way)
        let manager = try manager(way, stage)
        let socket = try manager.webSocketTask(with: url(way, stage))
        try await socket.open()
        let text = String(repeating: "Größe ", count: 50_000)
        for message in [.string("a"), .data([0, 255]), .string(text)] as [WebSocketTask.Message] {
            try await socket.send(message)
            #expect(try await socket.receive() == message)
        }
        try await socket.sendPing()
        socket.cancel(with: .normalClosure, reason: "done")
        await withCheckedContinuation { done in socket.delegate.whenComplete { done.resume() } }
        #expect(socket.error == nil && socket.closeCode == .normalClosure)
        await manager.invalidateSession(cancelingTasks: true)
        let lines = try stage.proxy.waitForTaskLines(way == .gateway ? 1 : 2)
        let line = try #require(lines.first { $0.string("method") == "GET" })
        #expect(line.integer("status") == 101 && line.string("error") == nil, "\(line.text)")
        #expect(line.object("pinning")?["verdict"] as? String == "pass")
        #expect(stage.origin.requests.map(\.target) == ["/chat"])
    }

    @Test("with a wrong pin it does not open, and nothing is sent", arguments: Way.allCases)
    func wrongPin(way: Way) async throws {
        let stage = try stage(way) { $0.pin(Stage.host, to: .unrelated(9)) }
        let manager = try manager(way, stage)
        let socket = try manager.webSocketTask(with: url(way, stage))
        await #expect(throws: SessionError.self) { try await socket.open() }
        await #expect(throws: SessionError.self) { try await socket.send(.string("never")) }
        await manager.invalidateSession(cancelingTasks: true)
        // The line of the CONNECT, whose requests the proxy serves, comes before that of the request in it.
        let lines = try stage.proxy.waitForTaskLines(way == .upgradedScheme ? 2 : 1)
        #expect(lines.contains { $0.string("error") == "pin_mismatch" }, "\(lines.map(\.text))")
        #expect(try stage.origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("in an intercepted CONNECT with HTTP/2 it uses HTTP/1.1")
    func besideHTTP2() async throws {
        let stage = try stage(.intercepted)
        let manager = try manager(.intercepted, stage, httpVersion: .http2)
        let request = HTTPSessionRequest(url: "https://\(Stage.host)/before")
        let before = try await manager.dataTask(with: request).value()
        #expect(before.response.majorVersion == 2)
        let socket = try manager.webSocketTask(with: url(.intercepted, stage))
        try await socket.open()
        #expect(socket.response?.status == 101)
        try await socket.send(.string("a"))
        #expect(try await socket.receive() == .string("a"))
        await manager.invalidateSession(cancelingTasks: true)
    }
}
