import COpenSSL
import StrictJSON

/// Certificate revocation lists (RFC 5280, section 5) that a policy holds: a `STACK_OF(X509_CRL)`.
///
/// - Note: `Sendable` because stack and lists are only read after the initialiser; an `X509_CRL` caches its decoded
///   extensions when it is parsed.
public final class RevocationLists: @unchecked Sendable {
    let pointer: OpaquePointer
    /// The earliest `nextUpdate` among the lists, in seconds since 1970: after that time the list is not valid.
    package let earliestNextUpdate: Int64
    /// SHA-256 over the lists, whatever their order: equal for equal lists, and different as soon as a list is
    /// reissued.
    package let digest: [UInt8]

    /// The certificates of the chain that a list has to cover.
    public enum Scope: String, Sendable, CaseIterable {
        /// The server's own certificate.
        case leaf
        /// Every certificate of the chain, including a self-signed anchor, which needs a list of its own.
        case chain
    }

    /// Reads the lists of files' contents: PEM with any number of lists, or one in DER.
    ///
    /// - Throws: for input that is not a list, and for a list that cannot be used: one without an end (`nextUpdate`), a
    ///   delta list, one with a critical extension that is not understood, a weak signature. Signer and validity period
    ///   are checked with each chain.
    public init(contents: [[UInt8]]) throws(CertificateFault) {
        guard let stack = OPENSSL_sk_new_null() else { fatalError("out of memory") }
        // A list with an extension that cannot be decoded is still accepted; its errors must not stay in the queue.
        ERR_set_mark()
        defer { ERR_pop_to_mark() }
        var lists: [OpaquePointer] = []
        do throws(CertificateFault) {
            for bytes in contents { lists += try RevocationLists.read(bytes) }
        } catch {
            lists.forEach { X509_CRL_free($0) }
            OPENSSL_sk_free(stack)
            throw error
        }
        for list in lists { OPENSSL_sk_push(stack, UnsafeRawPointer(list)) }
        pointer = stack
        earliestNextUpdate = lists.map { RevocationLists.nextUpdate($0) }.min() ?? .max
        digest = SecretDigest.sha256(
            lists.map { SecretDigest.sha256(RevocationLists.derBytes($0)) }
                .sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 }
        )
    }

    deinit {
        for index in 0..<OPENSSL_sk_num(pointer) {
            OPENSSL_sk_value(pointer, index).map { X509_CRL_free(OpaquePointer($0)) }
        }
        OPENSSL_sk_free(pointer)
    }

    /// The number of lists.
    public var count: Int { Int(OPENSSL_sk_num(pointer)) }

    private var lists: [OpaquePointer] {
        (0..<OPENSSL_sk_num(pointer)).compactMap { OPENSSL_sk_value(pointer, $0).map { OpaquePointer($0) } }
    }

    /// Empty when it cannot be encoded: `read` refuses such a list.
    private static func derBytes(_ list: OpaquePointer) -> [UInt8] {
        let count = i2d_X509_CRL(list, nil)
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: Int(count)) { buffer, filled in
            var place = buffer.baseAddress
            filled = Int(max(0, i2d_X509_CRL(list, &place)))
        }
    }

    // MARK: - Age

    /// The second at which the lists that cover a chain expire: the latest `nextUpdate` for each certificate's issuer,
    /// and the earliest of these.
    func expiry(for chain: [Certificate]) -> Int64 {
        let ends = chain.compactMap { certificate -> Int64? in
            let issuer = X509_get_issuer_name(certificate.pointer)
            return lists.filter { X509_NAME_cmp(X509_CRL_get_issuer($0), issuer) == 0 }
                .map { RevocationLists.nextUpdate($0) }.max()
        }
        return ends.min() ?? .max
    }

    /// Messages about lists that are not valid now: issuer and reason.
    ///
    /// - Parameter now: seconds since 1970.
    func notInForce(at now: Int64) -> [String] {
        lists.compactMap { list in
            let issuer = Certificate.text(of: X509_CRL_get_issuer(list))
            if RevocationLists.nextUpdate(list) <= now { return "the list of \"\(issuer)\" is out of date" }
            let start = Certificate.seconds(X509_CRL_get0_lastUpdate(list)) ?? .max
            return start > now ? "the list of \"\(issuer)\" is not valid yet" : nil
        }
    }

    private static func nextUpdate(_ list: OpaquePointer) -> Int64 {
        Certificate.seconds(X509_CRL_get0_nextUpdate(list)) ?? .min
    }

    // MARK: - Reading

    private static func read(_ bytes: [UInt8]) throws(CertificateFault) -> [OpaquePointer] {
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
        var lists: [OpaquePointer] = []
        do throws(CertificateFault) {
            for der in encodings {
                guard let list = list(der) else {
                    let isCertificate = (try? Certificate(der: der)) != nil
                    throw CertificateFault(
                        isCertificate
                            ? "a certificate where revocation lists are expected"
                            : "not a revocation list in PEM or DER",
                        remedy: remedy,
                        underlying: OpenSSLError(draining: "d2i_X509_CRL")
                    )
                }
                lists.append(list)
                try check(list)
                sort(list)
            }
        } catch {
            lists.forEach { X509_CRL_free($0) }
            throw error
        }
        return lists
    }

    /// One list in DER, and nothing after it.
    private static func list(_ der: [UInt8]) -> OpaquePointer? {
        der.withUnsafeBufferPointer { raw -> OpaquePointer? in
            var place = raw.baseAddress
            guard let list = d2i_X509_CRL(nil, &place, raw.count) else { return nil }
            if place == raw.baseAddress.map({ $0 + raw.count }) { return list }
            X509_CRL_free(list)
            return nil
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

    private static func hasUnknownCriticalExtension(_ list: OpaquePointer) -> Bool {
        (0..<max(0, X509_CRL_get_ext_count(list))).contains { index in
            let part = X509_CRL_get_ext(list, index)
            return X509_EXTENSION_get_critical(part) != 0 && X509_supported_extension(part) != 1
                && OBJ_obj2nid(X509_EXTENSION_get_object(part)) != NID_issuing_distribution_point
        }
    }
}
