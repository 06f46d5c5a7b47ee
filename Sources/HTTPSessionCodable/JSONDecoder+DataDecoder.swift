// SPDX-License-Identifier: Apache-2.0
public import FoundationEssentials
public import HTTPSessionCore

extension JSONDecoder: DataDecoder {
    /// The same for bytes in an array.
    ///
    /// - Throws: `JSONFault`, with its place, for what is no JSON; `DecodingError` for JSON that does not match the type; the
    ///   type's own errors.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        do {
            return try decode(type, from: Data(bytes))
        } catch DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty {
            // Foundation tells the place in words, if at all.
            if !allowsJSON5, !assumesTopLevelDictionary { _ = try JSONValue(parsing: bytes) }
            throw DecodingError.dataCorrupted(context)
        }
    }
}
