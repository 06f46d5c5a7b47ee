// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCodable
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

/// `.decodable` gives what Foundation's `JSONDecoder` gives: values, and errors with their places.
@Suite("Decoding beside JSONDecoder")
struct DecodingComparisonTests {
    /// Where the two may differ, with the reasons. Nothing else may.
    private enum Difference {
        /// Text that is no JSON is `invalidJSON`, with the position of the fault, in place of `dataCorrupted`.
        case noJSON
        /// No text at all is no body: `inputDataEmpty`.
        case noBody
        /// Of several wrong members of a dictionary any may be named: it has no order, for Foundation neither.
        case orderOfMembers
    }

    @Test("ten thousand pairs of types and texts give Foundation's values and errors")
    func pairs() throws {
        var generator = Generator(state: 36)
        var counts = (values: 0, errors: 0, faults: 0)
        for round in 0..<10_000 {
            let type = generator.type(depth: 3)
            let text = generator.text(for: type)
            switch compare(type, text) {
            case .same(isValue: true): counts.values += 1
            case .same(isValue: false): counts.errors += 1
            case .listed(.noJSON), .listed(.noBody): counts.faults += 1
            case .listed(.orderOfMembers): counts.errors += 1
            case .different(let what): Issue.record("round \(round): \(type) from \(text): \(what)")
            }
        }
        // The texts fit, do not fit, and are no JSON, each often enough.
        #expect(counts.values > 2000 && counts.errors > 2000 && counts.faults > 200, "\(counts)")
    }

    @Test(
        "optional values anywhere keep what the text has",
        arguments: [
            ("[null,\"a\"]", [nil, "a"] as [String?]), ("[]", []), ("[\"b\"]", ["b"]),
        ]
    )
    func optionals(text: String, expected: [String?]) throws {
        #expect(try decoded([String?].self, text) == expected)
        #expect(try decoded([String?]?.self, text) == expected)
        #expect(try decoded([String: [String?]?].self, "{\"k\":\(text)}") == ["k": expected])
    }

    @Test("an optional body, generic members and wrapped optionals are decoded")
    func generics() throws {
        #expect(try decoded(Int?.self, "7") == 7)
        #expect(try decoded(Int?.self, "null") == nil)
        #expect(try decoded([String: Int?].self, "{\"a\":1,\"b\":null}") == ["a": 1, "b": nil])
        let page = try decoded(Page<Int?>.self, "{\"items\":[1,null],\"next\":2}")
        #expect(page == Page(items: [1, nil], next: .some(2)))
        #expect(try decoded(Wrapping.self, "{\"value\":\"x\"}").value == "x")
        #expect(throws: ResponseSerializationError.self) { try decoded([Int?].self, "[\"1\"]") }
    }

    @Test("text that is no JSON is an error with its place, also in streams")
    func faults() {
        for text in ["{\"a\":}", "[1;2]", "tru", ""] {
            #expect(throws: JSONFault.self) { try JSONDecoder().decode([Int].self, from: Array(text.utf8)) }
        }
        // JSON5 that is wrong in another way is no fault of JSON.
        let lenient = JSONDecoder()
        lenient.allowsJSON5 = true
        #expect(throws: DecodingError.self) { try lenient.decode([Int].self, from: Array("[1,,]".utf8)) }
    }

    // MARK: Comparing

    private enum Outcome {
        case same(isValue: Bool)
        case listed(Difference)
        case different(String)
    }

    private func decoded<Value: Decodable & Sendable>(_ type: Value.Type, _ text: String) throws -> Value {
        try DecodableResponseSerializer(type).serialize(dataResponse(text, type: "application/json"))
    }

    private func compare(_ type: any Checked.Type, _ text: String) -> Outcome {
        func compare<Value: Checked>(_ type: Value.Type) -> Outcome {
            let own = Result { try decoded(type, text) }
            let reference = Result { try JSONDecoder().decode(type, from: Data(text.utf8)) }
            switch (own, reference) {
            case (.success(let left), .success(let right)):
                return left == right ? .same(isValue: true) : .different("\(left), not \(right)")
            case (.failure(let left), .failure(let right)):
                guard let left = left as? ResponseSerializationError else { return .different("\(left)") }
                switch left.reason {
                case .invalidJSON where (try? JSONValue(parsing: Array(text.utf8))) == nil: return .listed(.noJSON)
                case .inputDataEmpty where text.isEmpty: return .listed(.noBody)
                case .decodingFailed(let error):
                    let outcome = Self.same(error, right)
                    if case .different = outcome, "\(type)".contains("Dictionary") { return .listed(.orderOfMembers) }
                    return outcome
                default: return .different("\(left)")
                }
            default: return .different("\(own), not \(reference)")
            }
        }
        return compare(type)
    }

