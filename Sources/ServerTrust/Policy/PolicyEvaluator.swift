import COpenSSL
import HTTPCore

/// One evaluation of a policy: the mode table of the documentation, cell by cell.
///
/// A result starts as a refusal. It changes only when all conditions of a cell have been met.
struct PolicyEvaluator {
    let policy: SecurityPolicy
    let presented: PresentedChain
    let host: Host
    let anchors: TrustAnchors
    let now: Int64

    private var settings: SecurityPolicy.Configuration { policy.configuration }

    /// The second at which the pin set expires.
    private var pinSetEnd: Int64? { settings.expiration?.end }

    func evaluate() -> EvaluationResult {
        if let pinSetEnd, now >= pinSetEnd { return expired() }
        var result =
            switch (settings.pinningMode, settings.allowInvalidCertificates) {
            case (.none, false): unpinned()
            case (.none, true): unverified()
            case (.certificate, false): pinnedCertificate()
            case (.certificate, true): pinnedCertificateAlone()
            case (.publicKey, false): pinnedKey()
            case (.publicKey, true): pinnedKeyAlone()
            }
        if let pinSetEnd { result.goodUntil = min(result.goodUntil, pinSetEnd) }
        return result
    }

    // MARK: - The cells

    /// Mode `none`: chain and host.
    private func unpinned() -> EvaluationResult {
        var result = validated()
        guard result.isChainValidated, !isForbidden(&result) else { return result }
        result.verdict = settings.validatesDomainName ? .notPinned : .unverified
        return result
    }

    /// Mode `none` without any check. Forbidden keys are looked for in the certificates as sent, because there is no
    /// validated chain.
    private func unverified() -> EvaluationResult {
        var result = EvaluationResult()
        result.chain = presented.certificates()
        if isForbidden(&result) { return result }
        result.verdict = .unverified
        return result
    }

    /// Mode `certificate`: chain and host, then once more with the pinned certificates as the only anchors.
    private func pinnedCertificate() -> EvaluationResult {
        var result = validated()
        guard result.isChainValidated, !isForbidden(&result) else { return result }
        let second = verifyAgainstPinned()
        guard second.isValid, let match = match(certificatesIn: second.chain) else {
            mismatch(&result, verifyError: second.error)
            return result
        }
        if isForbidden(&result, in: second.chain) { return result }
        age(&result, by: second.chain)
        result.matchedPin = match.publicKeyPin
        result.verdict = .pass
        return result
    }

    /// Mode `certificate` with invalid certificates allowed: only the pinned certificates are anchors; dates and host
    /// still count.
    private func pinnedCertificateAlone() -> EvaluationResult {
        var result = EvaluationResult()
        result.chain = presented.certificates()
        let outcome = verifyAgainstPinned()
        guard outcome.isValid, let match = match(certificatesIn: outcome.chain) else {
            refuse(&result, outcome, untrustedMeansMismatch: true)
            return result
        }
        accept(&result, chain: outcome.chain)
        if isForbidden(&result) { return result }
        result.matchedPin = match.publicKeyPin
        result.verdict = .pass
        return result
    }

    /// Mode `publicKey`: chain and host, and a pinned key in the validated chain.
    private func pinnedKey() -> EvaluationResult {
        var result = validated()
        guard result.isChainValidated, !isForbidden(&result) else { return result }
        guard match(keysIn: result.chain, &result) else {
            mismatch(&result, verifyError: X509_V_OK)
            return result
        }
        result.verdict = .pass
        return result
    }

