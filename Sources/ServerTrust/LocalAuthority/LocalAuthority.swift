// SPDX-License-Identifier: Apache-2.0
import COpenSSL
package import HTTPCore

/// A certificate authority of this machine, for the interception of CONNECT: it signs the certificates that pinproxy
/// sends to its clients instead of an origin's.
///
/// A stolen key would let an attacker use the trust of the clients. Therefore it can sign only for the hosts that are
/// intercepted (name constraints, RFC 5280, section 4.2.1.10), only for TLS servers (an extended key usage, which
/// verifiers check on the whole path), and not for further authorities (a path length of 0).
package final class LocalAuthority: Sendable {
    package let certificate: Certificate
    /// The key of all certificates that it signs. It is made here, and freed with this object.
    package let leafKey: KeyPair
    private let identity: Identity
    /// The hosts that it was made for; nil: what its certificate says alone counts.
    private let hosts: [Host]?

    /// Reads certificate and key.
    ///
    /// - Parameters:
    ///   - certificate: PEM or DER; the authority's certificate alone.
    ///   - privateKey: PEM or DER, without a password.
    package init(certificate: [UInt8], privateKey: [UInt8]) throws(CertificateFault) {
        let certificates = try Certificate.certificates(in: certificate)
        guard certificates.count == 1, certificates[0].isCA else {
            throw CertificateFault(
                certificates.count == 1
                    ? "not the certificate of an authority" : "more than the certificate of one authority",
                remedy: "name what pinproxy ca init has made"
            )
        }
        try certificates[0].checkDates()
        let key = try PrivateKey(reading: privateKey)
        try key.check(belongsTo: certificates[0])
        self.certificate = certificates[0]
        hosts = nil
        identity = Identity(certificate: certificates[0], key: try KeyPair(key))
        do throws(OpenSSLError) {
            leafKey = try KeyPair(.p256)
        } catch {
            throw CertificateFault("no key could be made", remedy: "try again", underlying: error)
        }
    }

    /// - Parameter hosts: those that `make` was given.
    package init(_ identity: Identity, for hosts: [Host]? = nil) throws(OpenSSLError) {
        certificate = identity.certificate
        self.identity = identity
        self.hosts = hosts
        leafKey = try KeyPair(.p256)
    }

    /// Makes an authority for some hosts and their subdomains.
    ///
    /// - Parameters:
    ///   - hosts: the hosts that it may sign for, without any none at all; nil for any host, where its key never leaves this process.
    ///   - name: distinguishes it from other authorities in a trust store.
    ///   - validity: seconds since 1970.
    package static func make(for hosts: [Host]?, name: String, validity: Range<Int64>) throws(OpenSSLError) -> Identity
    {
        var builder = CertificateBuilder.authority("pinproxy local CA \(name)", validity: validity)
        builder.pathLength = 0
        builder.extendedKeyUsage = ["serverAuth"]
        // No e-mail address and no URI, which identify users and clients. (The name cannot exist: RFC 6761, section 6.4; OpenSSL
        // has no notation that excludes all of a kind.)
        builder.permittedEmailHosts = [nobody]
        builder.permittedURIHosts = [nobody]
        guard let hosts else { return try builder.identity() }
        builder.permittedNames = hosts.filter { $0.kind == .name }.map(\.description)
        let addresses = hosts.compactMap(\.address)
        builder.permittedAddresses = addresses.map {
            "\($0)/\($0.isIPv4 ? "255.255.255.255" : "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")"
        }
        // A kind of name without constraints would be permitted entirely. Directory names have no constraint, because Go's
        // verifier refuses critical constraints on them.
        if builder.permittedNames.isEmpty { builder.permittedNames = [nobody] }
        if !addresses.contains(where: \.isIPv4) { builder.excludedAddresses.append("0.0.0.0/0.0.0.0") }
        if !addresses.contains(where: { !$0.isIPv4 }) { builder.excludedAddresses.append("::/::") }
        return try builder.identity()
    }

    private static let nobody = "none.invalid"

    /// Whether it was made for a host, or for one that the host is below. True where that is not known.
    package func isMade(for host: Host) -> Bool { hosts.map { Self.covers($0, host) } ?? true }

    /// Whether name constraints for some hosts take another in.
    package static func covers(_ hosts: [Host], _ host: Host) -> Bool {
        hosts.contains { one in
            if one == host { return true }
            guard one.kind == .name, host.kind == .name else { return false }
            return host.bytes.count > one.bytes.count && host.bytes.suffix(one.bytes.count).elementsEqual(one.bytes)
                && host.bytes[host.bytes.count - one.bytes.count - 1] == UInt8(ascii: ".")
        }
    }

    /// A server certificate for a host.
    ///
    /// - Parameters:
    ///   - validity: seconds since 1970.
    package func leaf(for host: Host, key: KeyPair, validity: Range<Int64>) throws(OpenSSLError) -> Identity {
        let name = host.description
        var builder = CertificateBuilder.server(hosts: [name], validity: validity)
        // A common name has at most 64 characters, and an address in it would be taken for a DNS name; the alternative
        // name of a certificate without a subject is marked critical.
        if host.kind != .name || name.utf8.count > 64 { builder.subject = [] }
        return Identity(certificate: try builder.certificate(for: key, issuer: identity), key: key)
    }

    /// The reason why a client that trusts this authority would refuse its certificate for a host; `nil` when it would
    /// not. OpenSSL verifies such a certificate: name constraints, dates, purpose.
    ///
    /// - Parameter now: seconds since 1970.
    package func objection(to host: Host, at now: Int64) throws(OpenSSLError) -> String? {
        let leaf = try leaf(for: host, key: leafKey, validity: (now - 3600)..<(now + 3600))
        let anchors = TrustAnchors(certificates: [certificate])
        // OpenSSL's context has no references of its own to the store and the leaf.
        return try withExtendedLifetime((anchors, leaf)) { () throws(OpenSSLError) in
            try LocalAuthority.objection(to: leaf.certificate.pointer, under: anchors.store, at: now)
        }
    }

    private static func objection(
        to leaf: OpaquePointer,
        under store: OpaquePointer,
        at now: Int64
    ) throws(OpenSSLError) -> String? {
        guard let context = X509_STORE_CTX_new() else { throw OpenSSLError(draining: "X509_STORE_CTX_new") }
        defer { X509_STORE_CTX_free(context) }
        guard X509_STORE_CTX_init(context, store, leaf, nil) == 1,
            let parameters = X509_STORE_CTX_get0_param(context),
            X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER) == 1
        else { throw OpenSSLError(draining: "X509_STORE_CTX_init") }
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)
        X509_VERIFY_PARAM_set_time(parameters, Int(now))
        return OpenSSLError.keepingQueueClean {
            if X509_verify_cert(context) == 1 { return nil }
            return String(cString: X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(context))))
        }
    }
}

