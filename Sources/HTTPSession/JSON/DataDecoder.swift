/// Turns bytes into values of a type.
public protocol DataDecoder: Sendable {
    /// - Throws: whatever keeps the bytes from being a value; it becomes the reason `decodingFailed`.
    func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}
