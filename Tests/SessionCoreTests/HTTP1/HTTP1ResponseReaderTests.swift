// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import SessionCore

@Suite("Reading responses of HTTP/1.1")
struct HTTP1ResponseReaderTests {
    /// The result of one response.
    private struct Outcome: Equatable {
        var informational: [Int] = []
        var status: Int?
        var body = ""
        /// The reader has said that the response is complete.
        var hasEnd = false
        /// The bytes that belong to no response.
        var excess = ""
        var failure: String?
    }

    private func makeReader(_ limits: HeadLimits = HeadLimits(headBytes: 1000, fieldCount: 10)) -> HTTP1ResponseReader {
        HTTP1ResponseReader(limits: limits)
    }

    /// Gives bytes to the reader as a connection does: what is not consumed comes again, with more behind it.
    ///
    /// - Parameter cuts: the ends of the pieces, but for the last one.
    private func read(
        _ text: String,
        cuts: [Int] = [],
        method: HTTPMethod = .get,
        with reader: inout HTTP1ResponseReader
    ) -> Outcome {
        var outcome = Outcome()
        reader.reset(answering: method)
        let bytes = Array(text.utf8)
        var held: [UInt8] = []
        var start = 0
        for end in cuts + [bytes.count] {
            held += bytes[start..<end]
            start = end
            held.removeFirst(feed(held, to: &reader, &outcome))
            if outcome.hasEnd || outcome.failure != nil { break }
        }
        outcome.excess = String(decoding: held + bytes[start...], as: UTF8.self)
        return outcome
    }

    /// - Returns: how many bytes are done with.
    private func feed(_ bytes: [UInt8], to reader: inout HTTP1ResponseReader, _ outcome: inout Outcome) -> Int {
        var position = 0
        while true {
            let rest = Array(bytes[position...])
            switch reader.next(rest.span) {
            case .needMore(let consumed): return position + consumed
            case .informational(let consumed):
                outcome.informational.append(reader.head.status)
                position += consumed
            case .head(let consumed):
                outcome.status = reader.head.status
                position += consumed
            case .data(let range, let consumed):
                outcome.body += String(decoding: rest[range], as: UTF8.self)
                position += consumed
            case .end(let consumed):
                outcome.hasEnd = true
                return position + consumed
            case .failed(let why):
                outcome.failure = why
                return position
            }
        }
    }

    private func read(_ text: String, cuts: [Int] = [], method: HTTPMethod = .get) -> Outcome {
        var reader = makeReader()
        return read(text, cuts: cuts, method: method, with: &reader)
    }

    private func isComplete(_ reader: borrowing HTTP1ResponseReader, isClean: Bool = true) -> Bool {
        if case .complete = reader.outcome(ofEnd: isClean) { return true }
        return false
    }

