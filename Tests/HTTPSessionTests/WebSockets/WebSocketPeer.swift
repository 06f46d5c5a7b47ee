// SPDX-License-Identifier: Apache-2.0
import TestSupport
import WebSocketCore

/// The client has ended before its request.
struct NoRequest: Error {}

/// What carries the frames of a WebSocket at the server.
protocol PeerWire {
    /// Bytes of the client; empty at its end.
    func read() throws -> [UInt8]
    func write(_ bytes: [UInt8]) throws
}

extension OriginConnection: PeerWire {}

/// A stream of HTTP/2.
struct StreamWire: PeerWire {
    let side: HTTP2ServerSide
    let stream: HTTP2ServerSide.Stream

    func read() throws -> [UInt8] { try side.read(from: stream) }

    func write(_ bytes: [UInt8]) throws { try side.write(bytes, to: stream) }
}

/// The server's side of a WebSocket of a `ScriptedOrigin`, frame by frame: on a connection, or on a stream of HTTP/2.
struct WebSocketPeer: ~Copyable {
    let connection: any PeerWire
    private var reader = WebSocketTestReader(expectsMask: true)
    private var isEnded = false

    /// Reads the request of the opening handshake, and switches.
    ///
    /// - Parameter fields: further fields of the response.
    init(_ connection: OriginConnection, fields: [String] = []) throws {
        guard let request = try connection.readRequestHead() else { throw NoRequest() }
        try self.init(connection, request, fields: fields)
    }

    init(_ connection: OriginConnection, _ request: HTTPMessage, fields: [String] = []) throws {
        self.connection = connection
        let accept = WebSocketKey.accept(Array((request["Sec-WebSocket-Key"] ?? "").utf8))
        let lines =
            [
                "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
                "Sec-WebSocket-Accept: \(String(decoding: accept, as: UTF8.self))",
            ] + fields
        try connection.write(lines.map { "\($0)\r\n" }.joined() + "\r\n")
    }

    /// - Parameter wire: of a WebSocket that is open.
    init(over wire: any PeerWire) { connection = wire }

    func send(_ frames: [WebSocketTestFrame], chop: Int? = nil) throws {
        let bytes = frames.flatMap { $0.bytes(isMasked: false) }
        guard let chop else { return try connection.write(bytes) }
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + chop)
            try connection.write(Array(bytes[start..<end]))
            start = end
        }
    }

    func send(_ frame: WebSocketTestFrame) throws { try send([frame]) }

    /// The next frame; nil at the end of the connection.
    mutating func next() throws -> WebSocketTestFrame? {
        while true {
            if let frame = try reader.next() { return frame }
            let bytes = try connection.read()
            if bytes.isEmpty { return nil }
            reader.append(bytes)
        }
    }

    /// The next message or control frame, put together; nil at the end of the connection.
    mutating func nextWhole() throws -> WebSocketTestFrame? {
        var whole: WebSocketTestFrame?
        while let frame = try next() {
            if frame.opcode >= 8 { return frame }
            if whole == nil { whole = frame } else { whole?.payload += frame.payload }
            if frame.isFinal {
                whole?.isFinal = true
                return whole
            }
        }
        return nil
    }

    /// Returns each message, and replies to the Close frame.
    mutating func echo() throws {
        while let frame = try nextWhole() {
            switch frame.opcode {
            case 8: return try send(WebSocketTestFrame(8, frame.payload))
            case 9: try send(WebSocketTestFrame(10, frame.payload))
            case 10: break
            default: try send(frame)
            }
        }
    }
}