    /// Mode `publicKey` with invalid certificates allowed: the leaf holds a pinned key, or the path verifies up to a
    /// certificate that holds one. The host still counts, dates do not.
    private func pinnedKeyAlone() -> EvaluationResult {
        var result = EvaluationResult()
        result.chain = presented.certificates()
        let leaf = Certificate(retaining: presented.leaf)
        let leafAnchors = CertificateStack([leaf])
        let holdsPin = policy.pins.contains { $0.key == leaf.publicKeyPin && $0.counts(at: 0) }
        var outcome: ChainVerification.Outcome
        if holdsPin {
            // The key is the identity: the handshake proves its possession, and no path is needed.
            outcome = verification(ignoringDates: true).verify(
                presented,
                anchors: .stack(leafAnchors.pointer),
                alone: true
            )
        } else if settings.validatesDomainName {
            outcome = verifyUpToPinnedKey(sent: result.chain)
        } else {
            outcome = .init(error: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
        }
        guard outcome.isValid, match(keysIn: outcome.chain, &result) else {
            refuse(&result, outcome, untrustedMeansMismatch: true)
            return result
        }
        result.chain = outcome.chain
        result.isChainValidated = true
        if isForbidden(&result) { return result }
        result.verdict = .pass
        return result
    }

    /// After the last day of the pin set.
    private func expired() -> EvaluationResult {
        let day = settings.expiration.map { "\($0)" } ?? ""
        func expire(_ result: inout EvaluationResult) {
            result.verdict = .fail
            result.failure = .pinSetExpired
            result.reason = "the pin set of \(policy.domain ?? host) held until \(day)"
            result.remedy = "check the server's pins, renew the set and its expiration in the pin file"
        }
        var result: EvaluationResult
        switch (settings.onExpiration, settings.enforcePinning) {
        case (.unpinned, _):
            result = validated(checksHost: true)
            guard result.isChainValidated, !isForbidden(&result) else { return result }
            result.verdict = .expired
        case (.deny, false):
            result = validated()
            guard result.isChainValidated, !isForbidden(&result) else { return result }
            expire(&result)
            result.verdict = .reportOnly
        case (.deny, true):
            result = EvaluationResult()
            result.chain = presented.certificates()
            expire(&result)
        }
        return result
    }

    // MARK: - Verifications

    private func verification(ignoringDates: Bool = false, checksHost: Bool? = nil) -> ChainVerification {
        ChainVerification(
            host: checksHost ?? settings.validatesDomainName ? host : nil,
            now: now,
            ignoresDates: ignoringDates,
            revocationLists: settings.revocationLists,
            revocationScope: settings.revocationScope
        )
    }

    /// Chain to the trust anchors, and host.
    private func validated(checksHost: Bool? = nil) -> EvaluationResult {
        var result = EvaluationResult()
        let outcome = verification(checksHost: checksHost).verify(presented, anchors: .store(anchors.store))
        if outcome.isValid {
            accept(&result, chain: outcome.chain)
        } else {
            result.chain = presented.certificates()
            refuse(&result, outcome, untrustedMeansMismatch: false)
        }
        return result
    }

    /// With the pinned certificates as the only anchors. A leaf that is pinned needs no path.
    private func verifyAgainstPinned() -> ChainVerification.Outcome {
        guard let stack = policy.pinnedStack else {
            return .init(error: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
        }
        let leaf = Certificate(retaining: presented.leaf)
        let isLeafPinned = policy.pinnedCertificates.contains { $0.isSame(as: leaf) }
        if !isLeafPinned, !settings.validatesDomainName {
            return .init(error: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
        }
        var verification = verification()
        // The path to the trust anchors has been checked against the lists; this one ends at the pinned certificate.
        verification.revocationLists = nil
        return verification.verify(presented, anchors: .stack(stack.pointer), alone: isLeafPinned)
    }

    /// A path up to a certificate with a pinned key: one given in the pin file or sent, taken as the anchor, or one on
    /// the way to the trust anchors.
    ///
    /// The holder of a CA's key can make another certificate for this key, without the constraints of the real one.
    /// Therefore, if the pin file or the trust anchors contain a certificate of the key, no other one is accepted for
    /// it.
    private func verifyUpToPinnedKey(sent: [Certificate]) -> ChainVerification.Outcome {
        let known = policy.pinnedCertificates
        let others = sent.dropFirst().filter { certificate in
            !anchors.holds(certificate.publicKeyPin)
                && !known.contains { $0.publicKeyPin == certificate.publicKeyPin }
        }
        let candidates = (known + others).filter { certificate in
            policy.pins.contains { $0.key == certificate.publicKeyPin && $0.counts(at: 1) }
        }
        let verification = verification(ignoringDates: true)
        var first = ChainVerification.Outcome(error: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
        if !candidates.isEmpty {
            let stack = CertificateStack(candidates)
            first = withExtendedLifetime(stack) { verification.verify(presented, anchors: .stack(stack.pointer)) }
            if first.isValid { return first }
        }
        let second = verification.verify(presented, anchors: .store(anchors.store))
        if second.isValid { return second }
        // Of two refusals the more specific one: a wrong host, purpose or strength rather than "no path".
        return VerifyError(first.error).isMissingPath ? second : first
    }

    // MARK: - Matching

    /// Looks for the pins in a validated chain; without a host check only in the leaf.
    private func match(keysIn chain: [Certificate], _ result: inout EvaluationResult) -> Bool {
        var backup: PublicKeyPin?
        for (depth, certificate) in chain.enumerated() {
            if depth > 0, !settings.validatesDomainName { break }
            for pin in policy.pins where pin.key == certificate.publicKeyPin && pin.counts(at: depth) {
                if pin.isBackup {
                    backup = backup ?? pin.key
                } else {
                    result.matchedPin = pin.key
                    result.matchedBackupOnly = false
                    return true
                }
            }
        }
        result.matchedPin = backup
        result.matchedBackupOnly = backup != nil
        return backup != nil
    }

    private func match(certificatesIn chain: [Certificate]) -> Certificate? {
        let counted = settings.validatesDomainName ? chain[...] : chain.prefix(1)
        return counted.first { certificate in
            policy.pinnedCertificates.contains { $0.isSame(as: certificate) }
        }
    }

    /// Whether the chain contains a forbidden key; the result is set accordingly. It is refused even where pins are not
    /// enforced: keys that are known to be bad need no trial period.
    private func isForbidden(_ result: inout EvaluationResult, in chain: [Certificate]? = nil) -> Bool {
        for (depth, certificate) in (chain ?? result.chain).enumerated() {
            guard
                let pin = settings.forbiddenPins.first(where: {
                    $0.key == certificate.publicKeyPin && $0.counts(at: depth)
                })
            else { continue }
            result.failure = .pinForbidden
            result.reason = "the key \(pin.key) of \"\(certificate.subject)\" is forbidden"
            result.remedy = "have the server use another key; the pin file's forbiddenPins names this one"
            result.verdict = .fail
            return true
        }
        return false
    }

    // MARK: - Result

    private func accept(_ result: inout EvaluationResult, chain: [Certificate]) {
        result.chain = chain
        result.isChainValidated = true
        age(&result, by: chain)
        if let lists = settings.revocationLists {
            result.goodUntil = min(result.goodUntil, lists.expiry(for: chain))
        }
    }

    private func age(_ result: inout EvaluationResult, by chain: [Certificate]) {
        // OpenSSL has refused an end that is not a time. Should it read one that this program cannot, the verdict has ended.
        for certificate in chain { result.certificateEnd = min(result.certificateEnd, certificate.notAfter ?? .min) }
        result.goodUntil = min(result.goodUntil, result.certificateEnd)
    }

    /// Records a valid chain without a pin.
    private func mismatch(_ result: inout EvaluationResult, verifyError: Int32) {
        result.verdict = settings.enforcePinning ? .fail : .reportOnly
        result.failure = .pinMismatch
        result.verifyError = verifyError
        let what = settings.pinningMode == .certificate ? "certificates" : "keys"
        result.reason = "\(host) offered none of the pinned \(what)"
        result.remedy = "ask the server's operator whether the \(what) changed, then add the new pin to the pin file"
    }

    private func refuse(
        _ result: inout EvaluationResult,
        _ outcome: ChainVerification.Outcome,
        untrustedMeansMismatch: Bool
    ) {
        let error = VerifyError(outcome.error)
        if untrustedMeansMismatch, error.isMissingPath || outcome.isValid {
            mismatch(&result, verifyError: outcome.error)
            result.verdict = .fail
            return
        }
        result.verdict = .fail
        result.failure = error.failure
        result.verifyError = outcome.error
        let leaf = Certificate(retaining: presented.leaf)
        result.reason = error.reason(host: host, subject: outcome.failedSubject, leaf: leaf)
        result.remedy = error.remedy(host: host, leaf: leaf)
    }
}
