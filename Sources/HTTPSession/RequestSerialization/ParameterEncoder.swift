extension ParameterValue {
    /// Makes parameters from an `Encodable` value. Members keep their order; optional ones that are nil are left out,
    /// unless the type encodes them. A `ParameterConvertible` value is converted by itself.
    ///
    /// - Throws: the type's own errors.
    public init(encoding value: some Encodable) throws {
        self = try ParameterEncoder.encode(value, codingPath: [])
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
    private var kind = Kind.keyed
    fileprivate var members: [(key: String, content: Content)] = []
    fileprivate var elements: [Content] = []
    fileprivate var single = ParameterValue.null

    init(codingPath: [any CodingKey]) { self.codingPath = codingPath }

    var userInfo: [CodingUserInfoKey: Any] { [:] }

    static func encode<Value: Encodable>(_ value: Value, codingPath: [any CodingKey]) throws -> ParameterValue {
        if let parameter = value as? ParameterValue { return parameter }
        if let convertible = value as? any ParameterConvertible { return convertible.parameterValue }
        let encoder = ParameterEncoder(codingPath: codingPath)
        try value.encode(to: encoder)
        return encoder.value
    }

    var value: ParameterValue {
        switch kind {
        case .single: return single
        case .unkeyed: return .array(elements.map(\.value))
        case .keyed:
            var all = OrderedMembers<ParameterValue>()
            for (key, content) in members { all[key] = content.value }
            return .dictionary(all)
        }
    }

    func nested(_ key: any CodingKey) -> ParameterEncoder { ParameterEncoder(codingPath: codingPath + [key]) }

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
        encoder.members.append((key.stringValue, content))
    }

    private func nested(_ key: any CodingKey) -> ParameterEncoder {
        let nested = encoder.nested(key)
        put(.nested(nested), key)
        return nested
    }

    func encodeNil(forKey key: Key) { put(.value(.null), key) }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        put(.value(try ParameterEncoder.encode(value, codingPath: codingPath + [key])), key)
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

    func encode<Value: Encodable>(_ value: Value) throws {
        let path = codingPath + [PlaceKey(intValue: count)]
        encoder.elements.append(.value(try ParameterEncoder.encode(value, codingPath: path)))
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
    func encode(_ value: Double) { encoder.single = .double(value) }
    /// The shortest text of the number: 0.1 stays 0.1.
    func encode(_ value: Float) { encoder.single = .double(Double(value.description) ?? Double(value)) }
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

    func encode<Value: Encodable>(_ value: Value) throws {
        encoder.single = try ParameterEncoder.encode(value, codingPath: codingPath)
    }
}
