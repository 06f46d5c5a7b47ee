// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The requirements of RFC 9113, section 8.2, for each field of a message, from clients and servers.
enum SectionField {
    /// Whether the field is valid in HTTP/2: its name is in lower case, its value has no control characters and no
    /// white space at the ends, and it does not concern the connection.
    static func isWellFormed(_ id: FieldName, name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        // A known name is a token.
        guard !name.hasCapitals, id != .other || HeaderFields.isValidName(name), HeaderFields.isValidValue(value) else {
            return false
        }
        switch id {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: return false
        case .te: return value.equalsIgnoringCase("trailers")
        default: return true
        }
    }

    /// Whether the field concerns the connection (RFC 9113, section 8.2.2).
    static func isAboutConnection(_ id: FieldName) -> Bool {
        switch id {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .te: true
        default: false
        }
    }

    /// The size of a field by RFC 9113, section 6.5.2, which includes an overhead of 32 bytes.
    static func size(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Int {
        name.count + value.count + 32
    }
}

extension ResponseFault {
    /// The rule that a malformed field of a response of HTTP/2 breaks, as far as its name tells.
    package static func ofMalformedField(_ name: borrowing Span<UInt8>) -> ResponseFault {
        if name.count > 0, name[0] == ASCII.colon { return .pseudoFieldInvalid }
        if name.hasCapitals { return .upperCaseName }
        if !HeaderFields.isValidName(name) { return .fieldNameInvalid }
        let id = FieldName(name)
        if SectionField.isAboutConnection(id) { return .connectionField }
        return id == .contentLength ? .contentLengthInvalid : .fieldValueInvalid
    }
}

/// The trailer section of a message of HTTP/2, field by field.
///
/// A value. Fields for framing, routing or authentication are dropped (RFC 9110, section 6.5.1).
package struct TrailerSection: Sendable {
    private let limits: HeadLimits
    private var size = 0
    package private(set) var fields = HeaderFields()

    package init(limits: HeadLimits = HeadLimits()) { self.limits = limits }

    /// - Parameter isInResponse: whether white space at the ends of the value is left out, as in the head of a response.
    /// - Returns: false when the section is malformed or too large.
    package mutating func append(
        name: borrowing Span<UInt8>,
        value: borrowing Span<UInt8>,
        isInResponse: Bool = false
    ) -> Bool {
        let id = FieldName(name)
        size += SectionField.size(name: name, value: value)
        let text = value.extracting(isInResponse ? value.trimmingBlanks(0..<value.count) : 0..<value.count)
        guard size <= limits.headBytes, fields.count < limits.fieldCount,
            SectionField.isWellFormed(id, name: name, value: text)
        else { return false }
        if id.isPermittedInTrailers, !name.hasPrefixIgnoringCase("proxy-") {
            fields.append(wellFormed: id, name: name, value: text)
        }
        return true
    }
}
