import COpenSSL
import Glibc
public import HTTPCore

extension SecurityPolicy {
    /// Judges a chain offline, by the same code as inside a handshake.
    ///
    /// - Parameters:
    ///   - chain: as a server would send it, its own certificate first; not empty.
    ///   - host: the host that the server has to prove.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    ///   - time: seconds since 1970; `nil` is now.
    public func evaluate(
        chain: [Certificate],
        host: Host,
        anchors: TrustAnchors,
        at time: Int64? = nil
    ) -> TrustEvaluation {
        precondition(!chain.isEmpty, "a chain has at least the server's own certificate")
        let stack = CertificateStack(chain)
        return withExtendedLifetime((stack, chain)) {
            evaluate(
                PresentedChain(leaf: chain[0].pointer, untrusted: stack.pointer),
                host: host,
                anchors: anchors,
                at: time
            )
        }
    }

    /// Judges what a server presented, for a verify callback of one's own (SSL_CTX_set_cert_verify_callback(3)).
    ///
    /// It runs its own verifications and leaves the context as it is: accept with `X509_V_OK` set and 1 returned if
    /// and only if the evaluation `isAccepted`. `TLSVerification` does all that.
    ///
    /// - Parameters:
    ///   - storeContext: the callback's `X509_STORE_CTX *`, with the server's certificate in it.
    ///   - host: the host that the server has to prove.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    ///   - time: seconds since 1970; `nil` is now.
    /// - Returns: the report; `nil` if the context holds no certificate, which has to be refused.
    public func evaluate(
        storeContext: OpaquePointer,
        host: Host,
        anchors: TrustAnchors,
        at time: Int64? = nil
    ) -> TrustEvaluation? {
        guard let leaf = X509_STORE_CTX_get0_cert(storeContext) else { return nil }
        let untrusted = X509_STORE_CTX_get0_untrusted(storeContext)
        return evaluate(PresentedChain(leaf: leaf, untrusted: untrusted), host: host, anchors: anchors, at: time)
    }

    func evaluate(
        _ presented: PresentedChain,
        host: Host,
        anchors: TrustAnchors,
        at time: Int64?
    ) -> TrustEvaluation {
        OpenSSLError.keepingQueueClean {
            let judge = PolicyJudge(
                policy: self,
                presented: presented,
                host: host,
                anchors: configuration.trustAnchors ?? anchors,
                now: time ?? Int64(Glibc.time(nil))
            )
            return TrustEvaluation(judge.findings(), presented: presented.kept(), policy: self, host: host)
        }
    }
}
