public import HTTPCore
import IOCore
public import SessionCore

/// One request of a `URLSessionManager` and its answer, over as many redirects as there are: for use on any thread.
///
/// It is made suspended, and starts with `resume()`. The session holds it until it is complete.
///
/// `@unchecked Sendable`: what is not immutable is in `shared`, behind `lock`, or for the session's loop alone (`execution`).
public class SessionTask: @unchecked Sendable {
    /// Unique in the process.
    public let taskIdentifier: UInt64
    /// As the task was made with it, before any redirect.
    public let originalRequest: HTTPRequest
    /// What the task has collected, and the hooks of this task alone.
    public let delegate: TaskDelegate
    let session: SessionThread
    /// For the loop.
    private lazy var execution = TaskExecution(self)

    /// Has a run that another task began carry this one out from now on. On the loop.
    func adopt(_ execution: TaskExecution) { self.execution = execution }

    private let lock = PosixLock()
    /// Behind `lock`. What follows from a change of the machine is handed to the loop with the lock held, so that it is
    /// done in the order of the changes.
    private var shared: Shared

    private struct Shared {
        var machine = TaskMachine()
        var currentRequest: HTTPRequest
        var response: ResponseHead?
        var error: SessionError?
        var counts = ByteCounts()
        var description: String?
        var priority = SessionTask.defaultPriority
    }

    init(_ request: HTTPRequest, delegate: TaskDelegate, session: SessionThread) {
        taskIdentifier = TaskIdentifiers.next()
        originalRequest = request
        self.delegate = delegate
        self.session = session
        shared = Shared(currentRequest: request)
    }

    /// A task that takes over what another has begun; the other one has to have been told so (`handOver`).
    init(takingOver other: SessionTask, _ machine: TaskMachine, delegate: TaskDelegate) {
        taskIdentifier = TaskIdentifiers.next()
        originalRequest = other.originalRequest
        self.delegate = delegate
        session = other.session
        shared = Shared(machine: machine, currentRequest: other.currentRequest)
        shared.description = other.taskDescription
    }

    // MARK: State

    /// Where the task is in its life.
    public var state: TaskState { lock.withLock { shared.machine.state } }

    /// Starts the task, or lets it go on.
    public func resume() {
        lock.withLock {
            switch shared.machine.resume() {
            case .start: onLoop { $0.start() }
            case .unpause: onLoop { $0.resume() }
            default: break
            }
        }
    }

    /// Reads no more of the answer until `resume`; the origin is slowed down, not disconnected. Meanwhile no limit of
    /// `TaskTimeouts` runs but `total`.
    public func suspend() {
        lock.withLock {
            if shared.machine.suspend() == .pause { onLoop { $0.suspend() } }
        }
    }

    /// Ends the task with the error `cancelled`, unless it has ended.
    public func cancel() {
        lock.withLock {
            if shared.machine.cancel() == .cancel { onLoop { $0.cancel() } }
        }
    }

    /// `cancel` for a download that shall be resumed later.
    func cancelKeepingDownload() {
        lock.withLock {
            if shared.machine.cancel() == .cancel { onLoop { $0.cancelKeepingDownload() } }
        }
    }

    /// Ends the task in favour of another, which goes on from the machine that is returned.
    ///
    /// - Returns: nil when the task has been cancelled.
    func handOver() -> TaskMachine? {
        lock.withLock {
            let machine = TaskMachine(takingOver: shared.machine)
            return shared.machine.handOver() == .handOver ? machine : nil
        }
    }

    private func onLoop(_ work: @escaping @Sendable (TaskExecution) -> Void) {
        session.loop.submit { [self] in work(execution) }
    }

    // MARK: What there is to know

