// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import IOCore
import StrictJSON

/// One complete certificate revocation list (RFC 5280, section 5): owns an `X509_CRL`.
///
/// The signature is over the whole list, and a list can have a hundred megabytes. Therefore it is verified once for each key of
/// an issuer, and the result kept; a look-up in a handshake then takes the same time for any length.
///
/// - Note: `@unchecked Sendable` because the list is only read after the initialiser, which has OpenSSL sort it and decode its
///   extensions; `signers` has a lock of its own.
package final class RevocationList: @unchecked Sendable {
    let pointer: OpaquePointer
    /// Seconds since 1970. A list without an end is refused when it is read.
    package let thisUpdate: Int64
    package let nextUpdate: Int64
    /// The length of the encoding.
    package let byteCount: Int
    /// SHA-256 of the encoding.
    package let digest: [UInt8]
    private let scope: Scope
    /// The results for the keys that were asked for; a list that another signs is asked for few.
    private let signers = Locked<[(key: PublicKeyPin, hasSigned: Bool)]>([])
    private static let rememberedSigners = 8

    /// Takes the reference over.
    ///
    /// - Parameter pointer: a list that `check` has accepted.
    init(owning pointer: OpaquePointer) {
        RevocationList.sort(pointer)
        self.pointer = pointer
        thisUpdate = Certificate.seconds(X509_CRL_get0_lastUpdate(pointer)) ?? .max
        nextUpdate = Certificate.seconds(X509_CRL_get0_nextUpdate(pointer)) ?? .min
        scope = Scope(pointer)
        let der = RevocationList.derBytes(pointer)
        byteCount = der.count
        digest = SecretDigest.sha256(der)
    }

    deinit { X509_CRL_free(pointer) }

    /// The encoding; empty when it cannot be encoded.
    package var derBytes: [UInt8] { RevocationList.derBytes(pointer) }

    private static func derBytes(_ list: OpaquePointer) -> [UInt8] {
        let count = i2d_X509_CRL(list, nil)
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: Int(count)) { buffer, filled in
            var cursor = buffer.baseAddress
            filled = Int(max(0, i2d_X509_CRL(list, &cursor)))
        }
    }

    /// Has OpenSSL sort the entries. It would do that at the first look-up, in a handshake, which takes a quarter of a
    /// second for some hundreds of thousands. The encoding, which the signature is over, keeps its order.
    private static func sort(_ list: OpaquePointer) {
        let none = ASN1_INTEGER_new()
        defer { ASN1_INTEGER_free(none) }
        var found: OpaquePointer?
        X509_CRL_get0_by_serial(list, &found, none)
    }

    /// The issuer's name, for people.
    package var issuer: String { Certificate.text(of: X509_CRL_get_issuer(pointer)) }

    /// The number of entries.
    package var entryCount: Int { max(0, Int(OPENSSL_sk_num(X509_CRL_get_REVOKED(pointer)))) }

    // MARK: - What it says of a certificate

    /// Why the list says nothing about a certificate: OpenSSL's code (X509_STORE_CTX_get_error(3)); nil where it decides.
    ///
    /// - Parameters:
    ///   - issuer: the certificate above it in a validated path, or itself where that ends there.
    ///   - now: seconds since 1970.
    func objection(to certificate: Certificate, issuer: Certificate, at now: Int64) -> Int32? {
        guard isIssued(forCertificatesLike: certificate) else { return X509_V_ERR_UNABLE_TO_GET_CRL }
        guard covers(certificate) else { return X509_V_ERR_DIFFERENT_CRL_SCOPE }
        // All bits are set where there is no key usage.
        guard X509_get_key_usage(issuer.pointer) & UInt32(KU_CRL_SIGN) != 0 else {
            return X509_V_ERR_KEYUSAGE_NO_CRL_SIGN
        }
        if thisUpdate > now { return X509_V_ERR_CRL_NOT_YET_VALID }
        if nextUpdate <= now { return X509_V_ERR_CRL_HAS_EXPIRED }
        return isSigned(by: issuer) ? nil : X509_V_ERR_CRL_SIGNATURE_FAILURE
    }

    /// Whether the certificate's issuer has the name of the list's.
    func isIssued(forCertificatesLike certificate: Certificate) -> Bool {
        X509_NAME_cmp(X509_CRL_get_issuer(pointer), X509_get_issuer_name(certificate.pointer)) == 0
    }

    /// Whether the certificate is one of those that the list would contain if they were revoked.
    func covers(_ certificate: Certificate) -> Bool { scope.covers(certificate, pointer) }

    /// Whether the certificate is in the list.
    func revokes(_ certificate: Certificate) -> Bool {
        var entry: OpaquePointer?
        // 2 is an entry that ends an earlier one (removeFromCRL).
        return X509_CRL_get0_by_cert(pointer, &entry, certificate.pointer) == 1
    }

    /// Whether the key of that certificate has signed the list.
    func isSigned(by issuer: Certificate) -> Bool {
        let key = issuer.publicKeyPin
        if let known = signers.withLock({ known in known.first { $0.key == key } }) { return known.hasSigned }
        let hasSigned = OpenSSLError.keepingQueueClean {
            X509_CRL_verify(pointer, X509_get0_pubkey(issuer.pointer)) == 1
        }
        signers.withLock { known in
            if known.count >= Self.rememberedSigners { known.removeFirst() }
            known.append((key, hasSigned))
        }
        return hasSigned
    }

    /// Whether this list is older than another one of the same issuer: by its date, and by its number where both have one
    /// (RFC 5280, section 5.2.3).
    package func isOlder(than other: RevocationList) -> Bool {
        if thisUpdate < other.thisUpdate { return true }
        return OpenSSLError.keepingQueueClean { pinproxy_crl_compare_numbers(pointer, other.pointer) < 0 }
    }

    // MARK: - Reading

    /// Reads lists: PEM with any number of them, or one in DER.
    ///
    /// - Throws: for input that is not a list, and for a list that cannot be used: one without an end (`nextUpdate`), a
    ///   delta list, one with a critical extension that is not understood, a weak signature.
    package static func read(_ bytes: [UInt8]) throws(CertificateFault) -> [RevocationList] {
        // A list with an extension that cannot be decoded is still accepted; its errors must not stay in the queue.
        ERR_set_mark()
        defer { ERR_pop_to_mark() }
        let remedy = "name a file that holds X.509 revocation lists, in PEM or one in DER"
        guard !bytes.isEmpty else { throw CertificateFault("the file is empty", remedy: remedy) }
        let sections = try PEMSection.sections(in: bytes)
        if let other = sections?.first(where: { $0.label != "X509 CRL" }) {
            throw CertificateFault(
                "something else than revocation lists in it: a PEM block \"\(LegibleText.excerpt(other.label))\"",
                remedy: "name a file that holds X509 CRL blocks only"
            )
        }
        let encodings = sections?.map(\.der) ?? [bytes]
        guard !encodings.isEmpty else { throw CertificateFault("no revocation list in it", remedy: remedy) }
        var lists: [RevocationList] = []
        for der in encodings {
            guard let list = decode(der) else {
                let isCertificate = (try? Certificate(der: der)) != nil
                throw CertificateFault(
                    isCertificate
                        ? "a certificate where revocation lists are expected" : "not a revocation list in PEM or DER",
                    remedy: remedy,
                    underlying: OpenSSLError(draining: "d2i_X509_CRL")
                )
            }
            do throws(CertificateFault) { try check(list) } catch {
                X509_CRL_free(list)
                throw error
            }
            lists.append(RevocationList(owning: list))
        }
        return lists
    }

    /// One list in DER, and nothing after it.
    private static func decode(_ der: [UInt8]) -> OpaquePointer? {
        der.withUnsafeBufferPointer { raw -> OpaquePointer? in
            var cursor = raw.baseAddress
            guard let list = d2i_X509_CRL(nil, &cursor, raw.count) else { return nil }
            if cursor == raw.baseAddress.map({ $0 + raw.count }) { return list }
            X509_CRL_free(list)
            return nil
        }
    }

    /// Checks for properties of a list that would make every lookup in it fail.
    private static func check(_ list: OpaquePointer) throws(CertificateFault) {
        let issuer = Certificate.text(of: X509_CRL_get_issuer(list))
        if X509_CRL_get_ext_by_NID(list, NID_delta_crl, -1) >= 0 {
            throw CertificateFault(
                "the list of \"\(issuer)\" is a delta list, which holds changes alone",
                remedy: "name the issuer's complete list"
            )
        }
        guard !hasUnknownCriticalExtension(list) else {
            throw CertificateFault(
                "the list of \"\(issuer)\" has a critical extension that is not understood",
                remedy: "ask the issuer for a list without it"
            )
        }
        guard let next = X509_CRL_get0_nextUpdate(list), let end = Certificate.seconds(next),
            let start = Certificate.seconds(X509_CRL_get0_lastUpdate(list)), start <= end
        else {
            throw CertificateFault(
                "the list of \"\(issuer)\" does not say until when it holds (nextUpdate)",
                remedy: "ask the issuer for a list that does (RFC 5280, section 5.1.2.5)"
            )
        }
        var algorithm: UnsafePointer<X509_ALGOR>?
        X509_CRL_get0_signature(list, nil, &algorithm)
        guard SignatureStrength.isEnough(algorithm) else {
            throw CertificateFault(
                "the list of \"\(issuer)\" is signed with \(SignatureStrength.name(algorithm)), which is too weak",
                remedy: "ask the issuer for a list that is signed over SHA-256 or better"
            )
        }
    }

    /// In the list, or in an entry (RFC 5280, section 5.3). An entry with one is of an indirect list, or unreadable.
    private static func hasUnknownCriticalExtension(_ list: OpaquePointer) -> Bool {
        let isUnknown = (0..<max(0, X509_CRL_get_ext_count(list))).contains { index in
            let part = X509_CRL_get_ext(list, index)
            return X509_EXTENSION_get_critical(part) != 0 && X509_supported_extension(part) != 1
                && OBJ_obj2nid(X509_EXTENSION_get_object(part)) != NID_issuing_distribution_point
        }
        if isUnknown { return true }
        let entries = X509_CRL_get_REVOKED(list)
        return (0..<max(0, OPENSSL_sk_num(entries))).contains { index in
            guard let entry = OPENSSL_sk_value(entries, index) else { return false }
            return X509_REVOKED_get_ext_by_critical(OpaquePointer(entry), 1, -1) >= 0
        }
    }
}

