/// One thing that is wrong (or doubtful) in a configuration document, placed and with a way out.
public struct DocumentIssue: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file as the user named it.
    public var file: String
    /// RFC 6901 JSON pointer to the value; empty for the document as a whole.
    public var pointer: String
    /// What is wrong, without a full stop.
    public var message: String
    /// What to do about it, without a full stop.
    public var remedy: String
    /// Line of the value, from 1; `nil` where the document has no lines to speak of (a missing file).
    public var line: Int?
    /// Column of the value in Unicode scalars, from 1.
    public var column: Int?
    /// A stable name of the warnings that programs may want to tell apart: `pin_set_expiry`.
    public var code: String?

    /// Of the warning that a pin set ends within `PinFile.expirationNotice`.
    public static let pinSetExpiry = "pin_set_expiry"

    /// An issue; line and column come together or not at all.
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
        self.message = message
        self.remedy = remedy
        self.line = line
        self.column = column
    }

    /// `FILE: /json/pointer: message (remedy; line 3, column 7)`.
    public var description: String {
        var text = file + ": "
        if !pointer.isEmpty { text += pointer + ": " }
        text += message
        var hints: [String] = []
        if !remedy.isEmpty { hints.append(remedy) }
        if let line, let column { hints.append("line \(line), column \(column)") }
        if !hints.isEmpty { text += " (" + hints.joined(separator: "; ") + ")" }
        return text
    }
}

/// Why a document was refused: every issue that was found in it, in the order of the text.
public struct DocumentIssues: Error, Sendable, CustomStringConvertible {
    /// At least one.
    public var issues: [DocumentIssue]

    /// A refusal for these issues.
    public init(_ issues: [DocumentIssue]) {
        self.issues = issues
    }

    /// One issue a line.
    public var description: String {
        issues.map(\.description).joined(separator: "\n")
    }
}

/// RFC 6901: the pointers that issues bear.
package enum JSONPointer {
    /// The pointer to a member of the object at `parent`.
    package static func member(_ name: String, of parent: String) -> String {
        var text = parent + "/"
        for scalar in name.unicodeScalars {
            switch scalar {
            case "~": text += "~0"
            case "/": text += "~1"
            // It would break the one-line form of an issue.
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
