import ServerTrust

extension ConnectionTrust {
    /// Whether the verdict is one on this endpoint, and holds at that second: the same host, under the same policy with the
    /// same anchors, of the same generation.
    func holds(for endpoint: Endpoint, at now: Int64) -> Bool {
        generation == endpoint.generation && host == endpoint.host && policy === endpoint.policy
            && hasAnchors(of: endpoint) && evaluation.isStillGood(at: now)
    }

    private func hasAnchors(of endpoint: Endpoint) -> Bool {
        let expected = endpoint.policy.configuration.trustAnchors ?? endpoint.anchors
        return anchors === expected || anchors.digest == expected.digest
    }
}