    private static let whole = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\nA : b\n c\nContent-Length: 2, 2\n\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhello\r\n0 \r\n\r\n",
    ]

    @Test("a response is the same wherever it is cut", arguments: whole)
    func cutAnywhere(text: String) {
        let expected = read(text)
        #expect(expected.hasEnd && expected.failure == nil && expected.excess == "")
        for cut in 1..<text.utf8.count {
            #expect(read(text, cuts: [cut]) == expected, "cut at \(cut)")
        }
        #expect(read(text, cuts: Array(1..<text.utf8.count)) == expected)
    }

    @Test("rule 55: every part of a response that is missing its end is truncated", arguments: whole, [true, false])
    func prefixes(text: String, isClean: Bool) {
        for count in 0..<text.utf8.count {
            var reader = makeReader()
            let outcome = read(String(decoding: text.utf8.prefix(count), as: UTF8.self), with: &reader)
            #expect(!outcome.hasEnd && outcome.failure == nil, "\(count)")
            check(!reader.isComplete && !reader.keepsConnection, "\(count)")
            check(!isComplete(reader, isClean: isClean), "\(count)")
        }
    }

    @Test(
        "bytes behind a response do not belong to it, however they are cut",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ]
    )
    func excess(text: String) {
        let all = text + "HTTP/1.1 200 OK\r\n\r\n"
        for cut in text.utf8.count..<all.utf8.count {
            let outcome = read(all, cuts: [cut])
            #expect(outcome.hasEnd && outcome.failure == nil && outcome.body.utf8.count < 6)
            #expect(outcome.excess == "HTTP/1.1 200 OK\r\n\r\n")
        }
    }

    @Test("HEAD has no body, whatever its fields say")
    func head() {
        for framing in ["Content-Length: 5", "Transfer-Encoding: chunked", "X: y"] {
            let outcome = read("HTTP/1.1 200 OK\r\n\(framing)\r\n\r\n5\r\nhello\r\n", method: .head)
            #expect(outcome.hasEnd && outcome.body == "" && outcome.excess == "5\r\nhello\r\n")
        }
    }

    @Test("a body up to the connection's end needs an announced end")
    func untilClose() {
        var reader = makeReader()
        let outcome = read("HTTP/1.1 200 OK\r\n\r\nall of it", cuts: [22], with: &reader)
        #expect(outcome.body == "all of it" && !outcome.hasEnd)
        check(!reader.isComplete)
        check(!isComplete(reader, isClean: false))
        check(isComplete(reader, isClean: true))
        check(!reader.keepsConnection)
    }

    @Test("chunked trailers are kept without those of framing and routing")
    func trailers() {
        var reader = makeReader()
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        _ = read("\(head)X-Sum: 1\r\nContent-Length: 9\r\nHost: a\r\n\r\n", with: &reader)
        check(reader.trailers.list.map(\.name) == ["X-Sum"])
        _ = read("\(head)\r\n", with: &reader)
        check(reader.trailers.isEmpty && reader.isComplete)
    }

    @Test(
        "malformed chunks fail the response, with rule and place",
        arguments: [
            ("5\nhello", "chunk-line-end, byte 1 "), ("x\r\n", "chunk-size-invalid, byte 0 "),
            ("5\r\nhelloo\r\n", "chunk-data-end, byte 8 "), ("5 5\r\n", "chunk-extension-invalid, byte 2 "),
            ("5\r\nhello\r\n-5\r\n", "chunk-size-invalid, byte 10 "),
        ]
    )
    func badChunks(body: String, rule: String) {
        var reader = makeReader()
        let outcome = read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(body)", with: &reader)
        #expect(outcome.failure?.contains("(rule \(rule)of the body") == true, "\(outcome.failure ?? "")")
        #expect(!outcome.hasEnd)
        check(!isComplete(reader) && !reader.keepsConnection)
    }

    @Test(
        "contradictory or malformed heads fail with the rule that they break",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 2\r\n\r\n", "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
            "HTTP/1.1 200 OK\nA: b\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "ICE 200 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 099 x\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n",
        ]
    )
    func badHeads(text: String) {
        for cuts in [[], Array(1..<text.utf8.count)] {
            var reader = makeReader()
            let outcome = read(text, cuts: cuts, with: &reader)
            #expect(outcome.failure?.contains("(rule response-") == true)
            check(outcome.status == nil && !reader.hasHead)
            check(!isComplete(reader))
        }
    }

    @Test(
        "a fault of a field names the field, and not its value",
        arguments: [
            ("X-Bad: s3cr\u{0}t7", "(rule response-field-value, field \"X-Bad\")"),
            ("X-Bad: s3cr\rt7", "(rule response-bare-carriage-return, field \"X-Bad\")"),
            ("Content-Length : 77", "(rule response-space-before-colon, field \"Content-Length\")"),
            ("X\u{1B}[m: secret", "(rule response-field-name, field \"X?[m\")"),
            (
                "\(String(repeating: "n", count: 80))\u{1}: secret",
                // What is cut short could be a part of a credential, which nobody finds.
                "(rule response-field-name)"
            ),
        ]
    )
    func namedField(line: String, words: String) {
        let failure = read("HTTP/1.1 200 OK\r\nA: b\r\n\(line)\r\n\r\n").failure
        #expect(failure?.hasSuffix(words) == true, "\(failure ?? "")")
        for secret in ["s3cr", "t7", "77", "secret"] { #expect(failure?.contains(secret) == false) }
    }

    @Test("text that cannot become a status line fails at its first byte")
    func noStatusLine() {
        #expect(read("<").failure?.contains("response-status-line") == true)
        #expect(read("HTTX").failure?.contains("response-status-line") == true)
        #expect(read("HTTP").failure == nil)
    }

    @Test("an unrequested 101 fails")
    func switching() {
        var reader = makeReader()
        let outcome = read("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", with: &reader)
        #expect(outcome.failure != nil && outcome.status == nil)
        check(!reader.keepsConnection)
    }

    @Test("the limits hold for each head, with and without the ends of its lines")
    func limits() {
        let long = String(repeating: "x", count: 1000)
        for (text, name) in [
            ("HTTP/1.1 200 OK\r\nX: \(long)\r\n\r\n", "limits.responseHeadBytes"),
            ("HTTP/1.1 200 OK\r\nX: \(long)", "limits.responseHeadBytes"),
            ("HTTP/1.1 200 \(long)", "limits.responseHeadBytes"),
            ("HTTP/1.1 200 OK\r\n" + String(repeating: "X: y\r\n", count: 11), "limits.responseHeadFields"),
            ("HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\nX: \(long)\r\n\r\n", "limits.responseHeadBytes"),
            // Lines that are left out, or continue one.
            ("HTTP/1.1 200 OK\r\n" + String(repeating: "@: y\r\n", count: 11), "limits.responseHeadFields"),
            ("HTTP/1.1 200 OK\r\nX: y\r\n" + String(repeating: " y\r\n", count: 10), "limits.responseHeadFields"),
        ] {
            #expect(read(text).failure?.contains(name) == true)
            #expect(read(text, cuts: Array(1..<text.utf8.count)).failure?.contains(name) == true)
        }
        let most = String(repeating: "X: y\r\n", count: 10)
        #expect(read("HTTP/1.1 103 x\r\n\(most)\r\nHTTP/1.1 200 OK\r\n\(most)\r\n").failure == nil)
    }

    @Test(
        "the connection is kept as the response says",
        arguments: [
            ("HTTP/1.1 204 x\r\n\r\n", true), ("HTTP/1.1 204 x\r\nConnection: close\r\n\r\n", false),
            ("HTTP/1.1 204 x\r\nConnection: x, Close\r\n\r\n", false), ("HTTP/1.0 204 x\r\n\r\n", false),
            ("HTTP/1.0 204 x\r\nConnection: keep-alive\r\n\r\n", true),
            ("HTTP/1.0 204 x\r\nConnection: keep-alive, close\r\n\r\n", false),
            ("HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.1 200 x\r\nContent-Length: 1\r\n\r\n", false), ("HTTP/1.1 204 x\n\n", false),
            ("HTTP/1.1 103 x\n\nHTTP/1.1 204 x\r\n\r\n", false),
            ("HTTP/1.1 200 x\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 204 x\r\nA : b\r\n c\r\n\r\n", true),
            ("HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n0 \r\n\r\n", true),
        ]
    )
    func keepsConnection(text: String, isKept: Bool) {
        var reader = makeReader()
        _ = read(text, with: &reader)
        check(reader.keepsConnection == isKept)
    }

    @Test("a reader works as new after any response or failure")
    func reuse() {
        var reader = makeReader()
        for text in ["nonsense", "HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbro"] {
            _ = read(text, with: &reader)
            let outcome = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", with: &reader)
            check(outcome.body == "ok" && outcome.hasEnd && reader.isComplete)
        }
    }
}
