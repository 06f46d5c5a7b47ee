// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Glibc
import HTTPCore

/// The certificates that a server presented, borrowed from an `X509_STORE_CTX` or from certificates that the caller
/// keeps alive.
struct PresentedChain {
    var leaf: OpaquePointer
    /// `STACK_OF(X509)`, in any order, with or without the leaf.
    var untrusted: OpaquePointer?

    init(leaf: OpaquePointer, untrusted: OpaquePointer?) {
        self.leaf = leaf
        self.untrusted = untrusted
    }

    /// Borrows from a verify callback's `X509_STORE_CTX`; nil when it has no certificate.
    init?(_ storeContext: OpaquePointer) {
        guard let leaf = X509_STORE_CTX_get0_cert(storeContext) else { return nil }
        self.init(leaf: leaf, untrusted: X509_STORE_CTX_get0_untrusted(storeContext))
    }

    /// The largest number of certificates besides the leaf that are used. In a handshake `CertificateMessage` lets fewer in.
    static let bound = 63

    /// The certificates as sent, leaf first and once.
    func certificates() -> [Certificate] {
        let leaf = Certificate(retaining: leaf)
        let rest = CertificateStack.certificates(in: untrusted, limit: PresentedChain.bound)
        return [leaf] + rest.filter { !$0.isSame(as: leaf) }
    }

    /// A stack with references to the same certificates; nothing is decoded.
    func kept() -> CertificateStack {
        CertificateStack(leaf: leaf, others: untrusted, limit: PresentedChain.bound)
    }
}

/// Calls of X509_verify_cert(3) with this program's parameters.
///
/// Pins are looked for in the chain that it returns, never in the certificates as sent. Each call has a context of its own, so
/// that no setting of a caller's `SSL`, `SSL_CTX` or store can weaken it.
struct ChainVerification {
    /// The certificates at which a path may end.
    enum Anchors {
        case trusted(TrustAnchors)
        case pinned(CertificatePool)

        var pool: CertificatePool {
            switch self {
            case .trusted(let anchors): anchors.pool
            case .pinned(let pool): pool
            }
        }

        /// Whether a path that ends at this anchor has to satisfy the `CertificateProfile`.
        func areOfPublicCAs(_ anchor: Certificate) -> Bool {
            guard case .trusted(let anchors) = self else { return false }
            return anchors.publicKeys.contains(anchor.publicKeyPin)
        }
    }

    /// The name to check; `nil` skips the check.
    var host: Host?
    /// Seconds since 1970.
    var now: Int64
    /// Whether validity periods are ignored.
    var ignoresDates = false
    /// Nil without lists.
    var revocation: RevocationCheck?

    /// The largest number of CAs between leaf and anchor; one that a CA issued to itself does not count (RFC 5280, section 6.1.4).
    var longestChain = ChainVerification.depth

    /// The largest number of certificates between leaf and anchor.
    static let depth = 10

    struct Outcome {
        /// `X509_V_OK`, or the error.
        var error: Int32
        /// The validated chain, leaf first, anchor last; on an error the path that was refused, as far as there was one.
        var chain: [Certificate] = []
        /// The place in the chain of the certificate that failed.
        var depth = 0
        /// The rule of the profile for public CAs that this certificate breaks.
        var breach: CertificateProfile.Breach?

        var isValid: Bool { error == X509_V_OK }
        /// The certificate that failed, where OpenSSL names one.
        var failed: Certificate? { !isValid && chain.indices.contains(depth) ? chain[depth] : nil }
    }

    /// Checks the path that OpenSSL builds from the certificates as sent, preferring anchors: the usual case, and the first of
    /// all paths.
    ///
    /// - Parameter alone: whether the leaf has to be an anchor itself; the other certificates are ignored then.
    func verify(_ presented: PresentedChain, anchors: Anchors, alone: Bool = false) -> Outcome {
        let untrusted = alone ? nil : presented.untrusted
        let outcome =
            switch anchors {
            case .trusted(let anchors):
                verify(presented.leaf, untrusted, store: anchors.store, trusted: nil, known: anchors.pool)
            case .pinned(let pool): verify(presented.leaf, untrusted, store: nil, trusted: pool.stack, known: pool)
            }
        return profiled(outcome, anchors)
    }

    /// Checks one path, with exactly these certificates in exactly this order: the constraints of every CA in it count.
    ///
    /// - Parameter path: leaf first, anchor last; not empty.
    func verify(path: [Certificate], anchors: Anchors) -> Outcome {
        let untrusted = CertificateStack(path.count > 1 ? Array(path.dropLast()) : path)
        let outcome = withExtendedLifetime(untrusted) {
            verify(
                path[0].pointer,
                untrusted.pointer,
                store: ExactOrder.store.pointer,
                trusted: CertificateStack([path[path.count - 1]])
            )
        }
        return profiled(outcome, anchors)
    }

