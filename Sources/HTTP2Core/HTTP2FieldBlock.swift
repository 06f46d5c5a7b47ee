import CNGHTTP2
package import HTTPCore
import IOCore

/// A head or a trailer section in nghttp2's format: names in lower case, and an array with the ranges of names and
/// values.
///
/// One value is reused for every head of a connection, with its memory.
package struct HTTP2FieldBlock: ~Copyable {
    private struct Entry {
        var name: Range<Int>
        var value: Range<Int>
        var isSensitive: Bool
    }

    private var bytes: [UInt8] = []
    private var entries: [Entry] = []
    private var fields: [nghttp2_nv] = []

    private static let status: StaticString = ":status"

    package init() {}

    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
    }

    /// Adds a field; `name` is in lower case.
    package mutating func add(_ name: StaticString, _ value: borrowing Span<UInt8>) {
        let start = bytes.count
        bytes.append(name.bytes)
        let end = bytes.count
        bytes.append(value)
        entries.append(Entry(name: start..<end, value: end..<bytes.count, isSensitive: false))
    }

    package mutating func add(_ name: StaticString, _ value: StaticString) { add(name, value.bytes) }

    /// Adds `:status`.
    package mutating func add(status: Int) {
        let start = bytes.count
        bytes.append(Self.status.bytes)
        let end = bytes.count
        for divisor in [100, 10, 1] { bytes.append(UInt8(ascii: "0") + UInt8(status / divisor % 10)) }
        entries.append(Entry(name: start..<end, value: end..<bytes.count, isSensitive: false))
    }

    /// Adds a field of a head, with its name in lower case (RFC 9113, section 8.2).
    package mutating func add(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        let start = bytes.count
        for index in 0..<name.count { bytes.append(ASCII.lowercased(name[index])) }
        let end = bytes.count
        bytes.append(value)
        entries.append(Entry(name: start..<end, value: end..<bytes.count, isSensitive: Self.isSensitive(name)))
    }

    /// Adds the fields of a serialised HTTP/1.1 head, from status line to empty line, except fields about the
    /// connection (RFC 9113, section 8.2.2).
    package mutating func add(headOf text: borrowing Span<UInt8>) {
        var position = Self.endOfLine(text, 0)
        while position < text.count, text[position] != UInt8(ascii: "\r") {
            let end = Self.endOfLine(text, position)
            if let colon = text.firstIndex(of: UInt8(ascii: ":"), from: position), colon < end {
                let name = text.extracting(position..<colon)
                let value = text.extracting(text.trimmingBlanks((colon + 1)..<(end - 2)))
                if !Self.isAboutConnection(name, value) { add(name: name, value: value) }
            }
            position = end
        }
    }

    /// The start of the body after such a head.
    package static func endOfHead(_ text: borrowing Span<UInt8>) -> Int {
        var position = 0
        while position < text.count {
            let end = endOfLine(text, position)
            if text[position] == UInt8(ascii: "\r") { return end }
            position = end
        }
        return position
    }

    private static func endOfLine(_ text: borrowing Span<UInt8>, _ start: Int) -> Int {
        text.firstIndex(of: UInt8(ascii: "\n"), from: start).map { $0 + 1 } ?? text.count
    }

    /// Adds every field.
    package mutating func add(_ fields: borrowing HTTPFields) {
        for index in 0..<fields.count {
            let name = fields.name(at: index)
            let value = fields.value(at: index)
            if !Self.isAboutConnection(name, value) { add(name: name, value: value) }
        }
    }

    private static func isAboutConnection(_ name: borrowing Span<UInt8>, _ value: borrowing Span<UInt8>) -> Bool {
        switch FieldName(name) {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .host: true
        case .te: !value.equalsIgnoringCase("trailers")
        default: false
        }
    }

    /// Whether a value must not enter the compression table, where an attacker who shares the connection could guess it
    /// (RFC 7541, section 7.1.3).
    private static func isSensitive(_ name: borrowing Span<UInt8>) -> Bool {
        switch FieldName(name) {
        case .authorization, .cookie, .setCookie, .proxyAuthorization: true
        default: false
        }
    }

    /// Gives nghttp2 access to the block; it copies the parts that it keeps.
    mutating func withFields<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
        fields.removeAll(keepingCapacity: true)
        return bytes.withUnsafeMutableBufferPointer { bytes in
            let base = bytes.baseAddress ?? UnsafeMutablePointer(bitPattern: 1)!
            for entry in entries {
                let flags = entry.isSensitive ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE
                fields.append(
                    nghttp2_nv(
                        name: base + entry.name.lowerBound,
                        value: base + entry.value.lowerBound,
                        namelen: entry.name.count,
                        valuelen: entry.value.count,
                        flags: UInt8(flags.rawValue)
                    )
                )
            }
            return fields.withUnsafeBufferPointer { body($0.baseAddress, $0.count) }
        }
    }
}
