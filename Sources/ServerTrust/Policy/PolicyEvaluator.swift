// SPDX-License-Identifier: Apache-2.0
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
    /// nil without lists.
    let revocation: RevocationCheck?
    /// What all searches together may cost.
    let budget: PathBuilder.Budget

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
        var result = validated().result
        guard result.failure == nil else { return result }
        result.verdict = settings.validatesDomainName ? .notPinned : .unverified
        return result
    }

    /// Mode `none` without any check. Forbidden keys are looked for in the certificates as sent, because there is no
    /// validated chain.
    private func unverified() -> EvaluationResult {
        var result = EvaluationResult()
        result.chain = presented.certificates()
        if isForbidden(&result, result.chain) { return result }
        result.verdict = .unverified
        return result
    }

    /// Mode `certificate`: chain and host, and a pinned certificate in a validated chain; or, beside such a chain, one to a pinned
    /// certificate as the anchor, as AFSecurityPolicy has it.
    private func pinnedCertificate() -> EvaluationResult {
        var (result, search) = validated()
        guard result.failure == nil else { return result }
        if let match = match(certificatesIn: result.chain) {
            result.matchedPin = match.publicKeyPin
            result.verdict = .pass
            return result
        }
        if let chain = search.next(where: { match(certificatesIn: $0) != nil }) {
            var other = EvaluationResult()
            accept(&other, chain: chain, isFirst: false)
            other.matchedPin = match(certificatesIn: chain)?.publicKeyPin
            other.verdict = .pass
            return other
        }
        // Lists for all of a chain would not be asked about an anchor: its issuer may have revoked it.
        let hasListsOfAll = revocation != nil && settings.revocationScope == .chain
        var second = hasListsOfAll ? nil : searchUpToPinned()
        guard let chain = second?.first(), let match = match(certificatesIn: chain) else {
            mismatch(&result, explains: true, second?.failure ?? .noIssuer(of: result.chain[0]))
            return result
        }
        if let found = second, isForbidden(&result, chain, found) { return result }
        age(&result, by: chain)
        result.matchedPin = match.publicKeyPin
        result.verdict = .pass
        return result
    }

    /// Mode `certificate` with invalid certificates allowed: only the pinned certificates are anchors; dates and host
    /// still count.
    private func pinnedCertificateAlone() -> EvaluationResult {
        var result = EvaluationResult()
        result.chain = presented.certificates()
        // Above the pinned certificate nothing is validated, and a forbidden key there counts as well.
        if isForbidden(&result, result.chain) { return result }
        var search = searchUpToPinned()
        guard let chain = search?.first(), let match = match(certificatesIn: chain) else {
            refuse(&result, search?.failure ?? .noIssuer(of: result.chain[0]), untrustedMeansMismatch: true)
            return result
        }
        accept(&result, chain: chain, isFirst: search?.isFirst ?? true)
        if let found = search, isForbidden(&result, chain, found) { return result }
        result.matchedPin = match.publicKeyPin
        result.verdict = .pass
        return result
    }

    /// Mode `publicKey`: chain and host, and a pinned key in a validated chain.
    private func pinnedKey() -> EvaluationResult {
        var (result, search) = validated()
        guard result.failure == nil else { return result }
        if match(keysIn: result.chain, &result) {
            result.verdict = .pass
            return result
        }
        guard let chain = search.next(where: mayMatch) else {
            mismatch(&result, explains: true, nil)
            return result
        }
        var other = EvaluationResult()
        accept(&other, chain: chain, isFirst: false)
        if match(keysIn: chain, &other) { other.verdict = .pass }
        return other
    }

    /// Mode `publicKey` with invalid certificates allowed: the leaf holds a pinned key, or the path verifies up to a
    /// certificate that holds one. The host still counts, dates do not.
    private func pinnedKeyAlone() -> EvaluationResult {
        var result = EvaluationResult()
        result.chain = presented.certificates()
        // Where the chain ends below, nothing is validated above, and a forbidden key there counts as well.
        if isForbidden(&result, result.chain) { return result }
        let leaf = result.chain[0]
        let holdsPin = policy.pins.contains { $0.key == leaf.publicKeyPin && $0.counts(at: 0) }
        var failure = PathSearch.Failure.noIssuer(of: leaf)
        // The key is the identity: the handshake proves its possession, and no path is needed.
        let searches =
            holdsPin ? [searchAlone(leaf)] : settings.validatesDomainName ? searchesUpToPinnedKey(result.chain) : []
        for var search in searches {
            if let chain = search.first(where: mayMatch), match(keysIn: chain, &result) {
                result.chain = chain
                result.isChainValidated = true
                result.isOtherPath = !search.isFirst
                if isForbidden(&result, chain, search) { return result }
                result.verdict = .pass
                return result
            }
            // Of two refusals the more specific one: a wrong host, purpose or strength rather than "no path".
            if failure.isMissingPath { failure = search.failure }
        }
        refuse(&result, failure, untrustedMeansMismatch: true)
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
            result = validated(checksHost: true).result
            guard result.failure == nil else { return result }
            result.verdict = .expired
        case (.deny, false):
            result = validated().result
            guard result.failure == nil else { return result }
            expire(&result)
            result.verdict = .reportOnly
        case (.deny, true):
            result = EvaluationResult()
            result.chain = presented.certificates()
            expire(&result)
        }
        return result
    }

    // MARK: - Paths

    private func search(
        _ anchors: ChainVerification.Anchors,
        ignoringDates: Bool = false,
        checksHost: Bool? = nil,
        checksRevocation: Bool = true
    ) -> PathSearch {
        PathSearch(
            presented,
            anchors: anchors,
            intermediates: [self.anchors.intermediates, policy.intermediates, policy.pinned],
            verification: ChainVerification(
                host: checksHost ?? settings.validatesDomainName ? host : nil,
                now: now,
                ignoresDates: ignoringDates,
                revocation: checksRevocation ? revocation : nil,
                longestChain: settings.maxChainDepth
            ),
            budget: budget
        )
    }

    /// Chain to the trust anchors, host, and no forbidden key.
    ///
    /// - Returns: the result, whose chain is the first valid one, and the search for others.
    private func validated(checksHost: Bool? = nil) -> (result: EvaluationResult, search: PathSearch) {
        var result = EvaluationResult()
        var search = search(.trusted(anchors), checksHost: checksHost)
        if let chain = search.first() {
            accept(&result, chain: chain, isFirst: search.isFirst)
            _ = isForbidden(&result, chain, search)
        } else {
            result.chain = presented.certificates()
            refuse(&result, search.failure)
        }
        return (result, search)
    }

    func validPaths() -> (paths: [[Certificate]], areAll: Bool) {
        var search = search(.trusted(anchors))
        var paths: [[Certificate]] = []
        var path = search.first()
        while let found = path {
            paths.append(found)
            path = search.next()
        }
        return (paths, !budget.isExceeded)
    }

    /// With the pinned certificates as the only anchors; nil without any. A leaf that is pinned needs no path.
    private func searchUpToPinned() -> PathSearch? {
        let leaf = Certificate(retaining: presented.leaf)
        if policy.pinnedCertificates.contains(where: { $0.isSame(as: leaf) }) {
            return searchAlone(leaf, datesCount: true)
        }
        guard settings.validatesDomainName, !policy.pinned.isEmpty else { return nil }
        // The server's own certificate has been checked against the lists, on the path to the trust anchors.
        return search(.pinned(policy.pinned), checksRevocation: false)
    }

    /// The server's certificate as its own anchor.
    private func searchAlone(_ leaf: Certificate, datesCount: Bool = false) -> PathSearch {
        var search = search(.pinned(CertificatePool([leaf])), ignoringDates: !datesCount, checksRevocation: false)
        search.isOfLeafAlone = true
        return search
    }

    /// Paths up to a certificate with a pinned key: one given in the pin file or sent, taken as the anchor, or one on
    /// the way to the trust anchors.
    ///
    /// The holder of a CA's key can make another certificate for this key, without the constraints of the real one.
    /// Therefore, if the pin file or the trust anchors contain a certificate of the key, no other one is accepted for
    /// it.
    private func searchesUpToPinnedKey(_ sent: [Certificate]) -> [PathSearch] {
        let known = policy.pinnedCertificates
        let others = sent.dropFirst().filter { certificate in
            !anchors.holds(certificate.publicKeyPin)
                && !known.contains { $0.publicKeyPin == certificate.publicKeyPin }
        }
        let candidates = (known + others).filter { certificate in
            policy.pins.contains { $0.key == certificate.publicKeyPin && $0.counts(at: 1) }
        }
        let second = search(.trusted(anchors), ignoringDates: true)
        if candidates.isEmpty { return [second] }
        return [search(.pinned(CertificatePool(candidates)), ignoringDates: true), second]
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

    /// Whether a path is worth its validation: it holds a pinned key.
    private func mayMatch(_ path: [Certificate]) -> Bool {
        var result = EvaluationResult()
        return match(keysIn: path, &result)
    }

    private func match(certificatesIn chain: [Certificate]) -> Certificate? {
        let counted = settings.validatesDomainName ? chain[...] : chain.prefix(1)
        return counted.first { certificate in
            policy.pinnedCertificates.contains { $0.isSame(as: certificate) }
        }
    }

    /// Whether a valid chain of the server contains a forbidden key; the result is set accordingly. It is refused even where
    /// pins are not enforced: keys that are known to be bad need no trial period.
    ///
    /// - Parameter search: where `chain` was found. Its other valid paths count too.
    private func isForbidden(
        _ result: inout EvaluationResult,
        _ chain: [Certificate],
        _ search: PathSearch
    ) -> Bool {
        if settings.forbiddenPins.isEmpty { return false }
        if isForbidden(&result, chain) { return true }
        if let other = search.any(where: { forbidden(in: $0) != nil }) { return isForbidden(&result, other) }
        guard budget.isExceeded else { return false }
        refuse(&result, .budgetExceeded)
        return true
    }

    private func isForbidden(_ result: inout EvaluationResult, _ chain: [Certificate]) -> Bool {
        guard let (pin, certificate) = forbidden(in: chain) else { return false }
        result.chain = chain
        result.failure = .pinForbidden
        result.reason = "the key \(pin.key) of \"\(certificate.subject)\" is forbidden"
        result.remedy = "have the server use another key; the pin file's forbiddenPins names this one"
        result.verdict = .fail
        return true
    }

    private func forbidden(in chain: [Certificate]) -> (Pin, Certificate)? {
        for (depth, certificate) in chain.enumerated() {
            let pin = settings.forbiddenPins.first { $0.key == certificate.publicKeyPin && $0.counts(at: depth) }
            if let pin { return (pin, certificate) }
        }
        return nil
    }

    // MARK: - Result

    private func accept(_ result: inout EvaluationResult, chain: [Certificate], isFirst: Bool) {
        result.chain = chain
        result.isChainValidated = true
        result.isOtherPath = !isFirst
        age(&result, by: chain)
        if let revocation { result.goodUntil = min(result.goodUntil, revocation.end(of: chain)) }
    }

    private func age(_ result: inout EvaluationResult, by chain: [Certificate]) {
        // OpenSSL has refused an end that is not a time. Should it read one that this program cannot, the verdict has ended.
        for certificate in chain {
            let end = certificate.notAfter
            result.certificateEnd = min(result.certificateEnd, end?.addingSaturated(1) ?? .min)
            guard policy.domain != nil, let end, let begin = certificate.notBefore else { continue }
            result.noticeFrom = min(result.noticeFrom, CertificateNotice(begin: begin, end: end).thirdFrom)
        }
        result.goodUntil = min(result.goodUntil, result.certificateEnd)
    }

    /// Records a valid chain without a pin.
    ///
    /// - Parameters:
    ///   - explains: whether a path to the trust anchors was searched for, so that the certificates tell what has changed.
    ///   - second: why no path to the pinned certificates is valid, where there was a search for one.
    private func mismatch(_ result: inout EvaluationResult, explains: Bool, _ second: PathSearch.Failure?) {
        if settings.enforcePinning, explains, budget.isExceeded { return refuse(&result, .budgetExceeded) }
        result.verdict = settings.enforcePinning ? .fail : .reportOnly
        result.failure = .pinMismatch
        result.verifyError = second?.error ?? X509_V_OK
        let what = settings.pinningMode == .certificate ? "certificates" : "keys"
        result.reason = "\(host) offered none of the pinned \(what)"
        result.remedy = "ask the server's operator whether the \(what) changed, then add the new pin to the pin file"
        if explains { explain(&result) }
    }

    /// Distinguishes a server whose keys have changed from a trust store that has.
    private func explain(_ result: inout EvaluationResult) {
        guard settings.pinningMode == .publicKey else { return }
        let sent = signers()
        let pinned = Set(policy.pins.map(\.key))
        if let certificate = sent.first(where: { pinned.contains($0.publicKeyPin) }) {
            result.reason +=
                ": it sends \"\(certificate.subject)\", whose key is pinned, but no valid path leads through it"
            result.remedy =
                "if this held before, your trust store changed: name the root above \"\(certificate.subject)\" under trustAnchors, or pin the root at which the chain ends now"
        } else if let anchor = anchors.pool.certificates.first(where: { pinned.contains($0.publicKeyPin) }) {
            result.reason +=
                ": the pinned trust anchor \"\(anchor.subject)\" is there, but none of the server's paths leads to it"
        } else if let end = sent.first(where: { !$0.isSelfIssued && !isKnown(issuerOf: $0, sent) }) {
            result.reason +=
                ": it sends a path to \"\(end.issuer)\" too, which is not among the trust anchors"
            result.remedy =
                "if the pinned key is that CA's, your trust store has lost it: name its certificate under trustAnchors; otherwise "
                + result.remedy
        }
    }

    /// The leaf, and the certificates as sent whose keys have signed it, or each other up from it. A server may send others, so that
    /// the advice is what it likes.
    private func signers() -> [Certificate] {
        var rest = presented.certificates()
        var signers = [rest.removeFirst()]
        // A chain has fewer.
        var left = 16
        var place = 0
        while place < signers.count {
            let subject = signers[place]
            let name = X509_get_issuer_name(subject.pointer)
            place += 1
            rest.removeAll { candidate in
                guard left > 0, X509_NAME_cmp(X509_get_subject_name(candidate.pointer), name) == 0 else { return false }
                left -= candidate.signatureCost
                guard budget.spendSignature(by: candidate) else { return false }
                guard X509_verify(subject.pointer, X509_get0_pubkey(candidate.pointer)) == 1 else { return false }
                signers.append(candidate)
                return true
            }
        }
        return signers
    }

    private func isKnown(issuerOf certificate: Certificate, _ sent: [Certificate]) -> Bool {
        [anchors.pool, anchors.intermediates, policy.intermediates, CertificatePool(sent)].contains {
            !$0.issuers(of: certificate).isEmpty
        }
    }

    /// - Parameter untrustedMeansMismatch: the pinned certificates are the only anchors.
    private func refuse(
        _ result: inout EvaluationResult,
        _ failure: PathSearch.Failure,
        untrustedMeansMismatch: Bool = false
    ) {
        if untrustedMeansMismatch, failure.isMissingPath {
            mismatch(&result, explains: false, failure)
            result.verdict = .fail
            return
        }
        result.verdict = .fail
        let leaf = Certificate(retaining: presented.leaf)
        switch failure {
        case .refused(let outcome):
            let error = VerifyError(outcome.error)
            result.failure = error.failure
            result.verifyError = outcome.error
            if let breach = outcome.breach, let failed = outcome.failed, let root = outcome.chain.last {
                (result.reason, result.remedy) = VerifyError.reason(of: breach, failed: failed, root: root)
                return
            }
            result.reason = error.reason(host: host, failed: outcome.failed, leaf: leaf)
            result.remedy = error.remedy(host: host, leaf: leaf)
        case .noIssuer(let certificate):
            result.failure = .certificateUntrusted
            result.verifyError = failure.error
            (result.reason, result.remedy) = VerifyError.missingIssuer(of: certificate, host: host)
        case .budgetExceeded:
            result.failure = .certificateUntrusted
            result.verifyError = failure.error
            result.reason =
                "the certificates of \(host) allow more paths than are tried (\(PathBuilder.Budget().paths), or \(PathBuilder.Budget().signatures) signatures)"
            result.remedy = "have the server send its own chain only, in order, without other certificates"
        }
    }
}
