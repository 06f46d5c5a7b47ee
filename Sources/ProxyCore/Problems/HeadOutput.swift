// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The head of a response for a client, in the form of the client's protocol: text of HTTP/1.1 in a `ByteBuffer`, or the
/// fields of HTTP/2. What a head says is written once, for both.
protocol HeadOutput: ~Copyable {
    /// Begins a head.
    mutating func begin(status: Int)
    /// Begins a head with a reason phrase of its own, which HTTP/2 does not have.
    mutating func begin(status: Int, phrase: (inout ByteBuffer) -> Void)
    /// Adds the fields that are forwarded (`HeaderFields.isHopByHop`).
    ///
    /// - Parameter omitted: is not added either.
    mutating func appendEndToEnd(
        _ fields: borrowing HeaderFields,
        _ options: ConnectionOptions,
        omitting omitted: FieldName?
    )
    /// Adds the field at `index`.
    mutating func append(_ fields: borrowing HeaderFields, at index: Int)
    /// Adds a field of which name and value are valid.
    mutating func append(name: borrowing Span<UInt8>, _ value: [UInt8])
    /// Adds a field whose value `write` appends.
    mutating func append(_ name: StaticString, by write: (inout ByteBuffer) -> Void)
    /// Adds a field about the connection or the framing of HTTP/1.1: a line without its end. HTTP/2 has no such fields.
    mutating func append(hop line: StaticString)
    /// Ends the head.
    mutating func end()
}

extension HeadOutput where Self: ~Copyable {
    @inline(__always)
    mutating func append(_ name: StaticString, _ value: [UInt8]) { append(name) { $0.append(value) } }

    @inline(__always)
    mutating func append(_ name: StaticString, _ value: StaticString) { append(name) { $0.append(value) } }

    @inline(__always)
    mutating func append(_ name: StaticString, decimal value: Int) { append(name) { $0.append(decimal: value) } }
}

extension ByteBuffer: HeadOutput {
    mutating func begin(status: Int) { appendStatusLine(status) }

    mutating func begin(status: Int, phrase: (inout ByteBuffer) -> Void) {
        append("HTTP/1.1 ")
        append(decimal: status)
        append(" ")
        phrase(&self)
        append("\r\n")
    }

    mutating func appendEndToEnd(
        _ fields: borrowing HeaderFields,
        _ options: ConnectionOptions,
        omitting omitted: FieldName?
    ) {
        fields.serializeEndToEnd(options, omitting: omitted, into: &self)
    }

    mutating func append(_ fields: borrowing HeaderFields, at index: Int) {
        fields.serializeField(at: index, into: &self)
    }

    mutating func append(name: borrowing Span<UInt8>, _ value: [UInt8]) {
        append(name)
        append(": ")
        append(value)
        append("\r\n")
    }

    @inline(__always)
    mutating func append(_ name: StaticString, by write: (inout ByteBuffer) -> Void) {
        append(name)
        append(": ")
        write(&self)
        append("\r\n")
    }

    @inline(__always)
    mutating func append(hop line: StaticString) {
        append(line)
        append("\r\n")
    }

    @inline(__always)
    mutating func end() { append("\r\n") }
}
