import HTTPCaching
import HTTPCore
import ServerTrust
import SessionCore

/// How the cache is used for the requests of one route, worked out once for all of them.
final class CacheTerms {
    let rules: CacheRules
    private let policy: SecurityPolicyDigest?
    /// Of answers that came without TLS.
    private let plain: PolicyDigest
    /// The latest that was made, and what of: a pin set's expiry changes it once.
    private var latest: (bytes: [UInt8], digest: PolicyDigest)?

    /// - Parameter snapshot: under which the endpoint was found.
    init(_ rules: CacheRules, _ endpoint: Endpoint, _ snapshot: PolicySnapshot) {
        self.rules = rules
        // Whatever else decides who answers: what was kept from elsewhere is not for requests that go here now.
        var context = endpoint.scheme == .https ? "https" : "http"
        let settings = snapshot.policy(for: endpoint.host).configuration
        if let place = settings.resolve { context += " resolve \(place)" }
        if let proxy = settings.upstreamProxy { context += " proxy \(proxy)" }
        for rule in snapshot.configuration.access.denyAddresses { context += " deny \(rule)" }
        let bytes = Array(context.utf8)
        plain = PolicyDigest(SecretDigest.sha256(bytes))
        policy =
            endpoint.scheme == .https
            ? SecurityPolicyDigest(endpoint.policy, anchors: endpoint.anchors, context: bytes) : nil
    }

    /// What is stored now is stored under, and found under later.
    ///
    /// - Parameter now: seconds since 1970.
    /// - Returns: nil when no answer may be used, because the policy refuses every server: the origin is asked, and
    ///   refused.
    func digest(at now: Int64) -> PolicyDigest? {
        guard let policy else { return plain }
        guard let bytes = policy.bytes(at: now) else { return nil }
        if let latest, latest.bytes == bytes { return latest.digest }
        let digest = PolicyDigest(bytes)
        latest = (bytes, digest)
        return digest
    }
}
