// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPSessionCore

extension PropertyListDecoder: DataDecoder {
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try decode(type, from: Data(bytes))
    }
}
