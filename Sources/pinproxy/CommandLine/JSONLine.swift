import ServerTrust
import StrictJSON

/// One JSON object on one line of the standard output, member by member.
struct JSONLine {
    private var members: [String] = []

    mutating func add(_ name: String, _ value: String) { add(name, text: JSONString.quoted(value)) }
    mutating func add(_ name: String, _ value: Bool) { add(name, text: value ? "true" : "false") }
    mutating func add(_ name: String, _ value: some BinaryInteger) { add(name, text: "\(value)") }
    /// - Parameter number: a JSON number's text.
    mutating func add(_ name: String, number: String) { add(name, text: number) }

    /// - Parameter array: JSON texts.
    mutating func add(_ name: String, array: [String]) { add(name, text: "[\(array.joined(separator: ","))]") }
    mutating func add(_ name: String, _ value: JSONLine) { add(name, text: value.object) }

    private mutating func add(_ name: String, text: String) {
        members.append("\(JSONString.quoted(name)):\(text)")
    }

    /// As a value inside another.
    var object: String { "{\(members.joined(separator: ","))}" }

    /// With the line's end.
    var text: String { "\(object)\n" }
}
