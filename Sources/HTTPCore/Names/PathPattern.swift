// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A pattern for the path of a URL, without its query: `/v1/items`, or with `*` for any characters, including slashes:
/// `/v1/*`, `*.zip`. Case-sensitive.
///
/// Unreserved characters are compared without percent-encoding (RFC 3986, section 6.2.2.2), so that `/%761/` does not
/// evade a rule for `/v1/*`.
public struct PathPattern: Hashable, Sendable {
    private let pattern: WildcardPattern

    /// The pattern as written.
    public var text: String { pattern.text }

    /// - Returns: nil for a text that cannot match a path: it begins with neither `/` nor `*`, or has a query, a
    ///   fragment, or an invalid character.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard let first = bytes.first, first == ASCII.slash || first == ASCII.asterisk else { return nil }
        let refused = Array("?#\\\"<> ".utf8)
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !refused.contains($0) }) else { return nil }
        // The normal form neither adds nor removes a star.
        pattern = WildcardPattern(text, Self.normal(bytes.span))
    }

    /// Whether it matches the path of a target. Allocates nothing for a path without a percent sign.
    ///
    /// - Parameter target: path and query in origin form.
    package func matches(_ target: borrowing Span<UInt8>) -> Bool {
        let query = target.firstIndex(of: ASCII.questionMark) ?? target.count
        let path = target.extracting(0..<(target.firstIndex(of: ASCII.numberSign).map { min($0, query) } ?? query))
        guard path.firstIndex(of: UInt8(ascii: "%")) != nil else { return pattern.matches(path) }
        return pattern.matches(Self.normal(path).span)
    }

    /// Whether the path of a target has a segment `.` or `..`, or one that some servers interpret so: percent-encoded
    /// (also twice), between encoded slashes or backslashes, or with a parameter (`..;x`). Such a path may identify
    /// another resource at the origin than it seems to.
    ///
    /// - Parameter target: path and query in origin form.
    package static func hasDotSegments(_ target: borrowing Span<UInt8>) -> Bool {
        var position = 0
        var dots = 0
        // Only dots since the last slash, possibly followed by a parameter.
        var isOnlyDots = false
        var isInParameter = false
        while position < target.count {
            guard target[position] != ASCII.questionMark, target[position] != ASCII.numberSign else { break }
            let (byte, length) = decoded(target, at: position)
            position += length
            switch byte {
            case ASCII.slash, ASCII.backslash:
                if isOnlyDots, dots == 1 || dots == 2 { return true }
                (dots, isOnlyDots, isInParameter) = (0, true, false)
            case _ where isInParameter: break
            case UInt8(ascii: "."): dots += 1
            case UInt8(ascii: ";"): isInParameter = true
            default: isOnlyDots = false
            }
        }
        return isOnlyDots && (dots == 1 || dots == 2)
    }

    /// The byte after removal of percent-encoding, repeated encoding included.
    private static func decoded(_ text: borrowing Span<UInt8>, at position: Int) -> (byte: UInt8, length: Int) {
        var byte = text[position]
        var length = 1
        while byte == UInt8(ascii: "%"), position + length + 1 < text.count,
            let upper = ASCII.hexadecimalValue(text[position + length]),
            let lower = ASCII.hexadecimalValue(text[position + length + 1])
        {
            byte = upper << 4 | lower
            length += 2
        }
        return (byte, length)
    }

    /// The part of a target in origin form that matches the only star, at the end; nil for other patterns, and for
    /// targets that do not match.
    package func rest(of target: [UInt8]) -> [UInt8]? {
        guard let prefix = pattern.prefix else { return nil }
        var matched: [UInt8] = []
        var position = 0
        while matched.count < prefix.count, position < target.count {
            position += Self.appendNormal(target.span, at: position, to: &matched)
        }
        guard matched == prefix else { return nil }
        return Array(target[position...])
    }

    // MARK: - Normal form

    /// Decodes percent-encoded unreserved characters, and changes other triplets to upper case.
    package static func normal(_ text: borrowing Span<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(text.count)
        var position = 0
        while position < text.count { position += appendNormal(text, at: position, to: &result) }
        return result
    }

    /// Appends the character or triplet at a position.
    ///
    /// - Returns: its length in `text`, in bytes.
    private static func appendNormal(
        _ text: borrowing Span<UInt8>,
        at position: Int,
        to result: inout [UInt8]
    ) -> Int {
        guard text[position] == UInt8(ascii: "%"), position + 2 < text.count,
            let upper = ASCII.hexadecimalValue(text[position + 1]),
            let lower = ASCII.hexadecimalValue(text[position + 2])
        else {
            result.append(text[position])
            return 1
        }
        let byte = upper << 4 | lower
        switch byte {
        case _ where ASCII.isUnreserved(byte): result.append(byte)
        default:
            result.append(UInt8(ascii: "%"))
            for digit in position + 1...position + 2 { result.append(uppercased(text[digit])) }
        }
        return 3
    }

    /// A hexadecimal digit in upper case.
    private static func uppercased(_ digit: UInt8) -> UInt8 { ASCII.isDigit(digit) ? digit : digit & ~0x20 }
}
