import IOCore

/// The requirements of RFC 9113, section 8.2, for each field of a message, from clients and servers.
enum SectionField {
    /// Whether the field is valid in HTTP/2: its name is in lower case, its value has no control characters and no
    /// white space at the ends, and it does not concern the connection.
    static func isWellFormed(_ id: FieldName, name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        for index in 0..<name.count where ASCII.lowercased(name[index]) != name[index] { return false }
        guard HeaderFields.isValidName(name), HeaderFields.isValidValue(value) else { return false }
        switch id {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: return false
        case .te: return value.equalsIgnoringCase("trailers")
        default: return true
        }
    }

    /// The size of a field by RFC 9113, section 6.5.2, which includes an overhead of 32 bytes.
    static func size(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Int {
        name.count + value.count + 32
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

    /// - Returns: false when the section is malformed or too large.
    package mutating func append(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        let id = FieldName(name)
        size += SectionField.size(name: name, value: value)
        guard size <= limits.headBytes, fields.count < limits.fieldCount,
            SectionField.isWellFormed(id, name: name, value: value)
        else { return false }
        if id.isPermittedInTrailers, !name.hasPrefixIgnoringCase("proxy-") { fields.append(name: name, value: value) }
        return true
    }
}
