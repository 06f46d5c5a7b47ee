// SPDX-License-Identifier: Apache-2.0
import StrictJSON

/// A value of JSON (RFC 8259).
public enum JSONValue: Sendable, Hashable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number with its spelling.
    case number(JSONNumber)
    /// Text.
    case string(String)
    /// Elements in order.
    case array([JSONValue])
    /// Members in the order of their names in the text.
    case object(OrderedMembers<JSONValue>)

    /// The member of an object; nil for a missing name, and for a value of another kind.
    public subscript(name: String) -> JSONValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }

    /// The element of an array; nil beyond its end, and for a value of another kind.
    public subscript(index: Int) -> JSONValue? {
        if case .array(let elements) = self, elements.indices.contains(index) { elements[index] } else { nil }
    }

    /// The text; nil for a value of another kind.
    public var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The boolean; nil for a value of another kind.
    public var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    /// The number; nil for a value of another kind.
    public var number: JSONNumber? { if case .number(let number) = self { number } else { nil } }
    /// The elements; nil for a value of another kind.
    public var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
    /// Whether it is `null`, not whether it is absent.
    public var isNull: Bool { self == .null }
    /// The number as an `Int`; nil when it is no whole number, or too large.
    public var int: Int? { number?.int }
    /// The number as a `Double`; nil for a value of another kind, or when it is too large.
    public var double: Double? { number?.double }

    /// The value without null members and elements, at any depth. Null itself stays.
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

/// A number with its spelling in JSON, so that no size or precision is lost.
public struct JSONNumber: Sendable, Hashable, CustomStringConvertible {
    /// The spelling (RFC 8259, section 6).
    public let text: String

    /// A number with this spelling; nil for text that is no number of JSON.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        let (end, isComplete) = JSONGrammar.number(in: bytes, from: 0)
        guard isComplete, end == bytes.count else { return nil }
        self.text = text
    }

    /// Makes a number from text that is known to be valid.
    init(validated text: String) { self.text = text }

    /// The number in decimal.
    public init(_ value: Int) { text = String(value) }
    /// The number in decimal.
    public init(_ value: UInt64) { text = String(value) }

    /// The shortest text with the same value; nil for infinities and NaN.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = Self.text(value)
    }

    /// The shortest text with the same value, without a fraction for whole numbers.
    static func text(_ value: Double) -> String {
        let text = value.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// The value as an `Int`; nil when it has a fraction or an exponent, or does not fit.
    public var int: Int? { Int(text) }
    /// The value as a `UInt64`; nil when it has a fraction, an exponent or a sign, or does not fit.
    public var unsigned: UInt64? { UInt64(text) }
    /// The nearest double; nil when the number is larger than all of them.
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
    /// A whole number, as `-7`. For fractions use `JSONNumber`, whose initializer can fail.
    public init(integerLiteral value: Int) { self = .number(JSONNumber(value)) }
    /// A string; its characters are escaped when it is written.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An array of values, which may be of different kinds.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    /// The last value of a repeated name counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var members = OrderedMembers<JSONValue>()
        for (key, value) in elements { members[key] = value }
        self = .object(members)
    }
}
