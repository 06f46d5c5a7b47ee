// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore

/// The delegate of a background revalidation: asks the hooks of the task that caused it, which may be complete by then.
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
        evaluator.task.willCache(response, willCache)
    }
}

extension SessionTask {
    /// The hook that decides whether a response is stored.
    var willCacheHook: SessionHooks.WillCache? {
        (delegate as? DataTaskDelegate)?.dataTaskWillCacheResponse ?? session.hookBox.hooks.dataTaskWillCacheResponse
    }

    /// - Returns: the response that is stored; nil to store nothing.
    func willCache(_ response: CachedResponse, _ hook: SessionHooks.WillCache?) -> CachedResponse? {
        guard let hook, let task = self as? DataTask else { return response }
        return hook(task, response)
    }
}
