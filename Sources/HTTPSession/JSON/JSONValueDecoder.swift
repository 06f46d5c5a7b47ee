#if !NO_FOUNDATION
public import FoundationEssentials
#endif

/// Decodes `Decodable` types from JSON, as Foundation's `JSONDecoder` does, with its strategies: a `URL` from its text,
/// `Data` from base64, a `Decimal` and an `Int128` to their last digit.
///
/// It is stricter where JSON leaves a choice: a repeated name is an error. Numbers are converted exactly, or decoding
/// fails: 1.5 is no `Int`, 300 no `UInt8`.
public struct JSONValueDecoder: DataDecoder {
    /// Options for reading the bytes.
    public var readingOptions: JSONReadingOptions
    #if !NO_FOUNDATION
    /// The names of members; as in the JSON by default.
    public var keyDecodingStrategy = JSONDecoder.KeyDecodingStrategy.useDefaultKeys
    /// The form of a `Date`; by default a number of seconds since 2001 (`deferredToDate`).
    public var dateDecodingStrategy = JSONDecoder.DateDecodingStrategy.deferredToDate
    /// The form of `Data`; base64 by default.
    public var dataDecodingStrategy = JSONDecoder.DataDecodingStrategy.base64
    /// The texts of infinities and NaN; by default there are none.
    public var nonConformingFloatDecodingStrategy = JSONDecoder.NonConformingFloatDecodingStrategy.throw
    #endif
    /// For the types' own use while they decode themselves.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// A decoder that by default reads strict JSON of at most 512 levels.
    public init(readingOptions: JSONReadingOptions = JSONReadingOptions()) {
        self.readingOptions = readingOptions
    }

    #if !NO_FOUNDATION
    /// A decoder with the strategies of Foundation's.
    public init(_ decoder: JSONDecoder, readingOptions: JSONReadingOptions = JSONReadingOptions()) {
        self.readingOptions = readingOptions
        keyDecodingStrategy = decoder.keyDecodingStrategy
        dateDecodingStrategy = decoder.dateDecodingStrategy
        dataDecodingStrategy = decoder.dataDecodingStrategy
        nonConformingFloatDecodingStrategy = decoder.nonConformingFloatDecodingStrategy
        userInfo = decoder.userInfo
    }
    #endif

    /// - Throws: `JSONFault` for invalid JSON, `DecodingError` for JSON that does not match the type.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try decode(type, from: JSONValue(parsing: bytes, options: readingOptions))
    }

    /// The same from a JSON value.
    ///
    /// - Throws: `DecodingError`, and the type's own errors.
    public func decode<Value: Decodable>(_ type: Value.Type, from value: JSONValue) throws -> Value {
        try ValueDecoder(value: value, codingPath: [], options: self).decode(type)
    }
}

/// A place in a JSON value that is being decoded.
struct ValueDecoder: Decoder {
    let value: JSONValue
    let codingPath: [any CodingKey]
    let options: JSONValueDecoder
    /// Whether the names of members are data, to which `keyDecodingStrategy` does not apply.
    var isDictionary = false

