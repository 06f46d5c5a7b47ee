public import HTTPCore
import IOCore
public import SessionCore

/// The results of one task, and its own hooks: Alamofire's `TaskDelegate`.
///
/// The session makes it with the task. Its hooks are called as those of `SessionHooks`, and take precedence over them.
///
/// `@unchecked Sendable`: everything that changes is in `common`, accessed with `lock` held.
public class TaskDelegate: @unchecked Sendable {
    /// Runs the work that was added, in order, when the task is complete.
    public let queue: CompletionQueue

    let lock = PosixLock()
    private var common = Common()
    package let callbacks: CallbackQueue
    /// Progress of the request's body, and of the response's.
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

    /// The collected body; nil before its first byte, and when it is not collected.
    public var data: [UInt8]? { nil }
    /// The cause of a failure.
    public var error: SessionError? { lock.withLock { common.error } }
    /// The metrics of the task; nil before its end.
    public var metrics: TaskMetrics? { lock.withLock { common.metrics } }
    /// Microseconds from the start of the task to the head of the response; nil before.
    public var initialResponseTime: Int64? { lock.withLock { common.initialResponseTime } }

    /// The credential that is proposed to the origin of the original request; it takes precedence over the session's
    /// storage.
    public var credential: Credential? {
        get { lock.withLock { common.credential } }
        set { lock.withLock { common.credential = newValue } }
    }

    /// `SessionHooks.taskDidReceiveChallenge`, of this task.
    public var taskDidReceiveChallenge: SessionHooks.TaskChallenge? {
        get { lock.withLock { common.hooks.challenge } }
        set { lock.withLock { common.hooks.challenge = newValue } }
    }

    /// `SessionHooks.taskWillPerformHTTPRedirection`, of this task: called instead of the session's, at each redirect.
    public var taskWillPerformHTTPRedirection:
        (@Sendable (_ task: SessionTask, _ response: ResponseHead, _ redirect: RedirectProposal) -> RedirectDecision)?
    {
        get { lock.withLock { common.hooks.redirection } }
        set { lock.withLock { common.hooks.redirection = newValue } }
    }

    /// `SessionHooks.taskNeedNewBodyStream`, of this task: called instead of the session's, for streamed uploads.
    public var taskNeedNewBodyStream: (@Sendable (_ task: SessionTask) -> BodySource?)? {
        get { lock.withLock { common.hooks.newBodyStream } }
        set { lock.withLock { common.hooks.newBodyStream = newValue } }
    }

    /// `SessionHooks.taskDidComplete`, of this task: called once, instead of the session's. The error is nil after
    /// success.
    public var taskDidComplete: (@Sendable (_ task: SessionTask, _ error: SessionError?) -> Void)? {
        get { lock.withLock { common.hooks.complete } }
        set { lock.withLock { common.hooks.complete = newValue } }
    }

    /// An object that belongs to the task, made at the first call.
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

    /// Removes the data of an earlier response before the final one.
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

    /// Runs the work that waits for the end of the task.
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

    /// Runs `work` on the loop at the end of the task, before the work in `queue`; at once if the task has ended.
    package func whenComplete(_ work: @escaping @Sendable () -> Void) {
        let isComplete = lock.withLock {
            if !common.isComplete { common.waiting.append(work) }
            return common.isComplete
        }
        if isComplete { work() }
    }
}
