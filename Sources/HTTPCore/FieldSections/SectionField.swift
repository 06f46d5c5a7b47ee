import IOCore

/// What RFC 9113, section 8.2, asks of each field of a message, whoever sends it.
enum SectionField {
    /// Whether the field may stand in a message of HTTP/2: its name in lower case, its value without control characters
    /// and white space at the ends, and neither of them about the connection.
    static func isWellFormed(_ id: FieldName, name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        for index in 0..<name.count where ASCII.lowercased(name[index]) != name[index] { return false }
        guard HTTPFields.isValidName(name), HTTPFields.isValidValue(value) else { return false }
        switch id {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: return false
        case .te: return value.equalsIgnoringCase("trailers")
        default: return true
        }
    }

    /// How large a field counts as (RFC 9113, section 6.5.2): the smallest field is not free.
    static func size(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Int {
        name.count + value.count + 32
    }
}

/// The trailer section of a message of HTTP/2, field by field.
///
/// A value. What frames, routes or authenticates is dropped (RFC 9110, section 6.5.1).
package struct TrailerSection: Sendable {
    private let limits: HeadLimits
    private var size = 0
    package private(set) var fields = HTTPFields()

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
