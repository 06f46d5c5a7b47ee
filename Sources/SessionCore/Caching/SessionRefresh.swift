// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import ServerTrust

/// A background refresh of a stored response that a task has received stale (`stale-while-revalidate`, RFC 5861). Its own response is
/// not delivered. Belongs to the loop.
final class SessionRefresh: CacheStageDelegate {
    private let session: TaskOwner
    /// Judges the connections, and what is stored.
    private let delegate: LoopTaskDelegate

    /// - Parameter task: has received the stale response.
    init(of task: LoopTask, in session: TaskOwner) {
        self.session = session
        delegate = task.delegate.delegateForRefresh(of: task) ?? task.delegate
    }

    func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision {
        delegate.taskNeedsClientIdentity(task)
    }

    func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        delegate.task(task, mayTrust: trust)
    }

    func stage(_ stage: CacheStage, ask request: SessionRequest) -> LoopTask? {
        var request = request
        request.cachePolicy = nil
        let task = session.makeTask(with: request, delegate: stage)
        // Only called while the task delivers its head.
        stage.transaction.willStore = { [unowned task, delegate] status, fields in
            StoreChange(by: delegate, of: task, status: status, fields)
        }
        task.resume()
        return task
    }

    func stage(_ stage: CacheStage, wasHandedBack task: LoopTask) { stage.leave() }
}

extension StoreChange {
    /// What a task's delegate makes of a response that is about to be stored.
    init(by delegate: LoopTaskDelegate, of task: LoopTask, status: Int, _ fields: HeaderFields) {
        self = .skip
        // A 401 leads to a second request, and is not stored.
        guard status != 401,
            let response = delegate.task(task, willCache: CachedResponse(status: status, fields: fields))
        else { return }
        switch response.storagePolicy {
        case .allowed: self = .store(response.fields, inMemoryOnly: false)
        case .allowedInMemoryOnly: self = .store(response.fields, inMemoryOnly: true)
        case .notAllowed: break
        }
    }
}
