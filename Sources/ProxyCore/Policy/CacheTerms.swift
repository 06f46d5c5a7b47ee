// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// The use of the cache for the requests of one route, determined once for all of them.
final class CacheTerms {
    let rules: CacheRules
    private let ground: CacheGround
    private let policy: SecurityPolicyDigest?
    /// What an HTTPS proxy is held to.
    private let proxy: SecurityPolicyDigest?
    private let host: Host
    /// The latest cache, and the host's tally in it.
    private var talliedCache: ResponseCache?
    private var latestTally: CacheTally?
    private var latestBehindProxy: (own: PolicyDigest, proxy: [UInt8], digest: PolicyDigest)?
    /// What the key of a GET begins with: `GET https://host:443`.
    private let keyStart: [UInt8]
    /// No rule of the host is about requests.
    private let hasNoRequestRules: Bool
    /// The latest digest, which is made of the policy's bytes: the expiry of a pin set changes them once.
    private var latest: PolicyDigest?

    /// - Parameters:
    ///   - settings: those of the endpoint's host.
    ///   - isUsual: whether the endpoint differs from those of the entry's other hosts in host, port and policy alone.
    ///   - snapshot: the snapshot that the endpoint was found in.
    init(_ settings: HostPolicy, _ endpoint: Endpoint, isUsual: Bool, _ snapshot: PolicySnapshot) {
        rules = settings.configuration.cache
        host = endpoint.host
        keyStart = CacheKey.uri(.get, endpoint.origin, Span())
        hasNoRequestRules =
            rules.requestPolicy == .useProtocolCachePolicy && rules.requestRules.isEmpty && rules.keys.isEmpty
            && rules.bypasses.isEmpty && rules.ignored.isEmpty && rules.graces.isEmpty
        let denied = snapshot.configuration.access.denyAddresses
        let make = { CacheGround(settings.configuration, endpoint, deniedAddresses: denied) }
        ground = (isUsual ? settings.common : nil)?.ground(isHTTPS: endpoint.scheme == .https, make) ?? make()
        proxy = endpoint.proxyEndpoint?.policyDigest
        policy =
            switch endpoint.scheme {
            case .http: nil
            case .https where endpoint.policy === SecurityPolicy.unpinned: ground.unpinned
            case .https: SecurityPolicyDigest(endpoint.policy, anchors: endpoint.anchors, context: ground.context)
            }
    }

    /// The digest that responses are stored under, and looked up under.
    ///
    /// - Parameters:
    ///   - now: seconds since 1970.
    ///   - changes: changes of a redirect rule to this one request, beyond those for all requests to the host.
    /// - Returns: nil when no stored response may be used because the policy refuses every server. The request is sent
    ///   then, and refused.
    func digest(at now: Int64, with changes: FieldChanges?) -> PolicyDigest? {
        guard let digest = digest(at: now) else { return nil }
        guard let changes, !changes.isEmpty else { return digest }
        return PolicyDigest(SecretDigest.sha256(digest.bytes + changes.digest))
    }

    /// The transaction of a request that the cache takes part in.
    ///
    /// - Parameters:
    ///   - digest: as it is now.
    ///   - user: nil without authentication.
    ///   - givesCredentials: whether the configuration adds credentials to the request.
    ///   - credentials: what names those that a rule of `requests` gives it: to them and to their user the responses belong.
    ///   - bypasses: whether the response is for this client alone: it is not stored, and no stored one is used.
    ///   - level: the loop's level that several machines share.
    func transaction(
        in cache: ResponseCache,
        for request: borrowing SessionRequest,
        under digest: PolicyDigest,
        user: [UInt8]?,
        givesCredentials: Bool,
        credentials: [UInt8]?,
        bypasses: Bool,
        level: (any SharedLevel)?,
        loop: EventLoop
    ) -> CacheTransaction {
        var cached = CacheRequest(
            method: request.method,
            fields: request.fields,
            hasInjectedCredentials: givesCredentials || credentials != nil,
            hasBody: request.bodyLength != .none
        )
        let tally = tally(in: cache)
        rules.apply(to: &cached, target: request.target.span, tally: tally)
        if bypasses { cached.bypasses = true }
        return CacheTransaction(
            cache,
            url: AbsoluteURL(origin: request.endpoint.origin, rest: request.target),
            consume cached,
            partition: CachePartition.bytes(of: user, request.fields, credentials, isShared: cache.options.isShared),
            rules: rules.rules,
            keyRules: rules.keys,
            digest: digest,
            tally: tally,
            level: level,
            loop: loop
        )
    }

    /// The stored response that a client's request gets at once: a plain GET to a host without rules about requests. For all others,
    /// and where nothing fresh is in memory, there is `transaction`.
    ///
    /// - Parameters:
    ///   - memory: for the key; it serves again.
    ///   - limit: the longest body, in bytes.
    ///   - now: seconds since 1970.
    func hit(
        in cache: ResponseCache,
        for head: borrowing RequestHead,
        at now: Int64,
        atMost limit: Int,
        _ memory: inout [UInt8]
    ) -> CacheHit? {
        guard hasNoRequestRules, cache.options.isShared, case .get = head.method, case .none = head.framing,
            !head.fields.mayContain(anyOf: CacheHit.decisive), !head.connection.namesFields,
            head.target.firstIndex(of: UInt8(ascii: "#")) == nil, let digest = digest(at: now)
        else { return nil }
        memory.removeAll(keepingCapacity: true)
        memory.append(contentsOf: keyStart)
        memory.append(head.target)
        return cache.hit(
            CacheKey(uri: memory, part: []),
            for: head.fields,
            under: digest,
            tally: tally(in: cache),
            now: Int(now),
            atMost: limit
        )
    }

    private func tally(in cache: ResponseCache) -> CacheTally {
        if talliedCache === cache, let latestTally { return latestTally }
        let tally = cache.tallies.tally(host: host.authorityText, entry: ground.entry, rules: ground.texts)
        talliedCache = cache
        latestTally = tally
        return tally
    }

    /// The digest for a request that comes from a client.
    func digest(at now: Int64) -> PolicyDigest? {
        guard let proxy else { return ownDigest(at: now) }
        guard let own = ownDigest(at: now), let bytes = proxy.bytes(at: now) else { return nil }
        if let latestBehindProxy, latestBehindProxy.own == own, latestBehindProxy.proxy == bytes {
            return latestBehindProxy.digest
        }
        let digest = PolicyDigest(SecretDigest.sha256(own.bytes + bytes))
        latestBehindProxy = (own, bytes, digest)
        return digest
    }

    private func ownDigest(at now: Int64) -> PolicyDigest? {
        guard let policy else { return ground.plain }
        guard let bytes = policy.bytes(at: now) else { return nil }
        if let latest, latest.bytes == bytes { return latest }
        let digest = PolicyDigest(bytes)
        latest = digest
        return digest
    }
}
