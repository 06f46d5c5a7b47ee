// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The last condition of a policy with `requiresStaple`: the server itself proves in the handshake that its certificate
/// is not revoked. Nothing is ever fetched: a responder would learn which hosts are contacted, and a responder that
/// does not respond would delay requests or have to be ignored.
struct StapleEvaluator {
    let host: Host
    let now: Int64

    /// The tolerated difference between the clocks of the responder and this machine, in seconds.
    static let skew: Int64 = 300
    /// The validity of a response without `nextUpdate`, in seconds from its `thisUpdate`.
    static let age: Int64 = 24 * 3600

    /// Adds this condition to a result. A server that would pass without a pin match, or would only be reported, is
    /// refused for its staple as well, just as for its chain.
    ///
    /// - Parameter staple: the response as the server sent it; nil without one.
    func evaluate(_ result: inout EvaluationResult, staple: [UInt8]?) {
        guard result.verdict != .fail else { return }
        // Only the validated chain tells which issuer has to sign the staple.
        guard result.isChainValidated, result.chain.count > 1 else {
            refuse(
                &result,
                "the certificate of \(host) is a trust anchor itself, so that no issuer can sign its staple",
                "name the certificate's issuer as the trust anchor, or do without revocation.requireStaple"
            )
            return
        }
        guard let staple, !staple.isEmpty else {
            guard result.chain[0].namesOCSPResponder else {
                refuse(
                    &result,
                    "\(host) sent no staple, and its certificate names no OCSP responder to get one from",
                    "do without revocation.requireStaple: public CAs give OCSP up (Let's Encrypt has none since 2025)"
                )
                return
            }
            refuse(&result, "\(host) sent no staple", StapleEvaluator.remedy)
            return
        }
        let issuer = result.chain[1]
        do throws(OCSPResponse.Fault) {
            let response = try OCSPResponse(der: staple)
            try response.checkSignature(issuer: issuer, at: now)
            evaluate(&result, response.singleResponses(for: result.chain[0], issuer: issuer))
        } catch {
            refuse(&result, reason(error), StapleEvaluator.remedy)
        }
    }

    /// Evaluates the single responses of a staple with a valid signature. All of them have to be good: if two differ,
    /// the worse one counts.
    private func evaluate(_ result: inout EvaluationResult, _ responses: [OCSPResponse.SingleResponse]) {
        guard !responses.isEmpty else {
            refuse(&result, "the staple of \(host) is about another certificate", StapleEvaluator.remedy)
            return
        }
        if responses.contains(where: { $0.status == .revoked }) {
            result.verdict = .fail
            result.failure = .certificateRevoked
            result.reason = "the staple of \(host) says that its certificate is revoked"
            result.remedy = "have the server use another certificate"
            return
        }
        for response in responses {
            guard response.status == .good else {
                refuse(
                    &result,
                    "the OCSP responder of \(host) does not know its certificate",
                    "ask the certificate's issuer; one that was issued just now may take some minutes"
                )
                return
            }
            guard let end = expiry(of: response) else {
                refuse(&result, "the staple of \(host) has no proper times", StapleEvaluator.remedy)
                return
            }
            guard let this = response.thisUpdate, this <= now.addingSaturated(StapleEvaluator.skew), now < end else {
                let isEarly = response.thisUpdate.map { $0 > now } ?? false
                refuse(
                    &result,
                    "the staple of \(host) is \(isEarly ? "not valid yet" : "out of date")",
                    "have the server refresh its OCSP response, or set the clock of this machine right"
                )
                return
            }
            result.stapleEnd = min(result.stapleEnd, end)
            result.goodUntil = min(result.goodUntil, end)
        }
    }

    /// The second at which a single response expires; nil when its times are invalid.
    private func expiry(of response: OCSPResponse.SingleResponse) -> Int64? {
        guard let this = response.thisUpdate else { return nil }
        guard response.hasNextUpdate else { return this.addingSaturated(StapleEvaluator.age) }
        guard let next = response.nextUpdate, next >= this else { return nil }
        return next.addingSaturated(StapleEvaluator.skew)
    }

    private func refuse(_ result: inout EvaluationResult, _ reason: String, _ remedy: String) {
        result.verdict = .fail
        result.failure = .stapleMissing
        result.reason = reason
        result.remedy = remedy
    }

    private func reason(_ fault: OCSPResponse.Fault) -> String {
        switch fault {
        case .tooLong(let count):
            "the staple of \(host) has \(count) bytes, more than the \(OCSPResponse.limit) that are read"
        case .malformed: "the staple of \(host) is no OCSP response"
        case .costlyCertificate(.tooManyCertificates):
            "the staple of \(host) has more than \(CertificateMessage.mostCertificates) certificates in it"
        case .costlyCertificate:
            "the staple of \(host) has a certificate in it whose key is of a form or size that is not decoded"
        case .unsuccessful(let word): "the staple of \(host) has no answer in it: the responder said \"\(word)\""
        case .weakSignature(let name): "the staple of \(host) is signed with \(name), which is too weak"
        case .badSignature(let why): "the staple of \(host) is not vouched for by its certificate's issuer: \(why)"
        case .criticalExtension: "the staple of \(host) has a critical extension that is not understood"
        }
    }

    private static let remedy =
        "switch OCSP stapling on at the server and look at its log, or do without revocation.requireStaple"
}
