/// A pattern for a name, such as that of a query parameter or a cookie: `utm_source`, or with `*` for any characters,
/// `utm_*`. Bytes are compared as they are: case and percent-encoding make a difference.
package struct WildcardPattern: Hashable, Sendable {
    /// The pattern as written.
    package let text: String
    /// The pieces between the stars; a single piece without a star.
    private let pieces: [[UInt8]]

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
        pieces = bytes.split(separator: ASCII.asterisk, omittingEmptySubsequences: false).map { Array($0) }
    }

    /// The number of stars.
    package var starCount: Int { pieces.count - 1 }

    /// The piece before the only star, if that is at the end.
    var prefix: [UInt8]? { pieces.count == 2 && pieces[1].isEmpty ? pieces[0] : nil }

    package func matches(_ name: borrowing Span<UInt8>) -> Bool {
        let first = pieces[0]
        let last = pieces[pieces.count - 1]
        guard pieces.count > 1 else { return name.equals(first.span) }
        guard name.count >= first.count + last.count, name.extracting(0..<first.count).equals(first.span),
            name.extracting((name.count - last.count)..<name.count).equals(last.span)
        else { return false }
        // The middle pieces are searched one after the other, each at its earliest position.
        var place = first.count
        let end = name.count - last.count
        for piece in pieces[1..<(pieces.count - 1)] {
            guard let found = name.extracting(place..<end).firstRange(of: piece.span) else { return false }
            place += found.upperBound
        }
        return true
    }
}
