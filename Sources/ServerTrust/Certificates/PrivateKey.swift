// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// A private key that was read from a file, or made here.
///
/// - Note: `Sendable` because the `EVP_PKEY` is only used after the initialiser, which takes OpenSSL's own locks, and
///   its reference count is atomic.
final class PrivateKey: @unchecked Sendable {
    /// An owned reference to an `EVP_PKEY`.
    let pointer: OpaquePointer

    /// Adds a reference of its own.
    init(retaining pointer: OpaquePointer) {
        EVP_PKEY_up_ref(pointer)
        self.pointer = pointer
    }

    /// Reads one key in PEM or DER, without a password.
    init(reading bytes: [UInt8]) throws(CertificateFault) {
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
            var cursor = raw.baseAddress
            return d2i_AutoPrivateKey(nil, &cursor, raw.count)
        }
        guard let key else {
            throw CertificateFault(
                "no single private key in PEM or DER",
                remedy: "name a file that holds one private key",
                underlying: OpenSSLError(draining: "d2i_AutoPrivateKey")
            )
        }
        pointer = key
    }

    deinit { EVP_PKEY_free(pointer) }

    /// Refuses a certificate with another public key.
    func check(belongsTo certificate: Certificate) throws(CertificateFault) {
        guard X509_check_private_key(certificate.pointer, pointer) == 1 else {
            throw CertificateFault(
                "certificate and key do not belong together",
                remedy: "name the key of the file's first certificate",
                underlying: OpenSSLError(draining: "X509_check_private_key")
            )
        }
    }
}
