// SPDX-License-Identifier: Apache-2.0
#if !NO_FOUNDATION
public import FoundationEssentials
#endif

/// Makes parameters from `Encodable` types, as Foundation's `JSONEncoder` makes JSON: a `URL` is its text, `Data` is
/// base64, a `Decimal` and an `Int128` are numbers to their last digit.
///
/// Members keep their order, except those of a `Dictionary`, which are sorted by name. Optional members that are nil are
/// left out, unless the type encodes them. A `ParameterConvertible` value is converted by itself.
public struct ParameterValueEncoder: Sendable {
    #if !NO_FOUNDATION
    /// The names of members; as in the type by default.
    public var keyEncodingStrategy = JSONEncoder.KeyEncodingStrategy.useDefaultKeys
    /// The form of a `Date`; by default the seconds since 2001 as a number (`deferredToDate`).
    public var dateEncodingStrategy = JSONEncoder.DateEncodingStrategy.deferredToDate
    /// The form of `Data`; base64 by default.
    public var dataEncodingStrategy = JSONEncoder.DataEncodingStrategy.base64
    /// The form of infinities and NaN; by default encoding throws.
    public var nonConformingFloatEncodingStrategy = JSONEncoder.NonConformingFloatEncodingStrategy.throw
    #endif
    /// For the types' own use while they encode themselves.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// An encoder with the defaults of the properties.
    public init() {}

    #if !NO_FOUNDATION
    /// An encoder with the strategies of Foundation's; its `outputFormatting` is not used.
    public init(_ encoder: JSONEncoder) {
        keyEncodingStrategy = encoder.keyEncodingStrategy
        dateEncodingStrategy = encoder.dateEncodingStrategy
        dataEncodingStrategy = encoder.dataEncodingStrategy
        nonConformingFloatEncodingStrategy = encoder.nonConformingFloatEncodingStrategy
        userInfo = encoder.userInfo.compactMapValues { $0 as any Sendable }
    }
    #endif

    /// Makes a parameter of a value.
    ///
    /// - Throws: the type's own errors, and `EncodingError` for infinities and NaN.
    public func encode(_ value: some Encodable) throws -> ParameterValue {
        try ParameterEncoder.encode(value, codingPath: [], self)
    }
}

// MARK: - Numbers

extension ParameterValueEncoder {
    func encode(_ number: Double, _ path: [any CodingKey]) throws -> ParameterValue {
        number.isFinite ? .double(number) : try nonConforming(number, path)
    }

    func encode(_ number: Float, _ path: [any CodingKey]) throws -> ParameterValue {
        // The shortest text of the number: 0.1 stays 0.1.
        number.isFinite
            ? .double(Double(number.description) ?? Double(number)) : try nonConforming(Double(number), path)
    }

    static func noNumber(_ value: Any, _ path: [any CodingKey]) -> EncodingError {
        EncodingError.invalidValue(
            value,
            EncodingError.Context(
                codingPath: path,
                debugDescription: "\(value) is no number in JSON; nonConformingFloatEncodingStrategy can make it text."
            )
        )
    }
}

// MARK: - Types of Foundation

// The proxy's binary is built without them: FoundationEssentials would make it half as large again.

#if NO_FOUNDATION

extension ParameterValueEncoder {
    func encodeFoundationType(_ value: Any, _ path: [any CodingKey]) throws -> ParameterValue? { nil }
    func name(_ key: any CodingKey, at path: [any CodingKey]) -> String { key.stringValue }

    private func nonConforming(_ number: Double, _ path: [any CodingKey]) throws -> ParameterValue {
        throw Self.noNumber(number, path)
    }
}

#else

extension ParameterValueEncoder {
    /// A value of one of Foundation's types that `JSONEncoder` does not encode by their members; nil for others.
    func encodeFoundationType(_ value: Any, _ path: [any CodingKey]) throws -> ParameterValue? {
        switch value {
        case let date as Date: try encode(date, path)
        case let data as Data: try encode(data, path)
        case let url as URL: .string(url.absoluteString)
        case let decimal as Decimal: try Self.encode(decimal, path)
        default: nil
        }
    }

    private func encode(_ date: Date, _ path: [any CodingKey]) throws -> ParameterValue {
        switch dateEncodingStrategy {
        case .secondsSince1970: return try encode(date.timeIntervalSince1970, path)
        case .millisecondsSince1970: return try encode(1000 * date.timeIntervalSince1970, path)
        case .iso8601: return .string(date.formatted(.iso8601))
        case .custom(let closure): return try encode(path) { try closure(date, $0) }
        default: return try encode(path) { try date.encode(to: $0) }
        }
    }

