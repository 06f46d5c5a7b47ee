// SPDX-License-Identifier: Apache-2.0
/// One JSON object on one line, member by member: all JSON that pinproxy writes off the request path.
///
/// Two others remain. A line of the task log goes into a `ByteBuffer` without any `String` (`append(jsonEscaping:)` in ProxyCore), and a
/// `JSONValue` of the session library has options for its text (`JSONValue.serialized`).
package struct JSONLine: Sendable {
    /// The members with the commas between them.
    private var members = ""

    package init() {}

    package mutating func add(_ name: String, _ value: String) { add(name, json: JSONString.quoted(value)) }
    package mutating func add(_ name: String, _ value: Bool) { add(name, json: value ? "true" : "false") }
    package mutating func add(_ name: String, _ value: some BinaryInteger) { add(name, json: "\(value)") }
    /// - Parameter number: the text of a JSON number.
    package mutating func add(_ name: String, number: String) { add(name, json: number) }
    package mutating func addNull(_ name: String) { add(name, json: "null") }

    package mutating func add(_ name: String, strings: some Sequence<String>) {
        add(name, json: JSONString.array(strings))
    }
    /// - Parameter array: JSON texts.
    package mutating func add(_ name: String, array: [String]) { add(name, json: "[\(array.joined(separator: ","))]") }
    package mutating func add(_ name: String, _ value: JSONLine) { add(name, json: value.object) }

    /// Adds the members of another object.
    package mutating func add(membersOf other: JSONLine) { append(other.members) }

    /// - Parameter json: a JSON text.
    package mutating func add(_ name: String, json: String) { append("\(JSONString.quoted(name)):\(json)") }

    private mutating func append(_ text: String) {
        if !members.isEmpty, !text.isEmpty { members += "," }
        members += text
    }

    /// The object as a value inside another.
    package var object: String { "{\(members)}" }

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
