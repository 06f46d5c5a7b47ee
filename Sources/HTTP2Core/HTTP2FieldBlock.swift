// SPDX-License-Identifier: Apache-2.0
import CNGHTTP2
package import HTTPCore
package import IOCore

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
    private var scratch = ByteBuffer()

    private static let status: StaticString = ":status"

    package init() {}

    /// The bytes of names and values.
    var byteCount: Int { bytes.count }

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
        add(name, value, isSensitive: Self.isSensitive(FieldName(name)))
    }

    private mutating func add(_ name: borrowing Span<UInt8>, _ value: borrowing Span<UInt8>, isSensitive: Bool) {
        let start = bytes.count
        for index in 0..<name.count { bytes.append(ASCII.lowercased(name[index])) }
        let end = bytes.count
        bytes.append(value)
        entries.append(Entry(name: start..<end, value: end..<bytes.count, isSensitive: isSensitive))
    }

    /// Adds a field whose value `write` appends; `name` may have capital letters.
    package mutating func add(_ name: StaticString, by write: (inout ByteBuffer) -> Void) {
        var value = ByteBuffer()
        swap(&value, &scratch)
        value.removeAll()
        write(&value)
        add(name: name.bytes, value: value.bytes)
        swap(&value, &scratch)
    }

    /// Adds every field, except those about the connection (RFC 9113, section 8.2.2).
    package mutating func add(_ fields: borrowing HeaderFields) {
        for index in 0..<fields.count { add(fields, at: index) }
    }

    /// Adds every field, and keeps all of them out of the compression table.
    package mutating func addSensitive(_ fields: borrowing HeaderFields) {
        for index in 0..<fields.count { add(fields.name(at: index), fields.value(at: index), isSensitive: true) }
    }

    /// Adds the field at `index`, unless it is about the connection.
    package mutating func add(_ fields: borrowing HeaderFields, at index: Int) {
        let id = fields.id(at: index)
        guard !Self.isAboutConnection(id, fields.value(at: index)) else { return }
        add(fields.name(at: index), fields.value(at: index), isSensitive: Self.isSensitive(id))
    }

    private static func isAboutConnection(_ id: FieldName, _ value: borrowing Span<UInt8>) -> Bool {
        switch id {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .host: true
        case .te: !value.equalsIgnoringCase("trailers")
        default: false
        }
    }

    /// Whether a value must not enter the compression table, where an attacker who shares the connection could guess it
    /// (RFC 7541, section 7.1.3).
    private static func isSensitive(_ id: FieldName) -> Bool {
        switch id {
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
