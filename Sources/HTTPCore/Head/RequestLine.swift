// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The request line: method, target, version (RFC 9112 3).
enum RequestLine {
    /// Parses the line, without its CRLF, into `head`.
    static func parse(
        _ line: borrowing Span<UInt8>,
        _ limits: HeadLimits,
        into head: inout RequestHead
    ) -> RequestFault? {
        let method: Range<Int>
        switch methodRange(line, limits) {
        case .success(let range): method = range
        case .failure(let fault): return fault
        }
        let target: Range<Int>
        let isVisible: Bool
        switch targetRange(line, method.upperBound &+ 1, limits) {
        case .success(let found): (target, isVisible) = found
        case .failure(let fault): return fault
        }
        if let fault = parseVersion(line, target.upperBound &+ 1, into: &head) { return fault }
        head.method = HTTPMethod(validated: line.extracting(method))
        return RequestTarget.parse(line.extracting(target), isVisible: isVisible, into: &head)
    }

    /// The fault of a line that is longer than any valid one, determined from its beginning.
    static func fault(ofOverlong line: borrowing Span<UInt8>, _ limits: HeadLimits) -> RequestFault {
        switch methodRange(line, limits) {
        case .failure(let fault): return fault
        case .success(let method):
            switch targetRange(line, method.upperBound &+ 1, limits) {
            case .failure(let fault): return fault
            case .success: return .versionMalformed
            }
        }
    }

    private static func methodRange(
        _ line: borrowing Span<UInt8>,
        _ limits: HeadLimits
    ) -> Result<Range<Int>, RequestFault> {
        var index = 0
        while index < line.count, line[index] != ASCII.space {
            guard ASCII.isToken(line[index]) else {
                if line[index] == ASCII.carriageReturn { return .failure(.bareCarriageReturn) }
                return .failure(line[index] == ASCII.tab ? .requestLineSpacing : .methodInvalid)
            }
            if index >= limits.methodBytes { return .failure(.methodTooLong) }
            index &+= 1
        }
        return index < line.count ? .success(0..<index) : .failure(.missingTarget)
    }

    /// The target's range, and whether its bytes are visible ASCII.
    private static func targetRange(
        _ line: borrowing Span<UInt8>,
        _ start: Int,
        _ limits: HeadLimits
    ) -> Result<(range: Range<Int>, isVisible: Bool), RequestFault> {
        var index = line.firstIndexOutsideVisible(in: start..<line.count) ?? line.count
        var isVisible = true
        while index < line.count, line[index] > ASCII.delete {
            isVisible = false
            index = line.firstIndexOutsideVisible(in: index &+ 1..<line.count) ?? line.count
        }
        let isEnded = index == line.count || line[index] == ASCII.space
        if index &- start > limits.targetBytes || index &- start == limits.targetBytes && !isEnded {
            return .failure(.targetTooLong)
        }
        if !isEnded {
            if line[index] == ASCII.carriageReturn { return .failure(.bareCarriageReturn) }
            return .failure(line[index] == ASCII.tab ? .requestLineSpacing : .targetInvalidByte)
        }
        if index == start {
            // An empty target, or a second space.
            return .failure(index == line.count ? .missingTarget : .requestLineSpacing)
        }
        return index < line.count ? .success((start..<index, isVisible)) : .failure(.version09)
    }

    private static func parseVersion(
        _ line: borrowing Span<UInt8>,
        _ start: Int,
        into head: inout RequestHead
    ) -> RequestFault? {
        let version = line.extracting(start..<line.count)
        guard version.count == 8, version[0] == UInt8(ascii: "H"), version[1] == UInt8(ascii: "T"),
            version[2] == UInt8(ascii: "T"), version[3] == UInt8(ascii: "P"), version[4] == ASCII.slash,
            ASCII.isDigit(version[5]), version[6] == ASCII.dot, ASCII.isDigit(version[7])
        else {
            if version.firstIndex(of: ASCII.carriageReturn) != nil { return .bareCarriageReturn }
            let hasBlank = version.firstIndex(of: ASCII.space) != nil || version.firstIndex(of: ASCII.tab) != nil
            return hasBlank ? .requestLineSpacing : .versionMalformed
        }
        switch version[5] {
        case UInt8(ascii: "1"):
            head.minorVersion = version[7] == UInt8(ascii: "0") ? 0 : 1
            return nil
        case UInt8(ascii: "0"):
            return .version09
        default:
            return .versionUnsupported
        }
    }
}
