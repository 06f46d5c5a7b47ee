// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSessionCodable
import Testing

@testable import HTTPSessionCore

/// A value that can be compared with itself after it was encoded and decoded.
private protocol Coded: Codable, Equatable, Sendable {}

private struct Links: Coded {
    var absolute = URL(string: "https://a.example/x%20y?q=1#f")!
    var relative = URL(string: "b/c", relativeTo: URL(string: "https://a.example/"))!.absoluteURL
    var missing: URL?
    var present: URL? = URL(string: "mailto:a@example.com")
    var list = [URL(string: "/only/path")!]
    var byName = ["first": URL(string: "http://h/")!]
}

private struct Bytes: Coded {
    var empty = Data()
    var some = Data([0, 255, 254, 62])
    var slice = Data([9, 1, 2, 3])[1...]
    var array: [UInt8] = [1, 2]
    var missing: Data?
}

private struct Dates: Coded {
    var reference = Date(timeIntervalSinceReferenceDate: 1.25)
    var epoch = Date(timeIntervalSince1970: 0)
    var old = Date(timeIntervalSince1970: -86_400)
    var list = [Date(timeIntervalSince1970: 1_700_000_000)]
}

private struct Numbers: Coded {
    var decimal = Decimal(string: "1234567890123456789.0123456789")!
    var small = Decimal(string: "-0.0000001")!
    var large = Decimal(string: "1e30")!
    var whole = Decimal(12)
    var wide = Int128.min
    var wideUnsigned = UInt128.max
    var narrow: Int128 = -7
    var list: [Int128] = [.max, 0]
    var double = 1e300
    var float: Float = 0.1
    var negativeZero = -0.0
    var whole64 = UInt64.max
}

private struct Names: Coded {
    struct Inner: Coded { var anotherKey = 1 }
    enum Case: String, Codable, CodingKeyRepresentable { case firstCase }

    var plain = 1
    var twoWords = 2
    var myURLProperty = 3
    var endsInURL = 4
    var _private = 5
    var nested = Inner()
    var keptKeys = ["aB": Inner()]
    var numbered = [1: "x"]
    var cased = [Case.firstCase: 1]
}

private class Parent: Codable {
    var parentName = "p"
    init() {}
}

private final class Child: Parent {
    var childName = "c"

    enum CodingKeys: CodingKey { case childName }

    override init() { super.init() }

    required init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        childName = try container.decode(String.self, forKey: .childName)
        try super.init(from: try container.superDecoder())
    }

    override func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(childName, forKey: .childName)
        try super.encode(to: container.superEncoder())
    }
}

private struct Floats: Coded {
    var infinite = Double.infinity
    var negative = -Double.infinity
    var single = Float.infinity
    var list = [1.5, Double.infinity]
}

private enum Choice: Coded {
    case empty
    case labelled(at: Date, URL)
}

/// What Foundation's `JSONEncoder` does is the reference, and its `JSONDecoder` reads it back.
@Suite("JSON as Foundation codes it")
struct ReferenceCodingTests {
    private static func reference(_ value: some Encodable, _ encoder: JSONEncoder = JSONEncoder()) throws -> JSONValue {
        try JSONValue(parsing: Array(encoder.encode(value)))
    }

    private static func own(_ value: some Encodable) throws -> JSONValue {
        try JSONValue(ParameterValue(encoding: value))
    }

    private func check<Value: Coded>(_ value: Value) throws {
        let reference = try Self.reference(value)
        #expect(try Self.own(value) == reference)
        #expect(try JSONDecoder().decode(Value.self, from: reference.serialized()) == value)
    }

    @Test("URLs, bytes, dates, decimals and wide numbers are encoded as by Foundation")
    func corpus() throws {
        try check(Links())
        try check(Bytes())
        try check(Dates())
        try check(Numbers())
        try check(Names())
        try check(Choice.empty)
        try check(Choice.labelled(at: Date(timeIntervalSince1970: 5), URL(string: "x:y")!))
        try check([Choice.empty])
        try check(["k": Links()])
    }

    @Test("a value alone is what it is inside others")
    func alone() throws {
        try check(URL(string: "https://a.example/")!)
        try check(Data([1]))
        try check(Date(timeIntervalSince1970: 1))
        try check(Decimal(string: "0.5")!)
        try check(Int128.max)
        try check([Data([1, 2])])
    }

    @Test("a class with a superclass is encoded as by Foundation")
    func inheritance() throws {
        #expect(try Self.own(Child()) == Self.reference(Child()))
    }

    // MARK: Strategies

    private func check<Value: Coded>(_ value: Value, _ encoder: JSONEncoder) throws {
        let reference = try Self.reference(value, encoder)
        let own = try ParameterValue(encoding: value, with: ParameterValueEncoder(encoder))
        #expect(try JSONValue(own) == reference)
    }