    private func profiled(_ outcome: Outcome, _ anchors: Anchors) -> Outcome {
        guard outcome.isValid, let anchor = outcome.chain.last, anchors.areOfPublicCAs(anchor),
            let (depth, breach) = CertificateProfile.breach(in: outcome.chain, host: host)
        else { return outcome }
        return Outcome(
            error: X509_V_ERR_APPLICATION_VERIFICATION,
            chain: outcome.chain,
            depth: depth,
            breach: breach
        )
    }

    private func verify(
        _ leaf: OpaquePointer,
        _ untrusted: OpaquePointer?,
        store: OpaquePointer?,
        trusted: CertificateStack?,
        known: CertificatePool = .empty
    ) -> Outcome {
        guard let context = X509_STORE_CTX_new() else { return Outcome(error: X509_V_ERR_OUT_OF_MEM) }
        defer { X509_STORE_CTX_free(context) }
        guard X509_STORE_CTX_init(context, store, leaf, untrusted) == 1 else {
            return Outcome(error: X509_V_ERR_UNSPECIFIED)
        }
        if let trusted { X509_STORE_CTX_set0_trusted_stack(context, trusted.pointer) }
        guard let parameters = X509_STORE_CTX_get0_param(context), configure(parameters) else {
            return Outcome(error: X509_V_ERR_UNSPECIFIED)
        }
        X509_STORE_CTX_set_verify_cb(context, acceptLastSecond)

        let result = withExtendedLifetime(trusted) { X509_verify_cert(context) }
        let error = X509_STORE_CTX_get_error(context)
        let chain = CertificateStack.certificates(in: X509_STORE_CTX_get0_chain(context)) { known.owner(of: $0) }
        guard result == 1, error == X509_V_OK, !chain.isEmpty else {
            return Outcome(
                error: error == X509_V_OK ? X509_V_ERR_UNSPECIFIED : error,
                chain: chain,
                depth: Int(X509_STORE_CTX_get_error_depth(context))
            )
        }
        return objection(in: chain) ?? Outcome(error: X509_V_OK, chain: chain)
    }

    /// What OpenSSL does not check in a validated chain.
    private func objection(in chain: [Certificate]) -> Outcome? {
        if longestChain < ChainVerification.depth,
            chain.dropFirst().dropLast().count(where: { !$0.isSelfIssued }) > longestChain
        {
            return Outcome(error: X509_V_ERR_CERT_CHAIN_TOO_LONG, chain: chain, depth: chain.count - 1)
        }
        if let outcome = constraintObjection(in: chain) { return outcome }
        guard let (error, depth) = revocation?.objection(in: chain) else { return nil }
        return Outcome(error: error, chain: chain, depth: depth)
    }

    /// Checks the host itself against the name constraints of the CAs in the chain, because a wildcard name can evade
    /// them.
    private func constraintObjection(in chain: [Certificate]) -> Outcome? {
        guard let host else { return nil }
        for (depth, authority) in chain.enumerated().dropFirst() {
            guard let objection = NameConstraints.objection(of: authority, to: host) else { continue }
            let error =
                switch objection {
                case .notPermitted: X509_V_ERR_PERMITTED_VIOLATION
                case .excluded: X509_V_ERR_EXCLUDED_VIOLATION
                case .unreadable: X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX
                }
            return Outcome(error: error, chain: chain, depth: depth)
        }
        return nil
    }

