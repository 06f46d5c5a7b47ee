// SPDX-License-Identifier: Apache-2.0
extension JSONValue {
    /// A number that JSON cannot express.
    package struct NotFinite: Error { let value: Double }

    /// Sets become arrays, sorted.
    package init(_ value: ParameterValue) throws(NotFinite) {
        switch value {
        case .null: self = .null
        case .bool(let flag): self = .bool(flag)
        case .int(let value): self = .number(JSONNumber(value))
        case .unsigned(let value): self = .number(JSONNumber(value))
        case .double(let value):
            guard let number = JSONNumber(value) else { throw NotFinite(value: value) }
            self = .number(number)
        case .number(let number): self = .number(number)
        case .string(let text): self = .string(text)
        case .array(let elements): self = .array(try Self.converted(elements))
        case .set(let elements): self = .array(try Self.converted(elements.sortedByText))
        case .dictionary(let members):
            var converted = OrderedMembers<JSONValue>()
            for (key, member) in members { converted[key] = try JSONValue(member) }
            self = .object(converted)
        }
    }

    private static func converted(_ elements: [ParameterValue]) throws(NotFinite) -> [JSONValue] {
        var converted: [JSONValue] = []
        for element in elements { converted.append(try JSONValue(element)) }
        return converted
    }
}
