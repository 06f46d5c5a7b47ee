import COpenSSL

/// Makes certificate revocation lists (RFC 5280, section 5).
package struct RevocationListBuilder: Sendable {
    /// Seconds since 1970.
    package var thisUpdate: Int64
    package var nextUpdate: Int64
    package var revoked: [Certificate] = []

    package init(validity: Range<Int64>, revoked: [Certificate] = []) {
        thisUpdate = validity.lowerBound
        nextUpdate = validity.upperBound
        self.revoked = revoked
    }

    /// The list in PEM, signed by the certificates' issuer.
    package func pem(issuer: Identity) throws(OpenSSLError) -> String {
        guard let list = X509_CRL_new() else { throw OpenSSLError(draining: "X509_CRL_new") }
        defer { X509_CRL_free(list) }
        guard X509_CRL_set_version(list, 1) == 1,
            X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.certificate.pointer)) == 1
        else { throw OpenSSLError(draining: "X509_CRL_set_issuer_name") }
        let this = ASN1_TIME_set(nil, Int(thisUpdate))
        let next = ASN1_TIME_set(nil, Int(nextUpdate))
        defer {
            ASN1_STRING_free(this)
            ASN1_STRING_free(next)
        }
        guard X509_CRL_set1_lastUpdate(list, this) == 1, X509_CRL_set1_nextUpdate(list, next) == 1 else {
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
        guard X509_CRL_sort(list) == 1,
            X509_CRL_sign(list, issuer.key.pointer, issuer.key.signatureDigest("SHA256")) > 0
        else { throw OpenSSLError(draining: "X509_CRL_sign") }
        return MemoryBIO.text { PEM_write_bio_X509_CRL($0, list) }
    }
}
