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

    /// The largest number of certificates besides the leaf that are used: a hostile server may send hundreds.
    static let bound = 31

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

/// One call of X509_verify_cert(3) with this program's parameters.
///
/// OpenSSL builds every path; pins are looked for in the chain that it returns, never in the certificates as sent. Each
/// call has a context of its own, so that no setting of a caller's `SSL`, `SSL_CTX` or store can weaken it.
struct ChainVerification {
    enum Anchors {
        /// An `X509_STORE`.
        case store(OpaquePointer)
        /// A `STACK_OF(X509)`.
        case stack(OpaquePointer)
    }

    /// The name to check; `nil` skips the check.
    var host: Host?
    /// Seconds since 1970.
    var now: Int64
    /// Whether validity periods are ignored.
    var ignoresDates = false
    var revocationLists: RevocationLists?
    var revocationScope: RevocationLists.Scope = .leaf

    /// The largest number of certificates between leaf and anchor.
    private static let depth: Int32 = 10

    struct Outcome {
        /// `X509_V_OK`, or the error.
        var error: Int32
        /// The validated chain, leaf first, anchor last; empty on an error.
        var chain: [Certificate] = []
        /// The subject of the certificate that failed, where OpenSSL names one.
        var failedSubject: String?

        var isValid: Bool { error == X509_V_OK }
    }

    /// Builds and checks a path from the leaf to the anchors.
    ///
    /// - Parameter alone: whether the leaf has to be an anchor itself; the other certificates are ignored then.
    func verify(_ presented: PresentedChain, anchors: Anchors, alone: Bool = false) -> Outcome {
        guard let context = X509_STORE_CTX_new() else { return Outcome(error: X509_V_ERR_OUT_OF_MEM) }
        defer { X509_STORE_CTX_free(context) }
        let store: OpaquePointer? = if case .store(let store) = anchors { store } else { nil }
        let untrusted = alone ? nil : presented.untrusted
        guard X509_STORE_CTX_init(context, store, presented.leaf, untrusted) == 1 else {
            return Outcome(error: X509_V_ERR_UNSPECIFIED)
        }
        if case .stack(let stack) = anchors { X509_STORE_CTX_set0_trusted_stack(context, stack) }
        guard let parameters = X509_STORE_CTX_get0_param(context), configure(parameters) else {
            return Outcome(error: X509_V_ERR_UNSPECIFIED)
        }
        if let revocationLists { X509_STORE_CTX_set0_crls(context, revocationLists.pointer) }

        let result = X509_verify_cert(context)
        let error = X509_STORE_CTX_get_error(context)
        guard result == 1, error == X509_V_OK else {
            let failed = X509_STORE_CTX_get_current_cert(context)
            return Outcome(
                error: error == X509_V_OK ? X509_V_ERR_UNSPECIFIED : error,
                failedSubject: failed.map { Certificate.text(of: X509_get_subject_name($0)) }
            )
        }
        let chain = CertificateStack.certificates(in: X509_STORE_CTX_get0_chain(context))
        if chain.isEmpty { return Outcome(error: X509_V_ERR_UNSPECIFIED) }
        return objection(in: chain) ?? Outcome(error: X509_V_OK, chain: chain)
    }

    /// Checks the host itself against the name constraints of the CAs in a validated chain, because a wildcard name can
    /// evade them.
    private func objection(in chain: [Certificate]) -> Outcome? {
        guard let host else { return nil }
        for authority in chain.dropFirst() {
            guard let objection = NameConstraints.objection(of: authority, to: host) else { continue }
            let error =
                switch objection {
                case .notPermitted: X509_V_ERR_PERMITTED_VIOLATION
                case .excluded: X509_V_ERR_EXCLUDED_VIOLATION
                case .unreadable: X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX
                }
            return Outcome(error: error, failedSubject: authority.subject)
        }
        return nil
    }

    /// The verification parameters, each set again (X509_VERIFY_PARAM_set_flags(3)).
    private func configure(_ parameters: OpaquePointer) -> Bool {
        // The flags of the store are inherited; only those set here may remain.
        X509_VERIFY_PARAM_clear_flags(parameters, X509_VERIFY_PARAM_get_flags(parameters))
        var flags = UInt(X509_V_FLAG_PARTIAL_CHAIN) | UInt(X509_V_FLAG_TRUSTED_FIRST)
        if ignoresDates { flags |= UInt(X509_V_FLAG_NO_CHECK_TIME) }
        if revocationLists != nil {
            flags |= UInt(X509_V_FLAG_CRL_CHECK)
            if revocationScope == .chain { flags |= UInt(X509_V_FLAG_CRL_CHECK_ALL) }
        }
        guard X509_VERIFY_PARAM_set_flags(parameters, flags) == 1,
            X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER) == 1,
            X509_VERIFY_PARAM_set_trust(parameters, X509_TRUST_SSL_SERVER) == 1
        else { return false }
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)
        X509_VERIFY_PARAM_set_depth(parameters, ChainVerification.depth)
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
        case .name: return X509_VERIFY_PARAM_set1_host(parameters, text, host.bytes.count) == 1
        case .ipv4, .ipv6: return X509_VERIFY_PARAM_set1_ip_asc(parameters, text) == 1
        }
    }
}
