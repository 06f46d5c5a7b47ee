// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// A client's requests and responses, checked as HTTP/1.1 or, roughly, as HTTP/2.
struct ClientReading {
    /// The requests with complete heads, and the number of these that were sent completely.
    private var methods: [HTTPMethod] = []
    private var whole = 0
    private(set) var responses = 0
    /// Whether the connection uses another protocol than HTTP from there on.
    private(set) var isOpaque = false

    /// Whether every request has a response.
    var isServed: Bool { isOpaque || responses >= whole }

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    /// - Parameters:
    ///   - hasEnded: whether the proxy has ended the connection.
    ///   - speaksHTTP2: whether the listener supports HTTP/2.
    /// - Throws: the fault of the responses.
    init(sent: [UInt8], received: [UInt8], hasEnded: Bool, speaksHTTP2: Bool) throws(FuzzFinding) {
        if speaksHTTP2, sent.starts(with: Self.preface) {
            isOpaque = true
            try checkFrames(received, hasEnded: hasEnded)
            return
        }
        readRequests(sent)
        try readResponses(received, hasEnded: hasEnded)
        // A broken request, or a connection above the limit, gets one more response; then the connection ends.
        guard responses <= whole + 1, responses <= whole || hasEnded else {
            throw FuzzFinding("\(responses) responses to \(whole) requests")
        }
    }

    private mutating func readRequests(_ bytes: [UInt8]) {
        var parser = RequestParser()
        var head = RequestHead()
        var position = 0
        while position < bytes.count {
            let (consumed, outcome) = parser.parse(bytes.span.extracting(position..<bytes.count), into: &head)
            position += consumed
            guard outcome == .complete else { break }
            methods.append(head.method)
            guard skipBody(head.framing, bytes, &position) else { return }
            whole += 1
        }
    }

    private func skipBody(_ framing: BodyFraming, _ bytes: [UInt8], _ position: inout Int) -> Bool {
        switch framing {
        case .none: return true
        case .length(let count):
            guard count <= bytes.count - position else { return false }
            position += count
            return true
        case .chunked:
            return skipChunks(bytes, &position)
        case .untilClose:
            return false
        }
    }

    private func skipChunks(_ bytes: [UInt8], _ position: inout Int) -> Bool {
        var decoder = ChunkedDecoder()
        while position < bytes.count {
            switch decoder.next(bytes.span.extracting(position..<bytes.count)) {
            case .data(_, let consumed): position += consumed
            case .end(let consumed):
                position += consumed
                return true
            case .needMore, .failed: return false
            }
        }
        return false
    }

    private mutating func readResponses(_ bytes: [UInt8], hasEnded: Bool) throws(FuzzFinding) {
        var parser = ResponseHeadParser(limits: HeadLimits(headBytes: 1 << 20, fieldCount: 10_000))
        var head = ResponseHead()
        var position = 0
        while position < bytes.count {
            let method = responses < methods.count ? methods[responses] : .get
            guard let newline = bytes[position...].firstIndex(of: 10) else {
                guard hasEnded else { throw FuzzFinding("the proxy has stopped inside a head") }
                return
            }
            let outcome = parser.consume(
                line: bytes.span.extracting(position..<newline + 1),
                answering: method,
                into: &head
            )
            // The parser reads what origins send; a client gets regular lines alone.
            let line = bytes[position..<newline]
            guard line.last == 13, line.count == 1 || !(line.first == 32 || line.first == 9) else {
                throw FuzzFinding("a client was sent an irregular line at \(position)")
            }
            position = newline + 1
            switch outcome {
            case .needMore: continue
            case .failed(let fault): throw FuzzFinding("a client was sent a bad head: \(fault), line \(newline)")
            case .complete: break
            }
            if head.isInterim { continue }
            responses += 1
            if head.status == 101 || (method == .connect && head.status < 300) {
                isOpaque = true
                return
            }
            if head.framing == .untilClose {
                // As in HTTP/1.0: the end of the connection ends the body.
                isOpaque = true
                return
            }
            guard skipBody(head.framing, bytes, &position) else {
                // The body continues, or was truncated visibly.
                isOpaque = !hasEnded
                return
            }
        }
    }

    private func checkFrames(_ bytes: [UInt8], hasEnded: Bool) throws(FuzzFinding) {
        var position = 0
        while position + 9 <= bytes.count {
            let length = Int(bytes[position]) << 16 | Int(bytes[position + 1]) << 8 | Int(bytes[position + 2])
            guard length <= 16_384, bytes[position + 3] <= 9 else {
                throw FuzzFinding("a client was sent a frame of \(length) bytes, type \(bytes[position + 3])")
            }
            position += 9 + length
        }
        guard hasEnded || position == bytes.count else { throw FuzzFinding("the proxy has stopped inside a frame") }
    }
}
