// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims

/// A certificate with its private key: it signs other certificates, or serves TLS.
package struct Identity: Sendable {
    package var certificate: Certificate
    package var key: KeyPair

    package init(certificate: Certificate, key: KeyPair) {
        self.certificate = certificate
        self.key = key
    }
}

/// Makes certificates for the demo, for the local CA, and for tests, which also need unusual ones.
///
/// The defaults make a server certificate by the usual rules; `authority` makes one that signs others.
package struct CertificateBuilder: Sendable {
    /// A subject alternative name to be written.
    package enum Name: Hashable, Sendable {
        case dns(String)
        /// The bytes are written unchanged: for tests of invalid names.
        case dnsBytes([UInt8])
        /// A textual IPv4 or IPv6 address.
        case ip(String)
        case uri(String)
        case email(String)
    }

    /// The text of a time, and the type (RFC 5280, section 4.1.2.5) that it is marked as.
    package enum RawTime: Hashable, Sendable {
        case utc(String)
        case generalized(String)
    }

    /// The subject's attributes in order, by OpenSSL's short names (`CN`, `O`).
    package var subject: [(attribute: String, value: String)] = []
    package var names: [Name] = []
    /// Seconds since 1970.
    package var notBefore: Int64
    package var notAfter: Int64
    /// Times that are written unchanged, in the place of the two above: for tests of times that are none.
    package var rawNotBefore: RawTime?
    package var rawNotAfter: RawTime?
    package var isCA = false
    /// The path length: how many more CAs may follow below it; `nil` writes no limit.
    package var pathLength: Int?
    /// Whether the basic constraints are written at all.
    var writesBasicConstraints = true
    /// Whether subject and authority key identifiers are written.
    package var writesKeyIdentifiers = true
    /// OpenSSL's short names; empty leaves the extension out. `nil` takes the values that fit a CA or a server.
    package var keyUsage: [String]?
    /// `serverAuth`, `clientAuth` and so on; empty leaves the extension out.
    package var extendedKeyUsage = ["serverAuth"]
    /// The URI of an OCSP responder; nil writes none.
    package var ocspResponder: String?
    /// The URIs of revocation lists, each a distribution point of its own.
    package var distributionPoints: [String] = []
    /// DNS names and their subdomains that a CA's certificates may hold; empty permits all.
    package var permittedNames: [String] = []
    /// DNS names that a CA's certificates must not hold.
    package var excludedNames: [String] = []
    /// The same for IP addresses: an address and a mask, as in `10.0.0.0/255.0.0.0`.
    package var permittedAddresses: [String] = []
    package var excludedAddresses: [String] = []
    /// E-mail addresses' hosts, and hosts of URIs, that a CA's certificates may hold; empty writes no constraint for
    /// them.
    var permittedEmailHosts: [String] = []
    var permittedURIHosts: [String] = []
    /// The name constraints as DER, instead of the lists above: for constraints that the lists cannot express.
    package var rawNameConstraints: [UInt8]?
    /// `nil` draws 127 random bits.
    package var serialNumber: UInt64?
    /// In hexadecimal digits, possibly with a minus: for tests of numbers that are none.
    package var rawSerialNumber: String?
    /// Whether the subject alternative names are critical; nil marks them where there is no subject (RFC 5280, section 4.2.1.6).
    package var namesAreCritical: Bool?
    /// Further extensions by OpenSSL's short names, with values as in its configuration files (x509v3_config(5)).
    package var otherExtensions: [(name: String, value: String)] = []
    package var signatureDigest = "SHA256"

    /// A server certificate for host names and IP addresses; the form of each name tells which it is.
    ///
    /// - Parameter validity: seconds since 1970.
    package static func server(hosts: [String], validity: Range<Int64>) -> CertificateBuilder {
        var builder = CertificateBuilder(validity: validity)
        builder.subject = [("CN", hosts.first ?? "server")]
        builder.names = hosts.map { isAddress($0) ? .ip($0) : .dns($0) }
        return builder
    }

    /// A certificate that signs others.
    package static func authority(_ commonName: String, validity: Range<Int64>) -> CertificateBuilder {
        var builder = CertificateBuilder(validity: validity)
        builder.subject = [("CN", commonName)]
        builder.isCA = true
        builder.extendedKeyUsage = []
        return builder
    }

    package init(validity: Range<Int64>) {
        notBefore = validity.lowerBound
        notAfter = validity.upperBound
    }

    /// Makes the certificate of `key`.
    ///
    /// - Parameter issuer: the signer; `nil` makes a self-signed certificate.
    package func certificate(for key: KeyPair, issuer: Identity? = nil) throws(OpenSSLError) -> Certificate {
        guard let draft = X509_new() else { throw OpenSSLError(draining: "X509_new") }
        do throws(OpenSSLError) {
            try fill(draft, key, issuer)
            let signer = issuer?.key ?? key
            guard X509_sign(draft, signer.pointer, signer.signatureDigest(signatureDigest)) > 0 else {
                throw OpenSSLError(draining: "X509_sign")
            }
        } catch {
            X509_free(draft)
            throw error
        }
        // Decoded again, so that the certificate is exactly what was written, without state that is left from building
        // it.
        let der = Certificate(owning: draft).derBytes
        do {
            return try Certificate(der: der)
        } catch {
            throw error.underlying ?? OpenSSLError(draining: "d2i_X509")
        }
    }

    /// Makes a key and its certificate.
    package func identity(_ kind: KeyPair.Kind = .p256, issuer: Identity? = nil) throws(OpenSSLError) -> Identity {
        let key = try KeyPair(kind)
        return Identity(certificate: try certificate(for: key, issuer: issuer), key: key)
    }

    // MARK: - Filling in

    private func fill(_ draft: OpaquePointer, _ key: KeyPair, _ issuer: Identity?) throws(OpenSSLError) {
        guard X509_set_version(draft, 2) == 1, X509_set_pubkey(draft, key.pointer) == 1 else {
            throw OpenSSLError(draining: "X509_set_pubkey")
        }
        try setSerialNumber(draft)
        try setSubject(draft)
        let issuerName = X509_get_subject_name(issuer?.certificate.pointer ?? draft)
        guard X509_set_issuer_name(draft, issuerName) == 1 else { throw OpenSSLError(draining: "X509_set_issuer_name") }
        try setTime(draft, notBefore, rawNotBefore, X509_set1_notBefore)
        try setTime(draft, notAfter, rawNotAfter, X509_set1_notAfter)
        try addExtensions(draft, issuer?.certificate.pointer ?? draft, key)
        try addNames(draft)
    }

    private func setSerialNumber(_ draft: OpaquePointer) throws(OpenSSLError) {
        guard let number = BN_new() else { throw OpenSSLError(draining: "BN_new") }
        defer { BN_free(number) }
        var target: OpaquePointer? = number
        let isSet =
            if let rawSerialNumber {
                BN_hex2bn(&target, rawSerialNumber) > 0 ? Int32(1) : 0
            } else if let serialNumber {
                BN_set_word(number, UInt(serialNumber))
            } else {
                BN_rand(number, 127, Int32(BN_RAND_TOP_ANY), Int32(BN_RAND_BOTTOM_ANY))
            }
        guard isSet == 1, BN_to_ASN1_INTEGER(number, X509_get_serialNumber(draft)) != nil else {
            throw OpenSSLError(draining: "BN_to_ASN1_INTEGER")
        }
    }

    private func setSubject(_ draft: OpaquePointer) throws(OpenSSLError) {
        let name = X509_get_subject_name(draft)
        for (attribute, value) in subject {
            let bytes = Array(value.utf8)
            guard
                X509_NAME_add_entry_by_txt(name, attribute, MBSTRING_FLAG, bytes, Int32(bytes.count), -1, 0) == 1
            else { throw OpenSSLError(draining: "X509_NAME_add_entry_by_txt") }
        }
    }

    private func setTime(
        _ draft: OpaquePointer,
        _ seconds: Int64,
        _ raw: RawTime?,
        _ set: (OpaquePointer?, pinproxy_const_asn1?) -> Int32
    ) throws(OpenSSLError) {
        guard let time = raw.map(CertificateBuilder.time) ?? ASN1_TIME_set(nil, Int(seconds)) else {
            throw OpenSSLError(draining: "ASN1_TIME_set")
        }
        defer { ASN1_STRING_free(time) }
        guard set(draft, time) == 1 else { throw OpenSSLError(draining: "X509_set1_notBefore") }
    }

    private static func time(_ raw: RawTime) -> pinproxy_asn1? {
        let (type, text) =
            switch raw {
            case .utc(let text): (V_ASN1_UTCTIME, text)
            case .generalized(let text): (V_ASN1_GENERALIZEDTIME, text)
            }
        let bytes = Array(text.utf8)
        guard let time = ASN1_STRING_type_new(type) else { return nil }
        ASN1_STRING_set(time, bytes, Int32(bytes.count))
        return time
    }

    private func addExtensions(
        _ draft: OpaquePointer,
        _ issuer: OpaquePointer,
        _ key: KeyPair
    ) throws(OpenSSLError) {
        if writesBasicConstraints {
            let length = pathLength.map { ",pathlen:\($0)" } ?? ""
            try add(NID_basic_constraints, isCA ? "critical,CA:TRUE\(length)" : "CA:FALSE", draft, issuer)
        }
        let usage = keyUsage ?? (isCA ? ["keyCertSign", "cRLSign"] : CertificateBuilder.serverUsage(key.kind))
        if !usage.isEmpty {
            try add(NID_key_usage, (["critical"] + usage).joined(separator: ","), draft, issuer)
        }
        if !extendedKeyUsage.isEmpty {
            try add(NID_ext_key_usage, extendedKeyUsage.joined(separator: ","), draft, issuer)
        }
        if let ocspResponder { try add(NID_info_access, "OCSP;URI:\(ocspResponder)", draft, issuer) }
        if !distributionPoints.isEmpty {
            let points = distributionPoints.map { "URI:\($0)" }.joined(separator: ",")
            try add(NID_crl_distribution_points, points, draft, issuer)
        }
        let constraints =
            permittedNames.map { "permitted;DNS:\($0)" } + excludedNames.map { "excluded;DNS:\($0)" }
            + permittedAddresses.map { "permitted;IP:\($0)" } + excludedAddresses.map { "excluded;IP:\($0)" }
            + permittedEmailHosts.map { "permitted;email:\($0)" } + permittedURIHosts.map { "permitted;URI:\($0)" }
        if let rawNameConstraints {
            let digits = Array("0123456789ABCDEF".utf8)
            let text = rawNameConstraints.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
            try add(NID_name_constraints, "critical,DER:" + String(decoding: text, as: UTF8.self), draft, issuer)
        } else if !constraints.isEmpty {
            try add(NID_name_constraints, "critical," + constraints.joined(separator: ","), draft, issuer)
        }
        for (name, value) in otherExtensions { try add(OBJ_sn2nid(name), value, draft, issuer) }
        guard writesKeyIdentifiers else { return }
        try add(NID_subject_key_identifier, "hash", draft, issuer)
        if issuer != draft { try add(NID_authority_key_identifier, "keyid", draft, issuer) }
    }

    private static func serverUsage(_ kind: KeyPair.Kind) -> [String] {
        if case .rsa = kind { ["digitalSignature", "keyEncipherment"] } else { ["digitalSignature"] }
    }

    private func add(
        _ identifier: Int32,
        _ value: String,
        _ draft: OpaquePointer,
        _ issuer: OpaquePointer
    ) throws(OpenSSLError) {
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, issuer, draft, nil, nil, 0)
        guard let part = X509V3_EXT_nconf_nid(nil, &context, identifier, value) else {
            throw OpenSSLError(draining: "X509V3_EXT_nconf_nid")
        }
        defer { X509_EXTENSION_free(part) }
        guard X509_add_ext(draft, part, -1) == 1 else { throw OpenSSLError(draining: "X509_add_ext") }
    }

    private func addNames(_ draft: OpaquePointer) throws(OpenSSLError) {
        guard !names.isEmpty else { return }
        guard let stack = OPENSSL_sk_new_null() else { throw OpenSSLError(draining: "OPENSSL_sk_new_null") }
        defer { GENERAL_NAMES_free(stack) }
        for name in names {
            guard let entry = CertificateBuilder.generalName(name) else {
                throw OpenSSLError(draining: "GENERAL_NAME_set0_value")
            }
            OPENSSL_sk_push(stack, entry)
        }
        guard
            X509_add1_ext_i2d(
                draft,
                NID_subject_alt_name,
                UnsafeMutableRawPointer(stack),
                namesAreCritical ?? subject.isEmpty ? 1 : 0,
                UInt(X509V3_ADD_APPEND)
            ) == 1
        else { throw OpenSSLError(draining: "X509_add1_ext_i2d") }
    }

    private static func generalName(_ name: Name) -> UnsafeMutablePointer<GENERAL_NAME>? {
        let (kind, bytes): (Int32, [UInt8]) =
            switch name {
            case .dns(let text): (GEN_DNS, Array(text.utf8))
            case .dnsBytes(let bytes): (GEN_DNS, bytes)
            case .uri(let text): (GEN_URI, Array(text.utf8))
            case .email(let text): (GEN_EMAIL, Array(text.utf8))
            case .ip(let text): (GEN_IPADD, address(text))
            }
        guard !bytes.isEmpty, let entry = GENERAL_NAME_new() else { return nil }
        guard let string = ASN1_STRING_type_new(kind == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING),
            ASN1_STRING_set(string, bytes, Int32(bytes.count)) == 1
        else {
            GENERAL_NAME_free(entry)
            return nil
        }
        GENERAL_NAME_set0_value(entry, kind, UnsafeMutableRawPointer(string))
        return entry
    }

    private static func isAddress(_ text: String) -> Bool { !address(text).isEmpty }

    /// The address in network order; empty when it is none.
    private static func address(_ text: String) -> [UInt8] {
        guard let octets = a2i_IPADDRESS(text) else { return [] }
        defer { ASN1_STRING_free(octets) }
        return ASN1Bytes.of(UnsafeRawPointer(octets))
    }
}
