// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore

/// What the certificates below the root of a public CA are, and what OpenSSL does not ask of them: the rules of RFC 5280,
/// section 4, and of the CA/Browser Forum's Baseline Requirements, section 7.1, that no chain in use breaks.
///
/// Roots themselves are not looked at: they are trusted as they are, and old ones break half of these rules. Only the
/// constraints that a root puts on others have to be readable.
enum CertificateProfile {
    /// A rule that a certificate breaks.
    enum Breach: Hashable, Sendable {
        case unreadableExtension(String)
        case serialNumber
        case noSubject
        case noAuthorityKeyIdentifier
        case noSubjectKeyIdentifier
        case policyConstraintsNotCritical
        case malformedNameConstraints
        case nameConstraintsOfServer
        case signsCertificates
        case isCA
        case forEveryUse
        case namesNotCritical
        case malformedName(String)
        case wildcardOfSuffix(String)
        case keyKind(String)

        /// The fault, as the predicate of a sentence about the certificate.
        var text: String {
            switch self {
            case .unreadableExtension(let name): "has an extension that cannot be read (\(name))"
            case .serialNumber: "has a serial number that is not positive, or longer than 20 octets"
            case .noSubject: "is a CA without a name"
            case .noAuthorityKeyIdentifier: "does not identify its issuer's key (authorityKeyIdentifier)"
            case .noSubjectKeyIdentifier: "is a CA that does not identify its key (subjectKeyIdentifier)"
            case .policyConstraintsNotCritical: "has policy constraints that are not critical"
            case .malformedNameConstraints: "has name constraints that are empty, or that begin with a dot"
            case .nameConstraintsOfServer: "has name constraints, and is no CA"
            case .signsCertificates: "may sign certificates (keyUsage), and is no CA"
            case .isCA: "is a CA itself"
            case .forEveryUse: "is for every use (anyExtendedKeyUsage)"
            case .namesNotCritical: "has no subject, and its subjectAltName is not critical"
            case .malformedName(let name): "has the name \"\(name)\", which is no host's"
            case .wildcardOfSuffix(let suffix): "is for every name below the public suffix \(suffix)"
            case .keyKind(let kind): "has a key (\(kind)) that public CAs do not sign"
            }
        }
    }

    /// The first breach in a validated chain.
    ///
    /// - Parameters:
    ///   - chain: leaf first, anchor last.
    ///   - host: the name that was checked; nil where none was.
    static func breach(in chain: [Certificate], host: Host?) -> (depth: Int, breach: Breach)? {
        OpenSSLError.keepingQueueClean {
            for (depth, certificate) in chain.enumerated() {
                let breach =
                    depth == chain.count - 1
                    ? constraints(of: certificate)
                    : depth == 0 ? breach(ofLeaf: certificate, host: host) : breach(ofCA: certificate)
                if let breach { return (depth, breach) }
            }
            return nil
        }
    }

    private static func breach(ofAny certificate: Certificate) -> Breach? {
        let pointer = certificate.pointer
        if let name = unreadableExtension(of: pointer) { return .unreadableExtension(name) }
        if !hasSoundSerialNumber(pointer) { return .serialNumber }
        if X509_get0_authority_key_id(pointer) == nil { return .noAuthorityKeyIdentifier }
        return unusualKey(of: certificate).map { .keyKind($0) }
    }

    /// The breach of a CA below the root.
    static func breach(ofCA certificate: Certificate) -> Breach? {
        if let breach = breach(ofAny: certificate) { return breach }
        let pointer = certificate.pointer
        if X509_NAME_entry_count(X509_get_subject_name(pointer)) == 0 { return .noSubject }
        if X509_get0_subject_key_id(pointer) == nil { return .noSubjectKeyIdentifier }
        if isPresent(NID_policy_constraints, in: pointer), !isCritical(NID_policy_constraints, in: pointer) {
            return .policyConstraintsNotCritical
        }
        return constraints(of: certificate)
    }

