// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import ServerTrust
public import SessionCore

/// The rules for trusting servers: a security policy for each host.
///
/// The first of these that has a rule for the host decides: `policies`, then the pin files' `pinnedDomains` (most
/// specific domain); for all other hosts chain and host are checked against `anchors`, or the host is refused.
public struct SessionTrust: Sendable {
    /// Trust anchors, except for policies with anchors of their own.
    public var anchors: TrustAnchors
    /// Policies of single hosts, for every port.
    public var policies: [Host: SecurityPolicy]
    /// The pin files that `PinFile.load` has read.
    public var pinnedDomains: PinnedDomains
    /// Whether a host without a rule is refused (Alamofire's name; there it is the default); so is a port that `ports`
    /// of a pin file's domain does not list.
    public var allHostsMustBeEvaluated: Bool

    /// Anchors for all hosts, and policies for some. `policies` takes precedence over `pinnedDomains`.
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

    /// The evaluators of a `ServerTrustManager`, in Alamofire's manner.
    ///
    /// - Throws: `requestInvalid` for an evaluator with no policy or several (`CompositeTrustEvaluator`): a handshake
    ///   is evaluated by one. Combine pins, revocation lists and staples in one `SecurityPolicy`.
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

    /// Chain and host are checked against the anchors of the operating system, for every host: `serverTrust: .system`.
    ///
    /// - Throws: `certificateUntrusted` when the system has no anchors that can be read.
    public static var system: SessionTrust {
        get throws(SessionError) {
            do {
                return SessionTrust(anchors: try .system())
            } catch {
                throw SessionError(.certificateUntrusted, "The system's trust anchors cannot be read: \(error)")
            }
        }
    }

    /// The policy of a host; nil when no rule names it.
    public func policy(host: Host, port: UInt16) -> SecurityPolicy? {
        policies[host] ?? pinnedDomains.policy(host: host, port: port)
    }

    /// The policy for requests to an endpoint.
    ///
    /// - Throws: `requestInvalid` for a host that has a rule and would be reached without TLS, and for a host or port
    ///   without a rule when all must have one.
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
                "\(host) has no security policy, and allHostsMustBeEvaluated requires one. Add a policy."
            )
        }
        return .unpinned
    }
}
