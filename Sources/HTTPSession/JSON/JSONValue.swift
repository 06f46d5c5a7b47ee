/// A value of JSON (RFC 8259).
public enum JSONValue: Sendable, Hashable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number, as it is spelt.
    case number(JSONNumber)
    /// Text.
    case string(String)
    /// Values in order.
    case array([JSONValue])
    /// Names keep their order.
    case object(OrderedMembers<JSONValue>)

    /// The member of an object; nil for a name that it has not, and for everything that is no object.
    public subscript(name: String) -> JSONValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }

    /// The element of an array; nil behind its end, and for everything that is no array.
    public subscript(index: Int) -> JSONValue? {
        if case .array(let elements) = self, elements.indices.contains(index) { elements[index] } else { nil }
    }

    /// Nil for anything but text.
    public var string: String? { if case .string(let text) = self { text } else { nil } }
    /// Nil for anything but `true` and `false`.
    public var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    /// Nil for anything but a number.
    public var number: JSONNumber? { if case .number(let number) = self { number } else { nil } }
    /// Nil for anything but an array.
    public var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
    /// Whether it is `null`, not whether it is absent.
    public var isNull: Bool { self == .null }
    /// A whole number that `Int` holds.
    public var int: Int? { number?.int }
    /// Nil for what is no number, or too large.
    public var double: Double? { number?.double }

    /// Without the members of objects and the elements of arrays that are null, at any depth. Null itself stays.
    public func removingNulls() -> JSONValue {
        switch self {
        case .array(let elements):
            return .array(elements.lazy.filter { !$0.isNull }.map { $0.removingNulls() })
        case .object(let members):
            var kept = OrderedMembers<JSONValue>()
            for (key, value) in members where !value.isNull { kept[key] = value.removingNulls() }
            return .object(kept)
        case .null, .bool, .number, .string:
            return self
        }
    }
}

/// A number as it is written in JSON: nothing of it is lost, whatever its size and precision.
public struct JSONNumber: Sendable, Hashable, CustomStringConvertible {
    /// As RFC 8259, section 6, has it.
    public let text: String

    /// Takes text that is known to be a number.
    init(validated text: String) { self.text = text }

    /// Spelt in decimal.
    public init(_ value: Int) { text = String(value) }
    /// Spelt in decimal.
    public init(_ value: UInt64) { text = String(value) }

    /// The shortest text that reads back as the same; nil for infinities and NaN.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = Self.text(value)
    }

    /// The shortest text that reads back as the same number, and without a fraction where there is none.
    static func text(_ value: Double) -> String {
        let text = value.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// nil when it has a fraction or an exponent, or does not fit.
    public var int: Int? { Int(text) }
    /// Nil for a fraction, an exponent, a sign, and what is too large.
    public var unsigned: UInt64? { UInt64(text) }
    /// The nearest double; nil when it is larger than all of them.
    public var double: Double? { Double(text).flatMap { $0.isFinite ? $0 : nil } }

    public var description: String { text }
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// `nil` is null.
    public init(nilLiteral: ()) { self = .null }
    /// `true` and `false`.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A whole number, as `-7`. For one with a fraction there is `JSONNumber`, which can refuse.
    public init(integerLiteral value: Int) { self = .number(JSONNumber(value)) }
    /// A string; its characters are escaped when it is written.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An array of values, also of different kinds.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    /// The last of two values of one name stands.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var members = OrderedMembers<JSONValue>()
        for (key, value) in elements { members[key] = value }
        self = .object(members)
    }
}
