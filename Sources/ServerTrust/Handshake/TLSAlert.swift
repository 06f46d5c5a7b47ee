// SPDX-License-Identifier: Apache-2.0
/// The description of a TLS alert (RFC 8446, section 6).
package struct TLSAlert: Hashable, Sendable {
    package let number: UInt8

    package init(_ number: UInt8) { self.number = number }

    package static let handshakeFailure = TLSAlert(40)
    package static let protocolVersion = TLSAlert(70)
    package static let insufficientSecurity = TLSAlert(71)
    package static let internalError = TLSAlert(80)
    package static let inappropriateFallback = TLSAlert(86)
    package static let unrecognizedName = TLSAlert(112)
    package static let noApplicationProtocol = TLSAlert(120)

    /// `unknown_ca`; nil for a number that the RFC does not have.
    package var name: StaticString? {
        switch number {
        case 0: "close_notify"
        case 10: "unexpected_message"
        case 20: "bad_record_mac"
        case 22: "record_overflow"
        case 40: "handshake_failure"
        case 42: "bad_certificate"
        case 43: "unsupported_certificate"
        case 44: "certificate_revoked"
        case 45: "certificate_expired"
        case 46: "certificate_unknown"
        case 47: "illegal_parameter"
        case 48: "unknown_ca"
        case 49: "access_denied"
        case 50: "decode_error"
        case 51: "decrypt_error"
        case 70: "protocol_version"
        case 71: "insufficient_security"
        case 80: "internal_error"
        case 86: "inappropriate_fallback"
        case 90: "user_canceled"
        case 109: "missing_extension"
        case 110: "unsupported_extension"
        case 112: "unrecognized_name"
        case 113: "bad_certificate_status_response"
        case 115: "unknown_psk_identity"
        case 116: "certificate_required"
        case 120: "no_application_protocol"
        default: nil
        }
    }

    /// Whether it is about the certificate that its sender has got. TLS 1.2 has none for one that is missing:
    /// handshake_failure says it.
    package var isAboutCertificate: Bool {
        switch number {
        case 40, 42, 43, 44, 45, 46, 48, 49, 116: true
        default: false
        }
    }
}
