// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@Suite("Rule 54: the heads of origins")
struct ResponseHeadParserTests {
    /// Parses the lines of `text`, split after each LF.
    private func parse(
        _ text: String,
        _ method: HTTPMethod = .get,
        limits: HeadLimits = HeadLimits()
    ) -> (ResponseHead, ResponseHeadParser.Outcome) {
        var parser = ResponseHeadParser(limits: limits)
        var head = ResponseHead()
        var outcome = ResponseHeadParser.Outcome.needMore
        var line: [UInt8] = []
        for byte in text.utf8 {
            line.append(byte)
            guard byte == 10 else { continue }
            outcome = parser.consume(line: line.span, answering: method, into: &head)
            line = []
            if case .failed = outcome { break }
        }
        return (head, outcome)
    }

    private func fault(_ fields: String, version: String = "1.1") -> ResponseFault? {
        if case .failed(let fault) = parse("HTTP/\(version) 200 OK\r\n\(fields)\r\n\r\n").1 { return fault }
        return nil
    }

    @Test(
        "a status line is read with a reason and without one",
        arguments: [
            ("HTTP/1.1 200 OK", 200, UInt8(1)), ("HTTP/1.1 404", 404, 1), ("HTTP/1.1 599 ", 599, 1),
            ("HTTP/1.0 301 Moved \u{E9}\t", 301, 1), ("HTTP/1.1 999 Request denied", 999, 1), ("HTTP/1.1 600", 600, 1),
            ("ICY 200 OK", 200, 1), ("ICY 401", 401, 1),
        ]
    )
    func statusLines(line: String, status: Int, major: UInt8) {
        let (head, outcome) = parse(line + "\r\n\r\n")
        #expect(outcome == .complete)
        #expect(head.status == status)
        #expect(head.majorVersion == major)
    }

    @Test(
        "a malformed status line is refused",
        arguments: [
            ("HTTP/1.1 99 x", ResponseFault.statusInvalid), ("HTTP/1.1 099 x", .statusInvalid),
            ("HTTP/1.1 2000", .statusInvalid), ("HTTP/1.1 1000 x", .statusInvalid),
            ("HTTP/1.1 20", .statusLineInvalid), ("HTTP/1.1  200", .statusInvalid), ("HTTP/1.1 2x0 OK", .statusInvalid),
            ("HTTP/1.1 +20 OK", .statusInvalid),
            ("HTTP/2 200 OK", .versionUnsupported), ("HTTP/2 204", .versionUnsupported),
            ("HTTP/2.0 200 OK", .versionUnsupported), ("HTTP/1.x 200 OK", .statusLineInvalid),
            ("HTTP/3 200 OK", .versionUnsupported), ("HTTP/1 200 OK", .versionUnsupported),
            ("HTTP/0.9 200 OK", .versionUnsupported), ("http/1.1 200 OK", .statusLineInvalid),
            ("ICY 20", .statusLineInvalid), ("ICY  200 OK", .statusInvalid), ("ICY 2000", .statusInvalid),
            ("icy 200 OK", .statusLineInvalid), ("ICY/1.0 200 OK", .statusLineInvalid), ("", .statusLineInvalid),
            ("HTTP/1.1 200 O\0K", .statusLineInvalid),
            ("HTTP/1.1 200 O\rK", .bareCarriageReturn), ("HTTP/1.1\t200 OK", .statusLineInvalid),
        ]
    )
    func statusLineFaults(line: String, fault: ResponseFault) {
        #expect(parse(line + "\r\n\r\n").1 == .failed(fault))
    }

