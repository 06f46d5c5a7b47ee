public import HTTPCore

/// Why a server was refused, or would have been: the stable codes of log and error answers.
public enum TrustFailure: String, Sendable, CaseIterable {
    /// The chain holds, and no pinned key or certificate is in it.
    case pinMismatch = "pin_mismatch"
    /// The last day of the pin set is over.
    case pinSetExpired = "pin_set_expired"
    /// A key in the chain is among the forbidden ones.
    case pinForbidden = "pin_forbidden"
    /// No valid path to a trust anchor, or one against the rules for TLS servers.
    case certificateUntrusted = "certificate_untrusted"
    /// A certificate of the path is not valid yet, or not any more.
    case certificateExpired = "certificate_expired"
    /// The certificate is not made out to the host.
    case certificateHostMismatch = "certificate_host_mismatch"
    /// A revocation list names the certificate, or none says that it does not.
    case certificateRevoked = "certificate_revoked"
    /// The server sent no OCSP response that proves its certificate good.
    case stapleMissing = "staple_missing"
}

/// The report of one evaluation: the verdict, what was offered, what was expected, what matched, and why not.
public final class TrustEvaluation: Sendable {
    /// The word for the log.
    public enum Verdict: String, Sendable, CaseIterable {
        /// A pin matched, and everything else that the policy demands holds.
        case pass
        /// Refused: no byte of a request may be sent.
        case fail
        /// No pin matched, and the policy only reports that.
        case reportOnly
        /// Chain and host were checked; no pin applies.
        case notPinned
        /// Let through unidentified, because the policy says so.
        case unverified
        /// The pin set has expired and the policy falls back to chain and host, which were checked.
        case expired
    }

    /// What became of it.
    public let verdict: Verdict
    /// Why it failed; for `reportOnly`, why it would have failed.
    public let failure: TrustFailure?
    /// The failure for people, without a full stop; empty without a failure.
    public let reason: String
    /// What to do about the failure, without a full stop.
    public let remedy: String
    /// The pinning mode that was applied.
    public let mode: SSLPinningMode
    /// The domain whose policy was applied.
    public let domain: Host?
    /// The host that the server was asked to prove.
    public let host: Host
    /// The certificates judged, leaf first: the chain as OpenSSL validated it, or as sent (at most 32) where none was.
    public let chain: [Certificate]
    /// Whether `chain` is the one that OpenSSL validated.
    public let isChainValidated: Bool
    private let presented: CertificateStack
    /// The pins that would have matched.
    public let expectedPins: [PublicKeyPin]
    /// The pin that matched; in mode `certificate` the key of the certificate that matched.
    public let matchedPin: PublicKeyPin?
    /// Whether nothing but backup pins matched: time to make the file say so.
    public let matchedBackupOnly: Bool
    /// OpenSSL's code of the verification that decided (`X509_V_OK` is 0; see X509_STORE_CTX_get_error(3)).
    public let verifyError: Int32
    /// The second from which the verdict holds no more (seconds since 1970): the first end of a certificate's validity
    /// in the validated chain, of the pin set, of a revocation list, or of the staple. `Int64.max`: never.
    public let goodUntil: Int64
    /// When the first certificate of the validated chain ends, where that counts (seconds since 1970); `Int64.max` where
    /// it does not.
    public let certificateEnd: Int64
    /// The first second after the pin set's last day (seconds since 1970); `Int64.max` for pins without an end.
    public let pinSetEnd: Int64
    private let stapleEnd: Int64

    /// Whether it is the pins that failed, or would have: what is reported.
    public var isPinFailure: Bool {
        switch failure {
        case .pinMismatch, .pinForbidden, .pinSetExpired: true
        default: false
        }
    }

    /// Whether requests may be sent.
    public var isAccepted: Bool { verdict != .fail }

    /// Whether the verdict still lets a request through: asked again for each request on a connection that lives on.
    ///
    /// - Parameter now: seconds since 1970.
    public func isStillGood(at now: Int64) -> Bool { verdict != .fail && now < goodUntil }

    /// What has ended since a verdict was given that let requests through; nil as long as it is still good.
    ///
    /// - Parameter now: seconds since 1970.
    package func lapse(at now: Int64) -> TrustFailure? {
        guard now >= goodUntil else { return nil }
        if now >= pinSetEnd { return .pinSetExpired }
        if now >= certificateEnd { return .certificateExpired }
        return now >= stapleEnd ? .stapleMissing : .certificateRevoked
    }

    /// The certificates in the order in which the server sent them, its own first; at most 32. Nobody vouches for any
    /// that is not in a validated `chain`.
    public var presentedChain: [Certificate] { CertificateStack.certificates(in: presented.pointer) }

    /// What the server offered, leaf first.
    public var offeredPins: [(pin: PublicKeyPin, subject: String)] {
        chain.map { ($0.publicKeyPin, $0.subject) }
    }

    init(_ result: EvaluationResult, presented: CertificateStack, policy: SecurityPolicy, host: Host) {
        self.presented = presented
        verdict = result.verdict
        failure = result.failure
        reason = result.reason
        remedy = result.remedy
        mode = policy.pinningMode
        domain = policy.domain
        self.host = host
        chain = result.chain
        isChainValidated = result.isChainValidated
        expectedPins = policy.expectedPins
        matchedPin = result.matchedPin
        matchedBackupOnly = result.matchedBackupOnly
        verifyError = result.verifyError
        goodUntil = result.goodUntil
        certificateEnd = result.certificateEnd
        pinSetEnd = policy.configuration.expiration?.end ?? .max
        stapleEnd = result.stapleEnd
    }
}

/// What an evaluation has found so far; it starts as a refusal.
struct EvaluationResult {
    var verdict: TrustEvaluation.Verdict = .fail
    var failure: TrustFailure?
    var reason = ""
    var remedy = ""
    var chain: [Certificate] = []
    var isChainValidated = false
    var matchedPin: PublicKeyPin?
    var matchedBackupOnly = false
    var verifyError: Int32 = 0
    var goodUntil = Int64.max
    var certificateEnd = Int64.max
    var stapleEnd = Int64.max
}

extension TrustEvaluation: CustomStringConvertible {
    /// One line for people: verdict, code, reason, remedy.
    public var description: String {
        guard let failure else { return verdict.rawValue }
        return "\(verdict.rawValue): \(failure.rawValue): \(reason) (\(remedy))"
    }
}
