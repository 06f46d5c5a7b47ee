// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
package import ServerTrust
import Synchronization

extension Endpoint {
    /// The digest of the conditions of stored responses: policy, anchors, fixed address and proxy, if there are any.
    ///
    /// - Parameter now: seconds since 1970.
    /// - Returns: nil when the policy accepts no server any more.
    func cacheDigest(at now: Int64) -> PolicyDigest? {
        guard let own = scheme == .https ? policyDigest.bytes(at: now) : placeDigest else { return nil }
        guard let proxyEndpoint else { return PolicyDigest(own) }
        // The proxy may see, and change, responses of hosts without TLS.
        return proxyEndpoint.policyDigest.bytes(at: now).map { PolicyDigest(SecretDigest.sha256(own + $0)) }
    }

    /// The digest of policy, anchors and place.
    package var policyDigest: SecurityPolicyDigest {
        if let known = digest.load() { return known.value }
        // Two threads may make one at the same time; they are equal.
        return digest.storeIfNil(
            EndpointDigest(SecurityPolicyDigest(policy, anchors: anchors, context: placeDigest))
        ).value
    }
}
