// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A request or a response on the wire, parsed by the tests' own parser and not by the code under test.
package struct HTTPMessage: Sendable {
    package struct Field: Sendable, Equatable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package var startLine = ""
    package var fields: [Field] = []
    package var body: [UInt8] = []
    package var trailers: [Field] = []
    /// The connection ended before the body did.
    package var isTruncated = false
    /// The 1xx heads before it.
    package var interim: [HTTPMessage] = []

    package init() {}

    /// The values of a field, joined as HTTP allows; nil when it is absent.
    package subscript(name: String) -> String? {
        let lowercase = name.lowercased()
        let values = fields.filter { $0.name.lowercased() == lowercase }.map(\.value)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    package var text: String { String(decoding: body, as: UTF8.self) }

    // MARK: Start lines

    private func word(_ index: Int) -> String {
        let words = startLine.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        return index < words.count ? String(words[index]) : ""
    }

    /// The status of a response.
    package var status: Int { Int(word(1)) ?? 0 }
    package var version: String { word(0) }
    /// Of a request.
    package var method: String { word(0) }
    package var target: String { word(1) }
}

/// Parses messages from a stream of bytes.
package struct MessageReader {
    package struct Malformed: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    /// The sender of the messages.
    package enum Role {
        case request
        /// The response to this method.
        case response(to: String)
    }

    private var buffer: [UInt8] = []
    private var position = 0
    private var hasEnded = false

    package init() {}

    /// Bytes that were read, but not yet parsed.
    package var rest: [UInt8] { Array(buffer[position...]) }

    /// One whole message; nil when the stream ends before it begins.
    ///
    /// - Parameter source: more bytes; empty at the end of the stream.
    package mutating func message(
        _ role: Role,
        from source: () throws -> [UInt8],
        withBody: Bool = true
    ) throws -> HTTPMessage? {
        var interim: [HTTPMessage] = []
        while true {
            guard var message = try head(from: source) else { return nil }
            if case .response = role, message.status >= 100, message.status < 200, message.status != 101 {
                interim.append(message)
                continue
            }
            message.interim = interim
            if withBody { try body(of: &message, role, source) }
            return message
        }
    }

    /// Reads the body of a message after its head.
    package mutating func body(of message: inout HTTPMessage, _ role: Role, _ source: () throws -> [UInt8]) throws {
        var untilClose = false
        if case .response(let method) = role {
            if method == "HEAD" || message.status == 101 || message.status == 204 || message.status == 304 { return }
            untilClose = true
        }
        if message["Transfer-Encoding"]?.lowercased() == "chunked" {
            try chunks(of: &message, source)
        } else if let length = message["Content-Length"].flatMap({ Int($0) }) {
            message.body = try take(length, source)
            message.isTruncated = message.body.count < length
        } else if untilClose {
            while try more(source) {}
            message.body = Array(buffer[position...])
            position = buffer.count
        }
    }

    private mutating func head(from source: () throws -> [UInt8]) throws -> HTTPMessage? {
        guard let first = try line(source) else { return nil }
        var message = HTTPMessage()
        message.startLine = first
        message.fields = try fields(source)
        return message
    }

    private mutating func fields(_ source: () throws -> [UInt8]) throws -> [HTTPMessage.Field] {
        var fields: [HTTPMessage.Field] = []
        while true {
            guard let line = try lineRange(source) else {
                throw Malformed(description: "the stream ends inside a head")
            }
            if line.isEmpty { return fields }
            guard let colon = place(of: UInt8(ascii: ":"), in: line) else {
                throw Malformed(description: "no field: \(text(line))")
            }
            var start = colon + 1
            while start < line.upperBound, buffer[start] == UInt8(ascii: " ") { start += 1 }
            let field = HTTPMessage.Field(name: text(line.lowerBound..<colon), value: text(start..<line.upperBound))
            fields.append(field)
        }
    }

    private mutating func chunks(of message: inout HTTPMessage, _ source: () throws -> [UInt8]) throws {
        while true {
            guard let sizeLine = try line(source) else {
                message.isTruncated = true
                return
            }
            guard let size = Int(sizeLine.prefix { $0 != ";" }, radix: 16) else {
                throw Malformed(description: "no chunk size: \(sizeLine)")
            }
            if size == 0 {
                message.trailers = try fields(source)
                return
            }
            let data = try take(size, source)
            message.body += data
            guard data.count == size, let end = try line(source) else {
                message.isTruncated = true
                return
            }
            guard end.isEmpty else { throw Malformed(description: "a chunk is longer than its size") }
        }
    }

    private mutating func line(_ source: () throws -> [UInt8]) throws -> String? {
        try lineRange(source).map { text($0) }
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: buffer[range], as: UTF8.self) }

    /// By memchr(3), since tests are built without optimisation, and read a few hundred thousand lines.
    private func place(of byte: UInt8, in range: Range<Int>) -> Int? {
        buffer.withUnsafeBytes { bytes in
            guard !range.isEmpty, let start = bytes.baseAddress,
                let found = memchr(start + range.lowerBound, Int32(byte), range.count)
            else { return nil }
            return UnsafeRawPointer(found) - start
        }
    }

    /// The place of a line in the buffer, without its CRLF; nil when the stream ends before it does.
    private mutating func lineRange(_ source: () throws -> [UInt8]) throws -> Range<Int>? {
        var searched = position
        while true {
            if let end = place(of: UInt8(ascii: "\n"), in: searched..<buffer.count) {
                guard end > position, buffer[end - 1] == UInt8(ascii: "\r") else {
                    throw Malformed(description: "a line ends with LF alone")
                }
                defer { position = end + 1 }
                return position..<(end - 1)
            }
            let waiting = buffer.count - position
            guard try more(source) else { return nil }
            searched = position + waiting
        }
    }

    /// That many bytes, or fewer at the end of the stream.
    private mutating func take(_ count: Int, _ source: () throws -> [UInt8]) throws -> [UInt8] {
        while buffer.count - position < count {
            guard try more(source) else { break }
        }
        let end = min(buffer.count, position + count)
        defer { position = end }
        return Array(buffer[position..<end])
    }

    private mutating func more(_ source: () throws -> [UInt8]) throws -> Bool {
        if hasEnded { return false }
        let bytes = try source()
        if bytes.isEmpty {
            hasEnded = true
            return false
        }
        if position == buffer.count || position > 1 << 20 {
            buffer.removeSubrange(..<position)
            position = 0
        }
        buffer += bytes
        return true
    }
}
