#if Cache
import HTTPCaching
import HTTPCore
import IOCore
package import ServerTrust

extension LoopSession {
    /// Makes the exchange of a task that the session's cache takes part in; nil for other tasks.
    func cachedExchange(for task: LoopTask) -> CachedExchange? {
        guard let cache, let exchange = CachedExchange(task, cache, self) else { return nil }
        exchanges[task.taskIdentifier] = exchange
        return exchange
    }

    /// The digest of the conditions of stored responses. What an origin in memory has answered is never used by a session with
    /// connections, nor the other way round, although both may have the same cache.
    ///
    /// - Returns: nil when the policy accepts no server any more.
    func cacheDigest(of endpoint: Endpoint) -> PolicyDigest? {
        guard let digest = endpoint.cacheDigest(at: loop.wallClock / 1_000_000) else { return nil }
        return connections.stub == nil ? digest : PolicyDigest(SecretDigest.sha256(Array("stub".utf8) + digest.bytes))
    }

    /// Refreshes a stale response in the background, after a task has got it.
    func refresh(_ task: LoopTask, by transaction: CacheTransaction, asking fields: HeaderFields) {
        var request = task.request
        request.method = .get
        request.fields = fields
        request.cachePolicy = nil
        let refresher = makeTask(with: request, delegate: task.delegate.delegateForRefresh(of: task))
        let exchange = CachedExchange(refresher, refreshing: transaction, asking: fields, self)
        exchanges[refresher.taskIdentifier] = exchange
        refresher.resume(as: exchange)
    }

    func forget(_ exchange: CachedExchange) { exchanges[exchange.task.taskIdentifier] = nil }

    /// Invalidates stored responses after the response to an unsafe method (RFC 9111, section 4.4).
    func invalidateCache(by head: borrowing ResponseHead, to request: borrowing SessionRequest) {
        guard let cache, !request.method.isSafe else { return }
        cache.responses.invalidate(after: request.method, of: request.url, status: head.status, head.fields)
    }
}

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
#else
import HTTPCore

extension LoopSession {
    /// Without a cache the request of every task goes to the origin.
    func cachedExchange(for task: LoopTask) -> CachedExchange? { nil }

    func invalidateCache(by head: borrowing ResponseHead, to request: borrowing SessionRequest) {}
}
#endif
