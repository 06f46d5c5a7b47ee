// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
public import HTTPSessionCore

extension JSONValue: Decodable {
    /// JSON of any form, as a part of a type. A decoder does not tell the spelling of numbers and the order of members: those
    /// has `init(parsing:options:)` alone. Numbers keep at least 38 digits.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let text = try? container.decode(String.self) {
            self = .string(text)
        } else if let flag = try? container.decode(Bool.self) {
            self = .bool(flag)
        } else if let number = Self.number(in: container) {
            self = .number(number)
        } else if let elements = try? container.decode([JSONValue].self) {
            self = .array(elements)
        } else {
            // A dictionary, whose names no strategy for names changes.
            self = .object(OrderedMembers(try container.decode([String: JSONValue].self)))
        }
    }

    private static func number(in container: any SingleValueDecodingContainer) -> JSONNumber? {
        if let number = try? container.decode(Int.self) { return JSONNumber(number) }
        if let number = try? container.decode(UInt64.self) { return JSONNumber(number) }
        if let number = try? container.decode(Decimal.self) { return JSONNumber("\(number)") }
        return (try? container.decode(Double.self)).flatMap { JSONNumber($0) }
    }
}
