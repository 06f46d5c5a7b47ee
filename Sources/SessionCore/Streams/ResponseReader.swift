package import HTTPCore

/// Judges a response as it comes from libcurl, which is lenient: head lines, then body bytes, to the end.
///
/// A value: lines and bytes go in, what they are comes out. libcurl's own idea of where a message ends is not trusted
/// further than ours agrees with it.
package struct ResponseReader {
    private enum State: Equatable {
        case head
        case body
        /// The body's end has been seen by our own framing.
        case complete
        case failed
    }

    package enum LineOutcome {
        case needMore
        case informational
        case response
        /// Trailers of an HTTP/2 response, complete.
        case trailers
        case failed(String)
    }

    package enum BodyStep {
        /// These of the given bytes are body.
        case data(Range<Int>, consumed: Int)
        case needMore
        /// The message ends here.
        case end
        case failed(String)
    }

    package enum End {
        case complete
        case truncated(String)
    }

    package private(set) var head = ResponseHead()
    package private(set) var trailers = HTTPFields()
    private var parser: ResponseHeadParser
    private var chunks = ChunkedDecoder()
    private var state = State.head
    private var method = HTTPMethod.get
    private var remaining = 0
    private var mayUpgrade = false
    /// The last piece of a head that was announced did not end its line.
    private var isLineOpen = false

    /// - Parameter limits: those of the head.
    package init(limits: HeadLimits = HeadLimits()) { parser = ResponseHeadParser(limits: limits) }

    /// The reason for the refusal of a head with a line that does not end within the limit.
    package static var headIsTooLong: String {
        "\(ResponseFault.headTooLarge.message) (rule \(ResponseFault.headTooLarge.rule))"
    }

    /// - Parameter mayUpgrade: whether 101 is an answer: the request has asked for another protocol.
    package mutating func reset(for method: HTTPMethod, mayUpgrade: Bool = false) {
        self.method = method
        self.mayUpgrade = mayUpgrade
        state = .head
        parser.reset()
        remaining = 0
        isLineOpen = false
        if trailers.count > 0 { trailers.removeAll(keepingCapacity: true) }
    }

    /// Whether the final head has come.
    package var hasHead: Bool { state == .body || state == .complete }

    /// Whether our own framing has seen the end.
    package var isComplete: Bool { state == .complete }

    // MARK: Head

    /// A piece of a head that libcurl is about to store, before `take` is given the line (`pinproxy_curl_joins_lines`).
    ///
    /// - Returns: why libcurl must not store it: the line begins with a blank. Nil if it may.
    package mutating func announce(headBytes bytes: borrowing Span<UInt8>) -> String? {
        guard bytes.count > 0 else { return nil }
        let isBegun = isLineOpen
        isLineOpen = bytes[bytes.count - 1] != UInt8(ascii: "\n")
        guard !isBegun, bytes[0] == UInt8(ascii: " ") || bytes[0] == UInt8(ascii: "\t") else { return nil }
        state = .failed
        return "\(ResponseFault.foldedField.message) (rule \(ResponseFault.foldedField.rule))"
    }

    package mutating func take(line: borrowing Span<UInt8>) -> LineOutcome {
        switch state {
        case .head: return takeHead(line)
        case .body where head.majorVersion == 2, .complete where head.majorVersion == 2: return takeTrailer(line)
        default: return fail("The origin sent a second head where none may come.")
        }
    }

    private mutating func takeHead(_ line: borrowing Span<UInt8>) -> LineOutcome {
        switch parser.consume(line: line, answering: method, into: &head) {
        case .needMore: return .needMore
        case .failed(let fault): return fail("\(fault.message) (rule \(fault.rule))")
        case .complete: break
        }
        if head.isInterim { return .informational }
        if head.status == 101, !mayUpgrade {
            return fail("The origin switched protocols without having been asked to.")
        }
        switch head.framing {
        case .none, .length(0):
            state = .complete
        case .length(let count):
            remaining = count
            state = .body
        case .chunked:
            chunks = ChunkedDecoder()
            state = .body
        case .untilClose:
            state = .body
        }
        return .response
    }

    /// HTTP/2 trailers come from libcurl as field lines and an empty line.
    private mutating func takeTrailer(_ line: borrowing Span<UInt8>) -> LineOutcome {
        if line.count == 2 { return trailers.count > 0 ? .trailers : .needMore }
        let text = line.extracting(0..<max(0, line.count - 2))
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")), colon > 0 else {
            return fail("The origin sent a trailer that is no field.")
        }
        let name = text.extracting(0..<colon)
        let value = text.extracting(text.trimmingBlanks((colon + 1)..<text.count))
        guard HTTPFields.isValidName(name), HTTPFields.isValidValue(value), trailers.count < 100 else {
            return fail("The origin sent a trailer that is no field.")
        }
        if FieldName(name).isPermittedInTrailers, !name.hasPrefixIgnoringCase("proxy-") {
            trailers.append(name: name, value: value)
        }
        return .needMore
    }

    // MARK: Body

    package mutating func next(_ bytes: borrowing Span<UInt8>) -> BodyStep {
        switch (state, head.framing) {
        case (.body, .length):
            let count = min(remaining, bytes.count)
            remaining -= count
            if count == 0 { return .needMore }
            if remaining == 0 { state = .complete }
            return .data(0..<count, consumed: count)
        case (.body, .untilClose):
            return bytes.isEmpty ? .needMore : .data(0..<bytes.count, consumed: bytes.count)
        case (.body, .chunked):
            switch chunks.next(bytes) {
            case .data(let range, let consumed): return .data(range, consumed: consumed)
            case .needMore: return .needMore
            case .end(let consumed):
                guard consumed == bytes.count else {
                    state = .failed
                    return .failed("The origin sent more than the body it announced.")
                }
                state = .complete
                if chunks.trailers.count > 0 { trailers = chunks.trailers }
                return .end
            case .failed(let fault):
                state = .failed
                return .failed("\(fault.message) (rule \(fault.rule))")
            }
        case (.complete, _) where bytes.isEmpty:
            return .end
        default:
            state = .failed
            return .failed("The origin sent more than the body it announced.")
        }
    }

    /// The transport has ended without an error of its own.
    ///
    /// - Parameter closedCleanly: whether TLS said that the end is the end (close_notify); without that, a body that
    ///   only the connection's end delimits may have been cut short by anybody.
    package func end(closedCleanly: Bool) -> End {
        switch state {
        case .complete:
            return .complete
        case .body where head.framing == .untilClose:
            if closedCleanly || head.majorVersion == 2 { return .complete }
            return .truncated(
                "The connection was cut without TLS's close_notify, so the body may lack its end."
            )
        case .head:
            return .truncated("The connection ended before the head of an answer was complete.")
        default:
            return .truncated("The connection ended before the body did.")
        }
    }

    private mutating func fail(_ why: String) -> LineOutcome {
        state = .failed
        return .failed(why)
    }
}
