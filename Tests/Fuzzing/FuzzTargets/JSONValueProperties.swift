// SPDX-License-Identifier: Apache-2.0
import HTTPSessionCore

/// The properties of a session's response serializers.
enum JSONValueProperties {
    /// JSON is refused with a place in the text, or has the same value after it is serialised, with any options.
    static func json(_ bytes: [UInt8]) throws(FuzzFinding) {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: bytes)
        } catch {
            guard (0...bytes.count).contains(error.offset), !error.message.isEmpty else {
                throw FuzzFinding("a fault at no place: \(error)")
            }
            return
        }
        for options in [[], .prettyPrinted, .sortedKeys, .withoutEscapingSlashes] as [JSONWritingOptions] {
            let written = value.serialized(options)
            guard (try? JSONValue(parsing: written)) == value else {
                throw FuzzFinding("written anew it reads differently: \(String(decoding: written, as: UTF8.self))")
            }
        }
        guard !Self.holdsNull(value.removingNulls()) else { throw FuzzFinding("a null was not removed") }
    }

    /// Whether a member of an object or an element of an array is null.
    private static func holdsNull(_ value: JSONValue) -> Bool {
        switch value {
        case .object(let members): members.contains { $0.value.isNull || holdsNull($0.value) }
        case .array(let elements): elements.contains { $0.isNull || holdsNull($0) }
        default: false
        }
    }
}
