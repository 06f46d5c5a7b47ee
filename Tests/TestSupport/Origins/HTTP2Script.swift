/// The origin's side of an HTTP/2 connection, frame by frame (RFC 9113, section 4.1): for responses that real servers
/// do not send, and to count a client's frames.
package final class HTTP2Script {
    package struct Frame: Sendable {
        package enum Kind: UInt8, Sendable {
            case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate, continuation
        }

        /// Nil for a type that the standard does not define.
        package let kind: Kind?
        package let flags: UInt8
        package let stream: Int
        package let payload: [UInt8]

        /// END_STREAM, of HEADERS and DATA.
        package var endsStream: Bool { flags & 1 != 0 }
    }

    private let connection: OriginConnection
    private var buffer: [UInt8] = []
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    /// Reads the client's preface and sends the server's.
    package init(_ connection: OriginConnection) throws {
        self.connection = connection
        guard try take(Self.preface.count) == Self.preface else { throw OriginConnection.Gone() }
        try send(.settings, stream: 0, [])
    }

    /// Bytes of the connection; nil at its end.
    private func take(_ count: Int) throws -> [UInt8]? {
        while buffer.count < count {
            let bytes = connection.read()
            if bytes.isEmpty { return nil }
            buffer += bytes
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    /// The next frame of a stream; SETTINGS and PING are acknowledged here. Nil at the end.
    package func next() throws -> Frame? {
        while let head = try take(9) {
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard let payload = try take(length) else { return nil }
            let stream = head[5..<9].reduce(0) { $0 << 8 | Int($1) } & 0x7FFF_FFFF
            let frame = Frame(kind: Frame.Kind(rawValue: head[3]), flags: head[4], stream: stream, payload: payload)
            switch frame.kind {
            case .headers, .continuation, .data:
                connection.record { $0.requestFrames += 1 }
                return frame
            case .settings: if frame.flags & 1 == 0 { try send(.settings, flags: 1, stream: 0, []) }
            case .ping: if frame.flags & 1 == 0 { try send(.ping, flags: 1, stream: 0, payload) }
            case .windowUpdate, .priority: break
            default: return frame
            }
        }
        return nil
    }

    /// The head of the next request; other frames are skipped. Nil at the end.
    package func nextRequest() throws -> Frame? {
        while let frame = try next() { if frame.kind == .headers { return frame } }
        return nil
    }

    package func send(_ kind: Frame.Kind, flags: UInt8 = 0, stream: Int, _ payload: [UInt8]) throws {
        let count = payload.count
        let head: [UInt8] = [
            UInt8(count >> 16 & 255), UInt8(count >> 8 & 255), UInt8(count & 255), kind.rawValue, flags,
            UInt8(stream >> 24 & 127), UInt8(stream >> 16 & 255), UInt8(stream >> 8 & 255), UInt8(stream & 255),
        ]
        try connection.write(head + payload)
    }

    /// A head with a status and fields, encoded as literals without Huffman coding (RFC 7541, section 6.2.2); names in
    /// lower case, below 127 bytes each.
    package func head(_ status: Int, fields: [(String, String)] = [], stream: Int, ends: Bool = false) throws {
        func text(_ string: String) -> [UInt8] { [UInt8(string.utf8.count)] + Array(string.utf8) }
        // Entry 8 of the static table is :status.
        var block: [UInt8] = [0x08] + text("\(status)")
        for (name, value) in fields { block += [0x00] + text(name) + text(value) }
        try send(.headers, flags: ends ? 5 : 4, stream: stream, block)
    }

    package func body(_ text: String, stream: Int, ends: Bool = true) throws {
        try send(.data, flags: ends ? 1 : 0, stream: stream, Array(text.utf8))
    }
}
