extension Unicode.Scalar {
    /// Whether it would break a line of a log or a terminal, steer the terminal, or show the text in another order than
    /// it has: control characters (C0, DEL, C1), line and paragraph separators, marks of direction.
    package var disturbsLine: Bool {
        switch value {
        case 0..<0x20, 0x7f..<0xa0, 0x061c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069: true
        default: false
        }
    }
}

extension String {
    /// External text for one line of a message: characters that would disturb the line become U+FFFD.
    package var legible: String {
        guard unicodeScalars.contains(where: \.disturbsLine) else { return self }
        var result = ""
        for scalar in unicodeScalars {
            result.unicodeScalars.append(scalar.disturbsLine ? "\u{fffd}" : scalar)
        }
        return result
    }
}

package enum LegibleText {
    /// External text, truncated to a length that fits a message, without characters that would disturb its line.
    package static func excerpt(_ text: String) -> String { cut(text, at: 60).legible }

    /// The first Unicode scalars of a text, with `…` when there are more.
    package static func cut(_ text: String, at length: Int) -> String {
        guard text.utf8.count > length else { return text }
        let start = text.unicodeScalars.prefix(length)
        guard start.endIndex != text.unicodeScalars.endIndex else { return text }
        return String(String.UnicodeScalarView(start)) + "…"
    }
}
