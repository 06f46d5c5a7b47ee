// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// The delegate of a background refresh. The delegate of the task that got the stale response evaluates the
/// connections; the response itself is not delivered.
final class RefreshDelegate: LoopTaskDelegate {
    private let original: LoopTaskDelegate

    init(_ original: LoopTaskDelegate) { self.original = original }

    override func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision {
        original.taskNeedsClientIdentity(task)
    }

    override func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        original.task(task, mayTrust: trust)
    }

    override func task(_ task: LoopTask, willCache response: CachedResponse) -> CachedResponse? {
        original.task(task, willCache: response)
    }
}
