// SPDX-License-Identifier: Apache-2.0
/// A parameter of a request, simple or nested, written as a Swift literal:
///
/// ```swift
/// let parameters: ParameterValue = ["name": "Ada", "tags": ["a", "b"], "address": ["city": "London", "floor": nil]]
/// ```
public enum ParameterValue: Sendable, Hashable {
    /// Null.
    case null
    /// A boolean; 1 or 0 in a query by default.
    case bool(Bool)
    /// A whole number.
    case int(Int)
    /// A whole number that `int` cannot hold.
    case unsigned(UInt64)
    /// A number with a fraction, written as its shortest text.
    case double(Double)
    /// A number that `int`, `unsigned` and `double` cannot hold to its last digit.
    case number(JSONNumber)
    /// Text.
    case string(String)
    /// Values in order.
    case array([ParameterValue])
    /// Values by name. Query strings sort them by name; JSON keeps their order.
    case dictionary(OrderedMembers<ParameterValue>)
    /// Values without an order; they are sent sorted by their text.
    case set(Set<ParameterValue>)

    /// The elements of an array, or those of a set sorted by their text; empty for other kinds.
    public var elementsInOrder: [ParameterValue] {
        switch self {
        case .array(let elements): elements
        case .set(let elements): elements.sortedByText
        default: []
        }
    }

    /// The text of a number or string in a query string; nil for null and for nested values.
    var text: String? {
        switch self {
        case .bool(let value): value ? "1" : "0"
        case .int(let value): String(value)
        case .unsigned(let value): String(value)
        case .double(let value): JSONNumber.text(value)
        case .number(let value): value.text
        case .string(let value): value
        case .null, .array, .dictionary, .set: nil
        }
    }
}

extension Set<ParameterValue> {
    /// Sorts by text; nested values by the text of their contents.
    var sortedByText: [ParameterValue] {
        map { (text: $0.text ?? QueryString.unescaped($0), value: $0) }
            .sorted { UTF16Order.precedes($0.text, $1.text) }
            .map(\.value)
    }
}

/// Compares texts in one normal form as Foundation's `compare:` does: by UTF-16 code units, so upper case comes before
/// lower case.
enum UTF16Order {
    static func precedes(_ left: String, _ right: String) -> Bool {
        left.utf16.lexicographicallyPrecedes(right.utf16)
    }
}

// MARK: - Literals

extension ParameterValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    /// `nil` is null: sent as `QueryString.nullEncoding` says.
    public init(nilLiteral: ()) { self = .null }
    /// `true` and `false`: sent as `QueryString.boolEncoding` says.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A whole number.
    public init(integerLiteral value: Int) { self = .int(value) }
    /// A number with a fraction; a whole one, as `2.0`, is sent without a fraction.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// Text, not escaped: the serializer escapes it.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An array of values, which may be of different kinds.
    public init(arrayLiteral elements: ParameterValue...) { self = .array(elements) }

    /// The last value of a repeated name counts.
    public init(dictionaryLiteral elements: (String, ParameterValue)...) {
        var members = OrderedMembers<ParameterValue>()
        for (key, value) in elements { members[key] = value }
        self = .dictionary(members)
    }
}

// MARK: - Inside other types

/// Encodes numbers that no type of the standard library holds: `JSONNumber`, in programs with `HTTPSessionCodable`.
package protocol ManyDigits {
    /// - Returns: false for a number that has too many digits here, too.
    func encode(in container: inout any SingleValueEncodingContainer) throws -> Bool
}

extension ParameterValue: Encodable {
    /// Encodes its contents, a set as an array sorted by its text, so that it can be a member of an `Encodable` type.
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .array(let elements): try Self.encode(elements, to: encoder)
        case .set(let elements): try Self.encode(elements.sortedByText, to: encoder)
        case .dictionary(let members):
            var container = encoder.container(keyedBy: PlaceKey.self)
            for (key, value) in members { try container.encode(value, forKey: PlaceKey(stringValue: key)) }
        case .null, .bool, .int, .unsigned, .double, .number, .string:
            var container = encoder.singleValueContainer()
            switch self {
            case .bool(let flag): try container.encode(flag)
            case .int(let value): try container.encode(value)
            case .unsigned(let value): try container.encode(value)
            case .double(let value): try container.encode(value)
            case .number(let number): try Self.encode(number, in: &container)
            case .string(let text): try container.encode(text)
            default: try container.encodeNil()
            }
        }
    }

    private static func encode(_ number: JSONNumber, in container: inout any SingleValueEncodingContainer) throws {
        if let whole = Int128(number.text) { return try container.encode(whole) }
        if let whole = UInt128(number.text) { return try container.encode(whole) }
        if let number = number as? any ManyDigits, try number.encode(in: &container) { return }
        try container.encode(number.text)
    }

    private static func encode(_ elements: [ParameterValue], to encoder: any Encoder) throws {
        var container = encoder.unkeyedContainer()
        for element in elements { try container.encode(element) }
    }
}
