public import HTTPCore
public import ServerTrust
public import SessionCore

/// Which server has to prove what: a security policy for each host.
///
/// The first of these that knows the host decides: `policies`, the pin files' `pinnedDomains` (most specific domain),
/// and for all other hosts chain and host checks against `anchors`, or a refusal.
public struct SessionTrust: Sendable {
    /// Where chains may end, unless a policy has anchors of its own.
    public var anchors: TrustAnchors
    /// Policies of single hosts, on every port.
    public var policies: [Host: SecurityPolicy]
    /// What `PinFile.load` has read.
    public var pinnedDomains: PinnedDomains
    /// Whether a host that is named nowhere is refused (Alamofire's name, and there the default); so is a port that the
    /// `ports` of a pin file's domain leave out.
    public var allHostsMustBeEvaluated: Bool

    /// Anchors for all hosts, and policies for some. Where a host is in both, `policies` goes before `pinnedDomains`.
    public init(
        anchors: TrustAnchors,
        policies: [Host: SecurityPolicy] = [:],
        pinnedDomains: PinnedDomains = PinnedDomains(),
        allHostsMustBeEvaluated: Bool = false
    ) {
        self.anchors = anchors
        self.policies = policies
        self.pinnedDomains = pinnedDomains
        self.allHostsMustBeEvaluated = allHostsMustBeEvaluated
    }

    /// The evaluators of a `ServerTrustManager`, Alamofire's way to say it.
    ///
    /// - Throws: `requestInvalid` for an evaluator that names no policy or several (`CompositeTrustEvaluator`): a handshake
    ///   is judged by one. Say all of it in one `SecurityPolicy`: pins, revocation lists and staples go together there.
    public init(anchors: TrustAnchors, serverTrustManager manager: ServerTrustManager) throws(SessionError) {
        var policies: [Host: SecurityPolicy] = [:]
        for (host, evaluator) in manager.evaluators {
            let named = evaluator.policies
            guard named.count == 1 else {
                throw SessionError(
                    .requestInvalid,
                    "The evaluator of \(host) names \(named.count) policies, and a session applies one. Make one of them."
                )
            }
            policies[host] = named[0]
        }
        self.init(
            anchors: anchors,
            policies: policies,
            allHostsMustBeEvaluated: manager.allHostsMustBeEvaluated
        )
    }

    /// What a server is held to; nil when nothing names the host.
    public func policy(host: Host, port: UInt16) -> SecurityPolicy? {
        policies[host] ?? pinnedDomains.policy(host: host, port: port)
    }

    /// What a request to that place is held to.
    ///
    /// - Throws: `requestInvalid` for a host that is named and would be reached without TLS, and for one that is not
    ///   named, or not for that port, when all must be.
    func policy(scheme: Endpoint.Scheme, host: Host, port: UInt16) throws(SessionError) -> SecurityPolicy {
        if let policy = policy(host: host, port: port) {
            guard scheme == .https else {
                throw SessionError(
                    .requestInvalid,
                    "\(host) has a security policy and is not reached without TLS. Write https."
                )
            }
            guard !allHostsMustBeEvaluated || policies[host] != nil || pinnedDomains.covers(host: host, port: port)
            else {
                throw SessionError(
                    .requestInvalid,
                    "The \"ports\" of \(host) in the pin file leave out \(port), and allHostsMustBeEvaluated asks for a policy. Add the port."
                )
            }
            return policy
        }
        guard !allHostsMustBeEvaluated else {
            throw SessionError(
                .requestInvalid,
                "\(host) has no security policy, and allHostsMustBeEvaluated asks for one. Give it one."
            )
        }
        return .unpinned
    }
}
