// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims

/// A trust store for Java: certificates as PKCS #12 (RFC 7292).
package enum TrustStore {
    /// Java takes a certificate without a key for an anchor only where this attribute says for what (anything).
    private static let trustedKeyUsage = "2.16.840.1.113894.746875.1.1"
    private static let anyExtendedKeyUsage = "2.5.29.37.0"

    /// - Parameter password: protects against damage, not against readers: certificates are not secret, and not encrypted.
    package static func pkcs12(_ certificates: [Certificate], password: String) throws(OpenSSLError) -> [UInt8] {
        var bags: OpaquePointer?
        defer { free(bags) { PKCS12_SAFEBAG_free($0) } }
        guard let usage = OBJ_txt2obj(anyExtendedKeyUsage, 1) else { throw OpenSSLError(draining: "OBJ_txt2obj") }
        defer { ASN1_OBJECT_free(usage) }
        for (number, certificate) in certificates.enumerated() {
            guard let bag = PKCS12_add_cert(&bags, certificate.pointer),
                PKCS12_add_friendlyname_utf8(bag, "anchor \(number)", -1) == 1,
                PKCS12_add1_attr_by_txt(bag, trustedKeyUsage, V_ASN1_OBJECT, bytes(usage), -1) == 1
            else { throw OpenSSLError(draining: "PKCS12_add_cert") }
        }
        var safes: OpaquePointer?
        defer { free(safes) { PKCS7_free($0.map { UnsafeMutablePointer<PKCS7>($0) }) } }
        // -1: not encrypted.
        guard PKCS12_add_safe(&safes, bags, -1, 0, nil) == 1, let store = PKCS12_add_safes(safes, 0) else {
            throw OpenSSLError(draining: "PKCS12_add_safes")
        }
        defer { PKCS12_free(store) }
        guard PKCS12_set_mac(store, password, -1, nil, 0, 2048, EVP_sha256()) == 1 else {
            throw OpenSSLError(draining: "PKCS12_set_mac")
        }
        var encoded: UnsafeMutablePointer<UInt8>?
        let length = i2d_PKCS12(store, &encoded)
        guard length > 0, let encoded else { throw OpenSSLError(draining: "i2d_PKCS12") }
        defer { pinproxy_openssl_free(encoded) }
        return Array(UnsafeBufferPointer(start: encoded, count: Int(length)))
    }

    /// The object in the form in which X509_ATTRIBUTE_set1_data(3) takes it where the length is -1.
    private static func bytes(_ object: OpaquePointer) -> UnsafePointer<UInt8> {
        UnsafeRawPointer(object).assumingMemoryBound(to: UInt8.self)
    }

    private static func free(_ stack: OpaquePointer?, _ release: (OpaquePointer?) -> Void) {
        while let element = OPENSSL_sk_pop(stack) { release(OpaquePointer(element)) }
        OPENSSL_sk_free(stack)
    }
}
