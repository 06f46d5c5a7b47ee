// SPDX-License-Identifier: Apache-2.0
/// An error (or warning) in a configuration document, with its place and a remedy.
public struct DocumentIssue: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file name as the user gave it.
    public var file: String
    /// RFC 6901 JSON pointer to the value; empty for the document as a whole.
    public var pointer: String
    /// The problem, without a full stop.
    public var message: String
    /// The remedy, without a full stop.
    public var remedy: String
    /// Line of the value, from 1; `nil` without a document (a missing file).
    public var line: Int?
    /// Column of the value in Unicode scalars, from 1.
    public var column: Int?
    /// A stable name for warnings that programs may want to recognise: `pin_set_expiry`.
    public var code: String?

    /// The number of issues that this one stands for, as the last of an `IssueList`; 0 for an ordinary one.
    package var others = 0

    /// The code of the warning that a pin set ends within `PinFile.expirationNotice`.
    public static let pinSetExpiry = "pin_set_expiry"

    /// The code of the warning that a pin set has ended and that every request is refused therefore.
    public static let pinSetExpired = "pin_set_expired"

    /// Makes an issue; line and column are given together or not at all. Characters of message and remedy that would disturb a
    /// line of a terminal or a log become U+FFFD, and long texts are cut: values and paths of the document may have any.
    public init(
        file: String,
        pointer: String = "",
        message: String,
        remedy: String,
        line: Int? = nil,
        column: Int? = nil
    ) {
        self.file = file
        self.pointer = LegibleText.cut(pointer, at: Self.longest)
        self.message = LegibleText.cut(message, at: Self.longest).legible
        self.remedy = LegibleText.cut(remedy, at: Self.longest).legible
        self.line = line
        self.column = column
    }

    /// The largest number of Unicode scalars of each text.
    private static let longest = 2000

    /// `FILE: /json/pointer: message (remedy; line 3, column 7)`.
    public var description: String {
        var text = file.legible + ": "
        if !pointer.isEmpty { text += pointer + ": " }
        text += message
        var hints: [String] = []
        if !remedy.isEmpty { hints.append(remedy) }
        if let line, let column { hints.append("line \(line), column \(column)") }
        if !hints.isEmpty { text += " (" + hints.joined(separator: "; ") + ")" }
        return text
    }
}

/// The refusal of a document, with all of its issues in the order of the text.
public struct DocumentIssues: Error, Sendable, CustomStringConvertible {
    /// At least one.
    public var issues: [DocumentIssue]

    /// Makes a refusal for these issues.
    public init(_ issues: [DocumentIssue]) {
        self.issues = issues
    }

    /// One line for each issue.
    public var description: String {
        issues.map(\.description).joined(separator: "\n")
    }
}

/// The JSON pointers of issues (RFC 6901).
package enum JSONPointer {
    /// The pointer to a member of the object at `parent`. A long name is cut: every pointer below repeats it.
    package static func member(_ name: String, of parent: String) -> String {
        var text = parent + "/"
        if name.utf8.count <= longest, name.utf8.allSatisfy(isPlain) { return text + name }
        for scalar in LegibleText.cut(name, at: longest).unicodeScalars {
            switch scalar {
            case "~": text += "~0"
            case "/": text += "~1"
            // A line break in a key would break the one-line form of an issue.
            case let scalar where scalar.disturbsLine: text += "\u{fffd}"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// The largest number of Unicode scalars of a name.
    private static let longest = 128

    private static func isPlain(_ byte: UInt8) -> Bool {
        (0x20..<0x7f).contains(byte) && byte != UInt8(ascii: "~") && byte != UInt8(ascii: "/")
    }

    /// The pointer to an element of the array at `parent`.
    package static func element(_ index: Int, of parent: String) -> String {
        "\(parent)/\(index)"
    }
}
