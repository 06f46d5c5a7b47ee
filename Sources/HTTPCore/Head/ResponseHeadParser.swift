// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Parses the head of a response line by line (RFC 9112, sections 4 and 5).
///
/// The status line begins a head, the empty line completes it; after an interim response the next head follows. After
/// a fault it stays failed until `reset`.
///
/// Unusual heads are read: lines that all end with LF alone, and what `IrregularFieldLine` knows. What two readers
/// could take for two things is refused (docs/http.md has the list of both).
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
    /// Whether the lines of the head end with LF alone, as its status line does. A head with both is refused: there the LF
    /// may come from a value that somebody else has written.
    private var endsLinesWithLineFeed = false
    /// The number of fields when a line was last left out, which a continuation would belong to; -1 for none.
    private var fieldsBeforeOmission = -1
    /// The number of lines that are no field of their own. They count against the limit of fields as well: each is work.
    private var linesWithoutField = 0

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
        guard case .fields = state, !endsLinesWithLineFeed else { return start }
        let end = head.fields.appendUsualLines(
            of: bytes,
            from: start,
            fieldLimit: limits.fieldCount,
            endingBy: start &+ limits.headBytes &- head.byteCount
        )
        head.byteCount &+= end &- start
        return end
    }

    private mutating func parse(
        _ line: borrowing Span<UInt8>,
        _ method: HTTPMethod,
        _ head: inout ResponseHead
    ) -> Outcome {
        if head.byteCount > limits.headBytes { return .failed(.headTooLarge) }
        guard line.count > 0, line[line.count - 1] == ASCII.lineFeed else { return .failed(.bareLineFeed) }
        let hasCarriageReturn = line.count >= 2 && line[line.count - 2] == ASCII.carriageReturn
        let end = line.count - (hasCarriageReturn ? 2 : 1)

        if state == .statusLine {
            if let fault = Self.parseStatusLine(line.extracting(0..<end), into: &head) { return .failed(fault) }
            endsLinesWithLineFeed = !hasCarriageReturn
            fieldsBeforeOmission = -1
            linesWithoutField = 0
            head.endsConnection = endsLinesWithLineFeed
            return .needMore
        }
        guard hasCarriageReturn != endsLinesWithLineFeed else { return .failed(.bareLineFeed) }
        if end == 0 {
            if let fault = head.conclude(answering: method) { return .failed(fault) }
            return .complete
        }
        if head.fields.count + linesWithoutField >= limits.fieldCount { return .failed(.tooManyFields) }
        guard hasCarriageReturn else {
            var regular: [UInt8] = []
            regular.append(line.extracting(0..<end))
            regular += [ASCII.carriageReturn, ASCII.lineFeed]
            return parseField(regular.span, into: &head)
        }
        return parseField(line, into: &head)
    }

    /// - Parameter line: not empty, with CRLF.
    private mutating func parseField(_ line: borrowing Span<UInt8>, into head: inout ResponseHead) -> Outcome {
        switch FieldLine.parse(line, into: &head.fields) {
        case .success: return .needMore
        case .failure(let fault): return parseIrregularField(line, fault, into: &head)
        }
    }

    /// Each round mends one thing, and there are two that a line can have at once: blanks before the colon, and control
    /// characters in the value.
    @inline(never)
    private mutating func parseIrregularField(
        _ line: borrowing Span<UInt8>,
        _ fault: FieldLine.Fault,
        into head: inout ResponseHead
    ) -> Outcome {
        switch IrregularFieldLine.meaning(of: line.extracting(0..<line.count - 2), fault) {
        case .field(let regular):
            return parseField(regular.span, into: &head)
        case .continuation(let range):
            linesWithoutField += 1
            // It goes where its line went.
            guard head.fields.count != fieldsBeforeOmission else { return .needMore }
            let last = head.fields.count - 1
            guard last >= 0, !IrregularFieldLine.strictNames.contains(head.fields.id(at: last)) else {
                return .failed(.foldedField)
            }
            head.fields.continueLastField(with: line.extracting(range))
            return .needMore
        case .nothing:
            linesWithoutField += 1
            fieldsBeforeOmission = head.fields.count
            return .needMore
        case .refused(let fault):
            return .failed(ResponseFault(fault))
        }
    }

    /// Whether a line that begins so can be a status line.
    package static func mayBeginStatusLine(_ bytes: borrowing Span<UInt8>) -> Bool {
        func begins(like word: StaticString) -> Bool {
            for index in 0..<min(bytes.count, word.utf8CodeUnitCount) where bytes[index] != word.utf8Start[index] {
                return false
            }
            return true
        }
        return begins(like: "HTTP/") || begins(like: "ICY ")
    }

    /// Parses `HTTP/1.1 200 OK`, with or without reason phrase; or `ICY 200 OK`, as which SHOUTcast servers write HTTP/1.0.
    private static func parseStatusLine(_ line: borrowing Span<UInt8>, into head: inout ResponseHead) -> ResponseFault?
    {
        if let index = line.firstIndexOutsideFieldValue(in: 0..<line.count) {
            return line[index] == ASCII.carriageReturn ? .bareCarriageReturn : .statusLineInvalid
        }
        if line.count >= 7, line.extracting(0..<4).equals("ICY ") {
            head.majorVersion = 1
            head.minorVersion = 0
            return parseStatus(line, at: 4, into: &head)
        }
        guard line.count >= 10, line.extracting(0..<5).equals("HTTP/"), ASCII.isDigit(line[5]) else {
            return .statusLineInvalid
        }
        guard line[5] == UInt8(ascii: "1"), line[6] == ASCII.dot else { return .versionUnsupported }
        guard line.count >= 12, ASCII.isDigit(line[7]), line[8] == ASCII.space else { return .statusLineInvalid }
        head.majorVersion = 1
        head.minorVersion = line[7] - UInt8(ascii: "0")
        return parseStatus(line, at: 9, into: &head)
    }

    private static func parseStatus(
        _ line: borrowing Span<UInt8>,
        at start: Int,
        into head: inout ResponseHead
    ) -> ResponseFault? {
        let end = start + 3
        guard line.count == end || line[end] == ASCII.space,
            let status = DecimalNumber.parse(line.extracting(start..<end)), status >= 100
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
            if fields.next(.contentLength, after: length) == nil,
                case .value(let count) = FramingFields.contentLength(fields.value(at: length))
            {
                contentLength = count
            } else if let fault = concludeUnusualLength() {
                return fault
            }
        }
        if let coding = fields.first(.transferEncoding) {
            if length == nil, majorVersion == 1, fields.value(at: coding).equalsIgnoringCase("identity"),
                fields.next(.transferEncoding, after: coding) == nil
            {
                // No coding at all (RFC 2616, section 3.6): the body goes up to the connection's end, with the field or without it.
                fields.remove(.transferEncoding)
                if allowsBody { framing = .untilClose }
                return nil
            }
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

    /// Reads Content-Length. The same number several times, in fields or in a list, counts once (RFC 9110, section 8.6), and
    /// leading zeros, which its grammar allows, do not count; the field is written anew then.
    @inline(never)
    private mutating func concludeUnusualLength() -> ResponseFault? {
        var common: Int?
        var isRepeated = false
        var hasZeros = false
        var found = fields.first(.contentLength)
        while let index = found {
            let value = fields.value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                let member = value.extracting(range)
                guard let number = DecimalNumber.parse(member) else { return .contentLengthInvalid }
                if let common, common != number { return .contentLengthRepeated }
                if common != nil { isRepeated = true }
                if member.count > 1, member[0] == UInt8(ascii: "0") { hasZeros = true }
                common = number
            }
            found = fields.next(.contentLength, after: index)
        }
        contentLength = common
        if isRepeated { endsConnection = true }
        if isRepeated || hasZeros, let common { fields.set(.contentLength, Array("\(common)".utf8).span) }
        return nil
    }
}
