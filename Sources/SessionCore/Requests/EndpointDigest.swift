// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// The digest of an endpoint's policy, made when a cache first asks. An object, so that the endpoint can take it in one atomic step.
final class EndpointDigest: Sendable {
    let value: SecurityPolicyDigest

    init(_ value: SecurityPolicyDigest) { self.value = value }
}