    /// The verification parameters, each set again (X509_VERIFY_PARAM_set_flags(3)).
    private func configure(_ parameters: OpaquePointer) -> Bool {
        // The flags of the store are inherited; only those set here may remain.
        X509_VERIFY_PARAM_clear_flags(parameters, X509_VERIFY_PARAM_get_flags(parameters))
        var flags = UInt(X509_V_FLAG_PARTIAL_CHAIN) | UInt(X509_V_FLAG_TRUSTED_FIRST)
        if ignoresDates { flags |= UInt(X509_V_FLAG_NO_CHECK_TIME) }
        guard X509_VERIFY_PARAM_set_flags(parameters, flags) == 1,
            X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER) == 1,
            X509_VERIFY_PARAM_set_trust(parameters, X509_TRUST_SSL_SERVER) == 1
        else { return false }
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)
        X509_VERIFY_PARAM_set_depth(parameters, Int32(ChainVerification.depth))
        // An explicit time would override X509_V_FLAG_NO_CHECK_TIME.
        if !ignoresDates { X509_VERIFY_PARAM_set_time(parameters, time_t(now)) }
        X509_VERIFY_PARAM_set_hostflags(
            parameters,
            UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
        )
        return configureHost(parameters)
    }

    private func configureHost(_ parameters: OpaquePointer) -> Bool {
        guard let host else { return true }
        // OpenSSL skips the check when the name is empty.
        guard !host.bytes.isEmpty else { return false }
        let text = host.bytes.map { CChar(bitPattern: $0) } + [0]
        switch host.kind {
        case .name:
            guard X509_VERIFY_PARAM_set1_host(parameters, text, host.bytes.count) == 1 else { return false }
            guard let standIn = Self.standIn(for: host) else { return true }
            return X509_VERIFY_PARAM_add1_host(parameters, standIn.map { CChar(bitPattern: $0) } + [0], standIn.count)
                == 1
        case .ipv4, .ipv6: return X509_VERIFY_PARAM_set1_ip_asc(parameters, text) == 1
        }
    }

    /// A name that a wildcard matches just as it matches the host, for a host whose first label has an underscore, as buckets and
    /// branches of large services have: OpenSSL takes none in such a label, other programs do. It is random, so that no certificate
    /// holds it as a name.
    private static func standIn(for host: Host) -> [UInt8]? {
        guard let dot = host.bytes.firstIndex(of: UInt8(ascii: ".")), host.bytes[..<dot].contains(UInt8(ascii: "_"))
        else {
            return nil
        }
        let letters = UInt8(ascii: "a")...UInt8(ascii: "z")
        return (0..<32).map { _ in UInt8.random(in: letters) } + host.bytes[dot...]
    }
}

extension ChainVerification.Outcome {
    /// Whether no path to an anchor was found, in contrast to a path that was found and refused.
    var isMissingPath: Bool {
        switch error {
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_CERT_UNTRUSTED:
            true
        default: false
        }
    }

    /// Whether every path with the certificate that failed is invalid for the same reason.
    var isOfCertificateAlone: Bool {
        switch error {
        case X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD,
            X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD, X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH,
            X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_INVALID_CA, X509_V_ERR_INVALID_EXTENSION,
            X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION, X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL:
            true
        default: false
        }
    }
}

/// A store whose contexts take the issuer of each certificate from its place: the next in the stack of untrusted certificates, or
/// the anchor for the last of these. OpenSSL would choose by the name, and two certificates of a path can have the same.
///
/// - Note: `Sendable` because the store is filled in the initialiser, and OpenSSL only reads it from then on.
private final class ExactOrder: @unchecked Sendable {
    static let store = ExactOrder()

    /// An owned reference to an `X509_STORE`.
    let pointer: OpaquePointer

    private init() {
        guard let store = X509_STORE_new() else { fatalError("out of memory") }
        pointer = store
        X509_STORE_set_check_issued(store) { context, subject, issuer in
            let stack = X509_STORE_CTX_get0_untrusted(context)
            let count = OPENSSL_sk_num(stack)
            func certificate(_ place: Int32) -> OpaquePointer? {
                OPENSSL_sk_value(stack, place).map { OpaquePointer($0) }
            }
            guard let depth = (0..<max(0, count)).first(where: { certificate($0) == subject }) else {
                // The anchor: whether it has issued itself is asked for its revocation list.
                return subject == issuer && X509_check_issued(issuer, subject) == X509_V_OK ? 1 : 0
            }
            if depth + 1 < count { return certificate(depth + 1) == issuer ? 1 : 0 }
            return (0..<count).contains { certificate($0) == issuer } ? 0 : 1
        }
    }

    deinit { X509_STORE_free(pointer) }
}

/// A certificate is valid up to and including the second of its `notAfter` (RFC 5280, section 4.1.2.5), for which OpenSSL calls
/// it expired.
private func acceptLastSecond(_ result: Int32, _ context: OpaquePointer?) -> Int32 {
    guard result == 0, let context, X509_STORE_CTX_get_error(context) == X509_V_ERR_CERT_HAS_EXPIRED,
        let certificate = X509_STORE_CTX_get_current_cert(context),
        let parameters = X509_STORE_CTX_get0_param(context),
        Certificate.seconds(X509_get0_notAfter(certificate)) == Int64(X509_VERIFY_PARAM_get_time(parameters))
    else { return result }
    X509_STORE_CTX_set_error(context, X509_V_OK)
    return 1
}
