/// Decodes bytes to values of a type.
public protocol DataDecoder: Sendable {
    /// - Throws: any error; it becomes the reason `decodingFailed`.
    func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}
