// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
public import SessionCore
import Synchronization

/// One request of a `URLSessionManager` and its response, including redirects. For use on any thread.
///
/// It is suspended at first, and starts with `resume()`. The session retains it until it is complete.
///
/// `@unchecked Sendable`: what changes is in `shared`, accessed with `lock` held, or is for the session's loop alone
/// (`execution`).
public class SessionTask: @unchecked Sendable {
    /// Unique among the tasks of a process.
    public let taskIdentifier: UInt64
    /// The request that the task was made with, before any redirect.
    public let originalRequest: HTTPSessionRequest
    /// The collected data, and the hooks of this task alone.
    public let delegate: TaskDelegate
    let session: SessionThread
    /// The checked form of `originalRequest`.
    let checkedRequest: CheckedRequest
    /// The execution of the task, for the loop alone.
    private lazy var execution = TaskExecution(self)

    /// Continues with the execution of another task. On the loop.
    func adopt(_ execution: TaskExecution) { self.execution = execution }

    /// Makes the receiver of what the response brings. On the loop.
    func makeSink(_ execution: TaskExecution) -> BodySink { BodySink() }

    /// The body of the next request, where it is not the request's own. On the loop.
    ///
    /// - Parameter isFirst: no redirect has led to it.
    func newBody(for request: HTTPSessionRequest, isFirst: Bool) -> RequestBody? { nil }

    /// Its place in the session's table, whose lock guards it; nil outside.
    var tableIndex: Int?

    private let lock = PosixLock()
    /// Behind `lock`. Work that follows from a change of the machine is enqueued with the lock held, so that it runs
    /// in the order of the changes; the loop is woken without it.
    private var shared: Shared
    /// Whether `cancel` was ever called, and whether a priority was ever set: for most tasks the loop asks in vain, and takes no lock
    /// for that.
    private let mayBeCancelled = Atomic(false)
    private let hasPriority = Atomic(false)

    private struct Shared {
        var machine = TaskMachine()
        var currentRequest: HTTPSessionRequest
        var response: ResponseHead?
        var error: SessionError?
        var counts = ByteCounts()
        var description: String?
        var priority = SessionTask.defaultPriority
        /// The task that continues the transfer of this one.
        var successor: SessionTask?
    }

    init(_ request: HTTPSessionRequest, _ checked: CheckedRequest, delegate: TaskDelegate, session: SessionThread) {
        taskIdentifier = TaskIdentifiers.next()
        originalRequest = request
        checkedRequest = checked
        self.delegate = delegate
        self.session = session
        shared = Shared(currentRequest: request)
    }

    /// A task that continues the work of another one, on which `handOver` has been called.
    init(takingOver other: SessionTask, _ machine: TaskMachine, delegate: TaskDelegate) {
        taskIdentifier = TaskIdentifiers.next()
        originalRequest = other.originalRequest
        checkedRequest = other.checkedRequest
        self.delegate = delegate
        session = other.session
        shared = Shared(machine: machine, currentRequest: other.currentRequest)
        shared.counts.sent = other.countOfBytesSent
        shared.description = other.taskDescription
    }

    // MARK: State

    /// The state of the task.
    public var state: TaskState { lock.withLock { shared.machine.state } }

    /// Starts or resumes the task.
    public func resume() {
        let (successor, wakes) = lock.withLock {
            let wakes =
                switch shared.machine.resume() {
                case .start: onLoop { $0.start() }
                case .unpause: onLoop { $0.resume() }
                default: false
                }
            return (shared.successor, wakes)
        }
        if wakes { session.loop.wake() }
        successor?.resume()
    }

    /// Stops reading the response, and sending more of the request's body, until `resume`; the origin is slowed down, not
    /// disconnected. At most 128 KB of a body that were read already are still sent. Meanwhile `total` is the only one of
    /// the `TaskTimeouts` that still runs.
    public func suspend() {
        let (successor, wakes) = lock.withLock {
            (shared.successor, shared.machine.suspend() == .pause && onLoop { $0.suspend() })
        }
        if wakes { session.loop.wake() }
        successor?.suspend()
    }

    /// Ends the task with the error `cancelled`, unless it has ended. A data task that has become a download cancels,
    /// suspends and resumes the download.
    public func cancel() {
        let (successor, wakes) = lock.withLock { (shared.successor, cancel { $0.cancel() }) }
        if wakes { session.loop.wake() }
        successor?.cancel()
    }

