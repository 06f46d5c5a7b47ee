// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

/// Rules 21 to 35 of the wire, and those of 44 to 52 that a parser answers for. Fed whole and byte by byte.
@Suite("Rules 21-35: fields and length")
struct RequestFieldRuleTests {
    private func head(_ fields: String, method: String = "POST", version: String = "1.1") -> String {
        "\(method) / HTTP/\(version)\r\nHost: a.example\r\n\(fields)\r\n\r\n"
    }

    @Test(
        "rule 21: space before the colon is refused",
        arguments: ["A : b", "A\t: b", "Content-Length  : 5", "Transfer-Encoding : chunked"]
    )
    func rule21(field: String) {
        #expect(refuse(head(field)) == .spaceBeforeColon)
    }

    @Test(
        "rule 22: a folded field is refused",
        arguments: ["A: b\r\n c", "A: b\r\n\tc", "A: b\r\n ", "A: b\r\n Transfer-Encoding: chunked"]
    )
    func rule22(field: String) {
        #expect(refuse(head(field)) == .foldedField)
    }

    @Test(
        "rule 23: an empty or invalid name, or no colon, is refused",
        arguments: [
            (": b", RequestFault.fieldNameInvalid), ("A(: b", .fieldNameInvalid), ("A B: c", .fieldNameInvalid),
            ("A\0: b", .fieldNameInvalid),
            ("Ä: b", .fieldNameInvalid), ("abc", .fieldWithoutColon), ("abc ", .fieldWithoutColon),
            ("A\u{7F}: b", .fieldNameInvalid),
            ("\"A\": b", .fieldNameInvalid), ("A;: b", .fieldNameInvalid),
        ]
    )
    func rule23(field: String, fault: RequestFault) {
        #expect(refuse(head(field)) == fault)
    }

    @Test("rule 24: NUL and control characters in a value are refused")
    func rule24() {
        for byte in [UInt8](0...0x1F) + [0x7F] where byte != 0x09 && byte != 0x0A && byte != 0x0D {
            let bytes = Array("GET / HTTP/1.1\r\nHost: a.example\r\nA: b".utf8) + [byte] + Array("c\r\n\r\n".utf8)
            #expect(readBothWays(bytes).fault == .fieldValueInvalid, "byte \(byte)")
        }
        #expect(refuse(head("A: b\rc")) == .bareCarriageReturn)
    }

    @Test("rule 24: TAB, spaces and bytes above 0x7F stay in a value")
    func rule24Allowed() throws {
        let accepted = try accept(head("A:  \t b\tc é  \t ", method: "GET"))
        #expect(accepted.fields.value(for: "a") == "b\tc é")
        #expect(try accept(head("A:", method: "GET")).fields.value(for: "A")?.isEmpty == true)
        #expect(try accept(head("A: \t ", method: "GET")).fields.value(for: "A")?.isEmpty == true)
    }