extension Certificate {
    /// SHA-256 over the whole certificate, in hexadecimal pairs, as trust stores show it.
    package var fingerprint: String {
        let digits = Array("0123456789ABCDEF")
        return SecretDigest.sha256(derBytes)
            .map { "\(digits[Int($0 >> 4)])\(digits[Int($0 & 15)])" }
            .joined(separator: ":")
    }

    /// The DNS names and addresses that a CA's certificates may hold (name constraints); empty without such
    /// constraints.
    package var permittedNames: [String] {
        let decoded = OpenSSLError.keepingQueueClean { X509_get_ext_d2i(pointer, NID_name_constraints, nil, nil) }
        guard let decoded else { return [] }
        let constraints = decoded.assumingMemoryBound(to: NAME_CONSTRAINTS.self)
        defer { NAME_CONSTRAINTS_free(constraints) }
        guard let subtrees = constraints.pointee.permittedSubtrees else { return [] }
        return (0..<OPENSSL_sk_num(subtrees)).compactMap { index in
            guard
                let subtree = OPENSSL_sk_value(subtrees, index)?.assumingMemoryBound(to: GENERAL_SUBTREE.self),
                let base = subtree.pointee.base
            else { return nil }
            return Certificate.constraint(base)
        }
    }

    /// Whether a CA can sign only for TLS servers: its extended key usage says so, and its name constraints exclude
    /// e-mail addresses and URIs, which identify clients and users.
    package var isBoundToServers: Bool {
        OpenSSLError.keepingQueueClean {
            guard X509_get_ext_by_NID(pointer, NID_ext_key_usage, -1) >= 0,
                X509_get_extended_key_usage(pointer) & ~UInt32(XKU_SSL_SERVER) == 0
            else { return false }
            let kinds = constrainedKinds
            return kinds.contains(GEN_EMAIL) && kinds.contains(GEN_URI)
        }
    }

    /// The kinds of names for which it has permitted subtrees.
    private var constrainedKinds: Set<Int32> {
        guard let decoded = X509_get_ext_d2i(pointer, NID_name_constraints, nil, nil) else { return [] }
        let constraints = decoded.assumingMemoryBound(to: NAME_CONSTRAINTS.self)
        defer { NAME_CONSTRAINTS_free(constraints) }
        guard let subtrees = constraints.pointee.permittedSubtrees else { return [] }
        var kinds: Set<Int32> = []
        for index in 0..<OPENSSL_sk_num(subtrees) {
            let subtree = OPENSSL_sk_value(subtrees, index)?.assumingMemoryBound(to: GENERAL_SUBTREE.self)
            if let base = subtree?.pointee.base { kinds.insert(base.pointee.type) }
        }
        return kinds
    }

    private static func constraint(_ name: UnsafePointer<GENERAL_NAME>) -> String? {
        var kind: Int32 = 0
        guard let value = GENERAL_NAME_get0_value(name, &kind) else { return nil }
        let bytes = ASN1Bytes.of(value)
        switch kind {
        case GEN_DNS:
            return String(decoding: bytes.map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
        case GEN_IPADD:
            return Certificate.address(Array(bytes.prefix(bytes.count / 2)))
        default:
            return nil
        }
    }
}