    private static func same(_ left: any Error, _ right: any Error) -> Outcome {
        let both = [left, right].map { error -> String in
            guard let error = error as? DecodingError else { return "\(error)" }
            func place(_ kind: String, _ context: DecodingError.Context) -> String {
                "\(kind) at \(context.codingPath.map(\.stringValue))"
            }
            return switch error {
            case .typeMismatch(let type, let context): place("mismatch of \(type)", context)
            case .valueNotFound(let type, let context): place("no value of \(type)", context)
            case .keyNotFound(let key, let context): place("no key \(key.stringValue)", context)
            case .dataCorrupted(let context): place("corrupted", context)
            @unknown default: "\(error)"
            }
        }
        return both[0] == both[1] ? .same(isValue: false) : .different("\(both[0]), not \(both[1])")
    }
}

// MARK: - Types

/// A type that the generator makes and knows texts for.
private protocol Checked: Decodable, Equatable, Sendable {
    /// JSON that fits.
    static func text(_ generator: inout Generator) -> String
}

extension Bool: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String { generator.pick(["true", "false"]) }
}

extension String: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String {
        generator.pick(["\"\"", "\"a\"", "\"\\u00e9\"", "\"\\ud83d\\ude00\"", "\"a\\nb\"", "\"null\"", "\"é😀\""])
    }
}

extension Checked where Self: FixedWidthInteger {
    fileprivate static func text(_ generator: inout Generator) -> String {
        generator.pick(["0", "1", "7", "\(Self.max)", "\(Self.min)", "1e1", "2.0", "-0"])
    }
}

extension Int: Checked {}
extension Int8: Checked {}
extension UInt8: Checked {}
extension UInt64: Checked {}

extension Checked where Self: BinaryFloatingPoint {
    fileprivate static func text(_ generator: inout Generator) -> String {
        generator.pick(["0.5", "-1", "3", "1e-7", "6.02e23", "0.1"])
    }
}

extension Double: Checked {}
extension Float: Checked {}

extension Decimal: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String {
        generator.pick(["0.1", "-12", "1e20", "1234567890.123456789"])
    }
}

extension Data: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String { generator.pick(["\"\"", "\"AQI=\""]) }
}

extension URL: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String {
        generator.pick(["\"https://a.example/x?y#z\"", "\"b/c\""])
    }
}

extension Date: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String { generator.pick(["0", "1.25", "-7e8"]) }
}

extension Optional: Checked where Wrapped: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String {
        generator.chance(3) ? "null" : Wrapped.text(&generator)
    }
}

extension Array: Checked where Element: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String {
        let count = generator.below(4)
        return "[" + (0..<count).map { _ in Element.text(&generator) }.joined(separator: ",") + "]"
    }
}

extension Dictionary: Checked where Key == String, Value: Checked {
    fileprivate static func text(_ generator: inout Generator) -> String {
        let members = ["a", "b_c", "é"].prefix(generator.below(4)).map { "\"\($0)\":\(Value.text(&generator))" }
        return "{" + members.joined(separator: ", ") + "}"
    }
}

private struct Page<Item: Checked>: Checked {
    var items: [Item]
    var next: Item?

    static func text(_ generator: inout Generator) -> String {
        let next = generator.chance(3) ? "" : ",\"next\":\(Item?.text(&generator))"
        return "{\"items\":\([Item].text(&generator))\(next)}"
    }
}

@propertyWrapper
private struct Wrapper<Value: Checked>: Checked {
    var wrappedValue: Value

    init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
    init(from decoder: any Decoder) throws {
        wrappedValue = try decoder.singleValueContainer().decode(Value.self)
    }

    static func text(_ generator: inout Generator) -> String { Value.text(&generator) }
}

private struct Wrapping: Decodable, Sendable {
    @Wrapper var value: String?
}

private struct Holder<Value: Checked>: Checked {
    @Wrapper var value: Value

