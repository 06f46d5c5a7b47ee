import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

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
        let delegate = task.delegate.delegateForRefresh(of: task) ?? RefreshDelegate(task.delegate)
        let refresher = makeTask(with: request, delegate: delegate)
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