    private func encode(_ data: Data, _ path: [any CodingKey]) throws -> ParameterValue {
        switch dataEncodingStrategy {
        case .base64: return .string(data.base64EncodedString())
        case .custom(let closure): return try encode(path) { try closure(data, $0) }
        default: return try encode(path) { try data.encode(to: $0) }
        }
    }

    /// A closure that encodes nothing makes an empty object, as in Foundation.
    private func encode(
        _ path: [any CodingKey],
        _ work: (ParameterEncoder) throws -> Void
    ) throws -> ParameterValue {
        let encoder = ParameterEncoder(codingPath: path, self)
        try work(encoder)
        return encoder.value
    }

    private func nonConforming(_ number: Double, _ path: [any CodingKey]) throws -> ParameterValue {
        guard case .convertToString(let positive, let negative, let nan) = nonConformingFloatEncodingStrategy else {
            throw Self.noNumber(number, path)
        }
        return .string(number.isNaN ? nan : number > 0 ? positive : negative)
    }

    private static func encode(_ number: Decimal, _ path: [any CodingKey]) throws -> ParameterValue {
        let text = number.description
        if let whole = Int(text) { return .int(whole) }
        if let double = Double(text), JSONNumber.text(double) == text { return .double(double) }
        guard let number = JSONNumber(text) else { throw noNumber(number, path) }
        return .number(number)
    }

    /// The name of a member.
    func name(_ key: any CodingKey, at path: [any CodingKey]) -> String {
        switch keyEncodingStrategy {
        case .convertToSnakeCase: SnakeCase.encode(key.stringValue)
        case .custom(let closure): closure(path + [key]).stringValue
        default: key.stringValue
        }
    }
}

#endif

// MARK: - The encoder

extension ParameterValue {
    /// Makes parameters from an `Encodable` value, by a `ParameterValueEncoder`.
    ///
    /// - Parameters:
    ///   - value: a dictionary or a type with members, for a query string or a form; any for JSON.
    ///   - encoder: names of members, and the form of dates and data.
    /// - Throws: the type's own errors, and `EncodingError`.
    public init(encoding value: some Encodable, with encoder: ParameterValueEncoder = ParameterValueEncoder()) throws {
        self = try encoder.encode(value)
    }
}

/// Collects the encoded values at one position of the result.
final class ParameterEncoder: Encoder {
    /// A value, or a nested container that is read at the end.
    enum Content {
        case value(ParameterValue)
        case nested(ParameterEncoder)

        var value: ParameterValue {
            switch self {
            case .value(let value): value
            case .nested(let encoder): encoder.value
            }
        }
    }

    private enum Kind { case keyed, unkeyed, single }

    let codingPath: [any CodingKey]
    let options: ParameterValueEncoder
    private var kind = Kind.keyed
    /// Whether the names of members are data, which strategies leave as they are.
    private var isDictionary = false
    /// Whether members have no order of their own, and are sorted.
    private var isUnordered = false
    fileprivate var members: [(key: String, content: Content)] = []
    fileprivate var elements: [Content] = []
    fileprivate var single = ParameterValue.null

    init(codingPath: [any CodingKey], _ options: ParameterValueEncoder) {
        self.codingPath = codingPath
        self.options = options
    }

    var userInfo: [CodingUserInfoKey: Any] { options.userInfo }

    static func encode<Value: Encodable>(
        _ value: Value,
        codingPath: [any CodingKey],
        _ options: ParameterValueEncoder
    ) throws -> ParameterValue {
        switch value {
        case let parameter as ParameterValue: return parameter
        case let convertible as any ParameterConvertible: return convertible.parameterValue
        default: break
        }
        if let known = try options.encodeFoundationType(value, codingPath) { return known }
        let encoder = ParameterEncoder(codingPath: codingPath, options)
        encoder.isDictionary = value is any NamedByData
        encoder.isUnordered = value is any Unordered
        try value.encode(to: encoder)
        return encoder.value
    }

    fileprivate func name(_ key: any CodingKey) -> String {
        isDictionary ? key.stringValue : options.name(key, at: codingPath)
    }

    var value: ParameterValue {
        switch kind {
        case .single: return single
        case .unkeyed: return .array(elements.map(\.value))
        case .keyed:
            var all = OrderedMembers<ParameterValue>()
            // The order of a dictionary differs from run to run.
            let ordered = isUnordered ? members.sorted { $0.key < $1.key } : members
            for (key, content) in ordered { all[key] = content.value }
            return .dictionary(all)
        }
    }

