import HTTPCore
import Testing

@testable import SessionCore

@Suite("Reading responses")
struct ResponseReaderTests {
    /// The result of one response.
    private struct Outcome {
        var informational: [Int] = []
        var hasResponse = false
        var hasTrailers = false
        var body = ""
        var failure: String?
    }

    /// Feeds a head's lines, then body bytes in pieces of a size.
    private func read(
        _ lines: [String],
        body: String = "",
        piece: Int = .max,
        method: HTTPMethod = .get,
        with reader: inout ResponseReader
    ) -> Outcome {
        var outcome = Outcome()
        reader.reset(for: method)
        feed(lines, to: &reader, &outcome)
        guard outcome.failure == nil else { return outcome }
        let bytes = Array(body.utf8)
        var start = 0
        while start < bytes.count, outcome.failure == nil {
            let end = min(bytes.count, start + min(piece, bytes.count))
            feedBody(Array(bytes[start..<end]), to: &reader, &outcome)
            start = end
        }
        return outcome
    }

    private func feed(_ lines: [String], to reader: inout ResponseReader, _ outcome: inout Outcome) {
        for line in lines {
            switch reader.take(line: Array("\(line)\r\n".utf8).span) {
            case .needMore: continue
            case .informational: outcome.informational.append(reader.head.status)
            case .response: outcome.hasResponse = true
            case .trailers: outcome.hasTrailers = true
            case .failed(let why):
                outcome.failure = why
                return
            }
        }
    }

    private func feedBody(_ bytes: [UInt8], to reader: inout ResponseReader, _ outcome: inout Outcome) {
        var position = 0
        while true {
            let rest = Array(bytes[position...])
            switch reader.next(rest.span) {
            case .data(let range, let consumed):
                outcome.body += String(decoding: rest[range], as: UTF8.self)
                position += consumed
                if position == bytes.count { return }
            case .needMore, .end:
                return
            case .failed(let why):
                outcome.failure = why
                return
            }
        }
    }

    private func isComplete(_ reader: ResponseReader, closedCleanly: Bool = true) -> Bool {
        if case .complete = reader.end(closedCleanly: closedCleanly) { return true }
        return false
    }