extension RevocationList {
    /// Which certificates of its issuer the list is about: its issuing distribution point (RFC 5280, section 5.2.5).
    private enum Scope {
        case everything
        /// Certificates of that kind that name one of the list's distribution points, where it names any.
        case part(onlyUsers: Bool, onlyAuthorities: Bool, isOfPoint: Bool)
        /// Attribute certificates, other issuers' certificates, some reasons alone; or the extension cannot be decoded.
        case nothing

        init(_ list: OpaquePointer) {
            guard X509_CRL_get_ext_by_NID(list, NID_issuing_distribution_point, -1) >= 0 else {
                self = .everything
                return
            }
            guard let point = Scope.point(of: list) else {
                self = .nothing
                return
            }
            defer { ISSUING_DIST_POINT_free(point) }
            let part = point.pointee
            let isContradictory = part.onlyuser != 0 && part.onlyCA != 0
            guard part.onlyattr == 0, part.indirectCRL == 0, part.onlysomereasons == nil, !isContradictory else {
                self = .nothing
                return
            }
            self = .part(
                onlyUsers: part.onlyuser != 0,
                onlyAuthorities: part.onlyCA != 0,
                isOfPoint: part.distpoint != nil
            )
        }

        static func point(of list: OpaquePointer) -> UnsafeMutablePointer<ISSUING_DIST_POINT>? {
            OpenSSLError.keepingQueueClean {
                X509_CRL_get_ext_d2i(list, NID_issuing_distribution_point, nil, nil)?
                    .assumingMemoryBound(to: ISSUING_DIST_POINT.self)
            }
        }

