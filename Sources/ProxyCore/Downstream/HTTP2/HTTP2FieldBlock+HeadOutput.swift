// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore

extension HTTP2FieldBlock: HeadOutput {
    mutating func begin(status: Int) { add(status: status) }

    mutating func begin(status: Int, phrase: (inout ByteBuffer) -> Void) { add(status: status) }

    mutating func appendEndToEnd(
        _ fields: borrowing HeaderFields,
        _ options: ConnectionOptions,
        omitting omitted: FieldName?
    ) {
        addEndToEnd(fields, options, omitting: omitted)
    }

    mutating func append(_ fields: borrowing HeaderFields, at index: Int) { add(fields, at: index) }

    mutating func append(name: borrowing Span<UInt8>, _ value: [UInt8]) { add(name: name, value: value.span) }

    mutating func append(_ name: StaticString, by write: (inout ByteBuffer) -> Void) { add(name, by: write) }

    mutating func append(hop line: StaticString) {}

    mutating func end() {}
}
