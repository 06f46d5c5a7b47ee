// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// One case of a suite of conformance: what the client sends, and what the proxy has to do about it.
///
/// The cases are those of h2spec's public list, section by section; `name` has the section of RFC 9113 (of RFC 7540 where
/// RFC 9113 has dropped it) or of RFC 7541 and the title.
struct ConformanceCase: Sendable {
    enum Step: Sendable {
        case send([UInt8])
        case expect(Expectation)
    }

    /// The expected next event; other events before it are ignored, unless they exclude it.
    enum Expectation: Sendable {
        /// GOAWAY with one of the codes, and then the end of the connection.
        case connectionError([HTTP2Code])
        /// RST_STREAM with one of the codes, or a connection error with one of them.
        case streamError([HTTP2Code], stream: Int)
        /// RST_STREAM with that code and nothing else.
        case reset(HTTP2Code, stream: Int)
        case head(stream: Int)
        /// DATA with that many bytes; nil is any number.
        case data(stream: Int, count: Int?)
        /// The end of the stream: END_STREAM, or a reset.
        case end(stream: Int)
        case pingAcknowledgement
        case settingsAcknowledgement
        /// The end of the connection, whatever is said before it.
        case closed
        case pingAcknowledgementOrClosed
    }

    let name: String
    let steps: [Step]

    init(_ name: String, _ steps: Step...) {
        self.name = name
        self.steps = steps
    }
}

/// The codes of RFC 9113, section 7.
enum HTTP2Code: UInt32, Sendable {
    case noError, protocolError, internalError, flowControlError, settingsTimeout, streamClosed, frameSizeError
    case refusedStream, cancel, compressionError, connectError, enhanceYourCalm
}

extension RawFrames {
    static let endStream: UInt8 = 1
    static let acknowledgement: UInt8 = 1
    static let endHeaders: UInt8 = 4
    static let padded: UInt8 = 8
    static let priority: UInt8 = 0x20
    static let whole = endStream | endHeaders

    static func data(_ stream: Int, _ payload: [UInt8], ends: Bool = true) -> [UInt8] {
        frame(type: 0, flags: ends ? endStream : 0, stream: stream, payload)
    }

    static func headers(_ stream: Int, _ block: [UInt8], flags: UInt8 = whole) -> [UInt8] {
        frame(type: 1, flags: flags, stream: stream, block)
    }

    static func priority(_ stream: Int, dependsOn other: UInt32 = 0, exclusive: Bool = false, weight: UInt8 = 255)
        -> [UInt8]
    {
        frame(type: 2, stream: stream, number(other | (exclusive ? 1 << 31 : 0)) + [weight])
    }

    static func reset(_ stream: Int, _ code: UInt32 = HTTP2Code.cancel.rawValue) -> [UInt8] {
        frame(type: 3, stream: stream, number(code))
    }

    static func settings(_ entries: [(UInt16, UInt32)] = []) -> [UInt8] {
        frame(type: 4, entries.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 255)] + number($0.1) })
    }

    static func windowUpdate(_ stream: Int, _ increment: UInt32) -> [UInt8] {
        frame(type: 8, stream: stream, number(increment))
    }

    static func continuation(_ stream: Int, _ block: [UInt8], ends: Bool = true) -> [UInt8] {
        frame(type: 9, flags: ends ? endHeaders : 0, stream: stream, block)
    }

    static let ping = frame(type: 6, [1, 2, 3, 4, 5, 6, 7, 8])

    static func number(_ value: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> UInt32($0)) }
    }

    /// A number with a prefix of seven bits (RFC 7541, section 5.1).
    static func length(_ count: Int) -> [UInt8] {
        if count < 127 { return [UInt8(count)] }
        var rest = count - 127
        var bytes: [UInt8] = [127]
        while rest >= 128 {
            bytes.append(UInt8(rest & 127 | 128))
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    /// A field without indexing and without compression.
    static func field(_ name: String, _ value: String) -> [UInt8] {
        [0] + length(name.utf8.count) + Array(name.utf8) + length(value.utf8.count) + Array(value.utf8)
    }

    static let authority = field(":authority", Stage.host)
    static let get = [0x82, 0x86, 0x84] + authority
    static let post = [0x83, 0x86, 0x84] + authority
    static let test = Array("test".utf8)
    /// A request whose body does not end.
    static func open(_ stream: Int) -> [UInt8] { headers(stream, post, flags: endHeaders) }
}
