// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The tasks of a session, with what carries them: the connections, and the cache. The tasks hold it, so that it goes with the last of
/// them.
final class SessionTasks: TaskOwner {
    let connections: OriginConnections
    /// The cache's part; nil without a cache.
    private(set) var cached: CachedTasks?
    /// Called once, when no task is left and none may begin.
    var didEnd: (() -> Void)?
    private var hasEnded = false

    init(_ connections: OriginConnections, cache: SessionCache?) {
        self.connections = connections
        super.init(loop: connections.loop, isStubbed: connections.stub != nil)
        cached = cache.map { CachedTasks($0, of: self, connections) }
    }

    deinit { connections.close() }

    override func makeCarrier(for task: LoopTask) -> TaskCarrier? {
        if task.request.isUpgrade {
            return UpgradeExchange(task, session: self, connections: connections)
        }
        if let cached, let exchange = cached.makeExchange(for: task) { return exchange }
        guard task.request.cachePolicy != .returnCacheDataDontLoad else { return nil }
        guard let stub = connections.stub else { return connections.makeRequest(for: task) }
        connections.didBegin(elsewhere: task)
        return StubCarrier(task, stub, limits: connections.headLimits, loop: loop) { [connections] ended in
            connections.didEnd(elsewhere: ended)
        }
    }

    override func didReceive(_ head: borrowing ResponseHead, to request: borrowing SessionRequest) {
        cached?.invalidate(by: head, to: request)
    }

    override func lastTaskDidEnd() {
        // Again with each task that comes too late.
        guard !hasEnded else { return }
        hasEnded = true
        let tell = didEnd
        didEnd = nil
        loop.atEndOfTurn { [connections] in
            connections.close()
            tell?()
        }
    }

    /// Keeps no connection any more.
    func retireConnections() {
        if count == 0 { lastTaskDidEnd() } else { connections.retireConnections() }
    }

    /// Ends the tasks that are under way.
    func cancelResumed() {
        cached?.cancelAll()
        connections.cancelAll()
    }
}
