import HTTPCore

/// A pattern for the path of a URL, without its query: `/v1/items`, or with `*` for any run of characters, slashes
/// among them: `/v1/*`, `*.zip`. Case counts.
///
/// Compared without percent-encoding where that changes nothing (RFC 3986, section 6.2.2.2), so that `/%761/` does not
/// slip past a rule for `/v1/*`.
package struct PathPattern: Hashable, Sendable {
    package let text: String
    /// What stands between the stars, in their normal form.
    private let pieces: [[UInt8]]

    /// - Returns: nil for a text that could match no path: one that begins with neither `/` nor `*`, or holds a query, a
    ///   fragment, or what no path holds.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard let first = bytes.first, first == UInt8(ascii: "/") || first == UInt8(ascii: "*") else { return nil }
        let refused = Array("?#\\\"<> ".utf8)
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !refused.contains($0) }) else { return nil }
        self.text = text
        pieces = bytes.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false)
            .map { Self.normal(Array($0)) }
    }

    /// Whether it takes in a path in its normal form, as `normal(pathOf:)` gives it.
    func matches(_ path: [UInt8]) -> Bool {
        var rest = path[...]
        guard let first = pieces.first, rest.starts(with: first) else { return false }
        rest = rest.dropFirst(first.count)
        guard pieces.count > 1, let last = pieces.last else { return rest.isEmpty }
        for piece in pieces[1..<(pieces.count - 1)] {
            guard let end = Self.end(of: piece, in: rest) else { return false }
            rest = rest[end...]
        }
        return rest.count >= last.count && rest.suffix(last.count).elementsEqual(last)
    }

    /// The part of a target in origin form that its one star at the end stands for; nil for other patterns.
    func rest(of target: [UInt8]) -> [UInt8]? {
        guard pieces.count == 2, pieces[1].isEmpty else { return nil }
        var matched: [UInt8] = []
        var position = 0
        while matched.count < pieces[0].count, position < target.count {
            let (byte, count) = Self.character(target[...], at: position)
            matched += byte.map { [$0] } ?? Self.normal(Array(target[position..<(position + count)]))
            position += count
        }
        guard matched == pieces[0] else { return nil }
        return Array(target[position...])
    }

    private static func end(of piece: [UInt8], in text: ArraySlice<UInt8>) -> Int? {
        guard !piece.isEmpty else { return text.startIndex }
        guard text.count >= piece.count else { return nil }
        for start in text.startIndex...(text.endIndex - piece.count)
        where text[start..<(start + piece.count)].elementsEqual(piece) {
            return start + piece.count
        }
        return nil
    }

    /// The path of a target in origin form, in its normal form.
    static func normal(pathOf target: [UInt8]) -> [UInt8] {
        normal(Array(target.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }))
    }

    /// Percent-encoded unreserved characters decoded, other triplets in upper case.
    private static func normal(_ text: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(text.count)
        var position = 0
        while position < text.count {
            let (byte, count) = character(text[...], at: position)
            if let byte {
                result.append(byte)
            } else {
                for byte in text[position..<(position + count)] {
                    result.append(byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "f") ? byte - 32 : byte)
                }
            }
            position += count
        }
        return result
    }

    /// What stands there: an octet, or nil for a triplet that has to stay one; and how many bytes that is.
    private static func character(_ text: ArraySlice<UInt8>, at position: Int) -> (byte: UInt8?, count: Int) {
        guard text[position] == UInt8(ascii: "%"), position + 2 < text.endIndex,
            let upper = ASCII.hexadecimalValue(text[position + 1]),
            let lower = ASCII.hexadecimalValue(text[position + 2])
        else { return (text[position], 1) }
        let byte = UInt8(upper) << 4 | UInt8(lower)
        let isUnreserved = ASCII.isLetter(byte) || ASCII.isDigit(byte) || "-._~".utf8.contains(byte)
        return (isUnreserved ? byte : nil, 3)
    }
}
