// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims

/// A group for the key exchange of a TLS handshake. These are offered, and no others.
public enum TLSGroup: String, Sendable, CaseIterable {
    /// Secure against a quantum computer too: ML-KEM and X25519 together. TLS 1.3 and OpenSSL 3.5 or later have it.
    case x25519MLKEM768 = "X25519MLKEM768"
    /// Curve25519 (RFC 7748).
    case x25519 = "X25519"
    /// NIST's curve of 256 bits, secp256r1.
    case p256 = "P-256"
    /// NIST's curve of 384 bits, secp384r1.
    case p384 = "P-384"
    /// NIST's curve of 521 bits, secp521r1.
    case p521 = "P-521"

    /// `rawValue` for lines of a log.
    package var name: StaticString {
        switch self {
        case .x25519MLKEM768: "X25519MLKEM768"
        case .x25519: "X25519"
        case .p256: "P-256"
        case .p384: "P-384"
        case .p521: "P-521"
        }
    }

    /// Whether this OpenSSL has it.
    package var isAvailable: Bool { Self.available.contains(self) }

    private static let available: [TLSGroup] = OpenSSLError.keepingQueueClean {
        guard let context = SSL_CTX_new(TLS_client_method()) else { return [] }
        defer { SSL_CTX_free(context) }
        return allCases.filter { pinproxy_ssl_ctx_require_groups(context, $0.rawValue) == 1 }
    }

    /// `OpenSSL 3.0.19 27 Jan 2026`
    static var library: String { OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "OpenSSL" }

    /// OpenSSL's list of groups (SSL_CTX_set1_groups_list(3)).
    static func list(_ groups: [TLSGroup]) -> String { groups.map(\.rawValue).joined(separator: ":") }

    /// The group that a connection's key exchange was agreed on.
    ///
    /// - Returns: nil before that, and for a key exchange without one: RSA, or Diffie-Hellman with a modulus of the server's.
    init?(negotiatedBy ssl: OpaquePointer) {
        guard let name = pinproxy_ssl_group(ssl) else { return nil }
        // TLS's own names for the curves of NIST (RFC 8422, section 5.1.1), of which OpenSSL has several spellings.
        switch String(cString: name).lowercased() {
        case "secp256r1", "prime256v1", "p-256": self = .p256
        case "secp384r1", "p-384": self = .p384
        case "secp521r1", "p-521": self = .p521
        case "x25519": self = .x25519
        case "x25519mlkem768": self = .x25519MLKEM768
        default: return nil
        }
    }
}
