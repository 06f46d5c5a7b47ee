// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import StrictJSON

/// Text in columns.
enum TextLayout {
    /// The columns of the terminal that is the standard output, between 40 and 120: longer lines are hard to read. 80 without
    /// a terminal, so that files and pipes get the same bytes everywhere.
    static let width: Int = {
        let columns = Int(pinproxy_terminal_columns(STDOUT_FILENO))
        return columns > 0 ? min(max(columns, 40), 120) : 80
    }()

    /// Foreign text (a file's comment, a word of the command line) on one line, without characters that a terminal obeys.
    static func printable(_ text: String) -> String { text.legible }

    /// Lines of at most `width` columns, broken after spaces if there are any, else after commas, else anywhere.
    static func lines(_ text: String, width: Int) -> [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).flatMap { brokenLine($0, width) }
    }

    private static func brokenLine(_ text: Substring, _ width: Int) -> [String] {
        var lines: [String] = []
        var rest = text
        while rest.count > width {
            let limit = rest.index(rest.startIndex, offsetBy: width)
            // One column more, because a space at the end of a line need not be shown.
            let reach = rest[...limit]
            let end =
                reach.lastIndex(of: " ").flatMap { $0 > rest.startIndex ? $0 : nil }
                ?? rest[..<limit].lastIndex(of: ",").map { rest.index(after: $0) } ?? limit
            lines.append(String(rest[..<end]))
            rest = rest[end...].drop { $0 == " " }
        }
        return lines + [String(rest)]
    }

    /// JSON on lines of at most `width` columns, broken between members if possible, so that each line can be read by
    /// itself.
    static func jsonLines(_ text: String, width: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for member in members(text) {
            if !line.isEmpty, line.count + member.count > width {
                lines += brokenLine(line[...], width)
                line = ""
            }
            line += member
        }
        return lines + brokenLine(line[...], width)
    }

    /// The pieces of a JSON text that end with a comma outside strings.
    private static func members(_ text: String) -> [String] {
        var members: [String] = []
        var member = ""
        var isInString = false
        var isEscaped = false
        for character in text {
            member.append(character)
            if isEscaped {
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "\"" {
                isInString.toggle()
            } else if character == ",", !isInString {
                members.append(member)
                member = ""
            }
        }
        return members + [member]
    }

    /// A label with a text beside it, wrapped in a column of its own.
    static func row(
        _ label: String,
        _ text: String,
        column: Int,
        marking: (String) -> String = { $0 }
    ) -> String {
        if text.isEmpty { return label + "\n" }
        let margin = String(repeating: " ", count: column)
        let padding = String(repeating: " ", count: max(1, column - label.count))
        let body = lines(text, width: width - column).map { $0.isEmpty ? "" : marking($0) }
        return label + padding + body.joined(separator: "\n" + margin) + "\n"
    }
}
