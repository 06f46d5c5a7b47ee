// SPDX-License-Identifier: Apache-2.0
/// Decodes bytes to values of a type. With `HTTPSessionCodable` a `JSONDecoder` is one, with `HTTPSessionFoundation` a
/// `PropertyListDecoder`, too.
public protocol DataDecoder: Sendable {
    /// - Throws: any error; it becomes the reason `decodingFailed`, but a `JSONFault` the reason `invalidJSON`.
    func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}
