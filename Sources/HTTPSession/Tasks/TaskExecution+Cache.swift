import HTTPCore
import ServerTrust
import SessionCore

extension TaskExecution {
    /// What the request wants of the cache; nil where it has no part.
    ///
    /// - Throws: `notStored` for what is neither stored nor to be asked for.
    func cachePolicy(_ request: HTTPRequest, of task: SessionTask) throws(SessionError) -> CachePolicy? {
        let policy = request.cachePolicy ?? session.configuration.cachePolicy
        if task is DataTask { return policy }
        guard policy != .returnCacheDataDontLoad else { throw .notStored }
        return nil
    }

    static func willCache(
        _ response: CachedResponse,
        _ task: SessionTask?,
        _ hook: SessionHooks.WillCache?
    ) -> CachedResponse? {
        guard let hook, let task = task as? DataTask else { return response }
        return hook(task, response)
    }
}

extension SessionTask {
    var willCacheHook: SessionHooks.WillCache? {
        (delegate as? DataTaskDelegate)?.dataTaskWillCacheResponse ?? session.hookBox.hooks.dataTaskWillCacheResponse
    }
}

/// Of a request in the background: asks the hooks that the task had, which may be over by then.
final class TaskRefreshDelegate: LoopTaskDelegate {
    private let evaluator: ConnectionTrustEvaluator
    private let willCache: SessionHooks.WillCache?

    init(_ evaluator: ConnectionTrustEvaluator) {
        self.evaluator = evaluator
        willCache = evaluator.task.willCacheHook
    }

    override func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision { evaluator.clientIdentity() }

    override func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? { evaluator.evaluate(trust) }

    override func task(_ task: LoopTask, willCache response: CachedResponse) -> CachedResponse? {
        TaskExecution.willCache(response, evaluator.task, willCache)
    }
}
