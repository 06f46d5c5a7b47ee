import HTTPCore
import ServerTrust

/// Of a request in the background, which brings a stored answer up to date after it was given out: nobody gets the
/// answer, but whoever judged the connections of the task that had it judges this one's, too.
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
