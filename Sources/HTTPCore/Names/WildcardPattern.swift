// SPDX-License-Identifier: Apache-2.0
/// A pattern for a name, such as that of a query parameter or a cookie: `utm_source`, or with `*` for any characters,
/// `utm_*`. Bytes are compared as they are: case and percent-encoding make a difference.
package struct WildcardPattern: Hashable, Sendable {
    /// The pattern as written.
    package let text: String
    /// The pieces between the stars; a single piece without a star.
    private let pieces: [SearchPiece]

    /// - Returns: nil for a text that matches no name: it is empty, or has a character other than letters, digits,
    ///   `-`, `.`, `_`, `~` and `*`.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty, bytes.allSatisfy({ ASCII.isUnreserved($0) || $0 == ASCII.asterisk }) else { return nil }
        self.init(text, bytes)
    }

    /// A pattern of any bytes.
    ///
    /// - Parameters:
    ///   - text: the pattern as written.
    ///   - bytes: the form in which it is compared.
    package init(_ text: String, _ bytes: [UInt8]) {
        self.text = text
        pieces = bytes.split(separator: ASCII.asterisk, omittingEmptySubsequences: false).map { SearchPiece(Array($0)) }
    }

    /// The number of stars.
    package var starCount: Int { pieces.count - 1 }

    /// The piece before the only star, if that is at the end.
    var prefix: [UInt8]? { pieces.count == 2 && pieces[1].bytes.isEmpty ? pieces[0].bytes : nil }

    package func matches(_ name: borrowing Span<UInt8>) -> Bool {
        var unbounded = Int.max
        return matches(name, within: &unbounded)
    }

    /// - Parameter budget: how many bytes may be searched through between the first and the last star; below zero afterwards if
    ///   there were more, and the result then means nothing.
    package func matches(_ name: borrowing Span<UInt8>, within budget: inout Int) -> Bool {
        let begin = pieces[0].bytes
        guard pieces.count > 1 else { return name.equals(begin.span) }
        let rest = pieces[pieces.count - 1].bytes
        let (first, last) = (begin.count, rest.count)
        guard name.count >= first + last, name.extracting(0..<first).equals(begin.span),
            name.extracting((name.count - last)..<name.count).equals(rest.span)
        else { return false }
        // The middle pieces are searched one after the other, each at its earliest position.
        var position = first
        let end = name.count - last
        for index in 1..<max(pieces.count - 1, 1) {
            let found = pieces[index].end(in: name, position..<end)
            budget -= (found ?? end) - position
            guard let found, budget >= 0 else { return false }
            position = found
        }
        return true
    }
}

/// A text to look for, such as a piece of a pattern, with what a search for it needs. A search looks at each byte at most twice, whatever the bytes are (Knuth,
/// Morris and Pratt, 1977).
package struct SearchPiece: Hashable, Sendable {
    package let bytes: [UInt8]
    /// For each byte, how many bytes of the piece that end there are its beginning, too.
    private let overlaps: [Int]

    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
        var overlaps = Array(repeating: 0, count: bytes.count)
        var length = 0
        for index in bytes.indices.dropFirst() {
            while length > 0, bytes[index] != bytes[length] { length = overlaps[length - 1] }
            if bytes[index] == bytes[length] { length += 1 }
            overlaps[index] = length
        }
        self.overlaps = overlaps
    }

    /// The end of the first place that holds the piece.
    package func end(in name: borrowing Span<UInt8>, _ range: Range<Int>) -> Int? {
        guard let first = bytes.first else { return range.lowerBound }
        var index = range.lowerBound
        var matched = 0
        while index < range.upperBound {
            if matched == 0 {
                guard let found = name.firstIndex(of: first, from: index), found < range.upperBound else { return nil }
                (index, matched) = (found, 1)
            } else if name[index] == bytes[matched] {
                matched += 1
            } else {
                matched = overlaps[matched - 1]
                continue
            }
            index += 1
            if matched == bytes.count { return index }
        }
        return nil
    }
}
