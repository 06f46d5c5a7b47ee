import ServerTrust
import StrictJSON

/// One JSON object on one line of the standard output, member by member.
struct JSONLine {
    private var members: [String] = []

    init() {}

    mutating func add(_ name: String, _ value: String) { add(name, text: JSONString.quoted(value)) }
    mutating func add(_ name: String, _ value: Bool) { add(name, text: value ? "true" : "false") }
    mutating func add(_ name: String, _ value: some BinaryInteger) { add(name, text: "\(value)") }
    /// - Parameter number: the text of a JSON number.
    mutating func add(_ name: String, number: String) { add(name, text: number) }

    /// - Parameter array: JSON texts.
    mutating func add(_ name: String, array: [String]) { add(name, text: "[\(array.joined(separator: ","))]") }
    mutating func add(_ name: String, _ value: JSONLine) { add(name, text: value.object) }

    private mutating func add(_ name: String, text: String) {
        members.append("\(JSONString.quoted(name)):\(text)")
    }

    /// The object as a value inside another.
    var object: String { "{\(members.joined(separator: ","))}" }

    /// The object with a newline.
    var text: String { "\(object)\n" }
}
