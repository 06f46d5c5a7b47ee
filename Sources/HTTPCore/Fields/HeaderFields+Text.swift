// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The reason why a text is not valid in a field.
public enum HTTPFieldFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The name is empty or has a character that is not allowed in a token (RFC 9110 5.6.2).
    case invalidName(String)
    /// The value holds CR, LF, NUL or another control character, or white space at an end (RFC 9110 5.5).
    case invalidValue(name: String)

    public var description: String {
        switch self {
        case .invalidName(let name):
            "\(String(reflecting: name)) is no field name: letters, digits and !#$%&'*+-.^_`|~ may stand there"
        case .invalidValue(let name):
            "the value of \(name) holds a control character (such as a line break) or white space at an end"
        }
    }
}

/// Access to fields as text, for configuration and users of the library. The request path uses bytes.
extension HeaderFields {
    /// Appends a field after the existing ones, even after one of the same name.
    ///
    /// - Throws: `HTTPFieldFault`; nothing is appended then.
    public mutating func append(name: String, value: String) throws(HTTPFieldFault) {
        let nameBytes = Array(name.utf8)
        let valueBytes = Array(value.utf8)
        guard Self.isValidName(nameBytes.span) else { throw .invalidName(name) }
        guard Self.isValidValue(valueBytes.span) else { throw .invalidValue(name: name) }
        append(name: nameBytes.span, value: valueBytes.span)
    }

    /// Replaces all fields of that name by one at the end.
    ///
    /// - Throws: `HTTPFieldFault`; nothing is changed then.
    public mutating func set(name: String, value: String) throws(HTTPFieldFault) {
        let kept = self
        remove(name: name)
        do {
            try append(name: name, value: value)
        } catch {
            self = kept
            throw error
        }
    }

    /// Removes every field of that name, ignoring case.
    public mutating func remove(name: String) {
        let bytes = Array(name.utf8)
        removeAll { fields, index in fields.name(at: index).equalsIgnoringCase(bytes.span) }
    }

    /// The values of that name, ignoring case, in order. Invalid UTF-8 is repaired.
    public func values(for name: String) -> [String] {
        let bytes = Array(name.utf8)
        var values: [String] = []
        for index in 0..<count where self.name(at: index).equalsIgnoringCase(bytes.span) {
            values.append(String(copying: value(at: index)))
        }
        return values
    }

    /// The first value of that name.
    public func value(for name: String) -> String? { values(for: name).first }

    /// The first value of that name; nil without one.
    public subscript(name: String) -> String? { value(for: name) }

    /// Every field as text, in order.
    public var list: [(name: String, value: String)] {
        (0..<count).map { (String(copying: name(at: $0)), String(copying: value(at: $0))) }
    }
}

extension HeaderFields: Sequence {
    /// Every field as text, in order.
    public func makeIterator() -> IndexingIterator<[(name: String, value: String)]> { list.makeIterator() }
}

extension HeaderFields: Equatable {
    /// Whether both have the same names (ignoring case) and values in the same order.
    public static func == (left: HeaderFields, right: HeaderFields) -> Bool {
        guard left.count == right.count else { return false }
        for index in 0..<left.count {
            guard left.name(at: index).equalsIgnoringCase(right.name(at: index)),
                left.value(at: index).equals(right.value(at: index))
            else { return false }
        }
        return true
    }
}

extension HeaderFields: CustomStringConvertible {
    /// One line for each field. Secrets are not masked: do not log it.
    public var description: String {
        list.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
    }
}
