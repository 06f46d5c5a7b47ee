// SPDX-License-Identifier: Apache-2.0
/// The bytes of a TLS client hello, valid or not.
package struct ClientHelloBytes {
    package var serverNames: [String] = []
    /// Type and content.
    package var extensions: [(UInt16, [UInt8])] = [(43, [2, 3, 4])]
    package var cipherSuites: [UInt8] = [0x13, 0x01, 0x13, 0x02]
    package var sessionID: [UInt8] = []
    /// Invalid bytes at the end of the message.
    package var tail: [UInt8] = []
    /// The number of bytes of the message in each record.
    package var recordSize = 16 << 10

    package init(_ serverName: String? = nil) {
        serverNames = serverName.map { [$0] } ?? []
    }

    /// The handshake message with its header.
    package var message: [UInt8] {
        var all = extensions
        if !serverNames.isEmpty {
            let list = serverNames.flatMap { name -> [UInt8] in [0] + Self.vector(2, Array(name.utf8)) }
            all.insert((0, Self.vector(2, list)), at: 0)
        }
        var body: [UInt8] = [3, 3] + [UInt8](repeating: 0xA5, count: 32)
        body += Self.vector(1, sessionID) + Self.vector(2, cipherSuites) + [1, 0]
        if !all.isEmpty {
            let list = all.flatMap { type, content -> [UInt8] in
                [UInt8(type >> 8), UInt8(type & 255)] + Self.vector(2, content)
            }
            body += Self.vector(2, list)
        }
        body += tail
        return [1] + Self.vector(3, body)
    }

    /// The records that carry it.
    package var bytes: [UInt8] {
        let message = message
        return stride(from: 0, to: message.count, by: recordSize).flatMap { start -> [UInt8] in
            let piece = Array(message[start..<min(start + recordSize, message.count)])
            return [22, 3, 1] + Self.vector(2, piece)
        }
    }

    /// Content with a length prefix.
    package static func vector(_ lengthBytes: Int, _ content: [UInt8]) -> [UInt8] {
        (0..<lengthBytes).reversed().map { UInt8(truncatingIfNeeded: content.count >> ($0 * 8)) } + content
    }
}
