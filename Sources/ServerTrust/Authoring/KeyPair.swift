// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// A key pair, made here: for the demo, for the local CA, for tests.
///
/// - Note: `Sendable` because the `EVP_PKEY` is not changed after the initialiser; using it takes OpenSSL's own locks,
///   and its reference count is atomic.
package final class KeyPair: @unchecked Sendable {
    package enum Kind: Hashable, Sendable {
        case rsa(bits: Int)
        /// A key that is bound to PSS signatures (id-RSASSA-PSS): its SubjectPublicKeyInfo differs from `rsa`'s.
        case rsaPSS(bits: Int)
        case p256, p384, p521
        case ed25519
    }

    let pointer: OpaquePointer
    package let kind: Kind
    /// SHA-256 over the public half's SubjectPublicKeyInfo.
    package let pin: PublicKeyPin

    /// Makes a key: microseconds for elliptic curves, up to seconds for long RSA keys.
    package init(_ kind: Kind) throws(OpenSSLError) {
        let algorithm =
            switch kind {
            case .rsa: "RSA"
            case .rsaPSS: "RSA-PSS"
            case .p256, .p384, .p521: "EC"
            case .ed25519: "ED25519"
            }
        guard let context = EVP_PKEY_CTX_new_from_name(nil, algorithm, nil) else {
            throw OpenSSLError(draining: "EVP_PKEY_CTX_new_from_name")
        }
        defer { EVP_PKEY_CTX_free(context) }
        guard EVP_PKEY_keygen_init(context) == 1 else { throw OpenSSLError(draining: "EVP_PKEY_keygen_init") }
        let isSet =
            switch kind {
            case .rsa(let bits), .rsaPSS(let bits): EVP_PKEY_CTX_set_rsa_keygen_bits(context, Int32(bits))
            case .p256: EVP_PKEY_CTX_set_group_name(context, "P-256")
            case .p384: EVP_PKEY_CTX_set_group_name(context, "P-384")
            case .p521: EVP_PKEY_CTX_set_group_name(context, "P-521")
            case .ed25519: Int32(1)
            }
        var key: OpaquePointer?
        guard isSet == 1, EVP_PKEY_generate(context, &key) == 1, let key else {
            throw OpenSSLError(draining: "EVP_PKEY_generate")
        }
        pointer = key
        self.kind = kind
        pin = PublicKey.pin(of: key)
    }

    /// Takes over a key that was read, if this type can also generate keys of its kind.
    convenience init(_ key: PrivateKey) throws(CertificateFault) {
        let kind: Kind? =
            switch PublicKey.describe(key.pointer) {
            case "EC P-256": .p256
            case "EC P-384": .p384
            case "EC P-521": .p521
            case "Ed25519": .ed25519
            case let text where text.hasPrefix("RSA "): .rsa(bits: Int(EVP_PKEY_get_bits(key.pointer)))
            default: nil
            }
        guard let kind else {
            throw CertificateFault("a key of an unusual kind", remedy: "name a key that pinproxy ca init has made")
        }
        self.init(key, kind)
    }

    private init(_ key: PrivateKey, _ kind: Kind) {
        EVP_PKEY_up_ref(key.pointer)
        pointer = key.pointer
        self.kind = kind
        pin = PublicKey.pin(of: key.pointer)
    }

    deinit { EVP_PKEY_free(pointer) }

    /// PKCS #8, unprotected, in PEM. Write it to files of mode 0600 only.
    package var privateKeyPEM: String {
        MemoryBIO.text { PEM_write_bio_PKCS8PrivateKey($0, pointer, nil, nil, 0, nil, nil) }
    }

    /// PKCS #8 in PEM, protected by a password (AES-256-CBC).
    package func privateKeyPEM(password: String) -> String {
        var bytes = password.utf8.map { CChar(bitPattern: $0) }
        return MemoryBIO.text { bio in
            PEM_write_bio_PKCS8PrivateKey(bio, pointer, EVP_aes_256_cbc(), &bytes, Int32(bytes.count), nil, nil)
        }
    }

    /// PKCS #8, unprotected, in DER.
    package var privateKeyDER: [UInt8] {
        MemoryBIO.bytes { i2d_PKCS8PrivateKey_bio($0, pointer, nil, nil, 0, nil, nil) }
    }

    /// SubjectPublicKeyInfo in PEM.
    package var publicKeyPEM: String { MemoryBIO.text { PEM_write_bio_PUBKEY($0, pointer) } }

    /// SubjectPublicKeyInfo in DER.
    package var publicKeyDER: [UInt8] { MemoryBIO.bytes { i2d_PUBKEY_bio($0, pointer) } }

    /// A certificate request (PKCS #10) in PEM.
    package func certificateRequestPEM(commonName: String) throws(OpenSSLError) -> String {
        guard let request = X509_REQ_new() else { throw OpenSSLError(draining: "X509_REQ_new") }
        defer { X509_REQ_free(request) }
        guard X509_REQ_set_pubkey(request, pointer) == 1,
            let name = X509_REQ_get_subject_name(request),
            X509_NAME_add_entry_by_txt(
                name,
                "CN",
                MBSTRING_FLAG,
                Array(commonName.utf8),
                Int32(commonName.utf8.count),
                -1,
                0
            ) == 1,
            X509_REQ_sign(request, pointer, signatureDigest("SHA256")) > 0
        else { throw OpenSSLError(draining: "X509_REQ_sign") }
        return MemoryBIO.text { PEM_write_bio_X509_REQ($0, request) }
    }

    /// The digest for signing with this key; Ed25519 takes none.
    func signatureDigest(_ name: String) -> OpaquePointer? {
        kind == .ed25519 ? nil : EVP_get_digestbyname(name)
    }
}