    @Test("a line of a head that begins with a blank is refused before libcurl stores it, wherever the line is cut")
    func announcedHead() {
        let inOrder = [["HTTP/1.1 200 OK\r\n", "X: a\r\n", "\r\n"], ["X: a", " b", "\tc", "\r\n", "Y: d\r\n"]]
        for pieces in inOrder {
            var reader = ResponseReader()
            for piece in pieces { #expect(reader.announce(headBytes: Array(piece.utf8).span) == nil) }
            for blank in [" ", "\t"] {
                var other = reader
                let why = other.announce(headBytes: Array("\(blank)X: a".utf8).span)
                #expect(why?.contains("response-folded-field") == true)
            }
        }
        // A line that the last transfer left open goes on nowhere.
        var reader = ResponseReader()
        #expect(reader.announce(headBytes: Array("X: a".utf8).span) == nil)
        reader.reset(for: .get)
        #expect(reader.announce(headBytes: Array(" X: a".utf8).span) != nil)
    }

    @Test("a body ends where its Content-Length says", arguments: [1, 2, 3, 5, Int.max])
    func length(piece: Int) {
        var reader = ResponseReader()
        let outcome = read(
            ["HTTP/1.1 200 OK", "Content-Length: 5", ""],
            body: "hello",
            piece: piece,
            with: &reader
        )
        #expect(outcome.hasResponse)
        #expect(outcome.failure == nil)
        #expect(outcome.body == "hello")
        #expect(reader.isComplete)
        #expect(isComplete(reader, closedCleanly: false))
    }

    @Test(
        "rule 55: a body shorter than its Content-Length is truncated, closed cleanly or not",
        arguments: [true, false]
    )
    func shortLength(closedCleanly: Bool) {
        var reader = ResponseReader()
        _ = read(["HTTP/1.1 200 OK", "Content-Length: 5", ""], body: "hell", with: &reader)
        #expect(!reader.isComplete)
        #expect(!isComplete(reader, closedCleanly: closedCleanly))
    }

    @Test("a byte behind the announced body fails the response", arguments: [1, 2, 6, Int.max])
    func longLength(piece: Int) {
        var reader = ResponseReader()
        let outcome = read(
            ["HTTP/1.1 200 OK", "Content-Length: 5", ""],
            body: "hello!",
            piece: piece,
            with: &reader
        )
        #expect(outcome.body == "hello")
        #expect(outcome.failure != nil)
        #expect(!isComplete(reader))
    }

    @Test("a chunked body comes without its coding, however it is cut", arguments: [1, 2, 3, 7, Int.max])
    func chunked(piece: Int) {
        var reader = ResponseReader()
        let outcome = read(
            ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", ""],
            body: "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
            piece: piece,
            with: &reader
        )
        #expect(outcome.failure == nil)
        #expect(outcome.body == "hello world")
        #expect(reader.isComplete)
        #expect(reader.trailers.value(for: "X-Sum") == "1")
    }

    @Test(
        "a chunked body without its end is truncated",
        arguments: ["", "5", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n"]
    )
    func shortChunks(body: String) {
        var reader = ResponseReader()
        let outcome = read(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", ""], body: body, with: &reader)
        #expect(outcome.failure == nil)
        #expect(!isComplete(reader))
    }

    @Test(
        "a malformed chunked body, or bytes behind it, fail the response",
        arguments: ["5\nhello", "x\r\n", "5\r\nhelloo\r\n", "0\r\n\r\nx", "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"]
    )
    func badChunks(body: String) {
        var reader = ResponseReader()
        let outcome = read(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", ""], body: body, with: &reader)
        #expect(outcome.failure != nil)
        #expect(!isComplete(reader))
    }

    @Test("bytes that come later behind a chunked body fail the response")
    func lateBytes() {
        var reader = ResponseReader()
        var outcome = read(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", ""], body: "0\r\n\r\n", with: &reader)
        #expect(reader.isComplete)
        feedBody(Array("x".utf8), to: &reader, &outcome)
        #expect(outcome.failure != nil)
        #expect(!reader.isComplete)
    }

    @Test("a body up to the connection's end is whole only when the end was said through TLS")
    func untilClose() {
        var reader = ResponseReader()
        let outcome = read(["HTTP/1.1 200 OK", ""], body: "all of it", piece: 4, with: &reader)
        #expect(outcome.body == "all of it")
        #expect(!reader.isComplete)
        #expect(isComplete(reader, closedCleanly: true))
        #expect(!isComplete(reader, closedCleanly: false))
    }

    @Test("HTTP/2 ends a body without a length by itself")
    func http2UntilEnd() {
        var reader = ResponseReader()
        let outcome = read(["HTTP/2 200 ", ""], body: "all of it", with: &reader)
        #expect(outcome.body == "all of it")
        #expect(isComplete(reader, closedCleanly: false))
    }

    @Test(
        "HEAD, 204 and 304 have no body, and a byte of one fails them",
        arguments: [(HTTPMethod.head, 200), (.get, 204), (.get, 304)]
    )
    func bodiless(method: HTTPMethod, status: Int) {
        var reader = ResponseReader()
        let head = ["HTTP/1.1 \(status) x", "Content-Length: 5", ""]
        let outcome = read(head, method: method, with: &reader)
        #expect(outcome.failure == nil)
        #expect(reader.head.contentLength == 5)
        #expect(reader.isComplete)
        #expect(read(head, body: "h", method: method, with: &reader).failure != nil)
    }

    @Test("an empty body is complete with its head")
    func empty() {
        var reader = ResponseReader()
        _ = read(["HTTP/1.1 200 OK", "Content-Length: 0", ""], with: &reader)
        #expect(reader.isComplete)
        #expect(reader.hasHead)
    }

    @Test("rule 49: informational heads come before the final one, which stands alone")
    func informational() {
        var reader = ResponseReader()
        let outcome = read(
            [
                "HTTP/1.1 100 Continue", "", "HTTP/1.1 103 Early Hints", "Link: </a>", "",
                "HTTP/1.1 200 OK", "Content-Length: 2", "",
            ],
            body: "ok",
            with: &reader
        )
        #expect(outcome.informational == [100, 103])
        #expect(outcome.hasResponse)
        #expect(reader.head.status == 200)
        #expect(reader.head.fields.value(for: "Link") == nil)
        #expect(outcome.body == "ok")
    }

    @Test("an informational head alone is no answer")
    func informationalOnly() {
        var reader = ResponseReader()
        let outcome = read(["HTTP/1.1 103 Early Hints", ""], with: &reader)
        #expect(outcome.informational == [103])
        #expect(!reader.hasHead)
        #expect(!isComplete(reader))
    }

    @Test("101 was not asked for, and fails")
    func switching() {
        var reader = ResponseReader()
        #expect(read(["HTTP/1.1 101 Switching Protocols", "Upgrade: x", ""], with: &reader).failure != nil)
        #expect(!isComplete(reader))
    }

    @Test(
        "a second head in HTTP/1.1 fails, within the body and behind it",
        arguments: ["Content-Length: 5", "Content-Length: 0", "Transfer-Encoding: chunked"]
    )
    func secondHead(framing: String) {
        var reader = ResponseReader()
        var outcome = read(["HTTP/1.1 200 OK", framing, ""], with: &reader)
        #expect(outcome.failure == nil)
        feed(["HTTP/1.1 200 OK"], to: &reader, &outcome)
        #expect(outcome.failure != nil)
        #expect(!isComplete(reader))
    }

    @Test("trailers of HTTP/2 are told once, those of framing and routing left out")
    func http2Trailers() {
        var reader = ResponseReader()
        var outcome = read(["HTTP/2 200 ", ""], body: "x", with: &reader)
        feed(
            ["grpc-status: 0", "content-length: 9", "proxy-status: x", "Proxy-Whatever: x", "x-empty:", ""],
            to: &reader,
            &outcome
        )
        #expect(outcome.failure == nil)
        #expect(outcome.hasTrailers)
        #expect(reader.trailers.value(for: "grpc-status") == "0")
        #expect(reader.trailers.value(for: "content-length") == nil)
        #expect(reader.trailers.value(for: "proxy-status") == nil)
        #expect(reader.trailers.value(for: "proxy-whatever") == nil)
        #expect(reader.trailers.count == 2)
        #expect(isComplete(reader))
    }

    @Test("trailers of HTTP/2 that are no fields fail", arguments: [": 200", "no colon", "bad name: x", "a: \u{1}"])
    func badTrailers(line: String) {
        var reader = ResponseReader()
        var outcome = read(["HTTP/2 200 ", ""], body: "x", with: &reader)
        feed([line], to: &reader, &outcome)
        #expect(outcome.failure != nil)
        #expect(!isComplete(reader))
    }

    @Test("no more than a hundred trailers of HTTP/2 are kept")
    func manyTrailers() {
        var reader = ResponseReader()
        var outcome = read(["HTTP/2 200 ", ""], body: "x", with: &reader)
        feed((0..<101).map { "x-\($0): y" }, to: &reader, &outcome)
        #expect(outcome.failure != nil)
    }

    @Test("a head that is cut is no answer", arguments: [[], ["HTTP/1.1 200 OK"], ["HTTP/1.1 200 OK", "A: b"]])
    func cutHead(lines: [String]) {
        var reader = ResponseReader()
        let outcome = read(lines, with: &reader)
        #expect(outcome.failure == nil)
        #expect(!isComplete(reader))
    }

    @Test(
        "contradictory and malformed heads fail with the rule that they break",
        arguments: [
            ["HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 1", ""],
            ["HTTP/1.1 200 OK", "Content-Length: 1", "Transfer-Encoding: chunked", ""],
            ["HTTP/1.1 200 OK", "Transfer-Encoding: gzip", ""], ["HTTP/1.1 200 OK", "A : b", ""],
            ["HTTP/1.0 200 OK", "Transfer-Encoding: chunked", ""], ["ICY 200 OK", ""],
        ]
    )
    func badHeads(lines: [String]) {
        var reader = ResponseReader()
        let outcome = read(lines, with: &reader)
        #expect(outcome.failure?.contains("(rule response-") == true)
        #expect(!isComplete(reader))
    }

    @Test("a reader is used again as if it were new")
    func reuse() {
        var reader = ResponseReader()
        _ = read(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", ""], body: "0\r\nX-Sum: 1\r\n\r\n", with: &reader)
        #expect(reader.trailers.count == 1)
        _ = read(["HTTP/1.1 200 OK", "Content-Length: 9", ""], body: "bro", with: &reader)
        #expect(reader.trailers.count == 0)
        #expect(read(["nonsense"], with: &reader).failure != nil)
        let outcome = read(["HTTP/1.1 200 OK", "Content-Length: 2", ""], body: "ok", with: &reader)
        #expect(outcome.body == "ok")
        #expect(reader.isComplete)
    }
}
