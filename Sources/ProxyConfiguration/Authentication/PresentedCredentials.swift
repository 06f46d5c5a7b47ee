// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The contents of a client's `Proxy-Authorization` (RFC 9110, section 11.7.2).
package enum PresentedCredentials: Equatable {
    /// No credentials, or unreadable ones: more than one field, another scheme, broken base64.
    case none
    /// RFC 7617.
    case basic(user: [UInt8], password: [UInt8])
    /// RFC 6750, section 2.1, in the proxy's field.
    case bearer(token: [UInt8])

    /// - Parameter field: `Authorization` at the admin listener, which is a server and no proxy.
    package init(_ fields: borrowing HeaderFields, in field: FieldName = .proxyAuthorization) {
        self = .none
        guard let index = fields.first(field), fields.next(field, after: index) == nil else { return }
        let value = Array(copying: fields.value(at: index))
        guard let space = value.firstIndex(of: UInt8(ascii: " ")) else { return }
        let scheme = value[..<space].map { ASCII.lowercased($0) }
        let text = Array(value[space...].drop { $0 == UInt8(ascii: " ") })
        guard !text.isEmpty, text.count <= 4096 else { return }
        if scheme.elementsEqual("bearer".utf8) {
            self = .bearer(token: text)
        } else if scheme.elementsEqual("basic".utf8), let plain = Base64.decode(text),
            let colon = plain.firstIndex(of: UInt8(ascii: ":"))
        {
            self = .basic(user: Array(plain[..<colon]), password: Array(plain[(colon + 1)...]))
        }
    }
}