        func covers(_ certificate: Certificate, _ list: OpaquePointer) -> Bool {
            switch self {
            case .everything: return true
            case .nothing: return false
            case .part(let onlyUsers, let onlyAuthorities, let isOfPoint):
                let isCA = certificate.isCA
                guard !(onlyUsers && isCA), !(onlyAuthorities && !isCA) else { return false }
                guard isOfPoint else { return true }
                guard let point = Scope.point(of: list) else { return false }
                defer { ISSUING_DIST_POINT_free(point) }
                return DistributionPoints.of(certificate) { $0.contains(point.pointee.distpoint) }
            }
        }
    }
}

/// The distribution points of a certificate (RFC 5280, section 4.2.1.13) that are complete: for all reasons, by its own issuer.
struct DistributionPoints {
    private let names: [UnsafeMutablePointer<GENERAL_NAME>]

    /// - Parameter body: gets them, valid until it returns.
    static func of<Result>(_ certificate: Certificate, _ body: (DistributionPoints) -> Result) -> Result {
        let decoded = OpenSSLError.keepingQueueClean {
            X509_get_ext_d2i(certificate.pointer, NID_crl_distribution_points, nil, nil)
        }
        guard let decoded else { return body(DistributionPoints(names: [])) }
        let points = OpaquePointer(decoded)
        defer { CRL_DIST_POINTS_free(points) }
        let names = (0..<OPENSSL_sk_num(points)).flatMap { index -> [UnsafeMutablePointer<GENERAL_NAME>] in
            guard let point = OPENSSL_sk_value(points, index)?.assumingMemoryBound(to: DIST_POINT.self).pointee,
                point.reasons == nil, point.CRLissuer == nil
            else { return [] }
            return fullNames(of: point.distpoint)
        }
        return body(DistributionPoints(names: names))
    }

