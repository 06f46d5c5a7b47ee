// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

func readChunks(
    _ bytes: [UInt8],
    pieceSize: Int,
    limits: ChunkLimits = ChunkLimits(),
    isInResponse: Bool = false
) -> ChunkReading {
    let reading = ChunkReading(bytes, pieceSize: pieceSize, limits: limits, isInResponse: isInResponse)
    #expect(!reading.miscounted)
    return reading
}

func readChunksBothWays(
    _ bytes: [UInt8],
    limits: ChunkLimits = ChunkLimits(),
    isInResponse: Bool = false,
    sourceLocation: SourceLocation = #_sourceLocation
) -> ChunkReading {
    let whole = readChunks(bytes, pieceSize: max(1, bytes.count), limits: limits, isInResponse: isInResponse)
    var single = readChunks(bytes, pieceSize: 1, limits: limits, isInResponse: isInResponse)
    // The pieces of the data before a fault may differ, but not the data.
    if single.isEnded { single.rest = whole.rest }
    #expect(whole == single, "whole and byte by byte differ", sourceLocation: sourceLocation)
    return whole
}

@Suite("Rules 36-43: the chunked coding")
struct ChunkedDecoderTests {
    private func read(
        _ text: String,
        limits: ChunkLimits = ChunkLimits(),
        isInResponse: Bool = false
    ) -> ChunkReading {
        readChunksBothWays(Array(text.utf8), limits: limits, isInResponse: isInResponse)
    }

    @Test("data is delivered, and bytes behind the end stay")
    func decoding() {
        let reading = read("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET /")
        #expect(String(decoding: reading.data, as: UTF8.self) == "hello world")
        #expect(reading.isEnded)
        #expect(reading.rest == 5)
    }

    @Test("rule 36: a truncated body is never taken for a whole one")
    func rule36() {
        let whole = Array("5\r\nhello\r\n0\r\nA: b\r\n\r\n".utf8)
        for count in 0..<whole.count {
            let reading = readChunksBothWays(Array(whole[..<count]))
            #expect(!reading.isEnded && reading.fault == nil, "cut at \(count)")
        }
        #expect(readChunksBothWays(whole).isEnded)
    }

    @Test("rule 37: data is delivered at once, so that a limit can stop it")
    func rule37() {
        var decoder = ChunkedDecoder()
        let first = Array("FFFFFFFF\r\nab".utf8)
        #expect(decoder.next(first.span) == .data(10..<12, consumed: 12))
        #expect(!decoder.isEnded)
    }

    @Test(
        "rule 38: a size is hexadecimal digits only",
        arguments: ["+5", "-5", "0x5", " 5", "g", "", "5_0", "\"5\"", "\t5", "5h", "5.", ";a=b", "５"]
    )
    func rule38(size: String) {
        #expect(read("\(size)\r\nhello\r\n0\r\n\r\n").fault == .sizeInvalid)
    }

    @Test("rule 38: digits of either case and zeros in front are a size")
    func rule38Accepted() {
        #expect(read("00A\r\n0123456789\r\n0\r\n\r\n").data.count == 10)
        #expect(read("a\r\n0123456789\r\n000\r\n\r\n").isEnded)
    }

    @Test(
        "rule 38: white space around a size is read in a response alone",
        arguments: [" ", "\t", "   ", "      ", " \t ", ";a ", ";a=b\t", ";a=\"b\"  ", ";a=b ;c "]
    )
    func rule38Blanks(blanks: String) {
        let text = "5\(blanks)\r\nhello\r\n0\(blanks)\r\nA: b\r\n\r\nrest"
        let reading = read(text, isInResponse: true)
        #expect(reading.isEnded && reading.data == Array("hello".utf8) && reading.rest == 4)
        #expect(reading.trailers.list.map(\.name) == ["A"])
        // What is written anew has none of it.
        #expect(String(decoding: reading.written, as: UTF8.self) == "5\r\nhello\r\n0\r\nA: b\r\n\r\n")
        #expect(read(text).fault == .extensionInvalid)
    }

