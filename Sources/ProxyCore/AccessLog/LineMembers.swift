// SPDX-License-Identifier: Apache-2.0
package import StrictJSON

/// The members of a log line, or of an object in it, by their names.
package struct LineMembers {
    private let members: [DocumentValue.Member]

    package init(_ members: [DocumentValue.Member]) { self.members = members }

    private func value(_ name: String) -> DocumentValue? { members.first { $0.name == name }?.value }

    package func text(_ name: String) -> String? { value(name).flatMap(Self.text) }

    package func object(_ name: String) -> LineMembers? {
        guard case .object(let members)? = value(name)?.content else { return nil }
        return LineMembers(members)
    }

    package func objects(_ name: String) -> [LineMembers] {
        guard case .array(let elements)? = value(name)?.content else { return [] }
        return elements.compactMap { element in
            if case .object(let members) = element.content { LineMembers(members) } else { nil }
        }
    }

    /// A number within ±10^12, the nearest one for others: sums and products of a few of them are whole numbers.
    package func number(_ name: String) -> Double? {
        text(name).flatMap { Double($0) }.flatMap { $0.isNaN ? nil : min(max($0, -1e12), 1e12) }
    }

    package func integer(_ name: String) -> Int? { text(name).flatMap { Int($0) } }

    func last(_ name: String) -> LineMembers? {
        guard case .array(let elements)? = value(name)?.content, case .object(let members)? = elements.last?.content
        else { return nil }
        return LineMembers(members)
    }

    /// A value as words: a list with commas, an object by its size.
    static func words(_ value: DocumentValue) -> String {
        switch value.content {
        case .array(let elements): elements.isEmpty ? "none" : elements.map(words).joined(separator: ",")
        case .object(let members): "{\(members.count)}"
        default: text(value) ?? "null"
        }
    }

    /// A string, number or boolean as text.
    static func text(_ value: DocumentValue) -> String? {
        switch value.content {
        case .string(let text), .number(let text): text
        case .bool(let value): value ? "true" : "false"
        case .null, .array, .object, .unreadable: nil
        }
    }
}