    static func text(_ generator: inout Generator) -> String { "{\"value\":\(Value.text(&generator))}" }
}

/// Containers that are walked by hand, with a decoder for a superclass.
private struct ByHand<Value: Checked>: Checked {
    var first: Value
    var rest: [Value?] = []
    var isNull: Bool
    var above: Value?

    enum Key: CodingKey { case list, flag, deep }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        var list = try container.nestedUnkeyedContainer(forKey: .list)
        first = try list.decode(Value.self)
        while !list.isAtEnd { rest.append(try list.decodeIfPresent(Value.self)) }
        isNull = try container.contains(.flag) && container.decodeNil(forKey: .flag)
        let deep = try container.nestedContainer(keyedBy: Key.self, forKey: .deep)
        above = try deep.decodeIfPresent(Value.self, forKey: .flag)
        // A missing key gives a decoder of null.
        let parent = try container.superDecoder()
        if try !parent.singleValueContainer().decodeNil() { above = try Value(from: parent) }
    }

    static func text(_ generator: inout Generator) -> String {
        let (value, more) = (Value.text(&generator), Value?.text(&generator))
        let parent = generator.chance(2) ? "" : ",\"super\":\(Value.text(&generator))"
        return "{\"list\":[\(value),\(more)],\"flag\":\(more),\"deep\":{\"flag\":\(more)}\(parent)}"
    }
}

private enum Choice<Value: Checked>: Checked {
    case none
    case one(Value)
    case named(value: Value, count: Int?)

    static func text(_ generator: inout Generator) -> String {
        switch generator.below(3) {
        case 0: "{\"none\":{}}"
        case 1: "{\"one\":{\"_0\":\(Value.text(&generator))}}"
        default: "{\"named\":{\"value\":\(Value.text(&generator)),\"count\":\(Int?.text(&generator))}}"
        }
    }
}

private enum Kind: String, Checked {
    case small, large

    static func text(_ generator: inout Generator) -> String { generator.pick(["\"small\"", "\"large\"", "\"none\""]) }
}

// MARK: - The generator

/// The same sequence in every run (SplitMix64).
private struct Generator {
    var state: UInt64

    mutating func below(_ bound: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((word ^ (word >> 31)) % UInt64(bound))
    }

    mutating func chance(_ of: Int) -> Bool { below(of) == 0 }
    mutating func pick<Item>(_ items: [Item]) -> Item { items[below(items.count)] }

    mutating func type(depth: Int) -> any Checked.Type {
        let leaves: [any Checked.Type] = [
            Bool.self, String.self, Int.self, Int8.self, UInt8.self, UInt64.self, Double.self, Float.self, Decimal.self,
            Data.self, URL.self, Date.self, Kind.self,
        ]
        guard depth > 0, !chance(5) else { return pick(leaves) }
        func wrap<Value: Checked>(_ inner: Value.Type, _ choice: Int) -> any Checked.Type {
            switch choice {
            case 0, 1: Value?.self
            case 2: [Value].self
            case 3: [String: Value].self
            case 4: Page<Value>.self
            case 5: Holder<Value>.self
            case 6: ByHand<Value>.self
            case 7: Choice<Value>.self
            default: Wrapper<Value>.self
            }
        }
        let inner = type(depth: depth - 1)
        return wrap(inner, below(9))
    }

    /// Text that fits, text of another type, or text with a change.
    mutating func text(for type: any Checked.Type) -> String {
        if chance(6) { return self.type(depth: 2).text(&self) }
        var bytes = Array(type.text(&self))
        guard !chance(3) else { return String(bytes) }
        let parts = ["null", "1", "-300", "1.5", "\"x\"", "true", "[]", "{}", "{\"list\":[1]}", "1e400", " "]
        switch below(6) {
        case 0: return pick(parts)
        // One value becomes another.
        case 1, 2, 3:
            var text = String(bytes)
            for old in ["null", "true", "false", "1", "\"a\"", "0.1", "7", "\"items\"", "\"list\"", "\"value\"", "0"]
            where text.contains(old) && chance(2) {
                text = text.replacingOccurrences(of: old, with: pick(parts))
                break
            }
            return text
        // The text is cut, or a character is lost.
        case 4: return String(bytes.prefix(below(bytes.count + 1)))
        default:
            if !bytes.isEmpty { bytes.remove(at: below(bytes.count)) }
            return String(bytes)
        }
    }
}