    @Test(
        "rule 38: a response gets no other leniency",
        arguments: [
            " 5\r\n", "\t5\r\n", "+5\r\n", "0x5\r\n", "5 5\r\n", "5 x\r\n", "5 \n", "5 \r5", "5\n", "5\u{0B}\r\n",
            "5\u{0C}\r\n", "5 \u{0}\r\n", "5;\r\n", "5; \r\n", "5;=a\r\n", "5;a b\r\n", "5;a=\"b\r\n", "5;a\n",
            "5 \r\r\n",
            "5\r\nhello \r\n", "5\r\nhello\n", "5\r\nhello\r\n0\r\nA: b\n\r\n", "5\r\nhello\r\n0\r\nA : b\r\n\r\n",
            "5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n", "8000000000000000 \r\n",
        ]
    )
    func rule38NothingElse(text: String) {
        let fault = read(text, isInResponse: true).fault
        #expect(fault != nil)
        #expect(read(text).fault != nil)
    }

    @Test(
        "rule 38: a fault has its byte's place, however the body comes",
        arguments: [
            ("zz\r\n", 0), ("5\r\nhelloX", 8), ("5\r\nhello\r\n5x\r\n", 11), ("5 5\r\n", 2), ("5\n", 1),
            ("5;a=\u{1}", 4),
            ("5\r\nhello\r\n0\r\nbad\r\n\r\n", 17),
        ]
    )
    func faultPosition(text: String, position: Int) {
        #expect(read(text, isInResponse: true).faultPosition == position)
    }

    @Test(
        "rule 39: a size that overflows is refused",
        arguments: ["8000000000000000", "FFFFFFFFFFFFFFFF", "10000000000000000", "100000000000000000000005"]
    )
    func rule39(size: String) {
        #expect(read("\(size)\r\nhello\r\n0\r\n\r\n").fault == .sizeOverflow)
        #expect(ChunkFault.sizeOverflow.status == 400)
    }

    @Test("rule 39: the largest size is taken")
    func rule39Largest() {
        #expect(read("7FFFFFFFFFFFFFFF\r\nhello").data.count == 5)
    }

    @Test(
        "rule 40: a bare CR or LF after size, data or trailer is refused",
        arguments: [
            "5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r0\r\n\r\n",
            "5\r\nhello\r\n0\n\r\n",
            "5\r\nhello\r\n0\r\n\n", "5\r\nhello\r\n0\r\nA: b\n\r\n", "5\r\nhello\r\n0\r\nA: b\rc\r\n\r\n",
            "5\r\nhello\r\n0\r\n\rX\r\n\r\n",
            "5;a\nhello\r\n0\r\n\r\n", "5;a=b\nhello\r\n0\r\n\r\n", "\n",
        ]
    )
    func rule40(text: String) {
        let fault = read(text).fault
        #expect(fault == .lineEndInvalid || fault == .dataEndInvalid || fault == .trailerInvalid)
    }

    @Test(
        "rule 41: a missing CRLF or data past the size is refused",
        arguments: [
            "5\r\nhello0\r\n\r\n", "5\r\nhello!\r\n0\r\n\r\n", "4\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\r\n0\r\n\r\n",
        ]
    )
    func rule41(text: String) {
        #expect(read(text).fault == .dataEndInvalid)
    }

    @Test(
        "rule 42: valid extensions are skipped",
        arguments: [
            ";a", ";a=b", ";a=\"b\"", ";a=\"b;\\\"c\"", ";a;b=c", " ;a", "\t; a = b", ";a =b", ";a=b ;c", ";a=\"b\" ;c",
            ";a ;b",
        ]
    )
    func rule42(text: String) {
        let reading = read("5\(text)\r\nhello\r\n0\(text)\r\n\r\n")
        #expect(reading.isEnded)
        #expect(reading.data.count == 5)
    }

