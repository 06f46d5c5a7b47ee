import ServerTrust

/// One JSON object on one line of the standard output, member by member.
struct JSONLine {
    private var members: [String] = []

    mutating func add(_ name: String, _ value: String) { add(name, text: JSONString.quoted(value)) }
    mutating func add(_ name: String, _ value: Bool) { add(name, text: value ? "true" : "false") }
    mutating func add(_ name: String, _ value: some BinaryInteger) { add(name, text: "\(value)") }

    private mutating func add(_ name: String, text: String) {
        members.append("\(JSONString.quoted(name)):\(text)")
    }

    /// With the line's end.
    var text: String { "{\(members.joined(separator: ","))}\n" }
}
