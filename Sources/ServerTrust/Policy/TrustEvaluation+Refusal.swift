// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

extension TrustEvaluation {
    /// The report of a refusal that a test of a program asks for, without a server. A report of an accepted server cannot be made
    /// in this way.
    ///
    /// - Parameters:
    ///   - failure: the reason.
    ///   - host: the host that the server had to prove to be.
    ///   - policy: of that host; its pins are the expected ones.
    ///   - chain: the certificates that are reported as the server's, leaf first; at least one.
    package convenience init(
        refusing failure: TrustFailure,
        host: Host,
        policy: SecurityPolicy,
        chain: [Certificate]
    ) {
        var result = EvaluationResult()
        result.verdict = .fail
        result.failure = failure
        result.reason = "a stub refuses \(host) with \(failure.rawValue)"
        result.remedy = "this is a test's answer, and no server was asked"
        result.chain = chain
        self.init(result, presented: CertificateStack(chain), policy: policy, host: host)
    }
}