    /// A name relative to the issuer's is none of them: no public CA has one.
    private static func fullNames(
        of point: UnsafeMutablePointer<DIST_POINT_NAME>?
    ) -> [UnsafeMutablePointer<GENERAL_NAME>] {
        guard let point = point?.pointee, point.type == 0, let stack = point.name.fullname else { return [] }
        return (0..<OPENSSL_sk_num(stack)).compactMap {
            OPENSSL_sk_value(stack, $0)?.assumingMemoryBound(to: GENERAL_NAME.self)
        }
    }

    /// Whether one of the point's names is one of these.
    fileprivate func contains(_ point: UnsafeMutablePointer<DIST_POINT_NAME>?) -> Bool {
        DistributionPoints.fullNames(of: point).contains { name in names.contains { GENERAL_NAME_cmp($0, name) == 0 } }
    }

    /// The bytes of the URIs.
    var uris: [[UInt8]] {
        names.compactMap { name in
            var kind: Int32 = 0
            guard let value = GENERAL_NAME_get0_value(name, &kind), kind == GEN_URI else { return nil }
            return ASN1Bytes.of(value)
        }
    }
}

extension Certificate {
    /// The URLs at which the issuer's revocation list can be fetched without TLS, as the certificate names them: at most four,
    /// each with at most 2,048 bytes. TLS to fetch them would depend on the lists themselves.
    package var revocationListURLs: [String] {
        let uris = DistributionPoints.of(self) { $0.uris }
        let usable = uris.filter { uri in
            uri.count <= 2048 && uri.allSatisfy { $0 > 0x20 && $0 < 0x7F } && uri.starts(withIgnoringCase: "http://")
        }
        return usable.prefix(4).map { String(decoding: $0, as: UTF8.self) }
    }
}

extension [UInt8] {
    fileprivate func starts(withIgnoringCase prefix: String) -> Bool {
        count >= prefix.utf8.count && zip(self, prefix.utf8).allSatisfy { $0 | 0x20 == $1 | 0x20 }
    }
}