    @Test(
        "rule 54: bad framing is refused",
        arguments: [
            ("Content-Length: 5\r\nContent-Length: 6", ResponseFault.contentLengthRepeated),
            ("Content-Length: 5, 6", .contentLengthRepeated), ("Content-Length: 5,", .contentLengthInvalid),
            ("Content-Length: ,5", .contentLengthInvalid), ("Content-Length: 5 5", .contentLengthInvalid),
            ("Content-Length: 5\r\nContent-Length: x", .contentLengthInvalid),
            ("Content-Length: 0x5", .contentLengthInvalid),
            ("Content-Length: \"5\", 5", .contentLengthInvalid), ("Content-Length: +5", .contentLengthInvalid),
            ("Content-Length: -0", .contentLengthInvalid), ("Content-Length : 5", .spaceBeforeColon),
            ("Content-Length: 5\u{1}", .fieldValueInvalid), ("Content-Length:\r\n 5", .foldedField),
            ("Content-Length: 5\r\n 5", .foldedField), ("Transfer-Encoding : chunked", .spaceBeforeColon),
            ("Transfer-Encoding:\r\n chunked", .foldedField), ("Transfer-Encoding: \u{B}chunked", .fieldValueInvalid),
            ("Transfer-Encoding: identity\r\nContent-Length: 5", .lengthAndTransferEncoding),
            ("Transfer-Encoding: identity, chunked", .transferCodingUnknown),
            ("Transfer-Encoding: chunked, identity", .transferEncodingNotChunked),
            ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", .transferEncodingRepeated),
            ("Content-Length:", .contentLengthInvalid), ("Content-Length: 99999999999999999999", .contentLengthInvalid),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", .lengthAndTransferEncoding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", .transferEncodingRepeated),
            ("Transfer-Encoding: gzip", .transferEncodingNotChunked),
            ("Transfer-Encoding: gzip, chunked", .transferCodingUnknown),
            ("Transfer-Encoding: cow", .transferCodingUnknown),
            ("Transfer-Encoding: chunked, chunked", .transferEncodingInvalid),
            ("Transfer-Encoding: chunked;a", .transferEncodingInvalid),
            ("Connection : close", .spaceBeforeColon), ("Connection: close\r\n , x", .foldedField),
        ]
    )
    func framingFaults(fields: String, expected: ResponseFault) {
        #expect(fault(fields) == expected)
    }

    @Test(
        "rule 54: bad fields are refused",
        arguments: [
            (" A: b", ResponseFault.foldedField), ("A", .fieldWithoutColon), ("A b", .fieldWithoutColon),
            ("A: b\r\n ", .foldedField), ("A: b\r\n\t \t", .foldedField), ("A: b\r\n \u{0}", .fieldValueInvalid),
            ("A: b\r\n c\rd", .bareCarriageReturn), ("A: \u{0}", .fieldValueInvalid),
            ("A : b\u{0}", .fieldValueInvalid),
            ("A\u{1}: b", .fieldNameInvalid), ("A\u{0}: b", .fieldNameInvalid), ("A B: c\u{0}", .fieldNameInvalid),
            ("A B: c\rd", .fieldNameInvalid), ("A\rB: c", .bareCarriageReturn), ("\rA: c", .bareCarriageReturn),
            ("Content Length: 5", .fieldNameInvalid), ("(Content-Length): 5", .fieldNameInvalid),
            ("Transfer-Encoding(): chunked", .fieldNameInvalid), ("Transfer Encoding : chunked", .fieldNameInvalid),
            ("Connection?!/: close", .fieldNameInvalid),
            ("A: b\rc", .bareCarriageReturn), ("A: b\n", .bareLineFeed), ("A: b\nC: d", .bareLineFeed),
        ]
    )
    func fieldFaults(fields: String, expected: ResponseFault) {
        #expect(fault(fields) == expected)
    }

    /// A response line that is not regular, and the fields that it is.
    private static let unusual: [(fields: String, becomes: [String])] = [
        ("A : b", ["A: b"]), ("A \t :b", ["A: b"]), ("A : b\u{1}c\u{7F}", ["A: b c"]), ("A: b\r\n c", ["A: b c"]),
        ("A: b \r\n\t  c \r\n d", ["A: b c d"]), ("A:\r\n b", ["A: b"]), ("A: b\r\n C: d", ["A: b C: d"]),
        ("A : b\r\n c", ["A: b c"]), ("A: \u{1}b\u{1B}[m", ["A: b [m"]), ("A: \u{8}", ["A: "]), (": b", []),
        ("(: b", []),
        ("X Y: b\r\nA: b", ["A: b"]), ("X Y: b\r\n c\r\n d\r\nA: b", ["A: b"]), ("HTTP 1/1 302:\r\nA: b", ["A: b"]),
        ("Content_Length: 5\r\nA: b", ["A: b"]), ("Transfer_Encoding: chunked\r\n x\r\nA: b", ["A: b"]),
        ("A: \u{E9}\u{20AC}", ["A: \u{E9}\u{20AC}"]), ("Content-Length: 5\r\nContent-Length: 5", ["Content-Length: 5"]),
        ("Content-Length: 5, 5\r\nA: b\r\nContent-Length: 5", ["Content-Length: 5", "A: b"]),
        ("Content-Length: 0005", ["Content-Length: 5"]), ("Content-Length: 00", ["Content-Length: 0"]),
        ("Transfer-Encoding: Identity\r\nA: b", ["A: b"]),
    ]

    private func lines(_ head: ResponseHead) -> [String] { head.fields.list.map { "\($0.name): \($0.value)" } }

    @Test("rule 54: an unusual field is read, and made regular", arguments: unusual.indices)
    func unusualFields(index: Int) {
        let (fields, expected) = Self.unusual[index]
        let (head, outcome) = parse("HTTP/1.1 200 OK\r\nB: 1\r\n\(fields)\r\nZ: 2\r\n\r\n")
        #expect(outcome == .complete, "\(fields.debugDescription)")
        #expect(lines(head) == ["B: 1"] + expected + ["Z: 2"], "\(fields.debugDescription)")
        // Written anew it is read as the same, without any of it.
        let written = lines(head).map { $0 + "\r\n" }.joined()
        let (again, end) = parse("HTTP/1.1 200 OK\r\n\(written)\r\n")
        #expect(end == .complete && again.fields == head.fields && again.framing == head.framing)
        #expect(!again.endsConnection)
    }

    @Test("rule 54: repeated lengths and LF line ends end the connection afterwards")
    func endOfConnection() {
        for (text, ends) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", true), ("HTTP/1.1 204 x\n\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 05\r\n\r\n", false), ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", false),
            ("HTTP/1.1 200 OK\nA: b\n\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n", false),
        ] {
            let (head, outcome) = parse(text)
            #expect(outcome == .complete)
            #expect(head.endsConnection == ends, "\(text.debugDescription)")
        }
    }

    @Test("rule 54: either all lines end with LF alone, or none")
    func lineFeeds() {
        let (head, outcome) = parse("HTTP/1.1 200 OK\nA: b\nC : d\n e\nContent-Length: 5\n\n")
        #expect(outcome == .complete)
        #expect(lines(head) == ["A: b", "C: d e", "Content-Length: 5"])
        #expect(head.framing == .length(5))
        for text in [
            "HTTP/1.1 200 OK\r\nA: b\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n\n", "HTTP/1.1 200 OK\nA: b\r\n\n",
            "HTTP/1.1 200 OK\nA: b\n\r\n", "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 5\r\n\r\n",
        ] {
            #expect(parse(text).1 == .failed(.bareLineFeed), "\(text.debugDescription)")
        }
        #expect(parse("HTTP/1.1 200 OK\nA: b\rc\n\n").1 == .failed(.bareCarriageReturn))
        #expect(parse("HTTP/1.1 200 OK\n A: b\n\n").1 == .failed(.foldedField))
    }

    @Test("rule 54: continuations and skipped lines count against the limits")
    func longFold() {
        let limits = HeadLimits(headBytes: 200_000, fieldCount: 500)
        let begin = "HTTP/1.1 200 OK\r\nA: b\r\n"
        let folds = String(repeating: " x\r\n", count: 499)
        let (head, outcome) = parse("\(begin)\(folds)\r\n", limits: limits)
        #expect(outcome == .complete)
        #expect(head.fields.value(at: 0).count == 1 + 2 * 499)
        #expect(parse("\(begin)\(folds) x\r\n\r\n", limits: limits).1 == .failed(.tooManyFields))
        let omitted = String(repeating: "@: b\r\n", count: 499)
        #expect(parse("\(begin)\(omitted)\r\n", limits: limits).1 == .complete)
        #expect(parse("\(begin)\(omitted)@: b\r\n\r\n", limits: limits).1 == .failed(.tooManyFields))
        let long = String(repeating: " \(String(repeating: "x", count: 1000))\r\n", count: 200)
        #expect(parse("\(begin)\(long)\r\n", limits: limits).1 == .failed(.headTooLarge))
    }

    @Test("rule 54: Transfer-Encoding in HTTP/1.0 is refused")
    func transferEncodingVersions() {
        #expect(fault("Transfer-Encoding: chunked", version: "1.0") == .transferEncodingInVersion)
        #expect(fault("Transfer-Encoding: chunked") == nil)
    }

    @Test(
        "rule 50: framing follows status, method and fields",
        arguments: [
            ("GET", 200, "Content-Length: 5", BodyFraming.length(5)),
            ("GET", 200, "Transfer-Encoding: chunked", .chunked), ("GET", 200, "A: b", .untilClose),
            ("HEAD", 200, "Content-Length: 5", .none), ("HEAD", 200, "Transfer-Encoding: chunked", .none),
            ("GET", 204, "Content-Length: 0", .none), ("GET", 204, "A: b", .none),
            ("GET", 304, "Content-Length: 5", .none), ("GET", 100, "A: b", .none), ("GET", 103, "A: b", .none),
            ("CONNECT", 200, "Content-Length: 5", .none),
            ("CONNECT", 403, "Content-Length: 5", .length(5)), ("GET", 200, "Content-Length: 0", .length(0)),
            ("GET", 200, "Content-Length: 5\r\nContent-Length: 5", .length(5)),
            ("GET", 200, "Transfer-Encoding: identity", .untilClose), ("GET", 999, "Content-Length: 5", .length(5)),
        ]
    )
    func framing(method: String, status: Int, fields: String, expected: BodyFraming) throws {
        let (head, outcome) = parse("HTTP/1.1 \(status) x\r\n\(fields)\r\n\r\n", try #require(HTTPMethod(method)))
        #expect(outcome == .complete)
        #expect(head.framing == expected)
        if fields.hasPrefix("Content-Length: 5") { #expect(head.contentLength == 5) }
    }

    @Test("an interim head is followed by the final one in the same value")
    func interim() {
        let (head, outcome) = parse("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n")
        #expect(outcome == .complete)
        #expect(head.status == 200)
        #expect(head.fields.list.map(\.name) == ["A"])
        #expect(!head.isInterim)
        #expect(parse("HTTP/1.1 103 x\r\n\r\n").0.isInterim)
        #expect(!parse("HTTP/1.1 101 x\r\n\r\n").0.isInterim)
    }

    @Test("the head is bounded in bytes and fields")
    func limits() {
        let limits = HeadLimits(headBytes: 60, fieldCount: 2)
        #expect(parse("HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\nE: f\r\n\r\n", limits: limits).1 == .failed(.tooManyFields))
        #expect(
            parse("HTTP/1.1 200 OK\r\nA: \(String(repeating: "b", count: 60))\r\n\r\n", limits: limits).1
                == .failed(.headTooLarge)
        )
    }

    @Test("a failed parser stays failed until it is reset")
    func reset() {
        var parser = ResponseHeadParser()
        var head = ResponseHead()
        let bad = Array("nonsense\r\n".utf8)
        let good = Array("HTTP/1.1 200 OK\r\n".utf8)
        #expect(parser.consume(line: bad.span, answering: .get, into: &head) == .failed(.statusLineInvalid))
        #expect(parser.consume(line: good.span, answering: .get, into: &head) == .failed(.statusLineInvalid))
        parser.reset()
        #expect(parser.consume(line: good.span, answering: .get, into: &head) == .needMore)
        #expect(parser.isInsideHead)
    }

    @Test("Connection fields of more than 1,024 bytes are refused")
    func connectionLength() {
        #expect(fault("Connection: \(String(repeating: "x,", count: 512))") == nil)
        #expect(fault("Connection: \(String(repeating: "x,", count: 512))x") == .connectionTooLong)
    }

    @Test("every fault has a rule name of its own and a sentence")
    func faultsAreComplete() {
        var names: Set<String> = []
        for fault in ResponseFault.allCases {
            #expect(names.insert("\(fault.rule)").inserted)
            #expect("\(fault.message)".hasSuffix("."))
        }
        for fault in ChunkFault.allCases {
            #expect(names.insert("\(fault.rule)").inserted)
            #expect("\(fault.message)".hasSuffix("."))
        }
    }
}
