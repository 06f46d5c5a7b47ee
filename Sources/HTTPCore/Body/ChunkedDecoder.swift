// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The limits of a chunked body's parts other than data.
package struct ChunkLimits: Hashable, Sendable {
    /// The size line of a chunk, including extensions, in bytes.
    package var sizeLineBytes: Int
    /// The trailer section, in bytes.
    package var trailerBytes: Int
    /// The number of trailer fields, including those that are dropped.
    package var trailerCount: Int

    package init(sizeLineBytes: Int = 1024, trailerBytes: Int = 8192, trailerCount: Int = 64) {
        self.sizeLineBytes = sizeLineBytes
        self.trailerBytes = trailerBytes
        self.trailerCount = trailerCount
    }
}

/// A strict decoder of the chunked coding, byte by byte (RFC 9112 7.1; rules 38–43).
///
/// In a response, white space between a size or an extension and the end of its line is read as nothing: some servers fill
/// sizes up to a width with it, and every reader takes the same digits.
///
/// It returns the range of the data in its input, without a copy. Extensions are validated and dropped; trailers are
/// kept separate from the fields of the head.
package struct ChunkedDecoder: Sendable {
    package enum Step: Hashable, Sendable {
        /// The bytes in this range are data; continue after them (`consumed` is the end of the range).
        case data(Range<Int>, consumed: Int)
        /// All bytes were consumed.
        case needMore(consumed: Int)
        /// The body is complete. The bytes after the consumed ones belong to the next message.
        case end(consumed: Int)
        case failed(ChunkFault)
    }

    private enum State: UInt8 {
        case size, spaceBeforeExtension, extensionName, insideName, spaceAfterName, extensionValue, insideToken
        case insideQuotes, escaped, behindQuotes, sizeLineFeed, data, dataCarriageReturn, dataLineFeed, trailer, end
        case failed
    }

    private let limits: ChunkLimits
    private let isInResponse: Bool
    private var state = State.size
    private var fault = ChunkFault.sizeInvalid
    /// While the size line is read, the chunk's size so far; then the rest of its data, in bytes.
    private var remaining = 0
    private var hasDigits = false
    private var lineBytes = 0
    private var line: [UInt8] = []
    private var trailerBytes = 0
    private var trailerCount = 0
    /// The trailer fields that may be forwarded; valid after the end.
    package private(set) var trailers = HeaderFields()

    /// The number of bytes of the body, as it came, that were consumed; after a fault those before the byte that is wrong.
    package private(set) var position = 0

    package init(limits: ChunkLimits = ChunkLimits(), isInResponse: Bool = false) {
        self.limits = limits
        self.isInResponse = isInResponse
    }

    package var isEnded: Bool { state == .end }

    /// Consumes bytes up to the end of the next run of data, or all of them.
    package mutating func next(_ bytes: borrowing Span<UInt8>) -> Step {
        var index = 0
        let step = read(bytes, &index)
        position &+= index
        return step
    }

    /// - Parameter index: where reading begins; then the number of bytes that were consumed.
    private mutating func read(_ bytes: borrowing Span<UInt8>, _ index: inout Int) -> Step {
        while index < bytes.count {
            switch state {
            case .data:
                let start = index
                index &+= min(remaining, bytes.count &- index)
                remaining &-= index &- start
                if remaining == 0 { state = .dataCarriageReturn }
                return .data(start..<index, consumed: index)
            case .dataCarriageReturn:
                guard bytes[index] == ASCII.carriageReturn else { return fail(.dataEndInvalid) }
                state = .dataLineFeed
                index &+= 1
            case .dataLineFeed:
                guard bytes[index] == ASCII.lineFeed else { return fail(.dataEndInvalid) }
                state = .size
                index &+= 1
            case .trailer:
                if let fault = parseTrailer(bytes[index]) { return fail(fault) }
                index &+= 1
                if state == .end { return .end(consumed: index) }
            case .end:
                return .end(consumed: index)
            case .failed:
                return .failed(fault)
            default:
                if let fault = parseSizeLine(bytes[index]) { return fail(fault) }
                index &+= 1
            }
        }
        switch state {
        case .end: return .end(consumed: index)
        case .failed: return .failed(fault)
        default: return .needMore(consumed: index)
        }
    }

    private mutating func fail(_ fault: ChunkFault) -> Step {
        state = .failed
        self.fault = fault
        line = []
        return .failed(fault)
    }

    // MARK: - Size and extensions

    private mutating func parseSizeLine(_ byte: UInt8) -> ChunkFault? {
        lineBytes &+= 1
        if lineBytes > limits.sizeLineBytes { return .extensionTooLong }
        switch state {
        case .size:
            if let digit = ASCII.hexadecimalValue(byte) {
                guard remaining <= (Int.max &- 15) / 16 else { return .sizeOverflow }
                remaining = remaining &* 16 &+ Int(digit)
                hasDigits = true
                return nil
            }
            guard hasDigits else { return byte == ASCII.lineFeed ? .lineEndInvalid : .sizeInvalid }
            return parseEndOfPart(byte, otherwise: .sizeInvalid)
        case .spaceBeforeExtension:
            if byte == ASCII.semicolon { state = .extensionName }
            if byte == ASCII.carriageReturn, isInResponse { return parseEndOfPart(byte, otherwise: .extensionInvalid) }
            return byte == ASCII.semicolon || ASCII.isBlank(byte) ? nil : .extensionInvalid
        case .extensionName:
            if ASCII.isToken(byte) { state = .insideName }
            return ASCII.isToken(byte) || ASCII.isBlank(byte) ? nil : .extensionInvalid
        case .insideName:
            if ASCII.isToken(byte) { return nil }
            if byte == ASCII.equals {
                state = .extensionValue
                return nil
            }
            if ASCII.isBlank(byte) {
                state = .spaceAfterName
                return nil
            }
            return parseEndOfPart(byte, otherwise: .extensionInvalid)
        case .spaceAfterName:
            if byte == ASCII.equals { state = .extensionValue }
            if byte == ASCII.semicolon { state = .extensionName }
            if byte == ASCII.carriageReturn, isInResponse { return parseEndOfPart(byte, otherwise: .extensionInvalid) }
            return byte == ASCII.equals || byte == ASCII.semicolon || ASCII.isBlank(byte) ? nil : .extensionInvalid
        case .extensionValue:
            if ASCII.isToken(byte) { state = .insideToken }
            if byte == ASCII.quote { state = .insideQuotes }
            return ASCII.isToken(byte) || byte == ASCII.quote || ASCII.isBlank(byte) ? nil : .extensionInvalid
        case .insideToken:
            return ASCII.isToken(byte) ? nil : parseEndOfPart(byte, otherwise: .extensionInvalid)
        case .insideQuotes:
            if byte == ASCII.quote { state = .behindQuotes }
            if byte == ASCII.backslash { state = .escaped }
            return ASCII.isFieldValue(byte) ? nil : .extensionInvalid
        case .escaped:
            state = .insideQuotes
            return ASCII.isFieldValue(byte) ? nil : .extensionInvalid
        case .behindQuotes:
            return parseEndOfPart(byte, otherwise: .extensionInvalid)
        case .sizeLineFeed:
            guard byte == ASCII.lineFeed else { return .lineEndInvalid }
            state = remaining == 0 ? .trailer : .data
            hasDigits = false
            lineBytes = 0
            return nil
        case .data, .dataCarriageReturn, .dataLineFeed, .trailer, .end, .failed:
            return fault
        }
    }

    /// After a size, a name or a value: the end of the line, the next extension, or white space before one.
    private mutating func parseEndOfPart(_ byte: UInt8, otherwise fault: ChunkFault) -> ChunkFault? {
        switch byte {
        case ASCII.carriageReturn: state = .sizeLineFeed
        case ASCII.semicolon: state = .extensionName
        case ASCII.space, ASCII.tab: state = .spaceBeforeExtension
        case ASCII.lineFeed: return .lineEndInvalid
        default: return fault
        }
        return nil
    }

    // MARK: - Trailers

    private mutating func parseTrailer(_ byte: UInt8) -> ChunkFault? {
        trailerBytes &+= 1
        if trailerBytes > limits.trailerBytes { return .trailersTooLarge }
        line.append(byte)
        guard byte == ASCII.lineFeed else { return nil }
        let end = line.count - 2
        guard end >= 0, line[end] == ASCII.carriageReturn else { return .lineEndInvalid }
        if end == 0 {
            state = .end
            line = []
            return nil
        }
        trailerCount += 1
        if trailerCount > limits.trailerCount { return .trailersTooLarge }
        var whole: [UInt8] = []
        swap(&whole, &line)
        let taken = FieldLine.parse(whole.span, into: &trailers)
        whole.removeAll(keepingCapacity: true)
        swap(&whole, &line)
        switch taken {
        case .failure(.carriageReturn): return .lineEndInvalid
        case .failure: return .trailerInvalid
        case .success(let name):
            let last = trailers.count - 1
            let isProxyField = name == .other && trailers.name(at: last).hasPrefixIgnoringCase("proxy-")
            if !name.isPermittedInTrailers || isProxyField { trailers.remove(at: last) }
        }
        return nil
    }
}
