// SPDX-License-Identifier: Apache-2.0
import COpenSSL
package import HTTPCore
import IOCore
import StrictJSON

extension SecurityPolicy {
    /// Evaluates a chain offline, by the same code as inside a handshake.
    ///
    /// - Parameters:
    ///   - chain: as a server would send it, its own certificate first; not empty.
    ///   - staple: the OCSP response (DER) that the server would staple; `nil` for none. Looked at only by a policy with
    ///     `requiresStaple`.
    ///   - host: the host that the server has to prove to be.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    ///   - lists: the revocation lists that were fetched.
    ///   - time: seconds since 1970; `nil` is now.
    package func evaluate(
        chain: [Certificate],
        staple: [UInt8]? = nil,
        host: Host,
        anchors: TrustAnchors,
        lists: RevocationListStore? = nil,
        at time: Int64?
    ) -> TrustEvaluation {
        // A program hands over what its TLS library has; a server without a certificate is refused like any other.
        guard let leaf = chain.first else {
            var result = EvaluationResult()
            result.failure = .certificateUntrusted
            result.reason = "\(host) showed no certificate"
            result.remedy = "have the server send its certificate chain"
            return TrustEvaluation(result, presented: CertificateStack([]), policy: self, host: host)
        }
        let stack = CertificateStack(chain)
        return withExtendedLifetime((stack, chain)) {
            evaluate(
                PresentedChain(leaf: leaf.pointer, untrusted: stack.pointer),
                staple: staple,
                host: host,
                anchors: anchors,
                lists: lists,
                at: time
            )
        }
    }

    /// Evaluates what a server presented, for a program's own verify callback (SSL_CTX_set_cert_verify_callback(3)).
    ///
    /// It runs its own verifications and leaves the context as it is: accept with `X509_V_OK` set and 1 returned if
    /// and only if the evaluation `isAccepted`. `TLSVerification` does all that.
    ///
    /// - Parameters:
    ///   - storeContext: the callback's `X509_STORE_CTX *`, with the server's certificate in it.
    ///   - staple: the result of SSL_get_tlsext_status_ocsp_resp(3); `nil` for none, which a policy with
    ///     `requiresStaple` refuses. In TLS 1.2 it has not arrived yet when the callback runs.
    ///   - host: the host that the server has to prove to be.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    ///   - time: seconds since 1970; `nil` is now.
    /// - Returns: the report; `nil` if the context holds no certificate, which has to be refused.
    package func evaluate(
        storeContext: OpaquePointer,
        staple: [UInt8]? = nil,
        host: Host,
        anchors: TrustAnchors,
        at time: Int64?
    ) -> TrustEvaluation? {
        guard let presented = PresentedChain(storeContext) else { return nil }
        return evaluate(presented, staple: staple, host: host, anchors: anchors, at: time)
    }

    /// The valid paths of what a server presented, chain and host checked, whatever their keys; the one that OpenSSL builds by
    /// itself is the first.
    ///
    /// - Parameter time: seconds since 1970.
    /// - Returns: the paths, leaf first, and whether there were no more than are tried for one server.
    package func validPaths(
        of evaluation: TrustEvaluation,
        anchors: TrustAnchors,
        at time: Int64
    ) -> (paths: [[Certificate]], areAll: Bool) {
        let chain = evaluation.presentedChain
        guard let leaf = chain.first else { return ([], true) }
        let stack = CertificateStack(chain)
        return withExtendedLifetime((stack, chain)) {
            OpenSSLError.keepingQueueClean {
                PolicyEvaluator(
                    policy: self,
                    presented: PresentedChain(leaf: leaf.pointer, untrusted: stack.pointer),
                    host: evaluation.host,
                    anchors: configuration.trustAnchors ?? anchors,
                    now: time,
                    revocation: revocationCheck(.none, at: time),
                    budget: PathBuilder.Budget()
                ).validPaths()
            }
        }
    }

