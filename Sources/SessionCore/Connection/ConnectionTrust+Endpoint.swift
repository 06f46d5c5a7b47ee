// SPDX-License-Identifier: Apache-2.0
import ServerTrust

extension ConnectionTrust {
    /// Whether the verdict is one on this endpoint, and holds at that second.
    func holds(for endpoint: Endpoint, at now: Int64) -> Bool { isOn(endpoint) && evaluation.isStillGood(at: now) }

    /// Whether the verdict is one on this endpoint: the same name, under the same policy with the same anchors, of the same
    /// generation.
    func isOn(_ endpoint: Endpoint) -> Bool {
        generation == endpoint.generation && host == endpoint.serverName && policy === endpoint.policy
            && hasAnchors(of: endpoint)
    }

    private func hasAnchors(of endpoint: Endpoint) -> Bool {
        let expected = endpoint.policy.configuration.trustAnchors ?? endpoint.anchors
        return anchors === expected || anchors.digest == expected.digest
    }
}
