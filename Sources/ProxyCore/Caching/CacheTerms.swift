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
        if let proxy = settings.upstreamProxy {
            context += " proxy \(proxy)"
            // A proxy may send one account elsewhere than another.
            if let account = proxy.credentials {
                let text = "\(account.user.utf8.count):\(account.user):\(account.password)"
                context += " as \(SecretDigest.sha256(Array(text.utf8)))"
            }
        }
        for rule in snapshot.configuration.access.denyAddresses { context += " deny \(rule)" }
        // Fields that are put into requests, or taken out, may decide the response.
        let bytes = Array(context.utf8) + settings.headers.request.digest
        plain = PolicyDigest(SecretDigest.sha256(bytes))
        policy =
            endpoint.scheme == .https
            ? SecurityPolicyDigest(endpoint.policy, anchors: endpoint.anchors, context: bytes) : nil
    }

    /// What is stored now is stored under, and found under later.
    ///
    /// - Parameters:
    ///   - now: seconds since 1970.
    ///   - changes: what a rule for redirects does to this one request, beyond what is done to all for the host.
    /// - Returns: nil when no answer may be used, because the policy refuses every server: the origin is asked, and
    ///   refused.
    func digest(at now: Int64, with changes: FieldChanges?) -> PolicyDigest? {
        guard let digest = digest(at: now), let changes, !changes.isEmpty else { return digest(at: now) }
        return PolicyDigest(SecretDigest.sha256(digest.bytes + changes.digest))
    }

    /// The same for a request that comes from a client.
    func digest(at now: Int64) -> PolicyDigest? {
        guard let policy else { return plain }
        guard let bytes = policy.bytes(at: now) else { return nil }
        if let latest, latest.bytes == bytes { return latest.digest }
        let digest = PolicyDigest(bytes)
        latest = (bytes, digest)
        return digest
    }
}
