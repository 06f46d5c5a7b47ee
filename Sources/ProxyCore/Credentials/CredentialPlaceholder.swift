// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration

/// The text that a client sends in the place of a credential, prepared once for all requests.
struct CredentialPlaceholder: Sendable {
    /// The name of the credential, and of the field that it is written to.
    let credential: String
    let header: String
    /// Whether it is the password of a user of Basic.
    let isPassword: Bool
    private let field: FieldName
    private let fieldName: [UInt8]
    private let text: SearchPiece

    /// - Returns: nil for a credential without one.
    init?(_ definition: CredentialDefinition) {
        guard let placeholder = definition.placeholder else { return nil }
        credential = definition.name
        header = definition.header
        isPassword = definition.basicUser != nil
        let name = Array(definition.header.utf8)
        fieldName = name
        field = FieldName(name.span)
        text = SearchPiece(Array(placeholder.utf8))
    }

    /// Whether a request has it in the field that the credential is written to.
    func isHeld(in fields: borrowing HeaderFields) -> Bool {
        guard fields.mayContain(anyOf: [field]) else { return false }
        for index in 0..<fields.count where fields.id(at: index) == field {
            guard field != .other || fields.name(at: index).equalsIgnoringCase(fieldName.span) else { continue }
            let value = fields.value(at: index)
            if text.end(in: value, 0..<value.count) != nil { return true }
            guard let pair = Self.userAndPassword(in: value) else { continue }
            let decoded = pair.span
            if text.end(in: decoded, 0..<decoded.count) != nil { return true }
        }
        return false
    }

    /// A user and password, as git and others send them (RFC 7617): with any white space behind the scheme, and with padding or
    /// without, as servers take them.
    private static func userAndPassword(in value: borrowing Span<UInt8>) -> [UInt8]? {
        let scheme: StaticString = "basic"
        guard value.hasPrefixIgnoringCase(scheme) else { return nil }
        var start = scheme.utf8CodeUnitCount
        while start < value.count, ASCII.isBlank(value[start]) { start += 1 }
        guard start > scheme.utf8CodeUnitCount else { return nil }
        var end = value.count
        while end > start, value[end - 1] == UInt8(ascii: "=") { end -= 1 }
        var text = [UInt8](copying: value.extracting(start..<end))
        while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return Base64.decode(text)
    }
}
