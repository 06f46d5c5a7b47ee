// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore
package import ProxyConfiguration
package import ServerTrust
package import SessionCore

/// The value of a credential: what is written into a request, what is masked in responses to it, and its end.
///
/// Immutable and shared by all threads. Its bytes are overwritten when the last request with it is over and another value has
/// replaced it. Its text shows nothing.
package final class CredentialValue: Sendable {
    /// The form in which the value is written.
    package enum Content: Sendable {
        /// The value of the field `header`.
        case field(SecretBytes)
        /// The keys that a request is signed with (`AWSSignature`).
        case signing(AWSKeys, AWSScope)
    }

    /// The name of the credential.
    package let credential: String
    /// The name of the field, as the configuration spells it; `Authorization` for signatures.
    package let header: [UInt8]
    package let headerID: FieldName
    package let content: Content
    /// The search for the value in heads and trailers of responses.
    package let mask: SecretMask
    /// Seconds since 1970; nil where no end is known.
    package let end: Int64?
    /// Increases with each different value of the credential.
    let version: Int
    /// The secret as the source gave it, for comparison with the next one.
    private let secrets: [SecretBytes]

    /// - Parameters:
    ///   - output: of the kind that the definition's source gives.
    ///   - end: seconds since 1970, from the source or `ttl`.
    init(_ definition: CredentialDefinition, _ output: CredentialOutput, end: Int64?, version: Int = 1) {
        credential = definition.name
        let name = Array(definition.header.utf8)
        header = name
        headerID = FieldName(name.span)
        self.end = end
        self.version = version
        switch output.secret {
        case .token(let token):
            let sent = Self.sent(token, definition)
            content = .field(sent)
            secrets = [token]
            // The prefix is no secret, and the value alone is found behind any prefix.
            mask = SecretMask(definition.basicUser == nil ? [token] : [token, Self.password(of: sent)])
        case .keys(let keys):
            content = .signing(keys, definition.source.scope ?? AWSScope(region: "", service: ""))
            // The name of the key is in every signed request, and in errors of AWS that people read; it is no secret.
            secrets = [keys.secret] + (keys.session.map { [$0] } ?? [])
            mask = SecretMask(secrets)
        }
    }

    /// Whether the source gave the same again.
    func isSame(as other: CredentialValue) -> Bool {
        guard secrets.count == other.secrets.count else { return false }
        return zip(secrets, other.secrets).allSatisfy { $0.equals($1) }
    }

    /// Whether it may still be sent.
    ///
    /// - Parameter now: seconds since 1970.
    package func isValid(at now: Int64) -> Bool { end.map { now < $0 } ?? true }

    private static let basic = Array("Basic ".utf8)

    private static func sent(_ token: SecretBytes, _ definition: CredentialDefinition) -> SecretBytes {
        if let user = definition.basicUser {
            // RFC 7617, section 2.
            var pair = Array(user.utf8) + [UInt8(ascii: ":")]
            pair.append(token.bytes)
            var text = basic
            Base64.encode(pair.span, to: &text)
            defer {
                pair.wipe()
                text.wipe()
            }
            return SecretBytes(text)
        }
        var text = Array(definition.prefix.utf8)
        text.append(token.bytes)
        defer { text.wipe() }
        return SecretBytes(text)
    }

    /// The base64 behind `Basic `, without the padding, which some leave out.
    private static func password(of sent: SecretBytes) -> SecretBytes {
        let bytes = sent.bytes
        var end = sent.count
        while end > basic.count, bytes[end - 1] == UInt8(ascii: "=") { end -= 1 }
        return SecretBytes(bytes.extracting(basic.count..<end))
    }
}

extension CredentialValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "the value of \(credential)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
