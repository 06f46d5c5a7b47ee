// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// What a TLS handshake offers to a server beside the versions and groups: the cipher suites of TLS 1.2. Those of TLS 1.3 are
/// part of each profile.
public enum TLSProfile: String, Sendable, CaseIterable {
    /// A key exchange on an elliptic curve (ECDHE), and authenticated encryption (AES-GCM, ChaCha20).
    case modern
    /// Also a key exchange by the server's RSA key, without forward secrecy, and AES-CBC.
    case compatible
    /// Also Diffie-Hellman in a finite field (DHE), with a modulus of 2,048 to 4,096 bits.
    case legacy

    /// The profiles that offer more than this one, the nearest first.
    package var wider: [TLSProfile] { Array(Self.allCases.drop { $0 != self }.dropFirst()) }

    /// The part of its cipher suites whose key exchange is on a group (SSL_CTX_set_cipher_list(3)).
    var ciphersWithGroups: String { self == .modern ? Self.modernCiphers : "\(Self.modernCiphers):ECDHE+AES\(Self.no)" }

    var ciphers: String {
        switch self {
        case .modern: Self.modernCiphers
        case .compatible: "\(Self.modernCiphers):ECDHE+AES:kRSA+AESGCM:kRSA+AES\(Self.no)"
        case .legacy:
            "\(Self.modernCiphers):DHE+AESGCM:DHE+CHACHA20:ECDHE+AES:DHE+AES:kRSA+AESGCM:kRSA+AES\(Self.no):!aDSS"
        }
    }

    /// Whether a server has chosen what `modern` offers: TLS 1.3, or ECDHE with authenticated encryption.
    ///
    /// - Parameter ssl: an `SSL *` of a client, after the server's hello.
    static func isModern(_ ssl: OpaquePointer) -> Bool {
        if SSL_version(ssl) == TLS1_3_VERSION { return true }
        guard let cipher = SSL_get_pending_cipher(ssl) else { return false }
        return SSL_CIPHER_is_aead(cipher) == 1 && SSL_CIPHER_get_kx_nid(cipher) == NID_kx_ecdhe
    }

    private static let modernCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20"
    private static let no = ":!AESCCM:!AESCCM8:!aNULL:!PSK:!SRP"
}
