// SPDX-License-Identifier: Apache-2.0
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
    /// Whether a PING is acknowledged, as it has to be.
    package var acknowledgesPings = true
    /// The number of PINGs that have come.
    package private(set) var pings = 0
    private static let frameLimit = 16 << 10
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    /// Reads the client's preface and sends the server's.
    ///
    /// - Parameters:
    ///   - streamLimit: the number of streams that the client may have open; nil does not limit it.
    ///   - sendsSettings: whether the server's preface is sent, as it has to be.
    package init(_ connection: OriginConnection, streamLimit: UInt8? = nil, sendsSettings: Bool = true) throws {
        self.connection = connection
        guard try take(Self.preface.count) == Self.preface else { throw OriginConnection.Gone() }
        guard sendsSettings else { return }
        // SETTINGS_MAX_CONCURRENT_STREAMS.
        try send(.settings, stream: 0, streamLimit.map { [0, 3, 0, 0, 0, $0] } ?? [])
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
        while let frame = try nextFrame() {
            switch frame.kind {
            case .settings, .ping, .windowUpdate, .priority: break
            default: return frame
            }
        }
        return nil
    }

    private func nextFrame() throws -> Frame? {
        guard let head = try take(9) else { return nil }
        let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        guard let payload = try take(length) else { return nil }
        let stream = head[5..<9].reduce(0) { $0 << 8 | Int($1) } & 0x7FFF_FFFF
        let frame = Frame(kind: Frame.Kind(rawValue: head[3]), flags: head[4], stream: stream, payload: payload)
        let isAcknowledgement = frame.flags & 1 != 0
        switch frame.kind {
        case .headers, .continuation, .data: connection.record { $0.requestFrames += 1 }
        case .settings where !isAcknowledgement: try send(.settings, flags: 1, stream: 0, [])
        case .ping where !isAcknowledgement:
            pings += 1
            if acknowledgesPings { try send(.ping, flags: 1, stream: 0, payload) }
        default: break
        }
        return frame
    }

    /// Reads until the next PING. False at the end.
    package func nextPing() throws -> Bool {
        let count = pings
        while pings == count, try nextFrame() != nil {}
        return pings > count
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
    /// lower case. A long one goes on in CONTINUATION.
    package func head(_ status: Int, fields: [(String, String)] = [], stream: Int, ends: Bool = false) throws {
        // The length is an integer with a prefix of seven bits (RFC 7541, section 5.1).
        func text(_ string: String) -> [UInt8] {
            var rest = string.utf8.count - 127
            guard rest >= 0 else { return [UInt8(string.utf8.count)] + Array(string.utf8) }
            var length: [UInt8] = [127]
            while rest >= 128 {
                length.append(UInt8(rest & 127 | 128))
                rest >>= 7
            }
            return length + [UInt8(rest)] + Array(string.utf8)
        }
        // Entry 8 of the static table is :status.
        var block: [UInt8] = [0x08] + text("\(status)")
        for (name, value) in fields { block += [0x00] + text(name) + text(value) }
        var kind = Frame.Kind.headers
        var flags: UInt8 = ends ? 1 : 0
        while true {
            let piece = Array(block.prefix(Self.frameLimit))
            block.removeFirst(piece.count)
            if block.isEmpty { flags |= 4 }
            try send(kind, flags: flags, stream: stream, piece)
            if block.isEmpty { return }
            kind = .continuation
            flags = 0
        }
    }

    package func body(_ text: String, stream: Int, ends: Bool = true) throws {
        try send(.data, flags: ends ? 1 : 0, stream: stream, Array(text.utf8))
    }
}
