import IOCore

/// Parses the head of a response line by line (RFC 9112, sections 4 and 5).
///
/// The status line begins a head, the empty line completes it; after an interim response the next head follows. After
/// a fault it stays failed until `reset`.
package struct ResponseHeadParser: Sendable {
    package enum Outcome: Hashable, Sendable {
        case needMore, complete
        case failed(ResponseFault)
    }

    private enum State: Hashable {
        case statusLine, fields
        case failed(ResponseFault)
    }

    /// The limits, of which `headBytes` and `fieldCount` apply.
    package let limits: HeadLimits
    private var state = State.statusLine

    package init(limits: HeadLimits = HeadLimits()) {
        self.limits = limits
    }

    /// Whether the status line was parsed, but not yet the empty line.
    package var isInsideHead: Bool { state == .fields }

    /// Prepares for the next response.
    package mutating func reset() { state = .statusLine }

    /// Parses one complete line, which ends with its only LF. A status line resets `head`.
    package mutating func consume(
        line: borrowing Span<UInt8>,
        answering method: HTTPMethod,
        into head: inout ResponseHead
    ) -> Outcome {
        if case .failed(let fault) = state { return .failed(fault) }
        if state == .statusLine { head.removeAll() }
        head.byteCount += line.count
        let outcome = parse(line, method, &head)
        switch outcome {
        case .needMore: state = .fields
        case .complete: state = .statusLine
        case .failed(let fault): state = .failed(fault)
        }
        return outcome
    }

    /// Parses the lines from `start` on that are field lines of the usual form, all at once; `consume` is for the others.
    ///
    /// - Returns: where the first line begins that was not parsed.
    package func consumeUsualLines(
        of bytes: borrowing Span<UInt8>,
        from start: Int,
        into head: inout ResponseHead
    ) -> Int {
        guard case .fields = state else { return start }
        let end = head.fields.appendUsualLines(
            of: bytes,
            from: start,
            fieldLimit: limits.fieldCount,
            endingBy: start &+ limits.headBytes &- head.byteCount
        )
        head.byteCount &+= end &- start
        return end
    }

    private func parse(_ line: borrowing Span<UInt8>, _ method: HTTPMethod, _ head: inout ResponseHead) -> Outcome {
        if head.byteCount > limits.headBytes { return .failed(.headTooLarge) }
        let end = line.count - 2
        guard end >= 0, line[end] == ASCII.carriageReturn else { return .failed(.bareLineFeed) }

        if state == .statusLine {
            if let fault = Self.parseStatusLine(line.extracting(0..<end), into: &head) { return .failed(fault) }
            return .needMore
        }
        if end == 0 {
            if let fault = head.conclude(answering: method) { return .failed(fault) }
            return .complete
        }
        if head.fields.count >= limits.fieldCount { return .failed(.tooManyFields) }
        switch FieldLine.parse(line, into: &head.fields) {
        case .success: return .needMore
        case .failure(let fault): return .failed(ResponseFault(fault))
        }
    }

    /// Parses `HTTP/1.1 200 OK`, with or without reason phrase.
    private static func parseStatusLine(_ line: borrowing Span<UInt8>, into head: inout ResponseHead) -> ResponseFault?
    {
        if let index = line.firstIndexOutsideFieldValue(in: 0..<line.count) {
            return line[index] == ASCII.carriageReturn ? .bareCarriageReturn : .statusLineInvalid
        }
        guard line.count >= 10, line.extracting(0..<5).equals("HTTP/"), ASCII.isDigit(line[5]) else {
            return .statusLineInvalid
        }
        guard line[5] == UInt8(ascii: "1"), line[6] == ASCII.dot else { return .versionUnsupported }
        guard line.count >= 12, ASCII.isDigit(line[7]), line[8] == ASCII.space else { return .statusLineInvalid }
        head.majorVersion = 1
        head.minorVersion = line[7] - UInt8(ascii: "0")
        guard line.count == 12 || line[12] == ASCII.space,
            let status = DecimalNumber.parse(line.extracting(9..<12)), status >= 100, status <= 599
        else { return .statusInvalid }
        head.status = status
        return nil
    }
}

extension ResponseHead {
    /// Determines the framing when all fields are known.
    mutating func conclude(answering method: HTTPMethod) -> ResponseFault? {
        connection = ConnectionOptions(fields)
        if connection.isTooLong { return .connectionTooLong }
        let allowsBody = Self.allowsBody(status: status, to: method)
        let length = fields.first(.contentLength)
        if let length {
            if fields.next(.contentLength, after: length) != nil { return .contentLengthRepeated }
            switch FramingFields.contentLength(fields.value(at: length)) {
            case .value(let count): contentLength = count
            case .list: return .contentLengthRepeated
            case .invalid, .leadingZero, .overflow: return .contentLengthInvalid
            }
        }
        if let coding = fields.first(.transferEncoding) {
            if majorVersion != 1 || minorVersion == 0 { return .transferEncodingInVersion }
            if length != nil { return .lengthAndTransferEncoding }
            if fields.next(.transferEncoding, after: coding) != nil { return .transferEncodingRepeated }
            switch FramingFields.transferEncoding(fields.value(at: coding)) {
            case .chunked: framing = allowsBody ? .chunked : .none
            case .finalNotChunked: return .transferEncodingNotChunked
            case .unknown: return .transferCodingUnknown
            case .invalid: return .transferEncodingInvalid
            }
        } else if allowsBody {
            framing = contentLength.map { .length($0) } ?? .untilClose
        }
        return nil
    }
}
