// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
public import SessionCore

/// One request of an `HTTPSessionManager`, with adaptation, tasks and retries. Its subclasses `DataRequest` and
/// `DownloadRequest` process the response.
///
/// It is safe on any thread. It is carried out once, by the first call of `response`. Further calls, with other serializers,
/// serialize what the first has received: they send nothing, and cause no retry.
///
/// `@unchecked Sendable`: what changes is in `shared`, accessed with `lock` held. Foreign code is not called with it
/// held, except `resume`, `suspend` and `cancel` of the task, so that these happen in the order of the states.
public class Request: @unchecked Sendable, CustomStringConvertible {
    /// The request before any adapter has changed it.
    public let originalRequest: HTTPSessionRequest
    /// The manager that carries it out; adapters and retriers may use it for further requests.
    public let manager: HTTPSessionManager
    let interceptor: (any RequestInterceptor)?
    private let eventMonitors: [any EventMonitor]

    private let lock = PosixLock()
    private var shared: Shared

    private struct Shared {
        var state = RequestState.initialized
        var hasBegun = false
        var wasCancelled = false
        var request: HTTPSessionRequest
        /// Without hooks after the end.
        var options: RequestOptions
        var tasks: [SessionTask] = []
        var retryCount = 0
        /// Ends a wait between tasks.
        var interrupt: (@Sendable () -> Void)?
        var waiting: [@Sendable () -> Void] = []
        /// The failure that the request has ended with.
        var failure: RequestFailure?
        /// The work of the latest handler, which runs before the next one's.
        var latestHandler: Task<Void, Never>?
        var progress: [ProgressStream] = []
        /// The task whose progress is passed on: the latest, from before the monitors know it and it is among `tasks`.
        var reporting: SessionTask?
        /// Events that the monitors have not been notified of, in order.
        var events: [@Sendable (any EventMonitor) -> Void] = []
        var isNotifying = false

        /// Whether no figure of progress can follow.
        var isOver: Bool { state == .finished || state == .cancelled && !hasBegun }
    }

    init(_ request: HTTPSessionRequest, manager: HTTPSessionManager, options: RequestOptions) {
        originalRequest = request
        self.manager = manager
        interceptor = manager.combined(options.interceptor)
        eventMonitors = options.eventMonitors
        shared = Shared(request: request, options: options)
    }

    deinit {
        // Nobody can carry it out any more.
        for work in shared.waiting { work() }
    }

    // MARK: What there is to know

    /// The state of the request.
    public var state: RequestState { lock.withLock { shared.state } }
    /// Whether `cancel` has ended the request, or is about to; it stays so after the end.
    public var isCancelled: Bool { lock.withLock { shared.wasCancelled } }
    /// Whether the request has ended, with or without success.
    public var isFinished: Bool { state == .finished }
    /// Whether the request is suspended.
    public var isSuspended: Bool { state == .suspended }
    /// The latest request that the adapters have made from `originalRequest`.
    public var request: HTTPSessionRequest { lock.withLock { shared.request } }
    /// The tasks of the attempts, in order; a redirect belongs to the task of its attempt.
    public var tasks: [SessionTask] { lock.withLock { shared.tasks } }
    /// The task of the latest attempt; nil before the first.
    public var task: SessionTask? { tasks.last }
    /// The number of retries so far.
    public var retryCount: Int { lock.withLock { shared.retryCount } }
    /// The head of the latest response.
    public var response: ResponseHead? { task?.response }
    /// The metrics of the latest attempt that has ended.
    public var metrics: TaskMetrics? { tasks.last { $0.delegate.metrics != nil }?.delegate.metrics }

    /// Method and URL of the latest request, and the status if there is a response: `GET https://example.com/ (200)`.
    public var description: String {
        let request = request
        return "\(request.method) \(request.url)" + (response.map { " (\($0.status))" } ?? "")
    }

    /// A curl(1) command for the latest request; see `HTTPSessionRequest.cURLDescription`.
    public func cURLDescription(redactingSecrets: Bool = true) -> String {
        request.cURLDescription(redactingSecrets: redactingSecrets)
    }

