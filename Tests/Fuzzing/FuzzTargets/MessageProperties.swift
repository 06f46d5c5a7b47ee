// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport

/// HTTP/1.1 messages: request heads, response heads, chunked bodies.
enum MessageProperties {
    /// Every division of a request stream gives the same result; an accepted head is equal after serialisation, and
    /// meets the assumptions of the rest of the program.
    static func requests(_ bytes: [UInt8]) throws(FuzzFinding) {
        for limits in [HeadLimits(), HeadLimits(headBytes: 150, targetBytes: 12, methodBytes: 4, fieldCount: 3)] {
            let whole = RequestReading(bytes, pieceSize: max(1, bytes.count), limits: limits)
            guard !whole.leftBytesBehind else { throw FuzzFinding("more was asked for before all was taken") }
            for size in [1, 2 + bytes.count % 40] where RequestReading(bytes, pieceSize: size, limits: limits) != whole
            {
                throw FuzzFinding("whole and in pieces of \(size) they differ")
            }
            for head in whole.heads { try check(head) }
        }
    }

    private static func check(_ head: RequestSummary) throws(FuzzFinding) {
        let again = RequestReading(head.written, pieceSize: 7)
        guard again.heads.count == 1, again.fault == nil, !again.isUnfinished, again.heads[0].isSame(as: head) else {
            throw FuzzFinding("written anew the head reads differently")
        }
        if let host = head.host, (try? Host(host.description)) != host {
            throw FuzzFinding("the host \(host) is not in its normal form")
        }
        guard !(head.fields.contains(.contentLength) && head.fields.contains(.transferEncoding)),
            head.fields.count(of: .host) <= 1
        else { throw FuzzFinding("two framings, or two hosts") }
        for byte in (head.target + head.rawTarget).utf8 where byte <= 0x20 || byte >= 0x7F {
            throw FuzzFinding("the byte \(byte) in a target")
        }
        try check(head.fields)
    }

    /// An accepted head has one framing and no control character, for any request method, and is equal after
    /// serialisation.
    static func responses(_ bytes: [UInt8]) throws(FuzzFinding) {
        for method in [HTTPMethod.get, .head, .connect] {
            var parser = ResponseHeadParser()
            var head = ResponseHead()
            lines: for line in lines(bytes) {
                switch parser.consume(line: line.span, answering: method, into: &head) {
                case .needMore: continue
                case .failed(let fault):
                    guard parser.consume(line: line.span, answering: method, into: &head) == .failed(fault) else {
                        throw FuzzFinding("a fault is forgotten")
                    }
                    break lines
                case .complete: try check(head, responding: method)
                }
            }
        }
    }

    private static func check(_ head: ResponseHead, responding method: HTTPMethod) throws(FuzzFinding) {
        try check(head.fields)
        guard (100...999).contains(head.status), head.contentLength ?? 0 >= 0 else {
            throw FuzzFinding("status \(head.status), length \(head.contentLength ?? 0)")
        }
        guard !(head.fields.contains(.contentLength) && head.fields.contains(.transferEncoding)) else {
            throw FuzzFinding("two framings")
        }
        var parser = ResponseHeadParser()
        var again = ResponseHead()
        var text = Array("HTTP/1.\(head.minorVersion) \(head.status) \r\n".utf8)
        for index in 0..<head.fields.count {
            text.append(head.fields.name(at: index))
            text += [0x3A, 0x20]
            text.append(head.fields.value(at: index))
            text += [13, 10]
        }
        text += [13, 10]
        var last = ResponseHeadParser.Outcome.needMore
        for line in lines(text) { last = parser.consume(line: line.span, answering: method, into: &again) }
        guard last == .complete, again.fields == head.fields, again.framing == head.framing,
            again.contentLength == head.contentLength
        else { throw FuzzFinding("written anew the head reads differently") }
    }

    /// Every division of a chunk stream gives the same data, which is equal after another encoding.
    static func chunks(_ bytes: [UInt8]) throws(FuzzFinding) {
        for (limits, isInResponse) in [
            (ChunkLimits(), false), (ChunkLimits(sizeLineBytes: 12, trailerBytes: 30, trailerCount: 2), false),
            (ChunkLimits(), true),
        ] {
            let whole = ChunkReading(bytes, pieceSize: max(1, bytes.count), limits: limits, isInResponse: isInResponse)
            guard !whole.miscounted else { throw FuzzFinding("the decoder miscounts") }
            for size in [1, 2 + bytes.count % 30] {
                let pieces = ChunkReading(bytes, pieceSize: size, limits: limits, isInResponse: isInResponse)
                guard pieces.isSame(as: whole) else {
                    throw FuzzFinding("whole and in pieces of \(size) they differ")
                }
            }
            guard whole.isEnded else { continue }
            try check(whole.trailers)
            let again = ChunkReading(whole.written, pieceSize: 5)
            guard again.isEnded, again.data == whole.data, again.trailers == whole.trailers else {
                throw FuzzFinding("coded anew the body reads differently")
            }
        }
    }

    private static func check(_ fields: HeaderFields) throws(FuzzFinding) {
        for (name, value) in fields.list where (name + value).utf8.contains(where: { $0 == 13 || $0 == 10 || $0 == 0 })
        {
            throw FuzzFinding("a line break or NUL in the field \(name.debugDescription)")
        }
    }

    /// The lines of a text, including their ends.
    private static func lines(_ bytes: [UInt8]) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var line: [UInt8] = []
        for byte in bytes {
            line.append(byte)
            if byte == 10 {
                lines.append(line)
                line = []
            }
        }
        return line.isEmpty ? lines : lines + [line]
    }
}
