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
            ("HTTP/1.0 301 Moved \u{E9}\t", 301, 1),
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
            ("HTTP/1.1 99 x", ResponseFault.statusInvalid), ("HTTP/1.1 600 x", .statusInvalid),
            ("HTTP/1.1 2000", .statusInvalid),
            ("HTTP/1.1 20", .statusLineInvalid), ("HTTP/1.1  200", .statusInvalid), ("HTTP/1.1 2x0 OK", .statusInvalid),
            ("HTTP/1.1 +20 OK", .statusInvalid),
            ("HTTP/2 200 OK", .versionUnsupported), ("HTTP/2 204", .versionUnsupported),
            ("HTTP/2.0 200 OK", .versionUnsupported), ("HTTP/1.x 200 OK", .statusLineInvalid),
            ("HTTP/3 200 OK", .versionUnsupported), ("HTTP/1 200 OK", .versionUnsupported),
            ("HTTP/0.9 200 OK", .versionUnsupported), ("http/1.1 200 OK", .statusLineInvalid),
            ("ICY 200 OK", .statusLineInvalid), ("", .statusLineInvalid), ("HTTP/1.1 200 O\0K", .statusLineInvalid),
            ("HTTP/1.1 200 O\rK", .bareCarriageReturn), ("HTTP/1.1\t200 OK", .statusLineInvalid),
        ]
    )
    func statusLineFaults(line: String, fault: ResponseFault) {
        #expect(parse(line + "\r\n\r\n").1 == .failed(fault))
    }

    @Test(
        "rule 54: bad framing is refused",
        arguments: [
            ("Content-Length: 5\r\nContent-Length: 5", ResponseFault.contentLengthRepeated),
            ("Content-Length: 5\r\nContent-Length: 6", .contentLengthRepeated),
            ("Content-Length: 5, 5", .contentLengthRepeated), ("Content-Length: +5", .contentLengthInvalid),
            ("Content-Length: 05", .contentLengthInvalid),
            ("Content-Length:", .contentLengthInvalid), ("Content-Length: 99999999999999999999", .contentLengthInvalid),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", .lengthAndTransferEncoding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", .transferEncodingRepeated),
            ("Transfer-Encoding: gzip", .transferEncodingNotChunked),
            ("Transfer-Encoding: gzip, chunked", .transferCodingUnknown),
            ("Transfer-Encoding: cow", .transferCodingUnknown),
            ("Transfer-Encoding: chunked, chunked", .transferEncodingInvalid),
            ("Transfer-Encoding: chunked;a", .transferEncodingInvalid), ("Content_Length: 5", .underscoredFraming),
        ]
    )
    func framingFaults(fields: String, expected: ResponseFault) {
        #expect(fault(fields) == expected)
    }

    @Test(
        "rule 54: bad fields are refused",
        arguments: [
            ("A : b", ResponseFault.spaceBeforeColon), ("A: b\r\n c", .foldedField), ("A", .fieldWithoutColon),
            ("(: b", .fieldNameInvalid),
            ("A: \u{01}", .fieldValueInvalid), ("A: b\rc", .bareCarriageReturn), ("A: b\n", .bareLineFeed),
        ]
    )
    func fieldFaults(fields: String, expected: ResponseFault) {
        #expect(fault(fields) == expected)
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

    @Test("Connection fields of more than 1,024 bytes are refused: each field of the head is looked up in them")
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
