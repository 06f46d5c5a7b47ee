// SPDX-License-Identifier: Apache-2.0
import CNGHTTP2
package import HTTPCore
package import IOCore

/// A head or a trailer section on its way to nghttp2: names in lower case, with the values behind each other.
///
/// One value is reused for every head of a connection, with its memory.
package struct HTTP2FieldBlock: ~Copyable {
    private struct Entry {
        /// A name in memory that is never freed; nil for one in `bytes`, in front of its value.
        var name: UnsafePointer<UInt8>?
        var nameLength: Int
        var valueLength: Int
        var isSensitive: Bool
    }

    /// The values, and the names that are not known.
    private var bytes = ByteBuffer()
    private var entries: [Entry] = []
    /// The bytes of names and values.
    package private(set) var byteCount = 0

    package init() {}

    package mutating func removeAll() {
        bytes.removeAll()
        entries.removeAll(keepingCapacity: true)
        byteCount = 0
    }

    /// Adds a field; `name` is in lower case.
    package mutating func add(_ name: StaticString, _ value: borrowing Span<UInt8>) {
        bytes.append(value)
        record(name.utf8Start, name.utf8CodeUnitCount, value.count)
    }

    package mutating func add(_ name: StaticString, _ value: StaticString) {
        bytes.append(value)
        record(name.utf8Start, name.utf8CodeUnitCount, value.utf8CodeUnitCount)
    }

    /// Adds `:status`, of three digits.
    package mutating func add(status: Int) {
        add(pseudo: ":status") { $0.append(decimal: status) }
    }

    /// Adds a pseudo-header field whose value `write` appends.
    @inline(__always)
    package mutating func add(pseudo name: StaticString, by write: (inout ByteBuffer) -> Void) {
        let start = bytes.count
        write(&bytes)
        record(name.utf8Start, name.utf8CodeUnitCount, bytes.count - start)
    }

    /// Adds a field of a head, with its name in lower case (RFC 9113, section 8.2).
    package mutating func add(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        let id = FieldName(name)
        if id == .other { appendLowercased(name) }
        bytes.append(value)
        record(id, nameLength: name.count, valueLength: value.count, Self.isSensitive(id))
    }

    /// Adds a field whose value `write` appends; `name` may have capital letters.
    package mutating func add(_ name: StaticString, by write: (inout ByteBuffer) -> Void) {
        let id = FieldName(name.bytes)
        if id == .other { appendLowercased(name.bytes) }
        let start = bytes.count
        write(&bytes)
        record(id, nameLength: name.utf8CodeUnitCount, valueLength: bytes.count - start, Self.isSensitive(id))
    }

    /// Adds every field, except those about the connection (RFC 9113, section 8.2.2).
    package mutating func add(_ fields: borrowing HeaderFields) {
        for index in 0..<fields.count { add(fields, at: index) }
    }

    /// Adds the fields that are forwarded (`HeaderFields.isHopByHop`).
    ///
    /// - Parameter omitted: is not added either.
    package mutating func addEndToEnd(
        _ fields: borrowing HeaderFields,
        _ options: ConnectionOptions,
        omitting omitted: FieldName?
    ) {
        let perhaps = HeaderFields.perhapsHopByHop
        for index in 0..<fields.count {
            let id = fields.id(at: index)
            if id == omitted || id == .host || perhaps.contains(id) && fields.isHopByHop(at: index, options) {
                continue
            }
            add(id, fields, at: index, isSensitive: false)
        }
    }

    /// Adds every field, and keeps all of them out of the compression table.
    package mutating func addSensitive(_ fields: borrowing HeaderFields) {
        for index in 0..<fields.count {
            add(fields.id(at: index), fields, at: index, isSensitive: true)
        }
    }

    /// Adds the field at `index`, unless it is about the connection.
    package mutating func add(_ fields: borrowing HeaderFields, at index: Int) {
        let id = fields.id(at: index)
        switch id {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .host: return
        case .te where !fields.value(at: index).equalsIgnoringCase("trailers"): return
        default: add(id, fields, at: index, isSensitive: false)
        }
    }

    @inline(__always)
    private mutating func add(_ id: FieldName, _ fields: borrowing HeaderFields, at index: Int, isSensitive: Bool) {
        if id == .other { appendLowercased(fields.name(at: index)) }
        let value = fields.value(at: index)
        bytes.append(value)
        record(
            id,
            nameLength: fields.nameLength(at: index),
            valueLength: value.count,
            isSensitive || Self.isSensitive(id)
        )
    }

    private mutating func appendLowercased(_ name: borrowing Span<UInt8>) {
        for index in 0..<name.count { bytes.append(ASCII.lowercased(name[index])) }
    }

    @inline(__always)
    private mutating func record(_ id: FieldName, nameLength: Int, valueLength: Int, _ isSensitive: Bool) {
        record(id == .other ? nil : KnownNames.shared.name(id), nameLength, valueLength, isSensitive)
    }

    @inline(__always)
    private mutating func record(
        _ name: UnsafePointer<UInt8>?,
        _ nameLength: Int,
        _ valueLength: Int,
        _ isSensitive: Bool = false
    ) {
        byteCount &+= nameLength &+ valueLength
        entries.append(
            Entry(name: name, nameLength: nameLength, valueLength: valueLength, isSensitive: isSensitive)
        )
    }

    /// Whether a value must not enter the compression table, where an attacker who shares the connection could guess it
    /// (RFC 7541, section 7.1.3).
    private static func isSensitive(_ id: FieldName) -> Bool {
        switch id {
        case .authorization, .cookie, .setCookie, .proxyAuthorization: true
        default: false
        }
    }

    /// Gives nghttp2 access to the block; it copies the parts that it keeps, but for names that are never freed.
    func withFields<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
        entries.withUnsafeBufferPointer { Self.withFields(bytes, $0, body) }
    }

    @inline(__always)
    private static func withFields<Result>(
        _ bytes: borrowing ByteBuffer,
        _ entries: UnsafeBufferPointer<Entry>,
        _ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: max(entries.count, 1)) { fields in
            bytes.withUnsafeBytes { bytes in
                // nghttp2 writes into nothing of it.
                var next = UnsafeMutablePointer(mutating: bytes.assumingMemoryBound(to: UInt8.self).baseAddress!)
                var index = 0
                while index < entries.count {
                    let entry = entries[index]
                    var flags = entry.isSensitive ? NGHTTP2_NV_FLAG_NO_INDEX.rawValue : NGHTTP2_NV_FLAG_NONE.rawValue
                    let name: UnsafeMutablePointer<UInt8>
                    if let known = entry.name {
                        flags |= NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue
                        name = UnsafeMutablePointer(mutating: known)
                    } else {
                        name = next
                        next += entry.nameLength
                    }
                    fields.initializeElement(
                        at: index,
                        to: nghttp2_nv(
                            name: name,
                            value: next,
                            namelen: entry.nameLength,
                            valuelen: entry.valueLength,
                            flags: UInt8(flags)
                        )
                    )
                    next += entry.valueLength
                    index += 1
                }
                return body(UnsafePointer(fields.baseAddress), entries.count)
            }
        }
    }
}

/// The known names of fields in lower case, where nghttp2 may refer to them for ever.
///
/// `@unchecked Sendable`: written once, in its initialiser, and never freed.
private final class KnownNames: @unchecked Sendable {
    static let shared = KnownNames()

    private let start: UnsafeMutablePointer<UInt8>
    /// No name is longer.
    private static let stride = 32

    private init() {
        let count = (FieldName.allCases.count + 1) * Self.stride
        start = UnsafeMutablePointer<UInt8>.allocate(capacity: count)
        start.initialize(repeating: 0, count: count)
        for id in FieldName.allCases {
            let text = id.text.bytes
            precondition(text.count <= Self.stride)
            for index in 0..<text.count {
                start[Int(id.rawValue) * Self.stride + index] = ASCII.lowercased(text[index])
            }
        }
    }

    @inline(__always)
    func name(_ id: FieldName) -> UnsafePointer<UInt8> { UnsafePointer(start + Int(id.rawValue) * Self.stride) }
}