    @Test(
        "rule 42: malformed extensions are refused",
        arguments: [
            ";", ";;a", ";=b", ";a=", ";a=\"b", "; ", " ", ";a b", ";a=b c", ";a=\"b\"c", ";a\0", ";a=\u{01}",
            ";a=\"\u{7F}\"", ";a ", ";a=\"\\\u{01}\"", " x",
        ]
    )
    func rule42Refused(text: String) {
        #expect(read("5\(text)\r\nhello\r\n0\r\n\r\n").fault == .extensionInvalid)
    }

    @Test("rule 42: extensions are bounded")
    func rule42Bounded() {
        #expect(read("5;a=" + String(repeating: "b", count: 2000)).fault == .extensionTooLong)
        #expect(read(String(repeating: "0", count: 2000)).fault == .extensionTooLong)
    }

    @Test("rule 43: framing, routing and authentication trailers are dropped, others kept apart")
    func rule43() {
        let names = [
            "Transfer-Encoding", "Content-Length", "Host", "Connection", "TE", "Trailer", "Upgrade", "Via",
            "Authorization", "Cookie",
            "Set-Cookie", "Proxy-Authorization", "Proxy-Anything", "WWW-Authenticate", "Content-Type",
            "Content-Encoding", "Content-Range",
            "Cache-Control", "Expires", "Age", "Date", "Location", "Vary", "Range", "If-Match", "Expect",
            "Max-Forwards", "Forwarded",
        ]
        let dropped = names.map { "\($0): x\r\n" }.joined()
        let reading = read("0\r\nX-Sum: 1\r\n\(dropped)ETag: \"a\"\r\ngrpc-status: 0\r\n\r\n")
        #expect(reading.trailers.list.map(\.name) == ["X-Sum", "ETag", "grpc-status"])
        var buffer = ByteBuffer()
        buffer.appendLastChunk(trailers: reading.trailers)
        #expect(String(copying: buffer.bytes) == "0\r\nX-Sum: 1\r\nETag: \"a\"\r\ngrpc-status: 0\r\n\r\n")
    }

    @Test(
        "rule 43: malformed trailers are refused",
        arguments: ["A : b", " A: b", "A", ": b", "A: b\r\n c", "A: \0", "Content_Length: 5"]
    )
    func rule43Malformed(line: String) {
        #expect(read("0\r\n\(line)\r\n\r\n").fault == .trailerInvalid)
    }

    @Test("rule 43: trailers are bounded in bytes and in number")
    func rule43Bounded() {
        let limits = ChunkLimits(sizeLineBytes: 100, trailerBytes: 50, trailerCount: 2)
        #expect(read("0\r\nA: " + String(repeating: "b", count: 50), limits: limits).fault == .trailersTooLarge)
        #expect(read("0\r\nHost: b\r\nC: d\r\nE: f\r\n\r\n", limits: limits).fault == .trailersTooLarge)
        #expect(read("0\r\nHost: b\r\nC: d\r\n\r\n", limits: limits).isEnded)
        #expect(ChunkFault.trailersTooLarge.status == 431)
    }

    @Test("a failed decoder stays failed, and an ended one ended")
    func staysAsItIs() {
        var decoder = ChunkedDecoder()
        let bad = Array("x".utf8)
        #expect(decoder.next(bad.span) == .failed(.sizeInvalid))
        #expect(decoder.next(Array("0\r\n\r\n".utf8).span) == .failed(.sizeInvalid))
        var ended = ChunkedDecoder()
        #expect(ended.next(Array("0\r\n\r\n".utf8).span) == .end(consumed: 5))
        #expect(ended.next(bad.span) == .end(consumed: 0))
    }

    @Test("the decoder reads the encoder's output")
    func roundTrip() throws {
        var buffer = ByteBuffer()
        for size in [1, 15, 16, 255, 4096] {
            buffer.appendChunkHead(size: size)
            buffer.append([UInt8](repeating: 120, count: size))
            buffer.appendChunkEnd()
        }
        buffer.appendLastChunk()
        var bytes: [UInt8] = []
        bytes.append(buffer.bytes)
        let reading = readChunksBothWays(bytes)
        #expect(reading.data.count == 1 + 15 + 16 + 255 + 4096)
        #expect(reading.isEnded && reading.rest == 0)
    }
}
