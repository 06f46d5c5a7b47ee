// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPSessionCore

extension PropertyListDecoder: DataDecoder {
    /// The same for bytes in an array.
    ///
    /// - Throws: `DecodingError` for what is no property list and for one that does not match the type; the type's own errors.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try decode(type, from: Data(bytes))
    }
}
