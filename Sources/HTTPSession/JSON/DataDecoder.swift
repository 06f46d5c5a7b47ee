#if !NO_FOUNDATION
public import FoundationEssentials
#endif

/// Decodes bytes to values of a type.
public protocol DataDecoder: Sendable {
    /// - Throws: any error; it becomes the reason `decodingFailed`.
    func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}

#if !NO_FOUNDATION
extension JSONDecoder: DataDecoder {
    /// The same for bytes in an array.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try decode(type, from: Data(bytes))
    }
}
#endif