    private static func breach(ofLeaf certificate: Certificate, host: Host?) -> Breach? {
        if let breach = breach(ofAny: certificate) { return breach }
        let pointer = certificate.pointer
        if isPresent(NID_name_constraints, in: pointer) { return .nameConstraintsOfServer }
        let flags = X509_get_extension_flags(pointer)
        if flags & UInt32(EXFLAG_CA) != 0 { return .isCA }
        if flags & UInt32(EXFLAG_KUSAGE) != 0, X509_get_key_usage(pointer) & UInt32(KU_KEY_CERT_SIGN) != 0 {
            return .signsCertificates
        }
        if flags & UInt32(EXFLAG_XKUSAGE) != 0, X509_get_extended_key_usage(pointer) & UInt32(XKU_ANYEKU) != 0 {
            return .forEveryUse
        }
        if X509_NAME_entry_count(X509_get_subject_name(pointer)) == 0,
            !isCritical(NID_subject_alt_name, in: pointer)
        {
            return .namesNotCritical
        }
        return breach(ofNames: certificate, host: host)
    }

    // MARK: - Names

    private static func breach(ofNames certificate: Certificate, host: Host?) -> Breach? {
        var isNamed = false
        for case .dns(let name) in certificate.subjectAlternativeNames {
            let labels = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
            if labels.contains(where: \.isEmpty) { return .malformedName(name) }
            if let host, host.kind == .name, name.utf8.elementsEqual(host.bytes, by: { $0 | 0x20 == $1 | 0x20 }) {
                isNamed = true
            }
        }
        guard let host, !isNamed else { return nil }
        // OpenSSL has found a name for the host. It is not the host itself, so it is the wildcard of the suffix.
        return DomainName.registry(above: host).map { .wildcardOfSuffix($0) }
    }

    // MARK: - Extensions

    private static func isPresent(_ kind: Int32, in certificate: OpaquePointer) -> Bool {
        X509_get_ext_by_NID(certificate, kind, -1) >= 0
    }

    private static func isCritical(_ kind: Int32, in certificate: OpaquePointer) -> Bool {
        let index = X509_get_ext_by_NID(certificate, kind, -1)
        return index >= 0 && X509_EXTENSION_get_critical(X509_get_ext(certificate, index)) != 0
    }

    /// The name of the first extension of a known kind that cannot be decoded. A certificate is at most some kilobytes large.
    private static func unreadableExtension(of certificate: OpaquePointer) -> String? {
        for index in 0..<max(0, X509_get_ext_count(certificate)) {
            guard let part = X509_get_ext(certificate, index), let method = X509V3_EXT_get(part) else { continue }
            guard let value = X509V3_EXT_d2i(part) else {
                return OBJ_nid2ln(method.pointee.ext_nid).map { String(cString: $0) } ?? "unknown"
            }
            if let item = method.pointee.it {
                ASN1_item_free(OpaquePointer(value), item())
            } else {
                method.pointee.ext_free?(value)
            }
        }
        return nil
    }

    /// Whether the name constraints, if there are any, constrain something, and by names of the right form: a leading dot has a
    /// meaning for URIs alone (RFC 5280, section 4.2.1.10).
    private static func constraints(of certificate: Certificate) -> Breach? {
        guard isPresent(NID_name_constraints, in: certificate.pointer) else { return nil }
        return NameConstraints.isWellFormed(in: certificate) ? nil : .malformedNameConstraints
    }

    /// RFC 5280, section 4.1.2.2.
    private static func hasSoundSerialNumber(_ certificate: OpaquePointer) -> Bool {
        guard let number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nil) else { return false }
        defer { BN_free(number) }
        // The twentieth octet of a positive number begins with a zero bit.
        return BN_is_negative(number) == 0 && BN_is_zero(number) == 0 && BN_num_bits(number) < 160
    }

    /// The kind of a key that is neither an elliptic curve's nor RSA in whole octets (Baseline Requirements, 6.1.1.3 and 6.1.5).
    private static func unusualKey(of certificate: Certificate) -> String? {
        guard let key = X509_get0_pubkey(certificate.pointer) else { return certificate.keyDescription }
        switch EVP_PKEY_get_base_id(key) {
        case EVP_PKEY_EC: return nil
        case EVP_PKEY_RSA where EVP_PKEY_get_bits(key) % 8 == 0: return nil
        default: return certificate.keyDescription
        }
    }
}
