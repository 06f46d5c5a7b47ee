// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A field that many heads get: checked and put together once.
package struct PreparedField: Sendable {
    /// `Name: value` and CRLF.
    let line: [UInt8]
    let nameLength: Int
    let id: FieldName

    /// - Parameters:
    ///   - name: a token.
    ///   - value: a valid one (`HeaderFields.isValidValue`).
    package init(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) {
        var fields = HeaderFields()
        fields.append(name: name, value: value)
        line = Array(copying: fields.storedBytes)
        nameLength = name.count
        id = FieldName(name)
    }
}

extension HeaderFields {
    /// Appends a field that was made before, in one piece.
    package mutating func append(_ field: PreparedField) {
        let start = storage.count
        storage.append(field.line.span)
        let valueLength = field.line.count &- field.nameLength &- 4
        record(start: start, nameLength: field.nameLength, valueLength: valueLength, field.id)
    }
}
