// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The requirements for a server, under Alamofire's name: one security policy, or several that all have to accept.
///
/// ```swift
/// let evaluator = try PublicKeysTrustEvaluator(keys: [current, backup])
/// try evaluator.evaluate(PresentedTrust(chain: chain, anchors: .system()), forHost: Host("api.example.com"))
/// ```
///
/// An evaluator only names policies and runs no code of its own in an evaluation, so that it cannot accept a server
/// that a `SecurityPolicy` refuses. A custom type returns `policies`; an empty list refuses every server.
public protocol ServerTrustEvaluating: Sendable {
    /// The policies that a server has to meet, each of them. Inside a handshake `TLSVerification` applies one.
    var policies: [SecurityPolicy] { get }
}

extension ServerTrustEvaluating {
    /// Evaluates what a server presented, policy by policy, up to the first that refuses.
    ///
    /// - Parameters:
    ///   - trust: the server's certificates, and the anchors and time to evaluate them with.
    ///   - host: the host that the server has to prove to be.
    /// - Returns: the reports in the order of the policies, each accepted; at least one. All of them have to be
    ///   `isStillGood` for a later request on the same connection.
    /// - Throws: the reason why the server is refused.
    @discardableResult
    public func evaluate(
        _ trust: PresentedTrust,
        forHost host: Host
    ) throws(ServerTrustError) -> [TrustEvaluation] {
        guard !trust.chain.isEmpty else { throw .noCertificates(host: host) }
        let policies = policies
        guard !policies.isEmpty else { throw .noPolicies(host: host) }
        var accepted: [TrustEvaluation] = []
        for policy in policies {
            let report = policy.evaluate(
                chain: trust.chain,
                staple: trust.staple,
                host: host,
                anchors: trust.anchors,
                at: trust.time
            )
            guard report.isAccepted else { throw .refused(report) }
            accepted.append(report)
        }
        return accepted
    }
}

/// The certificates that a server presented, with the anchors and time for their evaluation: the counterpart of
/// Security.framework's `SecTrust`.
public struct PresentedTrust: Sendable {
    /// The certificates as the server sent them, its own first.
    public var chain: [Certificate]
    /// The OCSP response (DER) that the server stapled, if any: SSL_get_tlsext_status_ocsp_resp(3).
    public var staple: [UInt8]?
    /// The trust anchors, unless a policy has its own.
    public var anchors: TrustAnchors
    /// The time of the evaluation in seconds since 1970; `nil` is now.
    package var time: Int64?

    /// Makes the input of an evaluation, now or at a given time.
    package init(chain: [Certificate], staple: [UInt8]? = nil, anchors: TrustAnchors, time: Int64?) {
        self.chain = chain
        self.staple = staple
        self.anchors = anchors
        self.time = time
    }
}

/// The reason why an evaluator or a manager refused a server.
public enum ServerTrustError: Error, Sendable, CustomStringConvertible {
    /// The report of the policy that refused.
    case refused(TrustEvaluation)
    /// The host has no evaluator, and all hosts must have one.
    case noRequiredEvaluator(host: Host)
    /// The evaluator names no policy: an empty composite, for example.
    case noPolicies(host: Host)
    /// The server presented no certificate.
    case noCertificates(host: Host)

    public var description: String {
        switch self {
        case .refused(let report): "\(report)"
        case .noRequiredEvaluator(let host):
            "\(host) has no evaluator, and allHostsMustBeEvaluated asks for one (give it one)"
        case .noPolicies(let host): "the evaluator of \(host) names no policy (give it at least one)"
        case .noCertificates(let host): "\(host) presented no certificate (pass its chain, leaf first)"
        }
    }
}
