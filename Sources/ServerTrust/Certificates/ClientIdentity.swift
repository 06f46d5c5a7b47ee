import COpenSSL

/// A client certificate with its private key, shown to servers that ask for one.
///
/// - Note: `Sendable` because certificate and key are only read after the initialiser (using a key takes OpenSSL's own
///   locks), and their reference counts are atomic.
public final class ClientIdentity: @unchecked Sendable {
    /// The certificate, then what the server needs to build its chain.
    public let certificates: [Certificate]
    let key: OpaquePointer
    let intermediates: CertificateStack

    /// Reads certificate and key.
    ///
    /// - Parameters:
    ///   - certificate: PEM (the certificate first, then its intermediates) or DER.
    ///   - privateKey: PEM or DER, without a password.
    public init(certificate: [UInt8], privateKey: [UInt8]) throws(CertificateFault) {
        let certificates = try Certificate.certificates(in: certificate)
        let key = try ClientIdentity.read(privateKey)
        guard X509_check_private_key(certificates[0].pointer, key) == 1 else {
            EVP_PKEY_free(key)
            throw CertificateFault(
                "certificate and key do not belong together",
                remedy: "name the key of the file's first certificate",
                underlying: OpenSSLError(draining: "X509_check_private_key")
            )
        }
        self.certificates = certificates
        self.key = key
        intermediates = CertificateStack(Array(certificates.dropFirst()))
    }

    deinit { EVP_PKEY_free(key) }

    private static func read(_ bytes: [UInt8]) throws(CertificateFault) -> OpaquePointer {
        let sections = try PEMSection.sections(in: bytes)
        let keys = sections?.filter { $0.label.hasSuffix("PRIVATE KEY") }
        if keys?.contains(where: { $0.isEncrypted || $0.label == "ENCRYPTED PRIVATE KEY" }) ?? false {
            throw CertificateFault(
                "the private key is protected by a password",
                remedy: "store it without one, readable for this process's user alone"
            )
        }
        let der = keys == nil ? bytes : keys?.count == 1 ? keys?[0].der : nil
        let key = der?.withUnsafeBufferPointer { raw -> OpaquePointer? in
            var place = raw.baseAddress
            return d2i_AutoPrivateKey(nil, &place, raw.count)
        }
        guard let key else {
            throw CertificateFault(
                "no single private key in PEM or DER",
                remedy: "name a file that holds one private key",
                underlying: OpenSSLError(draining: "d2i_AutoPrivateKey")
            )
        }
        return key
    }
}
