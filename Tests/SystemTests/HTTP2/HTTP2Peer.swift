// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore
import TestSupport

/// A client of HTTP/2 at a test's command: nghttp2 in memory, on a socket that waits.
final class HTTP2Peer: HTTP2SessionDelegate {
    private let client: TestClient
    private(set) var session: HTTP2Session!
    private(set) var goAways: [HTTP2ErrorCode] = []
    private(set) var hasEnded = false

    init(_ client: TestClient, window: Int32 = 1 << 20) throws {
        self.client = client
        super.init()
        session = HTTP2Session(.client, HTTP2Settings(streamWindow: window, connectionWindow: 8 << 20), delegate: self)
    }

    /// Sends a request; without `body` there is none, and without `ends` more of it may come.
    func request(
        _ method: String = "GET",
        _ path: String? = "/",
        authority: String,
        fields: [(String, String)] = [],
        body: [UInt8]? = nil,
        ends: Bool = true
    ) throws -> PeerStream {
        let stream = PeerStream()
        if let body { stream.output.append(body) }
        let isSent = session.request(stream, endsStream: body == nil && ends) { block in
            block.add(":method", Array(method.utf8).span)
            if let path {
                block.add(":scheme", "http")
                block.add(":path", Array(path.utf8).span)
            }
            block.add(":authority", Array(authority.utf8).span)
            for (name, value) in fields { block.add(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        }
        guard isSent else { throw TestSocket.Failure("request") }
        if body != nil, ends { session.endBody(stream) }
        try flush()
        return stream
    }

    func send(_ bytes: [UInt8], on stream: PeerStream) throws {
        stream.output.append(bytes)
        session.resume(stream)
        try flush()
    }

    func end(_ stream: PeerStream, trailers: [(String, String)]) throws {
        var fields = HeaderFields()
        for (name, value) in trailers { try fields.append(name: name, value: value) }
        session.endBody(stream, trailers: fields)
        try flush()
    }

    func close() { client.close() }

    func flush() throws {
        _ = session.produce(upTo: 1 << 20)
        let bytes = session.output.withUnsafeBytes { [UInt8]($0) }
        session.output.removeAll()
        if !bytes.isEmpty { try client.send(bytes) }
    }

    /// Reads and answers until `condition` holds, or the proxy has closed.
    func wait(until condition: () -> Bool) throws {
        while !hasEnded, !condition() {
            let bytes = try client.receive()
            if bytes.isEmpty {
                hasEnded = true
                session.abandon(.cancel)
            } else {
                _ = session.receive(bytes.span)
                try flush()
            }
        }
    }

    /// Waits for the end of a stream.
    func finish(_ stream: PeerStream) throws -> PeerStream {
        try wait { stream.isClosed }
        return stream
    }

    override func session(_ session: HTTP2Session, didReceiveGoAway code: HTTP2ErrorCode, lastStream: Int32) {
        goAways.append(code)
    }
}

/// A request of such a client, and what came of it.
final class PeerStream: HTTP2Stream {
    /// The field blocks as they came: 1xx heads, the head, trailers.
    private(set) var blocks: [[String: String]] = []
    private(set) var body: [UInt8] = []
    private(set) var hasEnd = false
    /// The final head was the end, too: no DATA frame followed.
    private(set) var endedWithHead = false
    private(set) var closed: HTTP2ErrorCode?
    var givesCredit = true
    private var block: [String: String] = [:]

    var statuses: [Int] { blocks.compactMap { $0[":status"].flatMap(Int.init) } }
    var status: Int? { statuses.last }
    var head: [String: String] { blocks.last { $0[":status"] != nil } ?? [:] }
    var trailers: [String: String]? { blocks.last.flatMap { $0[":status"] == nil ? $0 : nil } }
    var text: String { String(decoding: body, as: UTF8.self) }

    override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        block[String(copying: name)] = String(copying: value)
        return true
    }

    override func didReceiveHead(endsStream: Bool) -> Bool {
        blocks.append(block)
        block = [:]
        endedWithHead = endsStream && statuses.count == blocks.count
        return true
    }

    override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
        body.append(bytes)
        if givesCredit { session?.consume(self, bytes.count) }
    }

    override func didReceiveEnd() { hasEnd = true }
    override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) { closed = code }
}

/// Frames as an attacker writes them (RFC 9113, section 4.1).
enum RawFrames {
    static let opening = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(type: 4)

    static func frame(type: UInt8, flags: UInt8 = 0, stream: Int = 0, _ payload: [UInt8] = []) -> [UInt8] {
        let count = payload.count
        return [
            UInt8(count >> 16 & 255), UInt8(count >> 8 & 255), UInt8(count & 255), type, flags,
            UInt8(stream >> 24 & 127), UInt8(stream >> 16 & 255), UInt8(stream >> 8 & 255), UInt8(stream & 255),
        ] + payload
    }

    /// GET / with that authority, from the static table (RFC 7541, appendix A).
    static func head(_ authority: String) -> [UInt8] {
        [0x82, 0x86, 0x84, 0x41, UInt8(authority.utf8.count)] + Array(authority.utf8)
    }

    /// The code of the last GOAWAY in bytes that a server has sent.
    static func goAway(in bytes: [UInt8]) -> UInt32? {
        var position = 0
        var code: UInt32?
        while position + 9 <= bytes.count {
            let length = Int(bytes[position]) << 16 | Int(bytes[position + 1]) << 8 | Int(bytes[position + 2])
            if bytes[position + 3] == 7, position + 17 <= bytes.count {
                code = bytes[(position + 13)..<(position + 17)].reduce(0) { $0 << 8 | UInt32($1) }
            }
            position += 9 + length
        }
        return code
    }
}
