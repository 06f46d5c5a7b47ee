// SPDX-License-Identifier: Apache-2.0
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
    /// Progress of the request's body, and of the response's; made when somebody asks for it.
    package var sending: ProgressRelay { relay(\.sending) }
    package var receiving: ProgressRelay { relay(\.receiving) }

    private struct Common {
        var error: SessionError?
        var metrics: TaskMetrics?
        var initialResponseTime: Int64?
        var credential: Credential?
        var isComplete = false
        var companions: [String: any Sendable] = [:]
        var waiting: [@Sendable () -> Void] = []
        var hooks = Hooks()
        var sending: ProgressRelay?
        var receiving: ProgressRelay?
    }

    /// The hooks of one task.
    struct Hooks: Sendable {
        var redirection: (@Sendable (SessionTask, ResponseHead, RedirectProposal) -> RedirectDecision)?
        var newBodyStream: (@Sendable (SessionTask) -> BodySource?)?
        var challenge: SessionHooks.TaskChallenge?
        var complete: (@Sendable (SessionTask, SessionError?) -> Void)?
    }

    /// - Parameter other: of the data task whose transfer, and so whose progress, a download continues; nil for none.
    init(callbacks: CallbackQueue, continuing other: TaskDelegate? = nil) {
        self.callbacks = callbacks
        queue = CompletionQueue(callbacks, lock: lock)
        guard let other else { return }
        common.sending = other.sending
        common.receiving = other.receiving
    }

    private func relay(_ which: WritableKeyPath<Common, ProgressRelay?>) -> ProgressRelay {
        lock.withLock {
            if let known = common[keyPath: which] { return known }
            let made = ProgressRelay(isOver: common.isComplete)
            common[keyPath: which] = made
            return made
        }
    }

    /// The collected body; nil before its first byte, and when it is not collected.
    public var data: [UInt8]? { nil }
    /// The cause of a failure.
    public var error: SessionError? { lock.withLock { common.error } }
    /// The metrics of the task; nil before its end.
    public var metrics: TaskMetrics? { lock.withLock { common.metrics } }
    /// The time from the start of the task to the head of the response; nil before.
    public var initialResponseTime: Duration? { lock.withLock { common.initialResponseTime }.map { .microseconds($0) } }

    /// The credential that is proposed to the origin of the original request; it takes precedence over the session's
    /// storage.
    public var credential: Credential? {
        get { lock.withLock { common.credential } }
        set { lock.withLock { common.credential = newValue } }
    }

    /// `SessionHooks.taskDidReceiveChallenge`, of this task.
    public var taskDidReceiveChallenge: SessionHooks.TaskChallenge? {
        get { lock.withLock { common.hooks.challenge } }
        set { unlessComplete { exchange(&common.hooks.challenge, with: newValue) } }
    }

    /// `SessionHooks.taskWillPerformHTTPRedirection`, of this task: called instead of the session's, at each redirect.
    public var taskWillPerformHTTPRedirection:
        (@Sendable (_ task: SessionTask, _ response: ResponseHead, _ redirect: RedirectProposal) -> RedirectDecision)?
    {
        get { lock.withLock { common.hooks.redirection } }
        set { unlessComplete { exchange(&common.hooks.redirection, with: newValue) } }
    }

    /// `SessionHooks.taskNeedNewBodyStream`, of this task: called instead of the session's, for streamed uploads.
    public var taskNeedNewBodyStream: (@Sendable (_ task: SessionTask) -> BodySource?)? {
        get { lock.withLock { common.hooks.newBodyStream } }
        set { unlessComplete { exchange(&common.hooks.newBodyStream, with: newValue) } }
    }

    /// `SessionHooks.taskDidComplete`, of this task: called once, instead of the session's. The error is nil after
    /// success.
    public var taskDidComplete: (@Sendable (_ task: SessionTask, _ error: SessionError?) -> Void)? {
        get { lock.withLock { common.hooks.complete } }
        set { unlessComplete { exchange(&common.hooks.complete, with: newValue) } }
    }

    /// Whether the task has ended, and its results are final.
    package var isComplete: Bool { lock.withLock { common.isComplete } }

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

    /// Changes hooks with the lock held. After the end of the task nothing is kept: a hook that captures its task would
    /// never be freed.
    ///
    /// - Parameter change: returns the old hook, which is freed without the lock, since that may run code of the program.
    func unlessComplete<Hook>(_ change: () -> Hook) {
        let old: Hook? = lock.withLock { common.isComplete ? nil : change() }
        withExtendedLifetime(old) {}
    }

    /// Returns the hooks of a subclass, if there are any, and keeps none of them. Called with the lock held; they are freed without
    /// it, since that may run code of the program.
    func takeHooks() -> Any? { nil }

    /// Reports progress to those who have asked for it.
    /// - Returns: whether somebody was told, who may have cancelled the task.
    @discardableResult
    func reportReceived(_ counts: ByteCounts) -> Bool {
        guard let relay = lock.withLock({ common.receiving }) else { return false }
        relay.report(TaskProgress(completedBytes: counts.received, totalBytes: counts.expectedToReceive))
        return true
    }

    func reportSent(_ counts: ByteCounts) {
        let progress = TaskProgress(completedBytes: counts.sent, totalBytes: counts.expectedToSend)
        lock.withLock { common.sending }?.report(progress)
    }

    /// Takes over what another task's program has asked for, since this task continues its transfer.
    func inherit(from other: TaskDelegate) {
        let (hooks, credential) = other.lock.withLock {
            defer { other.common.hooks = Hooks() }
            return (other.common.hooks, other.common.credential)
        }
        let old = lock.withLock {
            common.credential = credential
            return exchange(&common.hooks, with: hooks)
        }
        withExtendedLifetime(old) {}
    }

    /// Removes the data of an earlier response before the final one. Called with the lock held.
    func reset() {}

    /// The final response has begun.
    func noteResponse(at time: Int64) {
        lock.withLock {
            reset()
            common.initialResponseTime = time
        }
    }

    /// - Returns: the task's own hook for the end.
    @discardableResult
    func finish(
        _ error: SessionError?,
        _ metrics: TaskMetrics
    ) -> (@Sendable (_ task: SessionTask, _ error: SessionError?) -> Void)? {
        lock.withLock {
            common.error = error
            common.metrics = metrics
            return common.hooks.complete
        }
    }

    /// Error and metrics, of a task that has ended. Behind the lock.
    var ending: (error: SessionError?, metrics: TaskMetrics?) { (common.error, common.metrics) }

    /// Runs the work that waits for the end of the task.
    func release() {
        let (waiting, hooks, relays) = lock.withLock {
            common.isComplete = true
            defer {
                common.waiting = []
                common.hooks = Hooks()
            }
            return (common.waiting, (common.hooks, takeHooks()), (common.sending, common.receiving))
        }
        relays.0?.end()
        relays.1?.end()
        for work in waiting { work() }
        queue.open()
        withExtendedLifetime(hooks) {}
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
