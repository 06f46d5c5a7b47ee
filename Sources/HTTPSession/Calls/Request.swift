public import HTTPCore
import IOCore
public import SessionCore

/// One request of an `HTTPSessionManager`, with all that is done for one answer: adaptation, tasks, retries. What is
/// made of the answer is for its subclasses: `DataRequest`, `DownloadRequest`.
///
/// Safe on any thread. It is carried out once; a second call of `response` fails.
///
/// `@unchecked Sendable`: what changes is in `shared`, behind `lock`. Nothing of others is called with it held, but for
/// `resume`, `suspend` and `cancel` of the task, so that these come in the order of the states.
public class Request: @unchecked Sendable {
    /// As it was made, before any adapter has seen it.
    public let originalRequest: HTTPRequest
    /// What carries it out; adapters and retriers may ask it for more.
    public let manager: HTTPSessionManager
    let interceptor: (any RequestInterceptor)?

    private let lock = PosixLock()
    private var shared: Shared

    private struct Shared {
        var state = RequestState.initialized
        var hasBegun = false
        var request: HTTPRequest
        var tasks: [SessionTask] = []
        var retryCount = 0
        /// Ends what is waited for between tasks.
        var interrupt: (@Sendable () -> Void)?
        var waiting: [@Sendable () -> Void] = []
    }

    init(_ request: HTTPRequest, manager: HTTPSessionManager, interceptor: (any RequestInterceptor)?) {
        originalRequest = request
        self.manager = manager
        self.interceptor = interceptor
        shared = Shared(request: request)
    }

    // MARK: What there is to know

    /// Where the request is in its life.
    public var state: RequestState { lock.withLock { shared.state } }
    /// The latest request that was made of `originalRequest`: what the adapters have made of it.
    public var request: HTTPRequest { lock.withLock { shared.request } }
    /// One for each attempt, in their order; those of redirects belong to their attempt.
    public var tasks: [SessionTask] { lock.withLock { shared.tasks } }
    /// That of the latest attempt; nil before the first.
    public var task: SessionTask? { tasks.last }
    /// How often the request has been made again, because a retrier said so.
    public var retryCount: Int { lock.withLock { shared.retryCount } }
    /// The head of the latest answer.
    public var response: ResponseHead? { task?.response }
    /// Of the latest attempt that has ended.
    public var metrics: TaskMetrics? { tasks.last { $0.delegate.metrics != nil }?.delegate.metrics }

    /// A curl(1) command for the latest request; see `HTTPRequest.cURLDescription`.
    public func cURLDescription(redactingSecrets: Bool = true) -> String {
        request.cURLDescription(redactingSecrets: redactingSecrets)
    }

    // MARK: State

    /// Lets it go on, after `suspend`. `response` does that by itself when it was not suspended before.
    public func resume() {
        move(to: .resumed, { $0?.resume() }, then: { $0.requestDidResume($1) })
    }

    /// Holds the request back: reads no more of an answer that is coming, and makes no new attempt go out.
    public func suspend() {
        move(to: .suspended, { $0?.suspend() }, then: { $0.requestDidSuspend($1) })
    }

    /// Ends the request with the error `cancelled`, unless it has ended: its task, an adapter's or a retrier's work, a
    /// delay between attempts.
    public func cancel() { endTask { $0.cancel() } }

    func endTask(_ change: (SessionTask) -> Void) {
        let interrupt: (@Sendable () -> Void)? = move(
            to: .cancelled,
            { if let task = $0 { change(task) } },
            then: { $0.requestDidCancel($1) }
        )
        interrupt?()
    }

    @discardableResult
    private func move(
        to state: RequestState,
        _ change: (SessionTask?) -> Void,
        then notify: @escaping @Sendable (any EventMonitor, Request) -> Void
    ) -> (@Sendable () -> Void)? {
        let interrupt: (@Sendable () -> Void)?? = lock.withLock {
            guard shared.state.mayBecome(state) else { return nil }
            shared.state = state
            change(shared.tasks.last)
            return .some(shared.interrupt)
        }
        guard let interrupt else { return nil }
        manager.notifyMonitors { notify($0, self) }
        return interrupt
    }

    // MARK: For the subclasses

    /// - Throws: `requestInvalid` the second time.
    func beginOnce() throws(SessionError) {
        let isFirst = lock.withLock {
            defer { shared.hasBegun = true }
            return !shared.hasBegun
        }
        guard isFirst else { throw SessionError(.requestInvalid, "The request has been carried out already.") }
        manager.requests.insert(self)
        if state == .initialized { resume() }
    }

    var hasBegun: Bool { lock.withLock { shared.hasBegun } }
    var isCancelled: Bool { state == .cancelled }

    func didAdapt(to adapted: HTTPRequest) {
        lock.withLock { shared.request = adapted }
    }

    func willRetry() {
        lock.withLock { shared.retryCount += 1 }
    }

    func finish() {
        move(to: .finished, { _ in }, then: { $0.requestDidFinish($1) })
        manager.requests.remove(self)
        let waiting = lock.withLock {
            defer { shared.waiting = [] }
            return shared.waiting
        }
        for work in waiting { work() }
    }

    /// Has `work` done when the request is over, or now if it is.
    func whenFinished(_ work: @escaping @Sendable () -> Void) {
        let isOver = lock.withLock {
            if shared.state != .finished { shared.waiting.append(work) }
            return shared.state == .finished
        }
        if isOver { work() }
    }

    /// The task of an attempt, not yet started.
    func makeTask(for request: HTTPRequest) throws(SessionError) -> SessionTask {
        throw SessionError(.internal, "A request that is neither for data nor a download.")
    }

    /// Makes the task of an attempt, starts it unless the request is suspended, and waits for its end.
    func carryOut(_ request: HTTPRequest) async throws(RequestFailure) -> SessionTask {
        let task: SessionTask
        do throws(SessionError) {
            task = try makeTask(for: request)
        } catch {
            throw .session(error)
        }
        manager.notifyMonitors { $0.request(self, didCreate: task) }
        lock.withLock {
            shared.tasks.append(task)
            switch shared.state {
            case .cancelled: task.cancel()
            case .resumed: task.resume()
            default: break
            }
        }
        await withCheckedContinuation { continuation in task.delegate.whenComplete { continuation.resume() } }
        if let metrics = task.delegate.metrics { manager.notifyMonitors { $0.request(self, didGather: metrics) } }
        manager.notifyMonitors { $0.request(self, didComplete: task, with: task.error) }
        return task
    }

    /// What `work` gives, unless the request is cancelled before: then `cancelled` is thrown at once, and `work`'s Swift
    /// task is cancelled.
    func interruptible<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let outcome = FirstOutcome<Value>()
        let running = Task(executorPreference: BlockingThreads.shared) {
            do {
                outcome.resolve(.success(try await work()))
            } catch {
                outcome.resolve(.failure(error))
            }
        }
        let isCancelled = lock.withLock {
            shared.interrupt = {
                running.cancel()
                outcome.resolve(.failure(SessionError.taskCancelled))
            }
            return shared.state == .cancelled
        }
        if isCancelled {
            running.cancel()
            outcome.resolve(.failure(SessionError.taskCancelled))
        }
        defer { lock.withLock { shared.interrupt = nil } }
        return try await outcome.value()
    }
}
