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

    /// The code of the warning that a pin set ends within `PinFile.expirationNotice`.
    public static let pinSetExpiry = "pin_set_expiry"

    /// Makes an issue; line and column are given together or not at all. Characters of message and remedy that would disturb a
    /// line of a terminal or a log become U+FFFD: values and paths of the document may have any.
    public init(
        file: String,
        pointer: String = "",
        message: String,
        remedy: String,
        line: Int? = nil,
        column: Int? = nil
    ) {
        self.file = file
        self.pointer = pointer
        self.message = message.legible
        self.remedy = remedy.legible
        self.line = line
        self.column = column
    }

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
    /// The pointer to a member of the object at `parent`.
    package static func member(_ name: String, of parent: String) -> String {
        var text = parent + "/"
        for scalar in name.unicodeScalars {
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

    /// The pointer to an element of the array at `parent`.
    package static func element(_ index: Int, of parent: String) -> String {
        "\(parent)/\(index)"
    }
}