    private func evaluate(
        _ presented: PresentedChain,
        staple: [UInt8]?,
        host: Host,
        anchors: TrustAnchors,
        lists: RevocationListStore? = nil,
        at time: Int64?
    ) -> TrustEvaluation {
        OpenSSLError.keepingQueueClean {
            let now = time ?? Clock.seconds
            var result = evaluationResult(presented, host: host, anchors: anchors, lists: lists, at: now)
            if configuration.requiresStaple { StapleEvaluator(host: host, now: now).evaluate(&result, staple: staple) }
            return TrustEvaluation(result, presented: presented.kept(), policy: self, host: host)
        }
    }

    /// Evaluates everything except the staple.
    ///
    /// - Parameters:
    ///   - lists: those that were fetched; nil where nothing fetches any.
    ///   - budget: what all paths together may cost.
    func evaluationResult(
        _ presented: PresentedChain,
        host: Host,
        anchors: TrustAnchors,
        lists: RevocationListStore? = nil,
        at now: Int64,
        budget: PathBuilder.Budget = PathBuilder.Budget()
    ) -> EvaluationResult {
        func evaluate(_ revocation: RevocationCheck?) -> EvaluationResult {
            PolicyEvaluator(
                policy: self,
                presented: presented,
                host: host,
                anchors: configuration.trustAnchors ?? anchors,
                now: now,
                revocation: revocation,
                budget: budget
            ).evaluate()
        }
        let generation = lists?.generation ?? 0
        let check = revocationCheck(.held(lists), at: now)
        let result = evaluate(check)
        guard configuration.fetchesRevocationLists, var trial = check, let check else { return result }
        if result.verdict != .fail {
            return result.resting(on: check.needs(of: result.chain).needs, in: lists, generation)
        }
        guard result.failure == .certificateRevoked, result.verifyError != X509_V_ERR_CERT_REVOKED else {
            return result
        }
        // What a server that is refused in any case names is not fetched.
        trial.fetched = .passedOver
        let otherwise = evaluate(trial)
        guard otherwise.verdict != .fail else { return otherwise }
        return result.lacking(check, for: otherwise.chain, canFetch: lists != nil)
    }

    private func revocationCheck(_ fetched: RevocationCheck.Fetched, at now: Int64) -> RevocationCheck? {
        guard configuration.hasRevocationLists else { return nil }
        return RevocationCheck(
            files: configuration.revocationLists,
            fetched: configuration.fetchesRevocationLists ? fetched : .none,
            scope: configuration.revocationScope,
            now: now
        )
    }
}

extension EvaluationResult {
    /// The same for a server that is accepted with fetched lists.
    fileprivate func resting(
        on needs: [RevocationListNeed],
        in lists: RevocationListStore?,
        _ generation: UInt64
    ) -> EvaluationResult {
        guard let lists, !needs.isEmpty else { return self }
        var result = self
        result.revocation = RevocationRecord(lists, needs: needs, generation: generation)
        return result
    }

    /// The same for a server that would be accepted if its lists were there.
    fileprivate func lacking(_ check: RevocationCheck, for chain: [Certificate], canFetch: Bool) -> EvaluationResult {
        var result = self
        result.chain = chain
        result.remedy = "name a file with its issuer's list under revocation.crlFiles"
        let (needs, without) = check.needs(of: chain)
        if let without {
            result.reason =
                "\"\(without.subject)\" names no distribution point from which its revocation list could be fetched (http, RFC 5280, section 4.2.1.13)"
            return result
        }
        let missing = needs.filter { check.isMissing($0) }
        guard let first = missing.first ?? needs.first else { return self }
        guard canFetch else {
            result.reason =
                "no revocation list is held for \"\(first.certificate.subject)\", and nothing here fetches any"
            return result
        }
        // One may have come meanwhile.
        result.missingLists = missing.isEmpty ? needs : missing
        result.reason =
            "no revocation list that is in force is held for \"\(first.certificate.subject)\", which is fetched from \(LegibleText.excerpt(first.urls[0]))"
        result.remedy = "let this machine reach that address, or " + result.remedy
        return result
    }
}
