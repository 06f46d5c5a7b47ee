// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The reason why a server was refused, or would have been: the stable codes of the log and of error responses.
public enum TrustFailure: String, Sendable, CaseIterable {
    /// The chain is valid, but contains no pinned key or certificate.
    case pinMismatch = "pin_mismatch"
    /// The last day of the pin set is over.
    case pinSetExpired = "pin_set_expired"
    /// A key in the chain is among the forbidden ones.
    case pinForbidden = "pin_forbidden"
    /// No valid path to a trust anchor, or one against the rules for TLS servers.
    case certificateUntrusted = "certificate_untrusted"
    /// A certificate of the path is not valid yet, or has expired.
    case certificateExpired = "certificate_expired"
    /// The certificate does not name the host.
    case certificateHostMismatch = "certificate_host_mismatch"
    /// A revocation list contains the certificate, or no current list covers it.
    case certificateRevoked = "certificate_revoked"
    /// The server sent no OCSP response that proves its certificate good.
    case stapleMissing = "staple_missing"
}

/// The report of one evaluation: the verdict, the offered and expected keys, the match, and the reason for a refusal.
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
        /// Accepted without identification, because the policy says so.
        case unverified
        /// The pin set has expired and the policy falls back to chain and host, which were checked.
        case expired
    }

    /// The verdict.
    public let verdict: Verdict
    /// The reason for the failure; for `reportOnly`, of the failure that was not enforced.
    public let failure: TrustFailure?
    /// The failure in words, without a full stop; empty without a failure.
    public let reason: String
    /// The remedy for the failure, without a full stop.
    public let remedy: String
    /// The pinning mode that was applied.
    public let mode: SSLPinningMode
    /// The domain whose policy was applied.
    public let domain: Host?
    /// The host that the server had to prove to be.
    public let host: Host
    /// The evaluated certificates, leaf first: a path that OpenSSL validated, or what was sent (at most 64) where none
    /// is valid.
    public let chain: [Certificate]
    /// Whether `chain` is the one that OpenSSL validated.
    public let isChainValidated: Bool
    /// Whether `chain` is another path than the one that OpenSSL builds by itself: that one was invalid, or held no pin.
    public let isOtherPath: Bool
    private let presented: CertificateStack
    /// The pins that would have matched.
    public let expectedPins: [PublicKeyPin]
    /// The pin that matched; in mode `certificate` the key of the certificate that matched.
    public let matchedPin: PublicKeyPin?
    /// Whether only backup pins matched: the pin file should be updated.
    public let matchedBackupOnly: Bool
    /// OpenSSL's code of the verification that decided (`X509_V_OK` is 0; see X509_STORE_CTX_get_error(3)).
    public let verifyError: Int32
    /// The second at which the verdict expires (seconds since 1970): the first end of a certificate's validity in the
    /// validated chain, of the pin set, of a revocation list, or of the staple. `Int64.max`: never.
    package let goodUntil: Int64
    /// The first second after the earliest end of a certificate in the validated chain (seconds since 1970); `Int64.max` where
    /// dates do not count.
    package let certificateEnd: Int64
    /// From when on the end of a certificate in the chain of a pinned domain is near (`CertificateNotice`).
    let noticeFrom: Int64
    /// The first second after the pin set's last day (seconds since 1970); `Int64.max` for pins without an end.
    package let pinSetEnd: Int64
    private let stapleEnd: Int64
    /// The lists that are missing for a server which is refused for no other reason; empty for all others.
    package let missingLists: [RevocationListNeed]
    /// What the verdict has taken from fetched lists; nil where there are none.
    private let revocation: RevocationRecord?

    /// Whether the pins failed, or would have failed: only this is reported.
    public var isPinFailure: Bool {
        switch failure {
        case .pinMismatch, .pinForbidden, .pinSetExpired: true
        default: false
        }
    }

    /// Whether requests may be sent.
    public var isAccepted: Bool { verdict != .fail }

    /// Whether the verdict still allows a request: checked for each request on a persistent connection.
    ///
    /// - Parameter now: seconds since 1970.
    package func isStillGood(at now: Int64) -> Bool {
        verdict != .fail && now < goodUntil && (revocation?.holds ?? true)
    }

    /// The reason why a verdict that allowed requests has expired; nil as long as the verdict is still good.
    ///
    /// - Parameter now: seconds since 1970.
    package func lapse(at now: Int64) -> TrustFailure? {
        guard now >= goodUntil else { return revocation?.holds == false ? .certificateRevoked : nil }
        if now >= pinSetEnd { return .pinSetExpired }
        if now >= certificateEnd { return .certificateExpired }
        return now >= stapleEnd ? .stapleMissing : .certificateRevoked
    }

    /// The certificates in the order in which the server sent them, its own first; at most 64. A certificate that is
    /// not in a validated `chain` proves nothing.
    public var presentedChain: [Certificate] { CertificateStack.certificates(in: presented.pointer) }

    /// The keys that the server offered, leaf first, with their subjects.
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
        isOtherPath = result.isOtherPath
        expectedPins = policy.expectedPins
        matchedPin = result.matchedPin
        matchedBackupOnly = result.matchedBackupOnly
        verifyError = result.verifyError
        goodUntil = result.goodUntil
        certificateEnd = result.certificateEnd
        noticeFrom = result.noticeFrom
        pinSetEnd = policy.configuration.expiration?.end ?? .max
        stapleEnd = result.stapleEnd
        missingLists = result.missingLists
        revocation = result.revocation
    }
}

/// The result of an evaluation while it is being made; it starts as a refusal.
struct EvaluationResult {
    var verdict: TrustEvaluation.Verdict = .fail
    var failure: TrustFailure?
    var reason = ""
    var remedy = ""
    var chain: [Certificate] = []
    var isChainValidated = false
    var isOtherPath = false
    var matchedPin: PublicKeyPin?
    var matchedBackupOnly = false
    var verifyError: Int32 = 0
    var goodUntil = Int64.max
    var certificateEnd = Int64.max
    var noticeFrom = Int64.max
    var stapleEnd = Int64.max
    var missingLists: [RevocationListNeed] = []
    var revocation: RevocationRecord?
}

extension TrustEvaluation: CustomStringConvertible {
    /// One readable line: verdict, code, reason, remedy.
    public var description: String {
        guard let failure else { return verdict.rawValue }
        return "\(verdict.rawValue): \(failure.rawValue): \(reason) (\(remedy))"
    }
}
