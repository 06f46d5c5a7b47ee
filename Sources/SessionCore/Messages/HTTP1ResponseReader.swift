// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// A response as HTTP/1.1 brings it (RFC 9112): heads, then the body by its framing, to the end.
///
/// A value of one owner: bytes of the connection go in, and what they are comes out. It is strict where requests could be smuggled or
/// responses split: the rules of `ResponseHeadParser` and `ChunkedDecoder` hold.
package struct HTTP1ResponseReader: ~Copyable {
    package enum Step {
        /// More bytes are needed behind those that were not consumed.
        case needMore(consumed: Int)
        /// A 1xx head is in `head`; another head follows.
        case informational(consumed: Int)
        /// The final head is in `head`.
        case head(consumed: Int)
        /// These of the given bytes are body.
        case data(Range<Int>, consumed: Int)
        /// The response is complete. Bytes behind `consumed` belong to no response.
        case end(consumed: Int)
        case failed(String)
    }

    package enum End {
        case complete
        case truncated(String)
    }

    private enum State {
        case head
        case body
        case complete
        case failed
    }

    package private(set) var head = ResponseHead()
    package private(set) var trailers = HeaderFields()
    private var parser: ResponseHeadParser
    private var chunks = ChunkedDecoder()
    private var state = State.head
    private var method = HTTPMethod.get
    private var mayUpgrade = false
    private var missing = 0
    /// A 1xx head has announced the end of the connection.
    private var isCloseAnnounced = false
    /// The length of a line that has not ended yet.
    private var scanned = 0
    private let inPlace = InPlace()

    package init(limits: HeadLimits) { parser = ResponseHeadParser(limits: limits) }

    /// Begins with the next response.
    ///
    /// - Parameter mayUpgrade: whether 101 is a response: the request has offered another protocol. The bytes behind its head
    ///   are that protocol's.
    package mutating func reset(answering method: HTTPMethod, mayUpgrade: Bool = false) {
        self.method = method
        self.mayUpgrade = mayUpgrade
        state = .head
        parser.reset()
        missing = 0
        isCloseAnnounced = false
        scanned = 0
        if trailers.count > 0 { trailers.removeAll(keepingCapacity: true) }
    }

    /// The final head has come.
    package var hasHead: Bool {
        switch state {
        case .body, .complete: true
        case .head, .failed: false
        }
    }

    package var isComplete: Bool { if case .complete = state { true } else { false } }

    /// Whether the server lets the connection carry another request (RFC 9112, section 9.3).
    package var keepsConnection: Bool {
        guard isComplete, !isCloseAnnounced, !head.endsConnection, head.framing != .untilClose, head.status != 101
        else {
            return false
        }
        return head.minorVersion == 0 ? head.connection.keepAlive && !head.connection.close : !head.connection.close
    }

    /// Reads on.
    ///
    /// - Parameter bytes: everything that has come and was not consumed by an earlier step.
    package mutating func next(_ bytes: borrowing Span<UInt8>) -> Step {
        switch state {
        case .head: return nextHead(bytes)
        case .body: return nextBody(bytes)
        case .complete: return .end(consumed: 0)
        case .failed: return .failed("The response has failed already.")
        }
    }

    private mutating func nextHead(_ bytes: borrowing Span<UInt8>) -> Step {
        var start = 0
        while true {
            if scanned == 0 { start = parser.consumeUsualLines(of: bytes, from: start, into: &head) }
            guard let end = bytes.firstIndex(of: UInt8(ascii: "\n"), from: start + scanned) else {
                scanned = bytes.count - start
                // A line that cannot become a status line is refused at once: its end may never come.
                if !parser.isInsideHead, !ResponseHeadParser.mayBeginStatusLine(bytes.extracting(start..<bytes.count)) {
                    return fail(.statusLineInvalid)
                }
                guard scanned <= parser.limits.headBytes else { return fail(.headTooLarge) }
                return .needMore(consumed: start)
            }
            scanned = 0
            let line = bytes.extracting(start..<(end + 1))
            start = end + 1
            switch parser.consume(line: line, answering: method, into: &head) {
            case .needMore: continue
            case .failed(let fault): return fail(fault, in: line)
            case .complete: return finishHead(consumed: start)
            }
        }
    }

    private mutating func finishHead(consumed: Int) -> Step {
        if head.isInterim {
            if head.connection.close || head.minorVersion == 0 || head.endsConnection { isCloseAnnounced = true }
            return .informational(consumed: consumed)
        }
        guard head.status != 101 || mayUpgrade else {
            state = .failed
            return .failed("The origin switched protocols without having been asked to.")
        }
        switch head.framing {
        case .none, .length(0): state = .complete
        case .length(let count):
            missing = count
            state = .body
        case .chunked:
            chunks = ChunkedDecoder(isInResponse: true)
            state = .body
        case .untilClose: state = .body
        }
        return .head(consumed: consumed)
    }

    private mutating func nextBody(_ bytes: borrowing Span<UInt8>) -> Step {
        switch head.framing {
        case .length:
            let count = min(missing, bytes.count)
            guard count > 0 else { return .needMore(consumed: 0) }
            missing -= count
            if missing == 0 { state = .complete }
            return .data(0..<count, consumed: count)
        case .untilClose:
            return bytes.isEmpty ? .needMore(consumed: 0) : .data(0..<bytes.count, consumed: bytes.count)
        case .chunked:
            guard !bytes.isEmpty else { return .needMore(consumed: 0) }
            switch chunks.next(bytes) {
            case .data(let range, let consumed): return .data(range, consumed: consumed)
            case .needMore(let consumed): return .needMore(consumed: consumed)
            case .end(let consumed):
                state = .complete
                if chunks.trailers.count > 0 { trailers = chunks.trailers }
                return .end(consumed: consumed)
            case .failed(let fault):
                state = .failed
                return .failed(
                    "\(fault.message) (rule \(fault.rule), byte \(chunks.position) of the body as it was sent)"
                )
            }
        case .none:
            state = .complete
            return .end(consumed: 0)
        }
    }

    /// The connection has ended.
    ///
    /// - Parameter isClean: whether the peer has said that the end is the end (close_notify over TLS, a FIN without it);
    ///   otherwise a body that only the connection's end delimits may have been cut by anybody.
    package mutating func end(isClean: Bool) -> End {
        let end = outcome(ofEnd: isClean)
        if case .complete = end { state = .complete }
        return end
    }

    /// The meaning of the connection's end at this point.
    package func outcome(ofEnd isClean: Bool) -> End {
        switch state {
        case .complete:
            .complete
        case .body where head.framing == .untilClose:
            isClean
                ? .complete
                : .truncated("The connection was cut without TLS's close_notify, so the body may lack its end.")
        case .head, .failed:
            .truncated("The connection ended before the head of a response was complete.")
        case .body:
            .truncated("The connection ended before the body did.")
        }
    }

    private mutating func fail(_ fault: ResponseFault) -> Step {
        state = .failed
        return .failed(fault.words)
    }

    /// - Parameter line: the line with the fault, of which a field's name is shown.
    private mutating func fail(_ fault: ResponseFault, in line: borrowing Span<UInt8>) -> Step {
        guard fault.isAboutField, let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return fail(fault) }
        state = .failed
        return .failed(fault.words(onWholeField: line.extracting(0..<colon)))
    }
}

extension ResponseFault {
    /// The words, with the name of the field where all of it is shown: what a server has sent back of a credential is found in an
    /// error (`GuardedFields.masked`) if it is there as a whole.
    ///
    /// - Parameter name: as it came.
    func words(onWholeField name: borrowing Span<UInt8>) -> String {
        let range = name.trimmingBlanks(0..<name.count)
        let isWhole = range.count <= 60 && name.extracting(range).firstIndex(of: UInt8(ascii: " ")) == nil
        return isWhole ? words(onField: name) : words
    }
}
