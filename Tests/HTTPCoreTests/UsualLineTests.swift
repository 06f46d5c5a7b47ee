// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

/// The parsers read field lines of the usual form all at once, and the others line by line. A head in single bytes takes the
/// second way alone.
@Suite("Fast reading of field lines agrees with reading line by line")
struct UsualLineTests {
    static let lines: [String] = [
        "A: b", "Date: Mon, 23 Nov 2026 06:00:00 GMT", "a:b", "A:  b", "A: b ", "A: \tb", "A: b\t", "A: b\tc", "A:",
        "A: ", "A:\t", "A:  ",
        "A : b", " A: b", "\tA: b", "A b", "A", ":", ": b", "A: b: c", "A: b\u{1}c", "A: b\u{7F}c", "A: b\u{0}",
        "A: b\rc", "A\r: b",
        "Transfer_Encoding: x", "content_length: 1", "Content-Length: 3", "content-length: 03", "\u{C4}: b",
        "A: \u{C4}", "A(: b", "A/b: c",
        "X-\(String(repeating: "y", count: 40)): z", "A: \(String(repeating: "z", count: 70))", "Host: other.test",
        "Connection: close",
    ]

    private func describe(_ fields: borrowing HeaderFields) -> [String] {
        (0..<fields.count).map { index in
            let name = String(copying: fields.name(at: index))
            let value = String(copying: fields.value(at: index))
            return "\(fields.id(at: index)) \(name)|\(value)|\(String(copying: fields.line(at: index)))"
        }
    }

    private func request(_ text: String, piece: Int, _ limits: HeadLimits) -> [String] {
        let bytes = Array(text.utf8)
        var parser = RequestParser(limits: limits)
        var head = RequestHead()
        var outcome = RequestParser.Outcome.needMore
        var position = 0
        while position < bytes.count, outcome == .needMore {
            let result = parser.parse(bytes.span.extracting(position..<min(position + piece, bytes.count)), into: &head)
            position += result.consumed
            outcome = result.outcome
        }
        guard case .complete = outcome else { return ["\(outcome)"] }
        return ["\(outcome) \(head.byteCount) \(position)"] + describe(head.fields)
    }

    /// - Parameter isAtOnce: whether lines of the usual form are read all at once.
    private func response(_ text: String, isAtOnce: Bool, _ limits: HeadLimits) -> [String] {
        let bytes = Array(text.utf8)
        var parser = ResponseHeadParser(limits: limits)
        var head = ResponseHead()
        var outcome = ResponseHeadParser.Outcome.needMore
        var position = 0
        while outcome == .needMore {
            if isAtOnce { position = parser.consumeUsualLines(of: bytes.span, from: position, into: &head) }
            guard let end = bytes.span.firstIndex(of: 10, from: position) else { break }
            outcome = parser.consume(
                line: bytes.span.extracting(position..<end + 1),
                answering: .get,
                into: &head
            )
            position = end + 1
        }
        guard case .complete = outcome else { return ["\(outcome)"] }
        return ["\(outcome) \(head.byteCount) \(position) \(head.framing)"] + describe(head.fields)
    }

    private func expectSame(_ fields: String, _ limits: HeadLimits = HeadLimits()) {
        let asked = "GET / HTTP/1.1\r\nHost: a.test\r\n\(fields)\r\nrest"
        #expect(
            request(asked, piece: asked.utf8.count, limits) == request(asked, piece: 1, limits),
            "\(fields.debugDescription) \(limits)"
        )
        let whole = "HTTP/1.1 200 OK\r\nServer: a\r\n\(fields)\r\nrest"
        #expect(
            response(whole, isAtOnce: true, limits) == response(whole, isAtOnce: false, limits),
            "\(fields.debugDescription) \(limits)"
        )
    }

    @Test("each kind of line agrees, in every position, with each line end", arguments: lines)
    func each(line: String) {
        for end in ["\r\n", "\n", "\r\r\n", "\r", ""] {
            for (before, after) in [("", ""), ("B: c\r\n", ""), ("", "B: c\r\n"), ("B: c\r\n", "Date: x\r\n")] {
                expectSame(before + line + end + after)
            }
        }
    }

    @Test("pairs of lines agree", arguments: lines)
    func two(line: String) {
        for other in Self.lines { expectSame("\(line)\r\n\(other)\r\n") }
    }

    @Test("each byte value agrees in each position")
    func bytes() {
        let line = Array("Accept: text/html, a".utf8)
        for place in line.indices {
            for byte in UInt8.min...0x7F {
                var changed = line
                changed[place] = byte
                expectSame(String(decoding: changed, as: UTF8.self) + "\r\nB: c\r\n")
            }
        }
    }

    @Test("the limits of a head agree to the byte and the field")
    func limits() {
        let fields = "A: b\r\nDate: Mon\r\nX-Some: thing else\r\n"
        for count in 0..<7 { expectSame(fields, HeadLimits(fieldCount: count)) }
        for bytes in 10..<90 { expectSame(fields, HeadLimits(headBytes: bytes)) }
    }

    @Test("a head in two pieces agrees, wherever it is cut")
    func cuts() {
        let text = "GET / HTTP/1.1\r\nHost: a.test\r\nA: b\r\nDate: Mon, 23 Nov\r\nC:d\r\nX-Some: thing else\r\n\r\n"
        let whole = request(text, piece: text.utf8.count, HeadLimits())
        #expect(whole.count == 6)
        for piece in 1..<text.utf8.count { #expect(request(text, piece: piece, HeadLimits()) == whole) }
    }
}
