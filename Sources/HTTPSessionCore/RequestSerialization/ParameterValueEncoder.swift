// SPDX-License-Identifier: Apache-2.0
/// Makes parameters from `Encodable` types, as Foundation's `JSONEncoder` makes JSON. With `HTTPSessionCodable` it has the strategies of
/// `JSONEncoder`, a `URL` is its text, `Data` is base64, and a `Decimal` a number to its last digit, as an `Int128` always is.
///
/// Members keep their order, except those of a `Dictionary`, which are sorted by name. Optional members that are nil are
/// left out, unless the type encodes them. A `ParameterConvertible` value is converted by itself.
public struct ParameterValueEncoder: Sendable {
    /// How names, numbers and types of Foundation are encoded; nil for the defaults.
    package var strategies: (any ParameterStrategies)?
    /// For the types' own use while they encode themselves.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// An encoder with the defaults of the properties.
    public init() {}

    /// Makes a parameter of a value.
    ///
    /// - Throws: the type's own errors, and `EncodingError` for infinities and NaN.
    public func encode(_ value: some Encodable) throws -> ParameterValue {
        try ParameterEncoder.encode(value, codingPath: [], self)
    }
}

// MARK: - Strategies

/// The choices of an encoder that have Foundation's types.
package protocol ParameterStrategies: Sendable {
    /// The name of a member.
    func name(_ key: any CodingKey, at path: [any CodingKey]) -> String
    /// The text of an infinity or NaN; nil where these cannot be encoded.
    func text(ofNonConforming number: Double) -> String?
}

/// A type that strategies encode, in place of its members: types of Foundation, with `HTTPSessionCodable`.
package protocol ParameterByStrategy {
    /// - Parameter path: the place of the value.
    func parameter(by encoder: ParameterValueEncoder, at path: [any CodingKey]) throws -> ParameterValue
}

extension ParameterValueEncoder {
    func name(_ key: any CodingKey, at path: [any CodingKey]) -> String {
        strategies?.name(key, at: path) ?? key.stringValue
    }

    private func nonConforming(_ number: Double, _ path: [any CodingKey]) throws -> ParameterValue {
        guard let text = strategies?.text(ofNonConforming: number) else { throw Self.noNumber(number, path) }
        return .string(text)
    }

    /// Encodes a value by a closure. One that encodes nothing makes an empty object, as in Foundation.
    package func encode(_ path: [any CodingKey], _ work: (any Encoder) throws -> Void) throws -> ParameterValue {
        let encoder = ParameterEncoder(codingPath: path, self)
        try work(encoder)
        return encoder.value
    }
}

// MARK: - Numbers

extension ParameterValueEncoder {
    package func encode(_ number: Double, _ path: [any CodingKey]) throws -> ParameterValue {
        number.isFinite ? .double(number) : try nonConforming(number, path)
    }

    func encode(_ number: Float, _ path: [any CodingKey]) throws -> ParameterValue {
        // The shortest text of the number: 0.1 stays 0.1.
        number.isFinite
            ? .double(Double(number.description) ?? Double(number)) : try nonConforming(Double(number), path)
    }

    package static func noNumber(_ value: Any, _ path: [any CodingKey]) -> EncodingError {
        EncodingError.invalidValue(
            value,
            EncodingError.Context(
                codingPath: path,
                debugDescription: "\(value) is no number in JSON; nonConformingFloatEncodingStrategy can make it text."
            )
        )
    }
}

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
        case let known as any ParameterByStrategy: return try known.parameter(by: options, at: codingPath)
        default: break
        }
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