    @Test("rule 25: a head that is too large is 431")
    func rule25() throws {
        var limits = HeadLimits(headBytes: 200, fieldCount: 3)
        let frame = "GET / HTTP/1.1\r\nHost: a.example\r\nA: \r\n\r\n".utf8.count
        let fitting = String(repeating: "x", count: 200 - frame)
        #expect(
            try accept("GET / HTTP/1.1\r\nHost: a.example\r\nA: \(fitting)\r\n\r\n", limits: limits).byteCount == 200
        )
        #expect(refuse("GET / HTTP/1.1\r\nHost: a.example\r\nA: \(fitting)x\r\n\r\n", limits: limits) == .headTooLarge)
        #expect(refuse("GET / HTTP/1.1\r\nA: " + String(repeating: "x", count: 1000), limits: limits) == .headTooLarge)
        #expect(try accept("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\n\r\n", limits: limits).fields.count == 3)
        #expect(refuse("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\nE: f\r\n\r\n", limits: limits) == .tooManyFields)
        limits.headBytes = 20
        #expect(refuse("GET /aaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a\r\n\r\n", limits: limits) == .headTooLarge)
        #expect(RequestFault.headTooLarge.status == 431)
        #expect(RequestFault.tooManyFields.status == 431)
    }

    @Test(
        "rule 26: Transfer_Encoding and Content_Length are refused",
        arguments: ["Transfer_Encoding: chunked", "Content_Length: 5", "CONTENT_length: 5", "transfer_encoding: x"]
    )
    func rule26(field: String) {
        #expect(refuse(head(field)) == .underscoredFraming)
    }

    @Test(
        "rule 27: Content-Length and Transfer-Encoding together are refused",
        arguments: [
            "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 0",
            "transfer-encoding: chunked\r\nA: b\r\ncontent-length: 5",
        ]
    )
    func rule27(fields: String) {
        #expect(refuse(head(fields)) == .lengthAndTransferEncoding)
    }

    @Test(
        "rule 28: two Content-Lengths or a list are refused, even if equal",
        arguments: [
            "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 5",
            "Content-Length: 5,", "Content-Length: ,5",
        ]
    )
    func rule28(fields: String) {
        #expect(refuse(head(fields)) == .contentLengthRepeated)
    }

    @Test(
        "rule 29: a Content-Length that is no plain number is refused",
        arguments: ["+5", "-0", "0x5", "1_0", "5 5", "", "5.0", "five", "5;", "\"5\"", "٥", "1e3"]
    )
    func rule29(value: String) {
        #expect(refuse(head("Content-Length: \(value)")) == .contentLengthInvalid)
    }

    @Test(
        "rule 29: a Content-Length that overflows is refused",
        arguments: ["9223372036854775808", "18446744073709551621", "99999999999999999999999999"]
    )
    func rule29Overflow(value: String) throws {
        #expect(refuse(head("Content-Length: \(value)")) == .contentLengthOverflow)
        #expect(try accept(head("Content-Length: 9223372036854775807")).framing == .length(.max))
    }

    @Test("rule 30: leading zeros are refused", arguments: ["00", "05", "000000005"])
    func rule30(value: String) throws {
        #expect(refuse(head("Content-Length: \(value)")) == .contentLengthLeadingZero)
        #expect(try accept(head("Content-Length: 0")).framing == .length(0))
    }

    @Test(
        "rule 31: Transfer-Encoding twice is refused",
        arguments: [
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nTransfer-encoding: identity",
        ]
    )
    func rule31(fields: String) {
        #expect(refuse(head(fields)) == .transferEncodingRepeated)
    }

    @Test(
        "rule 32: a final coding other than chunked is 400, an unknown one 501",
        arguments: [
            ("gzip", RequestFault.transferEncodingNotChunked), ("identity", .transferEncodingNotChunked),
            ("chunked, gzip", .transferEncodingNotChunked),
            ("chunked, cow", .transferEncodingNotChunked), ("cow", .transferCodingUnknown),
            ("xchunked", .transferCodingUnknown), ("cow, chunked", .transferCodingUnknown),
            ("gzip, chunked", .transferCodingUnknown),
        ]
    )
    func rule32(value: String, fault: RequestFault) {
        #expect(refuse(head("Transfer-Encoding: \(value)")) == fault)
        #expect(fault.status == (fault == .transferCodingUnknown ? 501 : 400))
    }

    @Test(
        "rule 33: a malformed Transfer-Encoding is refused",
        arguments: [
            "chunked,chunked", "chunked, chunked", "", "chunked,", ",chunked", "chunked;a=b", "chunked ;q=1",
            "\"chunked\"", "chunked\u{0B}", "\u{0C}chunked", "chunked\0", "chunk ed", "gzip,,chunked",
        ]
    )
    func rule33(value: String) {
        #expect(refuse(head("Transfer-Encoding: \(value)"))?.status == 400)
    }

    @Test("rule 33: chunked is read in any case")
    func rule33AnyCase() throws {
        #expect(try accept(head("Transfer-Encoding: CHUNKED")).framing == .chunked)
        #expect(try accept(head("Transfer-Encoding: \t chunked \t")).framing == .chunked)
    }

    @Test("rule 34: Transfer-Encoding in HTTP/1.0 is refused")
    func rule34() {
        #expect(refuse(head("Transfer-Encoding: chunked", version: "1.0")) == .transferEncodingInVersion10)
    }

    @Test(
        "rule 35: a body with GET, HEAD or OPTIONS is framed like any other",
        arguments: ["GET", "HEAD", "OPTIONS", "DELETE"]
    )
    func rule35(method: String) throws {
        #expect(try accept(head("Content-Length: 5", method: method)).framing == .length(5))
        #expect(try accept(head("Transfer-Encoding: chunked", method: method)).framing == .chunked)
        #expect(try accept(head("A: b", method: method)).framing == .none)
    }

    @Test("rule 44: the connection lives as version and Connection say")
    func rule44KeepAlive() throws {
        #expect(try accept(head("A: b")).keepAlive)
        #expect(try !accept(head("Connection: close")).keepAlive)
        #expect(try !accept(head("Connection: x, CLOSE")).keepAlive)
        #expect(try !accept(head("Connection: keep-alive\r\nConnection: close")).keepAlive)
        #expect(try !accept(head("A: b", version: "1.0")).keepAlive)
        #expect(try accept(head("Connection: Keep-Alive", version: "1.0")).keepAlive)
        #expect(try accept(head("Connection: closed")).keepAlive)
    }

    @Test("rule 44: Connection fields of more than 1,024 bytes are refused")
    func rule44Length() throws {
        func options(_ count: Int) -> String { String(repeating: "x,", count: count / 2) }
        #expect(try accept(head("Connection: \(options(1024))")).connection.namesFields)
        #expect(refuse(head("Connection: \(options(1026))")) == .connectionTooLong)
        #expect(try accept(head("Connection: \(options(512))\r\nConnection: \(options(512))")).connection.namesFields)
        #expect(refuse(head("Connection: \(options(512))\r\nConnection: close, \(options(512))")) == .connectionTooLong)
        #expect(refuse(head("Connection: \(String(repeating: ",", count: 1025))")) == .connectionTooLong)
        #expect(RequestFault.connectionTooLong.status == 400)
    }

    @Test("rule 46: TRACE is 405, Max-Forwards is read where it is one number")
    func rule46() throws {
        #expect(refuse(head("A: b", method: "TRACE")) == .methodTrace)
        #expect(RequestFault.methodTrace.status == 405)
        #expect(try accept(head("Max-Forwards: 0", method: "OPTIONS")).maxForwards == 0)
        #expect(try accept(head("Max-Forwards: x", method: "OPTIONS")).maxForwards == nil)
        #expect(try accept(head("Max-Forwards: 1\r\nMax-Forwards: 2", method: "OPTIONS")).maxForwards == nil)
    }

    @Test("rule 48: an unknown expectation is 417; 100-continue is noted where it counts")
    func rule48() throws {
        #expect(refuse(head("Expect: 200-ok")) == .expectationUnknown)
        #expect(refuse(head("Expect: 100-continue, x")) == .expectationUnknown)
        #expect(try !accept(head("Expect:\r\nContent-Length: 5")).expectsContinue)
        #expect(try accept(head("Expect: , 100-continue,100-Continue\r\nContent-Length: 5")).expectsContinue)
        #expect(RequestFault.expectationUnknown.status == 417)
        #expect(try accept(head("Expect: 100-Continue\r\nContent-Length: 5")).expectsContinue)
        #expect(try !accept(head("Expect: 100-continue")).expectsContinue)
        #expect(try !accept(head("Expect: 100-continue\r\nContent-Length: 5", version: "1.0")).expectsContinue)
    }

    @Test("rule 51: pipelined heads come out one after the other")
    func rule51() {
        let text = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\nX: y\r\n\r\nGET /3"
        let reading = readBothWays(Array(text.utf8))
        #expect(reading.heads.map(\.target) == ["/1", "/2"])
        #expect(reading.heads.map { $0.fields.count } == [1, 2])
        #expect(reading.isUnfinished)
    }

    @Test("rule 52: Upgrade without the Connection token is ignored")
    func rule52() throws {
        #expect(try !accept(head("Upgrade: websocket")).wantsUpgrade)
        #expect(try !accept(head("Connection: upgrade")).wantsUpgrade)
        #expect(try accept(head("Upgrade: websocket\r\nConnection: keep-alive, Upgrade")).wantsUpgrade)
        #expect(try !accept(head("Upgrade: websocket\r\nConnection: upgrade", version: "1.0")).wantsUpgrade)
    }

    @Test("every fault has a status, a rule name of its own and a sentence")
    func faultsAreComplete() {
        var names: Set<String> = []
        for fault in RequestFault.allCases {
            #expect([400, 405, 414, 417, 431, 501, 505].contains(fault.status))
            #expect(names.insert("\(fault.rule)").inserted)
            #expect("\(fault.message)".hasSuffix("."))
        }
    }

    @Test("a failed parser stays failed and a fresh head is empty")
    func staysFailed() {
        var parser = RequestParser()
        var head = RequestHead()
        let bad = Array("GET / HTTP/9.9\r\n".utf8)
        let good = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        #expect(parser.parse(bad.span, into: &head).outcome == .failed(.versionUnsupported))
        #expect(parser.parse(good.span, into: &head) == (0, .failed(.versionUnsupported)))
    }
}