    /// `cancel` for a download that is to be resumed later.
    func cancelKeepingDownload() {
        let wakes = lock.withLock { cancel { $0.cancel(keepsDownload: true) } }
        if wakes { session.loop.wake() }
    }

    /// Behind the lock.
    ///
    /// - Returns: whether the loop has to be woken.
    private func cancel(_ work: @escaping @Sendable (TaskExecution) -> Void) -> Bool {
        guard shared.machine.cancel() == .cancel else { return false }
        mayBeCancelled.store(true, ordering: .releasing)
        return onLoop(work)
    }

    /// Whether the task has been cancelled, and has not ended yet.
    var isCancelled: Bool { mayBeCancelled.load(ordering: .acquiring) && state == .canceling }

    /// Ends the task, because another one continues its work with the returned machine.
    ///
    /// - Returns: nil when the task has been cancelled.
    func handOver() -> TaskMachine? {
        lock.withLock {
            let machine = TaskMachine(takingOver: shared.machine)
            return shared.machine.handOver() == .handOver ? machine : nil
        }
    }

    /// - Returns: whether the loop has to be woken.
    private func onLoop(_ work: @escaping @Sendable (TaskExecution) -> Void) -> Bool {
        session.loop.enqueue { [self] in work(execution) }
    }

    // MARK: What there is to know

    /// The request that is sent, or was sent last; it differs from `originalRequest` after a redirect.
    public var currentRequest: HTTPSessionRequest { lock.withLock { shared.currentRequest } }
    /// The head of the response; nil before it has been received.
    public var response: ResponseHead? { lock.withLock { shared.response } }
    /// The cause of a failure; nil before the end of the task, and after success.
    public var error: SessionError? { lock.withLock { shared.error } }
    /// Free for the program's own use; nil at first.
    public var taskDescription: String? {
        get { lock.withLock { shared.description } }
        set { lock.withLock { shared.description = newValue } }
    }

    /// Background requests: urgency 5 (`u=5`, of 0 to 7 with 0 first).
    public static let lowPriority = 0.25
    /// No `Priority` field is sent.
    public static let defaultPriority = 0.5
    /// Requests that a person waits for: urgency 2 (`u=2`).
    public static let highPriority = 0.75

    /// From 0 to 1; NaN is ignored. A value other than the default is sent as `Priority` with an urgency (RFC 9218),
    /// unless the request has that field.
    public var priority: Double {
        get { lock.withLock { shared.priority } }
        set {
            guard !newValue.isNaN else { return }
            lock.withLock { shared.priority = min(max(newValue, 0), 1) }
            hasPriority.store(true, ordering: .releasing)
        }
    }

    /// The value of `Priority`; nil for the default.
    var urgency: String? {
        guard hasPriority.load(ordering: .acquiring) else { return nil }
        let priority = priority
        return priority == Self.defaultPriority ? nil : "u=\(Int(((1 - priority) * 6).rounded()))"
    }

    /// Bytes of the request's body that have been handed to the connection.
    public var countOfBytesSent: Int64 { lock.withLock { shared.counts.sent } }
    /// The length of the request's body; nil when it is not known beforehand.
    public var countOfBytesExpectedToSend: Int64? { lock.withLock { shared.counts.expectedToSend } }
    /// Received bytes of the response's body.
    public var countOfBytesReceived: Int64 { lock.withLock { shared.counts.received } }
    /// The length of the response's body by `Content-Length`; nil when it is not known.
    public var countOfBytesExpectedToReceive: Int64? { lock.withLock { shared.counts.expectedToReceive } }

    // MARK: For TaskExecution

    func willSend(_ request: HTTPSessionRequest) {
        lock.withLock {
            shared.currentRequest = request
            shared.counts.sent = 0
            shared.counts.expectedToSend =
                switch request.body.length {
                case .none: 0
                case .bytes(let count): Int64(count)
                case .unknown: nil
                }
        }
    }

    /// So much of the request's body has gone to the connection.
    func didSend(_ sent: Int64) {
        guard sent > 0, case let before = countOfBytesSent, sent > before else { return }
        let counts = count { $0.sent = sent }
        delegate.reportSent(counts)
        let own = (self as? UploadTask)?.uploadDelegate.taskDidSendBodyData
        (own ?? session.hookBox.hooks.taskDidSendBodyData)?(self, sent - before, sent, counts.expectedToSend)
    }

