// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Parses the request heads in the bytes of a connection, as strictly as RFC 9112 allows.
///
/// It consumes pieces of any size, and copies the unfinished line: the caller may drop consumed bytes. Lines are parsed
/// when they are complete, so that the result does not depend on the division into pieces; input beyond a limit is
/// refused immediately. After `complete` the next request can follow; after `failed` the parser stays failed.
package struct RequestParser: Sendable {
    package enum Outcome: Hashable, Sendable {
        /// All bytes were consumed, and the head is incomplete.
        case needMore
        /// The head is valid. The bytes after the consumed ones are the body or the next request.
        case complete
        /// The head is refused: respond, then close.
        case failed(RequestFault)
    }

    private enum State: Hashable {
        case requestLine, fields
        case failed(RequestFault)
    }

    package private(set) var limits: HeadLimits
    private var state = State.requestLine
    /// The beginning of an incomplete line.
    private var pending: [UInt8] = []
    /// The number of bytes in the complete lines of this head.
    private var lineBytes = 0
    private var skippedEmptyLine = false

    package init(limits: HeadLimits = HeadLimits()) {
        self.limits = limits
    }

    /// Another request follows, under these limits.
    package mutating func begin(under limits: HeadLimits) {
        if case .requestLine = state, !isInsideHead {
            self.limits = limits
        } else {
            self = RequestParser(limits: limits)
        }
    }

    /// Whether a head is incomplete: the end of the connection is a truncation then.
    package var isInsideHead: Bool { lineBytes > 0 || !pending.isEmpty }

    /// Consumes bytes up to the end of the head.
    ///
    /// `head` is emptied with the first byte of a request and must be the same value until `complete`.
    package mutating func parse(
        _ bytes: borrowing Span<UInt8>,
        into head: inout RequestHead
    ) -> (consumed: Int, outcome: Outcome) {
        if case .failed(let fault) = state { return (0, .failed(fault)) }
        if !isInsideHead, bytes.count > 0 { head.removeAll() }

        var position = 0
        while position < bytes.count {
            if case .fields = state, pending.isEmpty {
                let end = head.fields.appendUsualLines(
                    of: bytes,
                    from: position,
                    fieldLimit: limits.fieldCount,
                    endingBy: position &+ limits.headBytes &- lineBytes
                )
                lineBytes &+= end &- position
                position = end
                guard position < bytes.count else { break }
            }
            let newline = bytes.firstIndex(of: ASCII.lineFeed, from: position)
            let end = newline.map { $0 &+ 1 } ?? bytes.count
            let piece = bytes.extracting(position..<end)
            let outcome: Outcome
            if pending.isEmpty, newline != nil {
                outcome = parseLine(piece, into: &head)
            } else {
                pending.append(piece)
                var line: [UInt8] = []
                swap(&line, &pending)
                if newline != nil {
                    outcome = parseLine(line.span, into: &head)
                    line.removeAll(keepingCapacity: true)
                } else if let fault = refusal(line.span) {
                    outcome = .failed(fault)
                } else {
                    outcome = .needMore
                }
                swap(&line, &pending)
            }
            position = end
            switch outcome {
            case .needMore: continue
            case .complete:
                head.byteCount = lineBytes
                lineBytes = 0
                skippedEmptyLine = false
                state = .requestLine
                // Heads usually arrive in one piece; an idle connection must not keep the memory for an incomplete one.
                if pending.capacity > 0 { pending = [] }
                return (position, .complete)
            case .failed(let fault):
                state = .failed(fault)
                pending = []
                return (position, .failed(fault))
            }
        }
        return (position, .needMore)
    }

    /// Checks a line, complete or not, by its beginning and its length.
    private func refusal(_ line: borrowing Span<UInt8>) -> RequestFault? {
        switch state {
        case .requestLine:
            let first = line[0]
            if !ASCII.isToken(first), first != ASCII.carriageReturn {
                if first == ASCII.lineFeed { return .bareLineFeed }
                return ASCII.isBlank(first) ? .leadingWhiteSpace : .methodInvalid
            }
            // Two spaces, the version, CRLF.
            let longest = limits.methodBytes + limits.targetBytes + 12
            guard line.count > longest else { return nil }
            return RequestLine.fault(ofOverlong: line.extracting(0...longest), limits)
        case .fields:
            return lineBytes + line.count > limits.headBytes ? .headTooLarge : nil
        case .failed(let fault):
            return fault
        }
    }

    /// Parses a complete line, including its LF.
    private mutating func parseLine(_ line: borrowing Span<UInt8>, into head: inout RequestHead) -> Outcome {
        if let fault = refusal(line) { return .failed(fault) }
        lineBytes &+= line.count
        let textEnd = line.count &- 2
        guard textEnd >= 0, line[textEnd] == ASCII.carriageReturn else { return .failed(.bareLineFeed) }

        if state == .fields {
            if textEnd == 0 {
                if let fault = head.conclude(strictHost: limits.strictHost) { return .failed(fault) }
                return .complete
            }
            if head.fields.count >= limits.fieldCount { return .failed(.tooManyFields) }
            switch FieldLine.parse(line, into: &head.fields) {
            case .success: return .needMore
            case .failure(let fault): return .failed(RequestFault(fault, isFirst: head.fields.isEmpty))
            }
        }
        if textEnd == 0 {
            if skippedEmptyLine { return .failed(.leadingEmptyLines) }
            skippedEmptyLine = true
            return .needMore
        }
        if let fault = RequestLine.parse(line.extracting(0..<textEnd), limits, into: &head) { return .failed(fault) }
        state = .fields
        return lineBytes > limits.headBytes ? .failed(.headTooLarge) : .needMore
    }
}

extension RequestFault {
    init(_ fault: FieldLine.Fault, isFirst: Bool) {
        switch fault {
        case .leadingBlank: self = isFirst ? .leadingWhiteSpace : .foldedField
        case .noColon: self = .fieldWithoutColon
        case .blankBeforeColon: self = .spaceBeforeColon
        case .name: self = .fieldNameInvalid
        case .value: self = .fieldValueInvalid
        case .carriageReturn: self = .bareCarriageReturn
        case .underscoredFraming: self = .underscoredFraming
        }
    }
}