    // MARK: State

    /// Resumes the request after `suspend`. `response` starts it by itself unless it was suspended before.
    public func resume() {
        move(to: .resumed, { $0?.resume() }, then: { $0.requestDidResume($1) })
    }

    /// Suspends the request: stops reading the response, and starts no new attempt.
    public func suspend() {
        move(to: .suspended, { $0?.suspend() }, then: { $0.requestDidSuspend($1) })
    }

    /// Ends the request with the error `cancelled`, unless it has ended: its task, the work of adapters and retriers,
    /// and delays between attempts.
    public func cancel() { endTask { $0.cancel() } }

    func endTask(_ change: (SessionTask) -> Void) {
        let interrupt: (@Sendable () -> Void)? = move(
            to: .cancelled,
            { if let task = $0 { change(task) } },
            then: { $0.requestDidCancel($1) }
        )
        interrupt?()
        // Nothing follows for a request that nobody has begun to carry out.
        let waiting = lock.withLock {
            guard shared.isOver else { return [] as [@Sendable () -> Void] }
            defer { shared.waiting = [] }
            return shared.waiting
        }
        for work in waiting { work() }
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
            if state == .cancelled { shared.wasCancelled = true }
            change(shared.tasks.last)
            shared.events.append { notify($0, self) }
            return .some(shared.interrupt)
        }
        guard let interrupt else { return nil }
        passOnEvents()
        return interrupt
    }

    // MARK: Events

    /// Notifies the event monitors, in the order of the events of this request.
    func notifyMonitors(_ event: @escaping @Sendable (any EventMonitor) -> Void) {
        lock.withLock { shared.events.append(event) }
        passOnEvents()
    }

    /// Only one thread at a time passes events on, so that a later event of another thread does not overtake one; and
    /// without the lock, since a monitor's queue may call it at once, and the monitor may use the request.
    private func passOnEvents() {
        while true {
            let next: (@Sendable (any EventMonitor) -> Void)? = lock.withLock {
                guard !shared.isNotifying, !shared.events.isEmpty else { return nil }
                shared.isNotifying = true
                return shared.events.removeFirst()
            }
            guard let next else { return }
            manager.notifyMonitors(and: eventMonitors, next)
            lock.withLock { shared.isNotifying = false }
        }
    }

    // MARK: For the subclasses

    /// - Returns: false for another call than the first, which carries the request out.
    func beginOnce() -> Bool {
        let isFirst = lock.withLock {
            defer { shared.hasBegun = true }
            return !shared.hasBegun
        }
        guard isFirst else { return false }
        manager.requests.insert(self)
        if state == .initialized { resume() }
        return true
    }

    /// The failure that the request has ended with; nil before the end, and after success.
    var failure: RequestFailure? { lock.withLock { shared.failure } }

    /// Puts the work of a handler behind that of the handlers of earlier calls.
    func enqueueHandler(_ make: (_ previous: Task<Void, Never>?) -> Task<Void, Never>) {
        lock.withLock { shared.latestHandler = make(shared.latestHandler) }
    }

    var hasBegun: Bool { lock.withLock { shared.hasBegun } }

    func didAdapt(to adapted: HTTPSessionRequest) {
        lock.withLock { shared.request = adapted }
    }

    func willRetry() {
        lock.withLock { shared.retryCount += 1 }
    }

    /// - Parameter failure: nil after success.
    func finish(_ failure: RequestFailure? = nil) {
        lock.withLock { shared.failure = failure }
        move(to: .finished, { _ in }, then: { $0.requestDidFinish($1) })
        manager.requests.remove(self)
        let (waiting, options) = lock.withLock {
            defer {
                shared.waiting = []
                shared.options = shared.options.withoutHooks
            }
            return (shared.waiting, shared.options)
        }
        for work in waiting { work() }
        // The hooks are freed without the lock, since that may run code of the program.
        withExtendedLifetime(options) {}
    }

    /// A stream of the progress of all attempts, until the end of the request.
    func progress(_ body: ProgressStream.Body) -> AsyncStream<TaskProgress> {
        let (updates, continuation) = AsyncStream<TaskProgress>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let callbacks = manager.session.thread.callbacks
        let stream = ProgressStream(body, on: callbacks, continuation)
        // `begin` attaches those streams that are there before its task; so each is attached exactly once.
        let task = lock.withLock { () -> SessionTask? in
            guard !shared.isOver else { return nil }
            shared.progress.append(stream)
            return shared.reporting
        }
        if let task { stream.attach(to: task, isUnderWay: true) }
        let session = manager.session.thread
        continuation.onTermination = { [weak self, weak session] _ in
            self?.remove(stream)
            session?.forgetEnding(of: stream.name)
        }
        // Nobody can carry out a request any more that has not begun before the end of the session.
        session.whenClosed(stream.name) { [weak self] in
            if self?.hasBegun != true { continuation.finish() }
        }
        // Behind the last figure.
        whenFinished { callbacks.enqueue { continuation.finish() } }
        return updates
    }

    private func remove(_ stream: ProgressStream) {
        let task = lock.withLock {
            shared.progress.removeAll { $0.name == stream.name }
            return shared.reporting
        }
        if let task { stream.detach(from: task) }
    }

    /// Runs `work` when the request has ended, or at once if it has; it also ends when it is cancelled before it was carried out.
    func whenFinished(_ work: @escaping @Sendable () -> Void) {
        let isOver = lock.withLock {
            if !shared.isOver { shared.waiting.append(work) }
            return shared.isOver
        }
        if isOver { work() }
    }

    /// Makes the task of an attempt, without starting it.
    func makeTask(for request: HTTPSessionRequest) throws(SessionError) -> SessionTask {
        throw SessionError(.internal, "A request that is neither for data nor a download.")
    }

    /// Makes the task of an attempt, starts it unless the request is suspended, and waits for its end.
    func carryOut(_ request: HTTPSessionRequest) async throws(RequestFailure) -> SessionTask {
        let task = try begin(request)
        await withCheckedContinuation { continuation in task.delegate.whenComplete { continuation.resume() } }
        didEnd(task)
        return task
    }

    /// Makes the task of an attempt, and starts it unless the request is suspended.
    func begin(_ request: HTTPSessionRequest) throws(RequestFailure) -> SessionTask {
        let task: SessionTask
        do throws(SessionError) {
            task = try makeTask(for: request)
        } catch {
            throw named(error)
        }
        lock.withLock { shared.options }.apply(to: task)
        let streams = lock.withLock {
            shared.reporting = task
            return shared.progress
        }
        for stream in streams { stream.attach(to: task, isUnderWay: false) }
        notifyMonitors { $0.request(self, didCreate: task) }
        lock.withLock {
            shared.tasks.append(task)
            switch shared.state {
            case .cancelled: task.cancel()
            case .resumed: task.resume()
            default: break
            }
        }
        return task
    }

    /// Notifies monitors of the end of an attempt.
    func didEnd(_ task: SessionTask) {
        if let metrics = task.delegate.metrics { notifyMonitors { $0.request(self, didGather: metrics) } }
        notifyMonitors { $0.request(self, didComplete: task, with: task.error) }
    }

    /// Returns the result of `work`. If the request is cancelled before, it throws `cancelled` at once, and the Swift
    /// task of `work` is cancelled; so it is with `TotalExpiry` when the limit is over.
    func interruptible<Value: Sendable>(
        within limit: TimeSpan? = nil,
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let outcome = FirstOutcome<Value>()
        let running = Task(executorPreference: manager.session.thread.blocking) {
            do {
                outcome.resolve(.success(try await work()))
            } catch {
                outcome.resolve(.failure(error))
            }
        }
        let timer = limit.map { limit in
            Task {
                try await Task.sleep(for: .nanoseconds(Int64(clamping: limit.nanoseconds)))
                running.cancel()
                outcome.resolve(.failure(TotalExpiry(limit: limit)))
            }
        }
        defer { timer?.cancel() }
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
