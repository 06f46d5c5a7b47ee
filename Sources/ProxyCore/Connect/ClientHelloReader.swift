// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// The parts of a TLS client's first message (RFC 8446, section 4.1.2) that a tunnel checks.
package struct ClientHello: Hashable, Sendable {
    /// The host of the server_name extension (RFC 6066, section 3), in its normal form; nil without one.
    package var serverName: Host?
    /// The hello contains an encrypted one (encrypted_client_hello), or only pretends to: both look the same on the
    /// way. The inner hello's server name is not visible here; `serverName` is the outer one's.
    package var hasEncryptedHello = false
}

/// The reason why bytes are no client hello.
package enum ClientHelloFault: Error, Hashable, Sendable {
    /// The first byte is not that of a handshake record.
    case notTLS
    /// Larger than any client's hello, which may have that many bytes.
    case tooLarge(limit: Int)
    /// Broken; the value describes where.
    case malformed(String)

    package var message: String {
        switch self {
        case .notTLS: "the first bytes are not TLS"
        case .tooLarge(let limit): "the client's hello is longer than \(limit) bytes"
        case .malformed(let what): "the client's hello is broken: \(what)"
        }
    }
}

/// Reads the hello of a TLS client from bytes in any pieces: records, and the message in one or several of them.
///
/// A value: bytes go in, an outcome comes out. It is strict, because every server has to read the same from a hello
/// that it accepts; `limit` bounds it.
package struct ClientHelloReader: Sendable {
    package enum Outcome: Equatable, Sendable {
        case needMore
        case complete(ClientHello)
        case failed(ClientHelloFault)
    }

    /// Bytes on the wire, record headers included.
    package static let limit = 64 << 10
    private static let recordLimit = 16 << 10
    private static let extensionLimit = 256

    /// The received part of a record's five-byte header.
    private var header: [UInt8] = []
    /// The missing bytes of the current record.
    private var recordLeft = 0
    private var message: [UInt8] = []
    private var consumed = 0
    private var outcome = Outcome.needMore

    private let bound: Int

    /// - Parameter limit: the largest hello, in bytes on the wire.
    package init(limit: Int = Self.limit) { bound = limit }

    /// The bytes of the message that are kept until it is whole.
    var heldBytes: Int { message.count }

    /// Processes the next bytes. After the first outcome other than `needMore`, the outcome stays the same.
    package mutating func consume(_ bytes: borrowing Span<UInt8>) -> Outcome {
        var position = 0
        while outcome == .needMore, position < bytes.count {
            if recordLeft == 0 {
                header.append(bytes[position])
                position += 1
                consumed += 1
                if let fault = checkHeader() { outcome = .failed(fault) }
            } else {
                let count = min(recordLeft, bytes.count - position)
                message.append(bytes.extracting(position..<(position + count)))
                position += count
                consumed += count
                recordLeft -= count
                evaluateMessage()
            }
        }
        return outcome
    }

    /// Checks a record's header (RFC 8446, section 5.1) byte by byte.
    private mutating func checkHeader() -> ClientHelloFault? {
        switch header.count {
        case 1:
            guard header[0] == 22 else {
                return message.isEmpty ? .notTLS : .malformed("another record in the midst of it")
            }
        case 2:
            guard header[1] == 3 else { return message.isEmpty ? .notTLS : .malformed("a record of another version") }
        case 5:
            recordLeft = Int(header[3]) << 8 | Int(header[4])
            header.removeAll(keepingCapacity: true)
            guard recordLeft > 0, recordLeft <= Self.recordLimit else {
                return .malformed("a record of \(recordLeft) bytes")
            }
            if consumed + recordLeft > bound { return .tooLarge(limit: bound) }
        default: break
        }
        return nil
    }

    /// Evaluates the message's header, then the message when it is complete (RFC 8446, section 4).
    private mutating func evaluateMessage() {
        if message[0] != 1 {
            outcome = .failed(.malformed("the first message is not a client hello"))
            return
        }
        guard message.count >= 4 else { return }
        let length = Int(message[1]) << 16 | Int(message[2]) << 8 | Int(message[3])
        if length > bound {
            outcome = .failed(.tooLarge(limit: bound))
            return
        }
        // The whole record counts, however much of it has arrived, so that the outcome does not depend on the pieces.
        let end = 4 + length
        if message.count + recordLeft > end {
            outcome = .failed(.malformed("more than the hello in its record"))
            return
        }
        guard message.count == end else { return }
        do throws(ClientHelloFault) {
            outcome = .complete(try Self.parse(message.span.extracting(4..<end)))
        } catch {
            outcome = .failed(error)
        }
        message = []
    }

    // MARK: The message

    private static func parse(_ body: borrowing Span<UInt8>) throws(ClientHelloFault) -> ClientHello {
        var reader = VectorReader()
        let version = try reader.fixed(2, of: body)
        guard body[version.lowerBound] == 3 else { throw .malformed("a version that is none of TLS") }
        _ = try reader.fixed(32, of: body)
        guard try reader.vector(1, of: body).count <= 32 else { throw .malformed("a session ID of more than 32 bytes") }
        let suites = try reader.vector(2, of: body)
        guard !suites.isEmpty, suites.count % 2 == 0 else { throw .malformed("the list of cipher suites") }
        guard try !reader.vector(1, of: body).isEmpty else { throw .malformed("no compression method") }
        var hello = ClientHello()
        // Before TLS 1.3 a hello may end here.
        guard reader.position < body.count else { return hello }
        let extensions = try reader.vector(2, of: body)
        guard reader.position == body.count else { throw .malformed("bytes behind the extensions") }
        try parse(extensions: body.extracting(extensions), into: &hello)
        return hello
    }

    private static func parse(
        extensions: borrowing Span<UInt8>,
        into hello: inout ClientHello
    ) throws(ClientHelloFault) {
        var reader = VectorReader()
        var seen: [UInt16] = []
        while reader.position < extensions.count {
            let start = try reader.fixed(2, of: extensions).lowerBound
            let type = UInt16(extensions[start]) << 8 | UInt16(extensions[start + 1])
            let content = try reader.vector(2, of: extensions)
            guard !seen.contains(type) else { throw .malformed("the extension \(type) twice") }
            guard seen.count < extensionLimit else { throw .malformed("more than \(extensionLimit) extensions") }
            seen.append(type)
            switch type {
            case 0: hello.serverName = try serverName(extensions.extracting(content))
            case 0xFE0D: hello.hasEncryptedHello = true
            default: break
            }
        }
    }

    /// Reads one host name. A list with more is refused, because servers might choose different ones.
    private static func serverName(_ content: borrowing Span<UInt8>) throws(ClientHelloFault) -> Host {
        var outer = VectorReader()
        let range = try outer.vector(2, of: content)
        guard outer.position == content.count else { throw .malformed("bytes behind the server's name") }
        let list = content.extracting(range)
        var reader = VectorReader()
        let type = try reader.fixed(1, of: list).lowerBound
        guard list[type] == 0 else { throw .malformed("a server name that is no host's") }
        let name = try reader.vector(2, of: list)
        guard reader.position == list.count else { throw .malformed("more than one server name") }
        let host: Host
        do {
            host = try Host(normalizing: list.extracting(name))
        } catch {
            throw .malformed("the server name: \(error)")
        }
        guard host.kind == .name else { throw .malformed("an IP address as server name") }
        return host
    }
}

/// Reads TLS's vectors (RFC 8446, section 3.4), as ranges of the bytes that hold them.
private struct VectorReader {
    private(set) var position = 0

    mutating func fixed(_ count: Int, of bytes: borrowing Span<UInt8>) throws(ClientHelloFault) -> Range<Int> {
        guard bytes.count - position >= count else { throw .malformed("it ends too early") }
        defer { position += count }
        return position..<(position + count)
    }

    /// Reads a vector whose length has that many bytes.
    mutating func vector(_ lengthBytes: Int, of bytes: borrowing Span<UInt8>) throws(ClientHelloFault) -> Range<Int> {
        var length = 0
        for index in try fixed(lengthBytes, of: bytes) { length = length << 8 | Int(bytes[index]) }
        return try fixed(length, of: bytes)
    }
}
