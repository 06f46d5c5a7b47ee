import HTTPCaching
import HTTPCore
import IOCore
package import ServerTrust

/// The digest of an endpoint's policy, made when a cache first asks.
///
/// `@unchecked Sendable`: `digest` is accessed with `lock` held.
final class EndpointDigest: @unchecked Sendable {
    private let lock = PosixLock()
    private var digest: SecurityPolicyDigest?

    func value(_ make: () -> SecurityPolicyDigest) -> SecurityPolicyDigest {
        lock.withLock {
            if let digest { return digest }
            let made = make()
            digest = made
            return made
        }
    }
}

extension Endpoint {
    /// The digest of the conditions of stored responses: policy, anchors, fixed address and proxy, if there are any.
    ///
    /// - Parameter now: seconds since 1970.
    /// - Returns: nil when the policy accepts no server any more.
    func cacheDigest(at now: Int64) -> PolicyDigest? {
        guard let own = scheme == .https ? policyDigest.bytes(at: now) : place else { return nil }
        guard let proxyEndpoint else { return PolicyDigest(own) }
        // The proxy may see, and change, responses of hosts without TLS.
        return proxyEndpoint.policyDigest.bytes(at: now).map { PolicyDigest(SecretDigest.sha256(own + $0)) }
    }

    /// The digest of policy, anchors and place.
    package var policyDigest: SecurityPolicyDigest {
        digest.value { SecurityPolicyDigest(policy, anchors: anchors, context: place) }
    }
}