    var userInfo: [CodingUserInfoKey: Any] { options.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let members) = value else { throw mismatch(OrderedMembers<JSONValue>.self, "an object") }
        return KeyedDecodingContainer(
            KeyedValues<Key>(members: renamed(members), codingPath: codingPath, options: options)
        )
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let elements) = value else { throw mismatch([JSONValue].self, "an array") }
        return UnkeyedValues(elements: elements, codingPath: codingPath, options: options)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    func mismatch(_ type: Any.Type, _ wanted: String) -> DecodingError {
        let context = DecodingError.Context(
            codingPath: codingPath,
            debugDescription: "There is \(kind), not \(wanted)."
        )
        return value.isNull ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }

    private var kind: String {
        switch value {
        case .null: "null"
        case .bool: "a boolean"
        case .number(let number): "the number \(number.text.prefix(40))"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension ValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { value.isNull }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard let flag = value.bool else { throw mismatch(type, "a boolean") }
        return flag
    }

    func decode(_ type: String.Type) throws -> String {
        guard let text = value.string else { throw mismatch(type, "a string") }
        return text
    }

    func decode(_ type: Double.Type) throws -> Double {
        if let special = nonConforming() { return special }
        guard let number = value.double else { throw mismatch(type, "a number that Double holds") }
        return number
    }

    func decode(_ type: Float.Type) throws -> Float {
        if let special = nonConforming() { return Float(special) }
        guard let number = (value.number?.text).flatMap(Float.init), number.isFinite else {
            throw mismatch(type, "a number that Float holds")
        }
        return number
    }

    private func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) throws -> Integer {
        guard let number = value.number?.integer(type) else {
            throw mismatch(type, "a whole number that \(type) holds")
        }
        return number
    }

    func decode(_ type: Int.Type) throws -> Int { try integer(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try integer(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try integer(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try integer(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try integer(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try integer(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try integer(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try integer(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try integer(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try integer(type) }
    func decode(_ type: Int128.Type) throws -> Int128 { try integer(type) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try integer(type) }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if type == JSONValue.self, let value = value as? Value { return value }
        if let known = try foundationType(type) as? Value { return known }
        guard type is any NamedByData.Type else { return try Value(from: plain) }
        return try Value(from: ValueDecoder(value: value, codingPath: codingPath, options: options, isDictionary: true))
    }

    /// This place for a type that is no dictionary.
    private var plain: ValueDecoder { ValueDecoder(value: value, codingPath: codingPath, options: options) }
}

// MARK: - Types of Foundation

// The proxy's binary is built without them.

#if NO_FOUNDATION

extension ValueDecoder {
    private func foundationType(_ type: Any.Type) throws -> Any? { nil }
    private func renamed(_ members: OrderedMembers<JSONValue>) -> OrderedMembers<JSONValue> { members }
    private func nonConforming() -> Double? { nil }
}

#else

extension ValueDecoder {
    /// A value of one of Foundation's types that `JSONDecoder` does not decode by their members; nil for others.
    private func foundationType(_ type: Any.Type) throws -> Any? {
        switch type {
        case is Date.Type: try date()
        case is Data.Type: try data()
        case is URL.Type: try url()
        case is Decimal.Type: try decimal()
        default: nil
        }
    }

    /// The members under the names of the type. Of two that get one name, the first one counts.
    private func renamed(_ members: OrderedMembers<JSONValue>) -> OrderedMembers<JSONValue> {
        let rename: (String) -> String
        switch options.keyDecodingStrategy {
        case _ where isDictionary: return members
        case .convertFromSnakeCase: rename = SnakeCase.decode
        case .custom(let closure): rename = { closure(codingPath + [PlaceKey(stringValue: $0)]).stringValue }
        default: return members
        }
        var renamed = OrderedMembers<JSONValue>()
        for (name, value) in members {
            let name = rename(name)
            if renamed[name] == nil { renamed[name] = value }
        }
        return renamed
    }

    private func nonConforming() -> Double? {
        guard case .convertFromString(let positive, let negative, let nan) = options.nonConformingFloatDecodingStrategy,
            let text = value.string
        else { return nil }
        return switch text {
        case positive: .infinity
        case negative: -.infinity
        case nan: .nan
        default: nil
        }
    }

    private func corrupted(_ description: String) -> DecodingError {
        .dataCorrupted(DecodingError.Context(codingPath: codingPath, debugDescription: description))
    }

    private func date() throws -> Date {
        switch options.dateDecodingStrategy {
        case .secondsSince1970: return Date(timeIntervalSince1970: try decode(Double.self))
        case .millisecondsSince1970: return Date(timeIntervalSince1970: try decode(Double.self) / 1000)
        case .iso8601:
            guard let date = try? Date.ISO8601FormatStyle().parse(try decode(String.self)) else {
                throw corrupted("There is \(kind), not a date in the form of ISO 8601 without fractions of a second.")
            }
            return date
        case .custom(let closure): return try closure(plain)
        default: return try Date(from: plain)
        }
    }

    private func data() throws -> Data {
        switch options.dataDecodingStrategy {
        case .base64:
            guard let data = Data(base64Encoded: try decode(String.self)) else {
                throw corrupted("The string is not base64.")
            }
            return data
        case .custom(let closure): return try closure(plain)
        default: return try Data(from: plain)
        }
    }

    private func url() throws -> URL {
        guard let url = URL(string: try decode(String.self)) else { throw corrupted("The string is no URL.") }
        return url
    }

    private func decimal() throws -> Decimal {
        guard let decimal = value.number.flatMap({ Decimal(string: $0.text) }) else {
            throw mismatch(Decimal.self, "a number that Decimal holds")
        }
        return decimal
    }
}

#endif

extension JSONNumber {
    /// Also for `1.0` and `1e3`, which are whole numbers in another spelling.
    func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        if let exact = Integer(text) { return exact }
        guard text.utf8.contains(where: { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }),
            let double, double.magnitude <= 9_007_199_254_740_992
        else { return nil }
        return Integer(exactly: double)
    }
}

/// An index, or an existing name.
struct PlaceKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) {
        self.stringValue = stringValue
        intValue = nil
    }

    init(intValue: Int) {
        // The name in Foundation, which custom strategies see in paths.
        stringValue = "Index \(intValue)"
        self.intValue = intValue
    }
}

private struct KeyedValues<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: OrderedMembers<JSONValue>
    let codingPath: [any CodingKey]
    let options: JSONValueDecoder

    var allKeys: [Key] { members.keys.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { members[key.stringValue] != nil }

    private func member(_ key: any CodingKey) throws -> ValueDecoder {
        guard let value = members[key.stringValue] else {
            let context = DecodingError.Context(
                codingPath: codingPath,
                debugDescription: "There is no member \"\(key.stringValue)\"."
            )
            throw DecodingError.keyNotFound(key, context)
        }
        return ValueDecoder(value: value, codingPath: codingPath + [key], options: options)
    }

    func decodeNil(forKey key: Key) throws -> Bool { try member(key).decodeNil() }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try member(key).decode(type) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try member(key).decode(type) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try member(key).decode(type) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try member(key).decode(type) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try member(key).decode(type) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try member(key).decode(type) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try member(key).decode(type) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try member(key).decode(type) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try member(key).decode(type) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try member(key).decode(type) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try member(key).decode(type) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try member(key).decode(type) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try member(key).decode(type) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try member(key).decode(type) }
    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 { try member(key).decode(type) }
    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 { try member(key).decode(type) }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try member(key).decode(type)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try member(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try member(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { try member(PlaceKey(stringValue: "super")) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try member(key) }
}

private struct UnkeyedValues: UnkeyedDecodingContainer {
    let elements: [JSONValue]
    let codingPath: [any CodingKey]
    let options: JSONValueDecoder
    private(set) var currentIndex = 0

    init(elements: [JSONValue], codingPath: [any CodingKey], options: JSONValueDecoder) {
        self.elements = elements
        self.codingPath = codingPath
        self.options = options
    }

    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    /// The present element; the position advances only after it was decoded.
    private mutating func next<Value>(_ type: Any.Type, _ make: (ValueDecoder) throws -> Value) throws -> Value {
        let path = codingPath + [PlaceKey(intValue: currentIndex)]
        guard !isAtEnd else {
            let context = DecodingError.Context(codingPath: path, debugDescription: "The array has no more elements.")
            throw DecodingError.valueNotFound(type, context)
        }
        let value = try make(ValueDecoder(value: elements[currentIndex], codingPath: path, options: options))
        currentIndex += 1
        return value
    }

    mutating func decodeNil() throws -> Bool {
        guard !isAtEnd, elements[currentIndex].isNull else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode(_ type: Int128.Type) throws -> Int128 { try next(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt128.Type) throws -> UInt128 { try next(type) { try $0.decode(type) } }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try next(type) { try $0.decode(type) }
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try next(type) { try $0.container(keyedBy: type) }
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next(UnkeyedValues.self) { try $0.unkeyedContainer() }
    }

    mutating func superDecoder() throws -> any Decoder { try next(ValueDecoder.self) { $0 } }
}

extension JSONValue: Decodable {
    /// Any JSON, from any decoder; number texts are kept by `JSONValueDecoder` alone.
    public init(from decoder: any Decoder) throws {
        if let own = decoder as? ValueDecoder {
            self = own.value
            return
        }
        if var elements = try? decoder.unkeyedContainer() {
            var values: [JSONValue] = []
            while !elements.isAtEnd { values.append(try elements.decode(JSONValue.self)) }
            self = .array(values)
        } else if let object = try? decoder.container(keyedBy: PlaceKey.self) {
            var members = OrderedMembers<JSONValue>()
            for key in object.allKeys { members[key.stringValue] = try object.decode(JSONValue.self, forKey: key) }
            self = .object(members)
        } else {
            self = try Self.single(decoder.singleValueContainer())
        }
    }

    private static func single(_ container: any SingleValueDecodingContainer) throws -> JSONValue {
        if container.decodeNil() { return .null }
        if let flag = try? container.decode(Bool.self) { return .bool(flag) }
        if let number = try? container.decode(Int.self) { return .number(JSONNumber(number)) }
        if let number = try? container.decode(UInt64.self) { return .number(JSONNumber(number)) }
        if let number = try? container.decode(Double.self), let number = JSONNumber(number) { return .number(number) }
        return .string(try container.decode(String.self))
    }
}
