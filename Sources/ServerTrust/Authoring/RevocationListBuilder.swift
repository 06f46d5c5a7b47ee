// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// Makes certificate revocation lists (RFC 5280, section 5).
package struct RevocationListBuilder: Sendable {
    /// Seconds since 1970.
    package var thisUpdate: Int64
    /// `nil` leaves it out.
    package var nextUpdate: Int64?
    package var revoked: [Certificate] = []
    package var signatureDigest = "SHA256"
    /// The list's own extensions that are marked critical.
    package var criticalExtensions: [CriticalExtension] = []

    /// The list's number (RFC 5280, section 5.2.3); nil leaves it out.
    package var number: Int64?
    /// The issuing distribution point as X509V3_EXT_nconf_nid(3) reads it, as in `fullname:URI:http://…` or `onlyuser:TRUE`; nil
    /// leaves it out.
    package var issuingDistributionPoint: String?

    package enum CriticalExtension: Sendable {
        /// The delta CRL indicator (RFC 5280, section 5.2.4): the number of the list that this one changes.
        case delta(base: Int64)
        /// An unknown extension.
        case unknown
    }

    package init(validity: Range<Int64>, revoked: [Certificate] = []) {
        thisUpdate = validity.lowerBound
        nextUpdate = validity.upperBound
        self.revoked = revoked
    }

    /// The list in PEM, signed by the certificates' issuer.
    package func pem(issuer: Identity) throws(OpenSSLError) -> String {
        let list = try signed(by: issuer)
        defer { X509_CRL_free(list) }
        return MemoryBIO.text { PEM_write_bio_X509_CRL($0, list) }
    }

    /// The list in DER, as it is published.
    package func der(issuer: Identity) throws(OpenSSLError) -> [UInt8] {
        let list = try signed(by: issuer)
        defer { X509_CRL_free(list) }
        return MemoryBIO.bytes { i2d_X509_CRL_bio($0, list) }
    }

    private func signed(by issuer: Identity) throws(OpenSSLError) -> OpaquePointer {
        guard let list = X509_CRL_new() else { throw OpenSSLError(draining: "X509_CRL_new") }
        do throws(OpenSSLError) {
            try fill(list, issuer)
            return list
        } catch {
            X509_CRL_free(list)
            throw error
        }
    }

    private func fill(_ list: OpaquePointer, _ issuer: Identity) throws(OpenSSLError) {
        guard X509_CRL_set_version(list, 1) == 1,
            X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.certificate.pointer)) == 1
        else { throw OpenSSLError(draining: "X509_CRL_set_issuer_name") }
        let this = ASN1_TIME_set(nil, Int(thisUpdate))
        let next = nextUpdate.flatMap { ASN1_TIME_set(nil, Int($0)) }
        defer {
            ASN1_STRING_free(this)
            ASN1_STRING_free(next)
        }
        guard X509_CRL_set1_lastUpdate(list, this) == 1, next == nil || X509_CRL_set1_nextUpdate(list, next) == 1 else {
            throw OpenSSLError(draining: "X509_CRL_set1_lastUpdate")
        }
        for certificate in revoked {
            guard let entry = X509_REVOKED_new() else { throw OpenSSLError(draining: "X509_REVOKED_new") }
            guard X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate.pointer)) == 1,
                X509_REVOKED_set_revocationDate(entry, this) == 1,
                X509_CRL_add0_revoked(list, entry) == 1
            else {
                X509_REVOKED_free(entry)
                throw OpenSSLError(draining: "X509_CRL_add0_revoked")
            }
        }
        for part in criticalExtensions { try RevocationListBuilder.add(part, to: list) }
        if let number { try RevocationListBuilder.add(NID_crl_number, number, isCritical: false, to: list) }
        if let issuingDistributionPoint {
            try RevocationListBuilder.add(
                NID_issuing_distribution_point,
                "critical,\(issuingDistributionPoint)",
                to: list
            )
        }
        guard X509_CRL_sort(list) == 1,
            X509_CRL_sign(list, issuer.key.pointer, issuer.key.signatureDigest(signatureDigest)) > 0
        else { throw OpenSSLError(draining: "X509_CRL_sign") }
    }

    private static func add(
        _ identifier: Int32,
        _ value: Int64,
        isCritical: Bool,
        to list: OpaquePointer
    ) throws(OpenSSLError) {
        guard let number = ASN1_INTEGER_new() else { throw OpenSSLError(draining: "ASN1_INTEGER_new") }
        defer { ASN1_STRING_free(number) }
        guard ASN1_INTEGER_set_int64(number, value) == 1,
            X509_CRL_add1_ext_i2d(list, identifier, UnsafeMutableRawPointer(number), isCritical ? 1 : 0, 0) == 1
        else { throw OpenSSLError(draining: "X509_CRL_add1_ext_i2d") }
    }

    private static func add(_ identifier: Int32, _ value: String, to list: OpaquePointer) throws(OpenSSLError) {
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, nil, nil, nil, list, 0)
        guard let part = X509V3_EXT_nconf_nid(nil, &context, identifier, value) else {
            throw OpenSSLError(draining: "X509V3_EXT_nconf_nid")
        }
        defer { X509_EXTENSION_free(part) }
        guard X509_CRL_add_ext(list, part, -1) == 1 else { throw OpenSSLError(draining: "X509_CRL_add_ext") }
    }

    private static func add(_ part: CriticalExtension, to list: OpaquePointer) throws(OpenSSLError) {
        switch part {
        case .delta(let base): try add(NID_delta_crl, base, isCritical: true, to: list)
        case .unknown:
            // An arc that is reserved for examples (2.999), with a NULL for its value.
            let value = ASN1_OCTET_STRING_new()
            defer { ASN1_STRING_free(value) }
            let object = OBJ_txt2obj("2.999.1", 1)
            defer { ASN1_OBJECT_free(object) }
            guard ASN1_STRING_set(value, [5, 0] as [UInt8], 2) == 1,
                let made = X509_EXTENSION_create_by_OBJ(nil, object, 1, value)
            else { throw OpenSSLError(draining: "X509_EXTENSION_create_by_OBJ") }
            defer { X509_EXTENSION_free(made) }
            guard X509_CRL_add_ext(list, made, -1) == 1 else { throw OpenSSLError(draining: "X509_CRL_add_ext") }
        }
    }
}
