import COpenSSL
import Glibc
package import HTTPCore

extension SecurityPolicy {
    /// Evaluates a chain offline, by the same code as inside a handshake.
    ///
    /// - Parameters:
    ///   - chain: as a server would send it, its own certificate first; not empty.
    ///   - staple: the OCSP response (DER) that the server would staple; `nil` for none. Looked at only by a policy with
    ///     `requiresStaple`.
    ///   - host: the host that the server has to prove to be.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    ///   - time: seconds since 1970; `nil` is now.
    package func evaluate(
        chain: [Certificate],
        staple: [UInt8]? = nil,
        host: Host,
        anchors: TrustAnchors,
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
                    now: time
                ).validPaths()
            }
        }
    }

    private func evaluate(
        _ presented: PresentedChain,
        staple: [UInt8]?,
        host: Host,
        anchors: TrustAnchors,
        at time: Int64?
    ) -> TrustEvaluation {
        OpenSSLError.keepingQueueClean {
            let now = time ?? Int64(Glibc.time(nil))
            var result = evaluationResult(presented, host: host, anchors: anchors, at: now)
            if configuration.requiresStaple { StapleEvaluator(host: host, now: now).evaluate(&result, staple: staple) }
            return TrustEvaluation(result, presented: presented.kept(), policy: self, host: host)
        }
    }

    /// Evaluates everything except the staple.
    func evaluationResult(
        _ presented: PresentedChain,
        host: Host,
        anchors: TrustAnchors,
        at now: Int64
    ) -> EvaluationResult {
        PolicyEvaluator(
            policy: self,
            presented: presented,
            host: host,
            anchors: configuration.trustAnchors ?? anchors,
            now: now
        ).evaluate()
    }
}
