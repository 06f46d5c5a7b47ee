// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport

@testable import HTTPSessionCore
@testable import SessionCore

/// What the opening handshake of a WebSocket goes over.
enum WebSocketTransport: String, CaseIterable, CustomStringConvertible {
    case http1 = "HTTP/1.1"
    /// A stream of a kept connection (RFC 8441).
    case http2 = "HTTP/2"

    var description: String { rawValue }
}

/// The request of an opening handshake at the server.
struct WebSocketOpening {
    private enum Way {
        case connection(OriginConnection)
        case stream(HTTP2ServerSide, HTTP2ServerSide.Stream)
    }

    private let way: Way
    /// Of the WebSockets of a stage, from 0.
    let number: Int
    let request: HTTPMessage

    init(_ connection: OriginConnection, _ request: HTTPMessage) {
        way = .connection(connection)
        number = connection.number
        self.request = request
    }

    init(_ side: HTTP2ServerSide, _ stream: HTTP2ServerSide.Stream, number: Int) {
        way = .stream(side, stream)
        self.number = number
        request = stream.request
    }

    /// Opens the WebSocket.
    ///
    /// - Parameter fields: further fields of the response.
    func open(_ fields: [(String, String)] = []) throws -> WebSocketPeer {
        switch way {
        case .connection(let connection):
            return try WebSocketPeer(connection, request, fields: fields.map { "\($0): \($1)" })
        case .stream(let side, let stream):
            try side.respond(stream, 200, fields)
            return WebSocketPeer(over: StreamWire(side: side, stream: stream))
        }
    }
}

/// A manager, and an origin that opens WebSockets over one of the transports.
final class WebSocketStage: Sendable {
    typealias Script = @Sendable (WebSocketOpening) throws -> Void
    /// A script for the connections themselves.
    typealias ConnectionScript = @Sendable (OriginConnection, WebSocketStage.Notes) throws -> Void

    /// What a server has seen.
    typealias Notes = Monitor<[String]>

    static let url = "wss://\(ManagerStage.host)/feed"

    let origin: ScriptedOrigin
    let manager: URLSessionManager
    let notes = Notes([])

    /// - Parameters:
    ///   - policy: nil: the origin's key is pinned.
    ///   - script: runs on each WebSocket; its end closes the connection, or ends the stream, properly.
    convenience init(_ transport: WebSocketTransport, policy: SecurityPolicy? = nil, script: @escaping Script) throws {
        try self.init(httpVersion: transport == .http1 ? .http1 : .http2, policy: policy) { connection, notes in
            switch transport {
            case .http1:
                guard let request = try connection.readRequestHead() else { throw NoRequest() }
                try script(WebSocketOpening(connection, request))
            case .http2:
                let side = try HTTP2ServerSide(connection)
                var number = 0
                while let stream = try side.nextTunnel() {
                    do {
                        try script(WebSocketOpening(side, stream, number: number))
                    } catch is OriginConnection.Gone {
                        // The client has broken the stream off.
                    }
                    number += 1
                    try side.end(stream)
                }
            }
        }
    }

    /// - Parameters:
    ///   - httpVersion: what the manager and the origin may speak.
    ///   - policy: nil: the origin's key is pinned.
    init(
        httpVersion: Endpoint.HTTPVersion = .http2,
        policy: SecurityPolicy? = nil,
        script: @escaping ConnectionScript
    ) throws {
        let notes = notes
        origin = try ScriptedOrigin(
            ManagerStage.server,
            protocols: httpVersion == .http2 ? ["h2", "http/1.1"] : []
        ) { try script($0, notes) }
        var configuration = URLSessionManager.Configuration()
        configuration.httpVersion = httpVersion
        configuration.resolve[try Host(ManagerStage.host)] = (host: try Host("127.0.0.1"), port: origin.port)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        trust.policies[try Host(ManagerStage.host)] = try policy ?? .pinning(ManagerStage.server.pin)
        manager = try URLSessionManager(configuration: configuration, serverTrust: trust)
    }

    /// A WebSocket, behind a request that leaves a connection of HTTP/2 where the manager speaks that.
    func makeSocket(
        protocols: [String] = [],
        options: WebSocketOptions = WebSocketOptions()
    ) async throws -> WebSocketTask {
        if manager.configuration.httpVersion == .http2, origin.connections.isEmpty { try await get("/before") }
        return try manager.webSocketTask(with: Self.url, protocols: protocols, options: options)
    }

    func get(_ path: String) async throws {
        let request = HTTPSessionRequest(url: "https://\(ManagerStage.host)\(path)")
        let response = try await manager.dataTask(with: request).value()
        guard String(decoding: response.data, as: UTF8.self) == "at \(path)" else { throw NoRequest() }
    }

    func end() async { await manager.invalidateSession(cancelingTasks: true) }
}

extension WebSocketTask {
    func ended() async {
        await withCheckedContinuation { done in delegate.whenComplete { done.resume() } }
    }
}
