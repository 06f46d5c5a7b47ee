// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import StrictJSON

/// A public key for the computation of pins, read from a certificate, a certificate request, a public key or a private
/// key.
public struct PublicKey: Sendable {
    /// The kind of object that the key was read from.
    public enum Source: String, Sendable {
        /// A certificate (X.509), a request (PKCS #10), a SubjectPublicKeyInfo, or a private key (PKCS #8 or older).
        case certificate, certificateRequest, publicKey, privateKey
    }

    /// The kind of object that the key was read from.
    public let source: Source
    /// SHA-256 over the key's whole SubjectPublicKeyInfo.
    public let pin: PublicKeyPin
    /// Kind and size, as in `EC P-256`.
    public let keyDescription: String
    /// The subject of a certificate or request; empty for a bare key.
    public let subject: String

    /// Every key in a file: PEM with any number of blocks, or one object in DER; the content decides which.
    ///
    /// Only the public half of a private key is kept. A password-protected key is refused: this program never asks for
    /// a password.
    public static func keys(in bytes: [UInt8]) throws(CertificateFault) -> [PublicKey] {
        guard let sections = try PEMSection.sections(in: bytes) else { return [try fromDER(bytes)] }
        var keys: [PublicKey] = []
        for section in sections {
            if let key = try fromPEM(section) { keys.append(key) }
        }
        guard !keys.isEmpty else {
            throw CertificateFault("no certificate, request or key in it", remedy: "name a file that holds one")
        }
        return keys
    }

    private static func fromPEM(_ section: PEMSection) throws(CertificateFault) -> PublicKey? {
        switch section.label {
        case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE":
            return PublicKey(try Certificate(der: section.der))
        case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST":
            if let key = fromRequest(section.der) { return key }
        case "PUBLIC KEY":
            if let key = fromPublicKey(section.der) { return key }
        case "EC PARAMETERS", "DH PARAMETERS":
            // `openssl ecparam -genkey` writes them before the key.
            return nil
        case "ENCRYPTED PRIVATE KEY":
            throw encrypted
        case let label where label.hasSuffix("PRIVATE KEY"):
            if section.isEncrypted { throw encrypted }
            if let key = fromPrivateKey(section.der) { return key }
        default:
            throw CertificateFault(
                "a PEM block \"\(LegibleText.excerpt(section.label))\" that holds no key",
                remedy: "name a certificate, a request, or a key"
            )
        }
        throw CertificateFault(
            "the block \"\(LegibleText.excerpt(section.label))\" cannot be decoded",
            remedy: "export it again",
            underlying: OpenSSLError(draining: "PEM")
        )
    }

    private static var encrypted: CertificateFault {
        CertificateFault(
            "a private key that is protected by a password",
            remedy: "name the certificate, or the public key (openssl pkey -in KEY -pubout)"
        )
    }

    private static func fromDER(_ bytes: [UInt8]) throws(CertificateFault) -> PublicKey {
        // Each decoder leaves errors in the queue for input of another format.
        let key = OpenSSLError.keepingQueueClean { () -> PublicKey? in
            if let certificate = try? Certificate(der: bytes) { return PublicKey(certificate) }
            return fromRequest(bytes) ?? fromPublicKey(bytes) ?? fromPrivateKey(bytes)
        }
        if let key { return key }
        let isEncrypted = OpenSSLError.keepingQueueClean {
            bytes.withUnsafeBufferPointer { raw -> Bool in
                var cursor = raw.baseAddress
                guard let box = d2i_X509_SIG(nil, &cursor, raw.count) else { return false }
                X509_SIG_free(box)
                return true
            }
        }
        if isEncrypted { throw encrypted }
        throw CertificateFault(
            "neither PEM nor DER of a certificate, a request or a key",
            remedy: "name a file that holds one of them"
        )
    }

    private init(_ certificate: Certificate) {
        source = .certificate
        pin = certificate.publicKeyPin
        keyDescription = certificate.keyDescription
        subject = certificate.subject
    }

    private init(source: Source, key: OpaquePointer, pin: PublicKeyPin, subject: String = "") {
        self.source = source
        self.pin = pin
        self.keyDescription = PublicKey.describe(key)
        self.subject = subject
    }

    private static func fromRequest(_ der: [UInt8]) -> PublicKey? {
        der.withUnsafeBufferPointer { raw in
            var cursor = raw.baseAddress
            guard let request = d2i_X509_REQ(nil, &cursor, raw.count) else { return nil }
            defer { X509_REQ_free(request) }
            guard let key = X509_REQ_get0_pubkey(request) else { return nil }
            return PublicKey(
                source: .certificateRequest,
                key: key,
                pin: Certificate.pin(of: X509_REQ_get_X509_PUBKEY(request)),
                subject: Certificate.text(of: X509_REQ_get_subject_name(request))
            )
        }
    }

    private static func fromPublicKey(_ der: [UInt8]) -> PublicKey? {
        der.withUnsafeBufferPointer { raw in
            var cursor = raw.baseAddress
            guard let key = d2i_PUBKEY(nil, &cursor, raw.count) else { return nil }
            defer { EVP_PKEY_free(key) }
            return PublicKey(source: .publicKey, key: key, pin: PublicKey.pin(of: key))
        }
    }

    private static func fromPrivateKey(_ der: [UInt8]) -> PublicKey? {
        der.withUnsafeBufferPointer { raw in
            var cursor = raw.baseAddress
            guard let key = d2i_AutoPrivateKey(nil, &cursor, raw.count) else { return nil }
            defer { EVP_PKEY_free(key) }
            return PublicKey(source: .privateKey, key: key, pin: PublicKey.pin(of: key))
        }
    }

    static func pin(of key: OpaquePointer) -> PublicKeyPin {
        let bytes = MemoryBIO.bytes { i2d_PUBKEY_bio($0, key) }
        return PublicKeyPin(subjectPublicKeyInfo: bytes)
    }

    /// Kind and size of a key in the usual notation.
    static func describe(_ key: OpaquePointer) -> String {
        let bits = EVP_PKEY_get_bits(key)
        guard let name = EVP_PKEY_get0_type_name(key).map({ String(cString: $0) }) else { return "unknown key" }
        switch name {
        case "EC":
            var group = [CChar](repeating: 0, count: 64)
            var length = 0
            guard EVP_PKEY_get_group_name(key, &group, group.count, &length) == 1 else { return "EC \(bits)" }
            let curve = String(decoding: group.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let usual = ["prime256v1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"]
            return "EC " + (usual[curve] ?? curve)
        case "RSA", "RSA-PSS":
            return "\(name) \(bits)"
        case "ED25519": return "Ed25519"
        case "ED448": return "Ed448"
        default: return name
        }
    }
}
