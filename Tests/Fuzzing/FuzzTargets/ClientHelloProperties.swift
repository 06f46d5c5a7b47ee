// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyCore

/// The first message of a TLS client.
enum ClientHelloProperties {
    /// The outcome is independent of the division into pieces, never changes afterwards, and the name is in normal
    /// form.
    static func hellos(_ bytes: [UInt8]) throws(FuzzFinding) {
        let whole = outcome(bytes, pieceSize: max(1, bytes.count))
        for size in [1, 2 + bytes.count % 40] where outcome(bytes, pieceSize: size) != whole {
            throw FuzzFinding("whole and in pieces of \(size) they differ")
        }
        try firstBytes(bytes, as: whole)
        guard case .complete(let hello) = whole else { return }
        if let name = hello.serverName, name.kind != .name || (try? Host(name.description)) != name {
            throw FuzzFinding("the server name \(name) is not in its normal form")
        }
        // The same hello with one byte in each record has the same outcome.
        var message: [UInt8] = []
        var position = 0
        while position + 5 <= bytes.count, message.count < 4 || message.count < length(message) {
            let count = Int(bytes[position + 3]) << 8 | Int(bytes[position + 4])
            message += bytes[position + 5..<position + 5 + count]
            position += 5 + count
        }
        guard message.count * 6 <= ClientHelloReader.limit else { return }
        let records = message.flatMap { byte -> [UInt8] in [22, 3, 1, 0, 1, byte] }
        guard outcome(records, pieceSize: 7) == whole else {
            throw FuzzFinding("in other records it reads differently")
        }
    }

    /// A redirected client's first bytes are read in the same way in any pieces, and a hello of theirs as in a tunnel.
    private static func firstBytes(_ bytes: [UInt8], as hello: ClientHelloReader.Outcome) throws(FuzzFinding) {
        func outcome(pieceSize: Int) -> FirstBytes.Outcome {
            var first = FirstBytes()
            var outcome = FirstBytes.Outcome.needMore
            for start in stride(from: 0, to: bytes.count, by: pieceSize) {
                outcome = first.consume(bytes.span.extracting(start..<min(start + pieceSize, bytes.count)))
            }
            return outcome
        }
        let whole = outcome(pieceSize: max(1, bytes.count))
        guard outcome(pieceSize: 1) == whole else { throw FuzzFinding("first bytes differ whole and in pieces") }
        switch (whole, hello) {
        case (.tls(let first), .complete(let hello)) where first == hello: break
        case (.brokenTLS, .failed), (.brokenTLS(.tooLarge), _), (.http, .failed), (.neither, .failed),
            (.needMore, .needMore):
            break
        // An empty line, or a part of a method.
        case (.needMore, .failed(.notTLS)): break
        default: throw FuzzFinding("first bytes are \(whole), the hello is \(hello)")
        }
    }

    /// The length of the message with its header.
    private static func length(_ message: [UInt8]) -> Int {
        4 + (Int(message[1]) << 16 | Int(message[2]) << 8 | Int(message[3]))
    }

    private static func outcome(_ bytes: [UInt8], pieceSize: Int) -> ClientHelloReader.Outcome {
        var reader = ClientHelloReader()
        var position = 0
        while position < bytes.count {
            let end = min(position + pieceSize, bytes.count)
            let outcome = reader.consume(bytes.span.extracting(position..<end))
            if outcome != .needMore {
                // The outcome does not change.
                return reader.consume([22, 3, 1].span) == outcome ? outcome : .needMore
            }
            position = end
        }
        return .needMore
    }
}