    /// The request that goes out, or went out last: another than `originalRequest` after a redirect.
    public var currentRequest: HTTPRequest { lock.withLock { shared.currentRequest } }
    /// The head of the answer; nil before it has come.
    public var response: ResponseHead? { lock.withLock { shared.response } }
    /// Why the task failed; nil before its end and after a whole answer.
    public var error: SessionError? { lock.withLock { shared.error } }
    /// Free for the program's own use; nil at first.
    public var taskDescription: String? {
        get { lock.withLock { shared.description } }
        set { lock.withLock { shared.description = newValue } }
    }

    /// For what nobody waits for: urgency 5 (`u=5`, of 0 to 7 with 0 first).
    public static let lowPriority = 0.25
    /// Nothing is told to the origin.
    public static let defaultPriority = 0.5
    /// For what somebody waits for: urgency 2 (`u=2`).
    public static let highPriority = 0.75

    /// From 0 to 1; what is no number changes nothing. Any other than the default is told to the origin when the request goes out: `Priority` with an
    /// urgency (RFC 9218), unless the request has that field.
    public var priority: Double {
        get { lock.withLock { shared.priority } }
        set {
            guard !newValue.isNaN else { return }
            lock.withLock { shared.priority = min(max(newValue, 0), 1) }
        }
    }

    /// The value of `Priority`; nil for the default.
    var urgency: String? {
        let priority = priority
        return priority == Self.defaultPriority ? nil : "u=\(Int(((1 - priority) * 6).rounded()))"
    }

    /// Of the request's body, handed to the connection.
    public var countOfBytesSent: Int64 { lock.withLock { shared.counts.sent } }
    /// Nil when it is not known beforehand.
    public var countOfBytesExpectedToSend: Int64? { lock.withLock { shared.counts.expectedToSend } }
    /// Of the answer's body.
    public var countOfBytesReceived: Int64 { lock.withLock { shared.counts.received } }
    /// From `Content-Length`; nil when it is not known.
    public var countOfBytesExpectedToReceive: Int64? { lock.withLock { shared.counts.expectedToReceive } }

    // MARK: For TaskExecution

    func willSend(_ request: HTTPRequest) {
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

    func didReceive(_ response: ResponseHead, expected: Int64?) {
        lock.withLock {
            shared.response = response
            shared.counts.expectedToReceive = expected
        }
    }

    func count(_ change: (inout ByteCounts) -> Void) -> ByteCounts {
        lock.withLock {
            change(&shared.counts)
            return shared.counts
        }
    }

    /// Another task goes on with what this one has begun.
    func replaced(_ error: SessionError) {
        lock.withLock { shared.error = error }
    }

    func complete(_ error: SessionError?) {
        lock.withLock {
            _ = shared.machine.finish()
            shared.error = error
        }
    }
}

/// A task whose response body is collected, or passed on as it arrives.
///
/// `@unchecked Sendable`: as `SessionTask`; it adds no stored properties.
public class DataTask: SessionTask, @unchecked Sendable {
    var dataDelegate: DataTaskDelegate {
        // Made so by `URLSessionManager`, and never changed.
        guard let delegate = delegate as? DataTaskDelegate else { preconditionFailure("a data task's delegate") }
        return delegate
    }

    /// Has `handler` called on the session's callback queue with how the task ended, in the order of `delegate.queue`.
    public func onCompletion(_ handler: @escaping @Sendable (Result<DataResponse, SessionError>) -> Void) {
        delegate.queue.add { [self] in handler(dataDelegate.result(of: self)) }
    }

    /// Starts the task and waits for the answer. Any status is one. When the Swift task that waits is cancelled, so is
    /// this one.
    public func value() async throws(SessionError) -> DataResponse {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                delegate.whenComplete { [self] in continuation.resume(returning: dataDelegate.result(of: self)) }
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
    /// Whether the body is asked for by `taskNeedNewBodyStream`.
    let isStreamed: Bool

    init(_ request: HTTPRequest, delegate: TaskDelegate, session: SessionThread, isStreamed: Bool) {
        self.isStreamed = isStreamed
        super.init(request, delegate: delegate, session: session)
    }

    var uploadDelegate: UploadTaskDelegate? { delegate as? UploadTaskDelegate }
}
