// SPDX-License-Identifier: Apache-2.0
extension Unicode.Scalar {
    /// Whether it would break a line of a log or a terminal, steer the terminal, be invisible, or show the text in another
    /// order than it has: control characters (C0, DEL, C1), line and paragraph separators, marks of direction, characters
    /// without a width, annotations and tags.
    package var disturbsLine: Bool {
        switch value {
        case 0..<0x20, 0x7f..<0xa0, 0xad, 0x061c, 0x180e, 0x200b...0x200f, 0x2028...0x202e, 0x2060...0x206f, 0xfeff,
            0xfff9...0xfffb, 0xe0000...0xe007f:
            true
        default: false
        }
    }
}

extension String {
    /// External text for one line of a message: characters that would disturb the line become U+FFFD.
    package var legible: String { replacing(\.disturbsLine) }

    /// The same for a text of several lines, which may have tabs.
    package var legibleLines: String { replacing { $0.disturbsLine && $0 != "\n" && $0 != "\t" } }

    /// The last defence of a terminal, for all that is written to one: C0 characters stay, since a text may have colours.
    package var safeForTerminal: String { replacing { $0.disturbsLine && $0.value > 0x7f } }

    private func replacing(_ isReplaced: (Unicode.Scalar) -> Bool) -> String {
        guard unicodeScalars.contains(where: isReplaced) else { return self }
        var result = ""
        for scalar in unicodeScalars {
            result.unicodeScalars.append(isReplaced(scalar) ? "\u{fffd}" : scalar)
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
