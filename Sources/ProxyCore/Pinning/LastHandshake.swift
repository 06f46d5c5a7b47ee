// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import ServerTrust

/// What a domain's last TLS handshake has shown, without the certificates themselves.
package struct LastHandshake: Equatable, Sendable {
    /// A key of the chain, with the subject of its certificate.
    package struct Key: Equatable, Sendable {
        package var pin: PublicKeyPin
        package var subject: String
    }

    /// Seconds since 1970.
    package var time: Int64
    /// The host that was asked: the domain, or a name below it.
    package var host: Host
    package var verdict: TrustEvaluation.Verdict
    /// The reason for a refusal, also for one that was not enforced.
    package var failure: TrustFailure?
    /// The keys of the chain, the server's own first; of a refused server as it sent them.
    package var keys: [Key]
    /// When the first certificate of the chain ends, in seconds since 1970; nil without a chain, and when an end in it
    /// cannot be read.
    package var certificateEnd: Int64?
    /// From when on an end in the chain is near; nil where `certificateEnd` is.
    package var certificateNotice: CertificateNotice?
    /// Whether a certificate of the chain has an end that is not a time.
    package var hasUnreadableEnd = false

    /// Subjects come from servers, and may be long.
    private static let longestSubject = 200
    private static let mostKeys = 8

    init(_ evaluation: TrustEvaluation, at time: Int64) {
        self.time = time
        host = evaluation.host
        verdict = evaluation.verdict
        failure = evaluation.failure
        keys = evaluation.offeredPins.prefix(Self.mostKeys).map {
            Key(pin: $0.pin, subject: String($0.subject.prefix(Self.longestSubject)))
        }
        let ends = evaluation.chain.map(\.notAfter)
        hasUnreadableEnd = ends.contains(nil)
        certificateEnd = hasUnreadableEnd ? nil : ends.compactMap { $0 }.min()
        certificateNotice = hasUnreadableEnd ? nil : CertificateNotice(evaluation.chain)
    }
}
