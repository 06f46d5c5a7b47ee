// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore

/// The secrets that a `HARRecorder` leaves out.
///
/// User information in URLs is always left out. Bodies of other kinds than forms and JSON are written as they are.
public struct HARRedaction: Sendable {
    /// The names of fields that are left out as a whole, of requests and responses, in any case.
    public var fields: Set<String>
    /// The names of parameters whose values are replaced by `REDACTED`: in URLs, in forms, and as members of JSON, in any case,
    /// punctuation and percent-encoding. In URLs and forms these are, unless the set is empty, also the names that the proxy's log
    /// masks by default, among them `code` and `key`, which are everyday words in JSON. A replay takes any value in their place.
    public var parameters: Set<String>

    /// The word in the place of a value.
    public static let placeholder = "REDACTED"

    /// Leaves out fields with credentials and cookies, and parameters with the usual names of passwords, keys and tokens.
    public init(
        fields: Set<String> = HARRedaction.credentialFields,
        parameters: Set<String> = HARRedaction.credentialParameters
    ) {
        self.fields = fields
        self.parameters = parameters
    }

    /// Nothing but user information in URLs: for recordings that stay secret themselves.
    public static let none = HARRedaction(fields: [], parameters: [])

    /// `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, and usual names of keys and tokens.
    public static let credentialFields: Set<String> = [
        "Authorization", "Proxy-Authorization", "Authentication-Info", "Proxy-Authentication-Info", "Cookie",
        "Set-Cookie",
        "X-API-Key", "X-Auth-Token", "X-Amz-Security-Token", "X-CSRF-Token",
    ]

    /// Names of OAuth 2.0 and OpenID Connect, of signed URLs, and of forms.
    public static let credentialParameters: Set<String> = [
        "access_token", "refresh_token", "id_token", "token", "client_secret", "client_assertion", "code_verifier",
        "device_code", "assertion", "password", "passwd", "pwd", "secret", "api_key", "apikey", "api-key", "access_key",
        "sig", "signature", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature",
    ]
}

/// A redaction, ready for use.
struct Redactor {
    private let fields: Set<String>
    private let parameters: SecretParameters
    private let memberNames: SecretParameters

    init(_ redaction: HARRedaction) {
        fields = Set(redaction.fields.map { $0.lowercased() })
        memberNames = SecretParameters(Array(redaction.parameters))
        parameters = SecretParameters(
            redaction.parameters.isEmpty ? [] : redaction.parameters + SecretParameters.usual
        )
    }

    func drops(field name: String) -> Bool { fields.contains(name.lowercased()) }

    /// The text of a URL, a field or a form without user information and without the values of secret parameters.
    func redacted(_ text: String) -> String {
        let bytes = Self.withoutUserInformation(Array(text.utf8))
        guard !parameters.isEmpty else { return String(decoding: bytes, as: UTF8.self) }
        var result: [UInt8] = []
        var position = 0
        while position < bytes.count {
            let end = bytes[position...].firstIndex { Self.endsName($0) } ?? bytes.count
            result += bytes[position..<end]
            guard end < bytes.count else { break }
            result.append(bytes[end])
            let isSecret = bytes[end] == UInt8(ascii: "=") && isSecret(name: Array(bytes[position..<end]))
            position = end + 1
            guard isSecret else { continue }
            result += HARRedaction.placeholder.utf8
            position = bytes[position...].firstIndex { Self.endsValue($0) } ?? bytes.count
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// A value of JSON without the values of secret members.
    func redacted(_ value: JSONValue) -> JSONValue {
        switch value {
        case .array(let elements): return .array(elements.map(redacted))
        case .object(let members):
            var result = OrderedMembers<JSONValue>()
            for (name, member) in members {
                let isSecret = !member.isNull && Self.isSecret(Array(name.utf8), memberNames)
                result[name] = isSecret ? .string(HARRedaction.placeholder) : redacted(member)
            }
            return .object(result)
        case .null, .bool, .number, .string: return value
        }
    }

    /// What stands before a value: the delimiters of URLs, of forms, and of text around them.
    private static func endsName(_ byte: UInt8) -> Bool { byte <= 0x20 || "=?&;#\"'<>,".utf8.contains(byte) }

    /// A semicolon may be a part of a value: rather too much is left out than too little.
    private static func endsValue(_ byte: UInt8) -> Bool { byte <= 0x20 || "&#\"<>".utf8.contains(byte) }

    /// `user[password]` is a `password`, too.
    private func isSecret(name: [UInt8]) -> Bool {
        let parts = Self.decoded(name).split { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "]") }
        return parts.contains { Self.isSecret(Array($0), parameters) }
    }

    private static func isSecret(_ name: [UInt8], _ secrets: SecretParameters) -> Bool { secrets.contains(name.span) }

    private static func decoded(_ name: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        var position = 0
        while position < name.count {
            if name[position] == UInt8(ascii: "%"), position + 2 < name.count,
                let byte = UInt8(String(decoding: name[(position + 1)...(position + 2)], as: UTF8.self), radix: 16)
            {
                result.append(byte)
                position += 3
            } else {
                result.append(name[position])
                position += 1
            }
        }
        return result
    }

    private static func withoutUserInformation(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        var position = 0
        while position < bytes.count {
            result.append(bytes[position])
            position += 1
            guard result.suffix(2).elementsEqual("//".utf8) else { continue }
            let end = bytes[position...].firstIndex { $0 <= 0x20 || "/?#\"<>".utf8.contains($0) } ?? bytes.count
            if let at = bytes[position..<end].lastIndex(of: UInt8(ascii: "@")) { position = at + 1 }
        }
        return result
    }
}