    func nested(_ key: any CodingKey) -> ParameterEncoder {
        ParameterEncoder(codingPath: codingPath + [key], options)
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        kind = .keyed
        return KeyedEncodingContainer(KeyedParameters<Key>(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        kind = .unkeyed
        return UnkeyedParameters(encoder: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        kind = .single
        return SingleParameter(encoder: self)
    }
}

private struct KeyedParameters<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: ParameterEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }

    private func put(_ content: ParameterEncoder.Content, _ key: any CodingKey) {
        encoder.members.append((encoder.name(key), content))
    }

    private func nested(_ key: any CodingKey) -> ParameterEncoder {
        let nested = encoder.nested(key)
        put(.nested(nested), key)
        return nested
    }

    func encodeNil(forKey key: Key) { put(.value(.null), key) }
    func encode(_ value: Int128, forKey key: Key) throws { try encodeAny(value, key) }
    func encode(_ value: UInt128, forKey key: Key) throws { try encodeAny(value, key) }
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws { try encodeAny(value, key) }

    private func encodeAny(_ value: some Encodable, _ key: Key) throws {
        put(.value(try ParameterEncoder.encode(value, codingPath: codingPath + [key], encoder.options)), key)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        nested(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { nested(key).unkeyedContainer() }
    func superEncoder() -> any Encoder { nested(PlaceKey(stringValue: "super")) }
    func superEncoder(forKey key: Key) -> any Encoder { nested(key) }
}

private struct UnkeyedParameters: UnkeyedEncodingContainer {
    let encoder: ParameterEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.elements.count }

    private func nested() -> ParameterEncoder {
        let nested = encoder.nested(PlaceKey(intValue: count))
        encoder.elements.append(.nested(nested))
        return nested
    }

    func encodeNil() { encoder.elements.append(.value(.null)) }
    func encode(_ value: Int128) throws { try encodeAny(value) }
    func encode(_ value: UInt128) throws { try encodeAny(value) }
    func encode<Value: Encodable>(_ value: Value) throws { try encodeAny(value) }

    private func encodeAny(_ value: some Encodable) throws {
        let path = codingPath + [PlaceKey(intValue: count)]
        encoder.elements.append(.value(try ParameterEncoder.encode(value, codingPath: path, encoder.options)))
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        nested().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { nested().unkeyedContainer() }
    func superEncoder() -> any Encoder { nested() }
}

private struct SingleParameter: SingleValueEncodingContainer {
    let encoder: ParameterEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }

    func encodeNil() { encoder.single = .null }
    func encode(_ value: Bool) { encoder.single = .bool(value) }
    func encode(_ value: String) { encoder.single = .string(value) }
    func encode(_ value: Double) throws { encoder.single = try encoder.options.encode(value, codingPath) }
    func encode(_ value: Float) throws { encoder.single = try encoder.options.encode(value, codingPath) }
    func encode(_ value: Int) { encoder.single = .int(value) }
    func encode(_ value: Int8) { encoder.single = .int(Int(value)) }
    func encode(_ value: Int16) { encoder.single = .int(Int(value)) }
    func encode(_ value: Int32) { encoder.single = .int(Int(value)) }
    func encode(_ value: Int64) { encoder.single = .int(Int(value)) }
    func encode(_ value: UInt) { encode(UInt64(value)) }
    func encode(_ value: UInt8) { encoder.single = .int(Int(value)) }
    func encode(_ value: UInt16) { encoder.single = .int(Int(value)) }
    func encode(_ value: UInt32) { encoder.single = .int(Int(value)) }

    func encode(_ value: UInt64) {
        encoder.single = Int(exactly: value).map { .int($0) } ?? .unsigned(value)
    }

    func encode(_ value: Int128) { wide(value) }
    func encode(_ value: UInt128) { wide(value) }

    private func wide(_ value: some BinaryInteger & CustomStringConvertible) {
        if let value = Int(exactly: value) {
            encoder.single = .int(value)
        } else if let value = UInt64(exactly: value) {
            encoder.single = .unsigned(value)
        } else {
            encoder.single = .number(JSONNumber(validated: value.description))
        }
    }

    func encode<Value: Encodable>(_ value: Value) throws {
        encoder.single = try ParameterEncoder.encode(value, codingPath: codingPath, encoder.options)
    }
}
