/// A strict reader of RFC 8259 that reports everything wrong with a text at once.
///
/// Nothing beyond the standard is let through: no comments, no trailing commas, no `NaN`, no duplicate names, no text
/// after the value, no byte order mark, no lone surrogates. Where it is clear what was meant, reading goes on after
/// the issue, so that one run shows all of them; otherwise the issue is the last one.
package struct JSONDocument: Sendable {
    /// The deepest nesting that is read.
    package static let maximumDepth = 64
    /// The longest text that is read, in bytes.
    package static let maximumBytes = 16 << 20
    /// After so many issues the rest of the text is not looked at.
    package static let maximumIssues = 200

    package let file: String
    /// The value; `nil` where the text broke off before it was whole.
    package let root: JSONValue?
    /// Everything wrong with the text; empty for a good one.
    package let issues: [DocumentIssue]

    /// Reads a text.
    ///
    /// - Parameters:
    ///   - bytes: UTF-8, at most `maximumBytes`.
    ///   - file: the name for the issues.
    package init(bytes: [UInt8], file: String) {
        self.file = file
        var scanner = JSONScanner(bytes: bytes, file: file)
        self.root = scanner.document()
        self.issues = scanner.issues
    }

    package init(text: String, file: String) {
        self.init(bytes: Array(text.utf8), file: file)
    }
}
