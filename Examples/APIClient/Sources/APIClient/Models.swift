// SPDX-License-Identifier: Apache-2.0

/// The values of the API. Names are in snake case on the wire (`is_done`), which the manager's decoder and encoder see to.
struct Note: Codable, Sendable, Identifiable, Equatable {
    let id: Int
    var title: String
    var isDone: Bool
}

struct NewNote: Encodable, Sendable {
    var title: String
    var isDone = false
}

/// A page of a list.
struct Page<Element: Decodable & Sendable>: Decodable, Sendable {
    let items: [Element]
    /// The number of the next page; nil for the last one.
    let nextPage: Int?
}

/// What the server says of a file that it has received.
struct Attachment: Decodable, Sendable {
    let fileName: String
    let byteCount: Int
}

/// A change of a note, as an event of the server.
struct Change: Decodable, Sendable {
    let noteId: Int
    let kind: String
}

/// The body of a response that is an error.
struct Problem: Decodable, Sendable, Error, CustomStringConvertible {
    let message: String

    var description: String { message }
}
