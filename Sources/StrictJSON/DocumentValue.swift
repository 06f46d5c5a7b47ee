// SPDX-License-Identifier: Apache-2.0
/// A JSON value with its place in the text.
///
/// Objects keep the order of their members and every duplicate; numbers keep their spelling, which the reader of the
/// document interprets.
package struct DocumentValue: Sendable {
    package indirect enum Content: Sendable {
        case null
        case bool(Bool)
        /// The number as written, which RFC 8259's grammar allows.
        case number(String)
        case string(String)
        case array([DocumentValue])
        case object([Member])
        /// A value that could not be parsed; an issue about it is already recorded.
        case unreadable
    }

    package struct Member: Sendable {
        package var name: String
        var namePlace: Place
        package var value: DocumentValue
    }

    /// The start of a value: line and column from 1, the column in Unicode scalars.
    package struct Place: Hashable, Sendable {
        package var line: Int
        package var column: Int
    }

    package var content: Content
    package var place: Place

    /// "a string", "an object" and so on, for messages.
    package var kindForPeople: String {
        switch content {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        case .unreadable: "unreadable"
        }
    }
}
