// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust

/// The tasks of a session that its cache takes part in. Belongs to the loop.
final class CachedTasks {
    let cache: SessionCache
    /// The session, which owns this.
    unowned let session: TaskOwner
    private let connections: OriginConnections
    /// By the identifier of the task.
    private var exchanges: [UInt64: CachedExchange] = [:]

    var count: Int { exchanges.count }

    init(_ cache: SessionCache, of session: TaskOwner, _ connections: OriginConnections) {
        self.cache = cache
        self.session = session
        self.connections = connections
    }

    /// Makes the exchange of a task that the cache takes part in; nil for other tasks.
    func makeExchange(for task: LoopTask) -> CachedExchange? {
        guard let exchange = CachedExchange(task, in: self) else { return nil }
        exchanges[task.taskIdentifier] = exchange
        return exchange
    }

    func forget(_ task: LoopTask) { exchanges[task.taskIdentifier] = nil }

    func cancelAll() {
        for exchange in exchanges.values { exchange.task.cancel() }
    }

    /// What comes over a connection that is authenticated is for this session alone.
    func bypasses(_ request: borrowing SessionRequest) -> Bool {
        guard cache.responses.options.isShared else { return false }
        return request.fields.authenticatesConnection || connections.hasAuthenticated
    }

    /// The digest of the conditions of stored responses. What an origin in memory has answered is never used by a session with
    /// connections, nor the other way round, although both may have the same cache.
    ///
    /// - Returns: nil when the policy accepts no server any more.
    func digest(of endpoint: Endpoint) -> PolicyDigest? {
        guard let digest = endpoint.cacheDigest(at: session.loop.wallClock / 1_000_000) else { return nil }
        return session.isStubbed ? PolicyDigest(SecretDigest.sha256(Array("stub".utf8) + digest.bytes)) : digest
    }

    /// Invalidates stored responses after the response to an unsafe method (RFC 9111, section 4.4).
    func invalidate(by head: borrowing ResponseHead, to request: borrowing SessionRequest) {
        guard !request.method.isSafe else { return }
        cache.responses.invalidate(after: request.method, of: request.url, status: head.status, head.fields)
    }
}
