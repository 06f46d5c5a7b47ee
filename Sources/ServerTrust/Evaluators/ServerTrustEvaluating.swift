public import HTTPCore

/// What a server has to prove, under Alamofire's name: one security policy, or several that all have to accept.
///
/// ```swift
/// let evaluator = try PublicKeysTrustEvaluator(keys: [current, backup])
/// try evaluator.evaluate(PresentedTrust(chain: chain, anchors: .system()), forHost: Host("api.example.com"))
/// ```
///
/// An evaluator names policies and runs no code of its own in a judgement, so none can accept what a `SecurityPolicy`
/// would refuse. A type of your own gives `policies`; an empty list refuses every server.
public protocol ServerTrustEvaluating: Sendable {
    /// The policies that a server is held to, each of them. Inside a handshake `TLSVerification` applies one.
    var policies: [SecurityPolicy] { get }
}

extension ServerTrustEvaluating {
    /// Judges what a server presented, policy by policy, up to the first that refuses.
    ///
    /// - Parameters:
    ///   - trust: what the server presented, and against what it is judged.
    ///   - host: the host that the server has to prove.
    /// - Returns: the reports in the order of the policies, each accepted; at least one. All of them have to be
    ///   `isStillGood` for a later request on the same connection.
    /// - Throws: why the server is refused.
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

/// What a server presented, and against what it is judged: the place of Security.framework's `SecTrust`.
public struct PresentedTrust: Sendable {
    /// As the server sent it, its own certificate first.
    public var chain: [Certificate]
    /// The OCSP response (DER) that the server stapled, if any: SSL_get_tlsext_status_ocsp_resp(3).
    public var staple: [UInt8]?
    /// Where chains may end, unless a policy has anchors of its own.
    public var anchors: TrustAnchors
    /// Seconds since 1970 to judge at; `nil` is now.
    public var time: Int64?

    /// What a server presented, to be judged now or at a time given.
    public init(chain: [Certificate], staple: [UInt8]? = nil, anchors: TrustAnchors, time: Int64? = nil) {
        self.chain = chain
        self.staple = staple
        self.anchors = anchors
        self.time = time
    }
}

/// Why an evaluator or a manager refused a server.
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
