// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyCore

@Suite("The body of a request as it arrives")
struct IncomingBodyTests {
    private struct Reading: Equatable {
        var data: [UInt8] = []
        var consumed = 0
        var isComplete = false
        var problem: Problem.Code?
        var status: Int?
    }

    /// Feeds bytes in pieces until the body is over, or they are.
    private func read(_ bytes: [UInt8], _ framing: BodyFraming, limit: Int? = nil, pieceSize: Int) -> Reading {
        var body = IncomingBody()
        var reading = Reading()
        func fail(_ problem: Problem) {
            reading.problem = problem.code
            reading.status = problem.status
        }
        if let problem = body.begin(framing, limit: limit) {
            fail(problem)
            return reading
        }
        while reading.consumed < bytes.count, !body.isComplete {
            let piece = Array(bytes[reading.consumed..<min(bytes.count, reading.consumed + pieceSize)])
            switch body.next(piece.span) {
            case .data(let range, let consumed):
                reading.data += piece[range]
                reading.consumed += consumed
            case .needMore(let consumed), .end(let consumed):
                reading.consumed += consumed
            case .failed(let problem):
                fail(problem)
                return reading
            }
        }
        reading.isComplete = body.isComplete
        return reading
    }

    @Test("a body of known length ends there, and the rest stays", arguments: [1, 2, 3, 100])
    func length(pieceSize: Int) {
        let reading = read(Array("hello, next".utf8), .length(5), pieceSize: pieceSize)
        #expect(reading == Reading(data: Array("hello".utf8), consumed: 5, isComplete: true))
        let short = read(Array("hel".utf8), .length(5), pieceSize: pieceSize)
        #expect(short == Reading(data: Array("hel".utf8), consumed: 3, isComplete: false))
    }

    @Test("a chunked body ends with its last chunk, and the rest stays", arguments: [1, 2, 3, 100])
    func chunked(pieceSize: Int) {
        let text = "3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n"
        let reading = read(Array((text + "next").utf8), .chunked, pieceSize: pieceSize)
        #expect(reading == Reading(data: Array("hello".utf8), consumed: text.utf8.count, isComplete: true))
        let short = read(Array(text.dropLast(1).utf8), .chunked, pieceSize: pieceSize)
        #expect(!short.isComplete && short.problem == nil)
    }

    @Test("an absent body is complete at once", arguments: [BodyFraming.none, .length(0)])
    func none(framing: BodyFraming) {
        var body = IncomingBody()
        #expect(body.begin(framing, limit: 0) == nil)
        #expect(body.isComplete)
    }

    @Test("a length over the limit is refused at once, chunks at the limit")
    func limit() {
        let bytes = Array("hello!".utf8)
        #expect(read(bytes, .length(5), limit: 5, pieceSize: 9).isComplete)
        let long = read(bytes, .length(6), limit: 5, pieceSize: 9)
        #expect(long == Reading(problem: .requestTooLarge, status: 413))
        for pieceSize in [1, 100] {
            let chunks = Array("3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n".utf8)
            #expect(read(chunks, .chunked, limit: 6, pieceSize: pieceSize).isComplete)
            let reading = read(chunks, .chunked, limit: 5, pieceSize: pieceSize)
            #expect(reading.problem == .requestTooLarge)
            #expect(reading.data.count <= 5)
        }
    }

    @Test(
        "bad chunks are a bad request, and nothing follows them",
        arguments: ["x\r\n", "1\r\nab", "-1\r\n", "1\na"]
    )
    func badChunks(text: String) {
        let reading = read(Array(text.utf8), .chunked, pieceSize: 100)
        #expect(reading.problem == .requestInvalid)
        #expect(reading.status == 400)
        #expect(!reading.isComplete)
    }

    @Test("a body without a length ends with its stream")
    func untilStreamEnds() {
        var body = IncomingBody()
        #expect(body.begin(.untilClose, limit: 10) == nil)
        guard case .data(0..<6, consumed: 6) = body.next(Array("hello!".utf8).span) else {
            Issue.record("no data")
            return
        }
        #expect(!body.isComplete)
        body.streamEnded()
        #expect(body.isComplete)
        #expect(read(Array("hello!".utf8), .untilClose, limit: 5, pieceSize: 3).problem == .requestTooLarge)
        // A length is a promise: the stream's end does not make it true.
        #expect(body.begin(.length(5), limit: nil) == nil)
        body.streamEnded()
        #expect(!body.isComplete)
    }

    @Test("the next body begins anew")
    func again() {
        var body = IncomingBody()
        #expect(body.begin(.chunked, limit: 5) == nil)
        _ = body.next(Array("5\r\nhello\r\n".utf8).span)
        #expect(body.begin(.chunked, limit: 5) == nil)
        guard case .data(let range, _) = body.next(Array("5\r\nagain\r\n".utf8).span) else {
            Issue.record("no data")
            return
        }
        #expect(range == 3..<8)
    }
}
