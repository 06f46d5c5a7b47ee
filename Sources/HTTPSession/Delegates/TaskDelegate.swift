public import HTTPCore
import IOCore
public import SessionCore

/// What one task has to tell, and the hooks of that task alone: Alamofire's `TaskDelegate`.
///
/// The session makes it with the task. Hooks are called as those of `SessionHooks` are, and go before them.
///
/// `@unchecked Sendable`: everything that changes is in `common`, behind `lock`, here as in the subclasses.
public class TaskDelegate: @unchecked Sendable {
    /// Waits until the task is complete, and then runs what was added, in that order.
    public let queue: CompletionQueue

    let lock = PosixLock()
    private var common = Common()
    package let callbacks: CallbackQueue
    /// Of the request's body, and of the answer's.
    package let sending = ProgressRelay()
    package let receiving = ProgressRelay()

    private struct Common {
        var error: SessionError?
        var metrics: TaskMetrics?
        var initialResponseTime: Int64?
        var credential: Credential?
        var isComplete = false
        var companions: [String: any Sendable] = [:]
        var waiting: [@Sendable () -> Void] = []
        var hooks = Hooks()
    }

    /// The hooks of one task.
    struct Hooks: Sendable {
        var redirection: (@Sendable (SessionTask, ResponseHead, RedirectProposal) -> RedirectDecision)?
        var newBodyStream: (@Sendable (SessionTask) -> BodySource?)?
        var challenge: SessionHooks.TaskChallenge?
        var complete: (@Sendable (SessionTask, SessionError?) -> Void)?
    }

    init(callbacks: CallbackQueue) {
        self.callbacks = callbacks
        queue = CompletionQueue(callbacks)
    }

    /// The collected body; nil when it is not collected, and before its first byte.
    public var data: [UInt8]? { nil }
    /// Why the task failed.
    public var error: SessionError? { lock.withLock { common.error } }
    /// Nil before the task's end.
    public var metrics: TaskMetrics? { lock.withLock { common.metrics } }
    /// Microseconds from the task's start to the head of the answer; nil before.
    public var initialResponseTime: Int64? { lock.withLock { common.initialResponseTime } }

    /// Proposed to the place that the task was made for, when it asks; before what the session's storage holds.
    public var credential: Credential? {
        get { lock.withLock { common.credential } }
        set { lock.withLock { common.credential = newValue } }
    }

    /// `SessionHooks.taskDidReceiveChallenge`, of this task.
    public var taskDidReceiveChallenge: SessionHooks.TaskChallenge? {
        get { lock.withLock { common.hooks.challenge } }
        set { lock.withLock { common.hooks.challenge = newValue } }
    }

    /// `SessionHooks.taskWillPerformHTTPRedirection`, of this task: asked in that one's place at each redirect.
    public var taskWillPerformHTTPRedirection:
        (@Sendable (_ task: SessionTask, _ response: ResponseHead, _ redirect: RedirectProposal) -> RedirectDecision)?
    {
        get { lock.withLock { common.hooks.redirection } }
        set { lock.withLock { common.hooks.redirection = newValue } }
    }

    /// `SessionHooks.taskNeedNewBodyStream`, of this task: asked in that one's place. Streamed uploads alone ask.
    public var taskNeedNewBodyStream: (@Sendable (_ task: SessionTask) -> BodySource?)? {
        get { lock.withLock { common.hooks.newBodyStream } }
        set { lock.withLock { common.hooks.newBodyStream = newValue } }
    }

    /// `SessionHooks.taskDidComplete`, of this task: called once, in that one's place. The error is nil after a whole
    /// answer.
    public var taskDidComplete: (@Sendable (_ task: SessionTask, _ error: SessionError?) -> Void)? {
        get { lock.withLock { common.hooks.complete } }
        set { lock.withLock { common.hooks.complete = newValue } }
    }

    /// Something that belongs to the task, made when it is first asked for.
    package func companion<Value: Sendable>(_ name: String, _ make: () -> Value) -> Value {
        if let known = lock.withLock({ common.companions[name] as? Value }) { return known }
        let made = make()
        return lock.withLock {
            if let known = common.companions[name] as? Value { return known }
            common.companions[name] = made
            return made
        }
    }

    // MARK: For TaskExecution

    /// Forgets what an answer has brought, before the answer that counts.
    func reset() {}

    func noteResponse(at time: Int64) {
        lock.withLock { common.initialResponseTime = time }
    }

    func finish(_ error: SessionError?, _ metrics: TaskMetrics) {
        lock.withLock {
            common.error = error
            common.metrics = metrics
        }
    }

    /// Lets those go on who wait for the end.
    func release() {
        let waiting = lock.withLock {
            common.isComplete = true
            common.hooks = Hooks()
            defer { common.waiting = [] }
            return common.waiting
        }
        for work in waiting { work() }
        queue.open()
    }

    /// Has `work` done at the task's end, before what `queue` holds, on the loop; or now, if it has ended.
    package func whenComplete(_ work: @escaping @Sendable () -> Void) {
        let isComplete = lock.withLock {
            if !common.isComplete { common.waiting.append(work) }
            return common.isComplete
        }
        if isComplete { work() }
    }
}