    @Test("strategies for dates")
    func dates() throws {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .secondsSince1970
        try check(Dates(), encoder)
        encoder.dateEncodingStrategy = .millisecondsSince1970
        try check(Dates(), encoder)
        encoder.dateEncodingStrategy = .iso8601
        try check(Dates(), encoder)
        encoder.dateEncodingStrategy = .custom { date, encoder in
            var container = encoder.unkeyedContainer()
            try container.encode("\(Int(date.timeIntervalSince1970))")
        }
        try check(Dates(), encoder)
    }

    @Test("strategies for data")
    func data() throws {
        let encoder = JSONEncoder()
        encoder.dataEncodingStrategy = .deferredToData
        try check(Bytes(), encoder)
        encoder.dataEncodingStrategy = .custom { data, encoder in
            var container = encoder.singleValueContainer()
            try container.encode(data.count)
        }
        try check(Bytes(), encoder)
        encoder.dataEncodingStrategy = .custom { _, _ in }
        #expect(try JSONValue(ParameterValueEncoder(encoder).encode([Data()])) == Self.reference([Data()], encoder))
    }

    @Test("an error of a strategy for dates or data is the error")
    func throwingStrategies() throws {
        struct Unwanted: Error {}
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .custom { _, _ in throw Unwanted() }
        encoder.dataEncodingStrategy = .custom { _, _ in throw Unwanted() }
        let own = ParameterValueEncoder(encoder)
        #expect(throws: Unwanted.self) { try ParameterValue(encoding: Dates(), with: own) }
        #expect(throws: Unwanted.self) { try ParameterValue(encoding: ["in": [Data()]], with: own) }
    }

    @Test("strategies for names leave those of dictionaries alone")
    func names() throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        try check(Names.Inner(), encoder)
        let own = try ParameterValue(encoding: Names(), with: ParameterValueEncoder(encoder))
        #expect(try JSONValue(own) == Self.reference(Names(), encoder))
        encoder.keyEncodingStrategy = .custom { path in
            PlaceKey(stringValue: path.map(\.stringValue).joined(separator: "."))
        }
        // Foundation forgets the path above a dictionary.
        struct Outer: Encodable { var inner = Names.Inner(), list = [Names.Inner()] }
        let custom = try ParameterValue(encoding: Outer(), with: ParameterValueEncoder(encoder))
        #expect(try JSONValue(custom) == Self.reference(Outer(), encoder))
    }

    @Test(
        "names are converted to snake case as by Foundation",
        arguments: [
            "", "a", "A", "aB", "AB", "aBC", "ABc", "aBCd", "myURLProperty", "endsInURL", "URLs", "_a", "__aB__", "_",
            "a_b",
            "a__b", "snake_case_name", "_snake_case_", "a1B2", "x_1y", "éCoté", "ÉCOTÉ", "one_two_THREE", "Ab_cD",
            "ß_ßa",
        ]
    )
    func snakeCase(name: String) throws {
        struct Key: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }
            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }
        struct Probe: Encodable {
            var name: String
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(1, forKey: Key(stringValue: name))
            }
        }
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let own = try ParameterValue(encoding: Probe(name: name), with: ParameterValueEncoder(encoder))
        #expect(try JSONValue(own) == Self.reference(Probe(name: name), encoder))
    }

    @Test("infinities and NaN are refused, or are text")
    func floats() throws {
        let encoder = JSONEncoder()
        #expect(throws: EncodingError.self) { try ParameterValue(encoding: Floats()) }
        #expect(throws: EncodingError.self) { try Self.reference(Floats()) }
        #expect(throws: EncodingError.self) { try ParameterValue(encoding: Decimal.nan) }
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "+",
            negativeInfinity: "-",
            nan: "?"
        )
        try check(Floats(), encoder)
    }

    @Test("types get the user info of the encoder")
    func userInfo() throws {
        struct Asking: Encodable {
            static let key = CodingUserInfoKey(rawValue: "k")!
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(encoder.userInfo[Self.key] as? String)
            }
        }
        let encoder = JSONEncoder()
        encoder.userInfo[Asking.key] = "e"
        #expect(try ParameterValueEncoder(encoder).encode([Asking()]) == ["e"])
    }

    @Test("a number to its last digit goes into JSON, a query, and other encoders")
    func exactNumbers() throws {
        let value = try ParameterValue(encoding: Numbers())
        guard case .dictionary(let members) = value else { return #expect(Bool(false), "no dictionary") }
        #expect(members["wideUnsigned"]?.text == "\(UInt128.max)")
        #expect(members["small"]?.text == "-0.0000001")
        #expect(try Self.reference(value) == Self.reference(Numbers()))
    }
}

extension URL: Coded {}
extension Data: Coded {}
extension Date: Coded {}
extension Decimal: Coded {}
extension Int128: Coded {}
extension Array: Coded where Element: Coded {}
extension Dictionary: Coded where Key == String, Value: Coded {}