    func didReceive(_ response: ResponseHead, expected: Int64?) {
        lock.withLock {
            shared.response = response
            shared.counts.expectedToReceive = expected
        }
    }

    /// The head of the response, and the request that brought it.
    var outcome: (response: ResponseHead?, request: HTTPSessionRequest) {
        lock.withLock { (shared.response, shared.currentRequest) }
    }

    func count(_ change: (inout ByteCounts) -> Void) -> ByteCounts {
        lock.withLock {
            change(&shared.counts)
            return shared.counts
        }
    }

    /// Hands calls on to the task that continues the work of this one, until that has ended.
    func replaced(by successor: SessionTask) {
        lock.withLock { shared.successor = successor }
        successor.delegate.whenComplete { [self] in
            lock.withLock {
                shared.error = successor.error
                shared.response = successor.response
                shared.counts = successor.lock.withLock { successor.shared.counts }
                shared.successor = nil
            }
        }
    }

    func complete(_ error: SessionError?) {
        let last = lock.withLock {
            _ = shared.machine.finish()
            shared.error = error
            // A source from `taskNeedNewBodyStream` may capture the task.
            defer { if case .source = shared.currentRequest.body { shared.currentRequest.body = originalRequest.body } }
            return shared.currentRequest
        }
        withExtendedLifetime(last) {}
    }
}

/// A task whose response body is collected, or passed on as it arrives.
///
/// `@unchecked Sendable`: as `SessionTask`; it adds no stored properties.
public class DataTask: SessionTask, @unchecked Sendable {
    /// `delegate` with the members of a data task.
    public var dataDelegate: DataTaskDelegate {
        // `URLSessionManager` makes it so, and it never changes.
        guard let delegate = delegate as? DataTaskDelegate else { preconditionFailure("a data task's delegate") }
        return delegate
    }

    override func makeSink(_ execution: TaskExecution) -> BodySink {
        guard let (stream, validation) = dataDelegate.stream else { return DataSink(self) }
        stream.start { [weak execution, loop = session.loop] in
            loop.submit { [weak execution] in execution?.receiveAgain() }
        }
        return StreamSink(self, stream, validation)
    }

    /// Adds a handler of the result. It is called on the session's callback queue, in the order of `delegate.queue`.
    public func onCompletion(_ handler: @escaping @Sendable (Result<DataResponse, SessionError>) -> Void) {
        delegate.queue.add { [self] in handler(dataDelegate.result(of: self)) }
    }

    /// Starts the task and waits for the response, of any status. When the calling Swift task is cancelled, this task
    /// is cancelled.
    public func value() async throws(SessionError) -> DataResponse {
        let result = await withTaskCancellationHandler {
            await handedOver { give in
                delegate.whenComplete { [self] in give(dataDelegate.result(of: self)) }
                resume()
            }
        } onCancel: {
            cancel()
        }
        return try result.get()
    }
}

/// A data task that sends a body.
///
/// `@unchecked Sendable`: as `SessionTask`; `isStreamed` does not change.
public final class UploadTask: DataTask, @unchecked Sendable {
    /// Whether `taskNeedNewBodyStream` provides the body.
    let isStreamed: Bool

    init(
        _ request: HTTPSessionRequest,
        _ checked: CheckedRequest,
        delegate: TaskDelegate,
        session: SessionThread,
        isStreamed: Bool
    ) {
        self.isStreamed = isStreamed
        super.init(request, checked, delegate: delegate, session: session)
    }

    /// `delegate` with the members of an upload.
    public var uploadDelegate: UploadTaskDelegate {
        // `URLSessionManager` makes it so, and it never changes.
        guard let delegate = delegate as? UploadTaskDelegate else { preconditionFailure("an upload's delegate") }
        return delegate
    }

    /// For a streamed upload that of the hook, as far as the request has a body.
    override func newBody(for request: HTTPSessionRequest, isFirst: Bool) -> RequestBody? {
        guard isStreamed, request.body.length.hasBody || isFirst else { return nil }
        let hook = uploadDelegate.taskNeedNewBodyStream ?? session.hookBox.hooks.taskNeedNewBodyStream
        return hook?(self).map { .source($0) }
    }
}
