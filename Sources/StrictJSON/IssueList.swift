// SPDX-License-Identifier: Apache-2.0
/// The issues of one document, or of several: the first hundred, and the number of the others. A file of nothing but
/// errors costs neither the time nor the space of writing all of them down.
package struct IssueList: Sendable {
    /// The number of issues that are kept.
    package static let most = 100

    /// The subject of the last line: "errors" or "warnings".
    private let kind: String
    private var kept: [DocumentIssue] = []
    /// The file of the first issue that was not kept.
    private var restFile = ""
    /// The number of issues that were not kept.
    private var restCount = 0

    package init(_ kind: String = "errors") { self.kind = kind }

    /// All issues, those that are not kept included.
    package var count: Int { kept.count + restCount }
    package var isEmpty: Bool { kept.isEmpty }

    /// - Parameter issue: is only made if it is kept.
    package mutating func append(_ issue: @autoclosure () -> DocumentIssue, of file: String) {
        if kept.count < Self.most { kept.append(issue()) } else { skip(1, of: file) }
    }

    package mutating func append(contentsOf issues: [DocumentIssue]) {
        for issue in issues {
            if kept.count < Self.most, issue.others == 0 {
                kept.append(issue)
            } else {
                skip(max(1, issue.others), of: issue.file)
            }
        }
    }

    private mutating func skip(_ number: Int, of file: String) {
        if restCount == 0 { restFile = file }
        restCount += number
    }

    /// The issues of several documents as those of one list.
    package static func joined(_ lists: [[DocumentIssue]], _ kind: String = "errors") -> [DocumentIssue] {
        var joined = IssueList(kind)
        for list in lists { joined.append(contentsOf: list) }
        return joined.elements
    }

    /// The issues in the order in which they were found; the last one says how many are not shown.
    package var elements: [DocumentIssue] { kept + rest }

    /// The same in the order of one document's text.
    var inOrder: [DocumentIssue] {
        let sorted = kept.enumerated().sorted { left, right in
            (left.element.line ?? 0, left.element.column ?? 0, left.offset)
                < (right.element.line ?? 0, right.element.column ?? 0, right.offset)
        }
        return sorted.map(\.element) + rest
    }

    private var rest: [DocumentIssue] {
        guard restCount > 0 else { return [] }
        var issue = DocumentIssue(
            file: restFile,
            message: "and \(restCount) more \(kind), which are not shown",
            remedy: "mend those above first"
        )
        issue.others = restCount
        return [issue]
    }
}

extension [DocumentIssue] {
    /// The number of issues, those included that the last one of an `IssueList` stands for.
    package var total: Int { reduce(0) { $0 + Swift.max(1, $1.others) } }
}
