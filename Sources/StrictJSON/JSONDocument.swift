// SPDX-License-Identifier: Apache-2.0
/// A strict parser of RFC 8259 that reports all errors in a text at once.
///
/// Nothing beyond the standard is accepted: no comments, no trailing commas, no `NaN`, no duplicate names, no text
/// after the value, no byte order mark, no lone surrogates. If the intention is clear, parsing continues after an
/// issue, so that one run shows all of them; otherwise the issue is the last one.
package struct JSONDocument: Sendable {
    /// The deepest accepted nesting.
    package static let maximumDepth = 64
    /// The longest accepted text, in bytes.
    package static let maximumBytes = 16 << 20
    /// The number of issues after which the rest of the text is ignored.
    package static let maximumIssues = IssueList.most

    package let file: String
    /// The value; `nil` when the text was incomplete.
    package let root: DocumentValue?
    /// All issues of the text; empty for a valid one.
    package let issues: [DocumentIssue]

    /// Reads a text.
    ///
    /// - Parameters:
    ///   - bytes: UTF-8, at most `maximumBytes`.
    ///   - file: the file name for issues.
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
