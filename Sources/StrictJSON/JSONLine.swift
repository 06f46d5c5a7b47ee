// SPDX-License-Identifier: Apache-2.0
/// One JSON object on one line, member by member, where speed does not matter.
package struct JSONLine {
    private var members: [String] = []

    package init() {}

    package mutating func add(_ name: String, _ value: String) { add(name, text: JSONString.quoted(value)) }
    package mutating func add(_ name: String, _ value: Bool) { add(name, text: value ? "true" : "false") }
    package mutating func add(_ name: String, _ value: some BinaryInteger) { add(name, text: "\(value)") }
    /// - Parameter number: the text of a JSON number.
    package mutating func add(_ name: String, number: String) { add(name, text: number) }

    /// - Parameter array: JSON texts.
    package mutating func add(_ name: String, array: [String]) { add(name, text: "[\(array.joined(separator: ","))]") }
    package mutating func add(_ name: String, _ value: JSONLine) { add(name, text: value.object) }

    private mutating func add(_ name: String, text: String) {
        members.append("\(JSONString.quoted(name)):\(text)")
    }

    /// The object as a value inside another.
    package var object: String { "{\(members.joined(separator: ","))}" }

    /// The object with a newline.
    package var text: String { "\(object)\n" }
}

extension JSONLine {
    /// The members of an issue, as `pinproxy check --json` writes them.
    package init(_ issue: DocumentIssue) {
        add("file", issue.file)
        if !issue.pointer.isEmpty { add("pointer", issue.pointer) }
        add("message", issue.message)
        if !issue.remedy.isEmpty { add("remedy", issue.remedy) }
        if let place = issue.line { add("line", place) }
        if let column = issue.column { add("column", column) }
    }
}
