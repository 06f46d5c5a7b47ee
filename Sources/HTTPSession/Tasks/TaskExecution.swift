import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// How a session's task is carried out: one `LoopTask` after the other until there is an answer. Belongs to the loop.
///
/// `@unchecked Sendable`: it is handed to the loop's work by way of its task, and touched there alone.
final class TaskExecution: LoopTaskDelegate, @unchecked Sendable {
    /// Gone when the run is over.
    var task: SessionTask?
    let session: SessionThread
    private(set) var request: HTTPRequest
    private var redirects = RedirectMachine()
    private(set) var metrics = TaskMetrics()

    /// The exchange under way.
    private(set) var hop: LoopTask?
    private(set) var url: AbsoluteURL?
    var authentication = TaskAuthentication()
    var waiting: ConnectivityWait?
    var deferred: DeferredResponse?
    private var feed: BodyFeed?
    var sink: BodySink?
    /// The session has asked for content codings: it undoes them, too.
    var asksForCoding = false
    var coding: ContentCoding?
    private var reportedSent: Int64 = 0
    /// What is made of the exchange's answer when it is over; nil: it is the task's answer.
    var next: HTTPRequest?
    /// How much of an answer that is not delivered has come.
    private var dropped = 0
    var failure: SessionError?
    private var isCancelled = false
    private var isFinishing = false
    /// Suspended by the task.
    private(set) var isHeld = false

    /// An answer that is not delivered is read to its end, so that the connection serves the next hop; a longer one is
    /// cut off.
    static let dropLimit = 64 << 10

    init(_ task: SessionTask) {
        self.task = task
        session = task.session
        request = task.originalRequest
    }

    // MARK: What the task asks for

    func start() {
        guard let task, !isCancelled else { return }
        session.notifyObservers(.didResume(task))
        metrics.fetchStart = session.loop.wallClock
        let sink = makeSink(task)
        self.sink = sink
        sink.prepare(request) { [self] result in
            guard self.task != nil, !isFinishing else { return }
            switch result {
            case .success(let request):
                self.request = request
                startHop()
            case .failure(let error): finish(error)
            }
        }
    }

    private func makeSink(_ task: SessionTask) -> BodySink {
        switch task {
        case let task as DownloadTask: DownloadSink(task, execution: self)
        case let task as DataTask: DataSink(task)
        default: BodySink()
        }
    }

    func resume() {
        guard let task, !isCancelled else { return }
        isHeld = false
        session.notifyObservers(.didResume(task))
        hop?.resume()
    }

    func suspend() {
        guard let task, !isCancelled else { return }
        isHeld = true
        session.notifyObservers(.didSuspend(task))
        hop?.suspend()
    }

    func cancel() {
        guard let task, !isFinishing else { return }
        isCancelled = true
        if sink == nil { sink = makeSink(task) }
        endDeferral()
        if let hop { hop.cancel() } else { finish(Self.cancelled) }
    }

    func cancelKeepingDownload() {
        (sink as? DownloadSink)?.isToBeResumed = true
        cancel()
    }

    // MARK: What the sink asks for

    func fail(_ error: SessionError) {
        failure = failure ?? error
        endDeferral()
        if let hop { hop.cancel() } else if !isFinishing { finish(failure) }
    }

    func receiveAgain() { hop?.resumeReceiving() }

    static let cancelled = SessionError(.cancelled, "The task was cancelled.")

    // MARK: One exchange

    private var cookieStorage: CookieStorage? { request.handlesCookies ? session.configuration.cookieStorage : nil }

    func startHop() {
        guard let task else { return }
        do throws(SessionError) {
            request.body = try body(of: request, isFirst: metrics.redirectCount == 0)
            let place = try RequestURL(request.url)
            url = AbsoluteURL(origin: place.origin, rest: place.target)
            var fields = request.fields
            fields.appendMissing(of: session.configuration.additionalFields)
            try SessionRequest.check(method: request.method, fields: fields)
            if let urgency = task.urgency, fields.value(for: "Priority") == nil {
                try fields.setForRequest("Priority", urgency)
            }
            if let url, !fields.contains(.cookie), let cookies = cookieStorage?.field(for: url) {
                try fields.setForRequest("Cookie", cookies)
            }
            asksForCoding =
                session.configuration.decodesContent && task is DataTask && ContentCoding.mayBeAskedFor(fields)
            if asksForCoding { try fields.setForRequest("Accept-Encoding", ContentCoding.accepted) }
            let cachePolicy = try cachePolicy(request, of: task)
            cachePolicy?.addDirectives(to: &fields)
            try authorize(&fields, place)
            var sent = SessionRequest(
                endpoint: try session.endpoint(for: place),
                method: request.method,
                target: place.target,
                fields: fields,
                bodyLength: request.body.length,
                timeouts: try timeouts(request)
            )
            sent.cachePolicy = cachePolicy
            task.willSend(request)
            beginHop(session.manager.dataTask(with: sent, delegate: self))
        } catch {
            finish(error)
        }
    }

    private func beginHop(_ started: LoopTask) {
        hop = started
        next = nil
        dropped = 0
        reportedSent = 0
        let feed = BodyFeed(request.body, loop: session.loop) { [unowned self] error in
            failure = error
            hop?.cancel()
        }
        self.feed = feed
        feed.start(started)
        // The body's source may have failed already.
        if !isHeld { hop?.resume() }
    }

    /// The body of the next request: the hook's for a streamed upload, else the request's own.
    private func body(of request: HTTPRequest, isFirst: Bool) throws(SessionError) -> RequestBody {
        guard let upload = task as? UploadTask, upload.isStreamed, request.body.length.hasBody || isFirst else {
            return request.body
        }
        let hook = upload.delegate.taskNeedNewBodyStream ?? session.hookBox.hooks.taskNeedNewBodyStream
        if let source = hook?(upload) { return .source(source) }
        return request.body
    }

    /// What is left of the time that the whole task has.
    private func timeouts(_ request: HTTPRequest) throws(SessionError) -> TaskTimeouts {
        var timeouts = request.timeouts ?? session.configuration.timeouts
        guard let total = timeouts.total, let left = remainingTime else { return timeouts }
        guard left.nanoseconds > 1 else {
            throw SessionError(.stalled, "The task took longer than its limit of \(total.milliseconds) ms.")
        }
        timeouts.total = left
        return timeouts
    }

    /// At least a nanosecond; nil where there is no limit to the whole.
    var remainingTime: TimeSpan? {
        guard let total = (request.timeouts ?? session.configuration.timeouts).total else { return nil }
        // The calendar's clock: it may be set while the task is under way.
        let spent = TimeSpan.microseconds(session.loop.freshWallClock - metrics.fetchStart)
        return TimeSpan(nanoseconds: total > spent ? total.nanoseconds - spent.nanoseconds : 1)
    }

    override func taskNeedsBodyData(_ hop: LoopTask) {
        guard hop === self.hop else { return }
        reportSent(hop)
        feed?.sendMore()
    }

    private func reportSent(_ hop: LoopTask) {
        let sent = hop.bodyBytesSent
        guard let task, sent > reportedSent else { return }
        let more = sent - reportedSent
        reportedSent = sent
        let counts = task.count { $0.sent = sent }
        task.delegate.sending.report(
            TaskProgress(completedBytes: counts.sent, totalBytes: counts.expectedToSend)
        )
        let own = (task as? UploadTask)?.uploadDelegate
        (own?.taskDidSendBodyData ?? session.hookBox.hooks.taskDidSendBodyData)?(
            task,
            more,
            sent,
            counts.expectedToSend
        )
    }

    override func task(_ hop: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        guard hop === self.hop, let task, let origin = url?.origin else { return Self.cancelled }
        return ConnectionTrustEvaluator(task, at: origin).evaluate(trust)
    }

    override func taskNeedsClientIdentity(_ hop: LoopTask) -> ClientIdentityDecision {
        guard hop === self.hop, let task, let origin = url?.origin else { return .fail(Self.cancelled) }
        return ConnectionTrustEvaluator(task, at: origin).clientIdentity()
    }

    override func task(_ hop: LoopTask, willCache response: CachedResponse) -> CachedResponse? {
        guard hop === self.hop, let task else { return nil }
        return Self.willCache(response, task, task.willCacheHook)
    }

    override func delegateForRefresh(of hop: LoopTask) -> LoopTaskDelegate {
        guard let task, let origin = url?.origin else { return super.delegateForRefresh(of: hop) }
        return TaskRefreshDelegate(ConnectionTrustEvaluator(task, at: origin))
    }

    // MARK: The answer

    override func task(_ hop: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        guard let task, hop === self.hop, let url else { return .cancel }
        reportSent(hop)
        // What is stored has set its cookies before, and asks nobody who he is.
        if !hop.isAnsweredByCache {
            storeCookies(of: response.fields, from: url)
            switch authenticate(response, at: url, of: task) {
            case .deliver: break
            case .follow(let again): return drop(response, then: again)
            case .fail(let error):
                failure = error
                return .cancel
            case .wait(let question, let decision):
                wait(for: decision, to: question)
                return .allow
            }
        }
        switch redirects.didReceiveHead(response, url: url, method: request.method) {
        case .noRedirect:
            return deliver(copy response, to: task)
        case .fail(let fault):
            failure = SessionError(fault, redirects: redirects)
            return .cancel
        case .follow(let step):
            let head = copy response
            switch decide(on: step, after: head, of: task) {
            case .follow(let following):
                metrics.redirectCount = redirects.count
                return drop(head, then: following)
            case .deliver: return deliver(head, to: task)
            case .fail(let error):
                failure = error
                return .cancel
            case .wait: return .allow
            }
        }
    }

    override func task(_ hop: LoopTask, didReceiveUnused head: borrowing ResponseHead) {
        guard let url, hop === self.hop else { return }
        storeCookies(of: head.fields, from: url)
        // A credential that was good is one also where nothing has changed.
        if let task { _ = authenticate(head, at: url, of: task) }
    }

    private func storeCookies(of fields: borrowing HTTPFields, from url: AbsoluteURL) {
        cookieStorage?.storeCookies(of: copy fields, from: url, at: session.loop.wallClock / 1_000_000)
    }

    override func task(_ hop: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard hop === self.hop, sink != nil, !isCancelled else { return .proceed }
        if let deferred { return hold(data, of: deferred) ? .proceed : .pause }
        guard next == nil else {
            dropped += data.count
            if dropped > Self.dropLimit { hop.cancel() }
            return .proceed
        }
        return passOn(data)
    }

    @discardableResult
    func passOn(_ data: borrowing Span<UInt8>) -> BodyFlow {
        switch sink?.append(data) {
        case .more, nil: return .proceed
        case .pause: return .pause
        case .failed(let error):
            fail(error)
            return .proceed
        }
    }

    func passOn(_ trailers: HTTPFields) { sink?.didReceiveTrailers(trailers) }

    /// The answer that comes is none of the task's.
    var isDropping: Bool { next != nil }

    /// An answer that was kept gives way to that of another request.
    func followed(by following: HTTPRequest) {
        next = following
        if let hop { hop.cancel() } else { exchangeEnded(nil) }
    }

    override func task(_ hop: LoopTask, didReceiveTrailers trailers: borrowing HTTPFields) {
        guard hop === self.hop, next == nil else { return }
        if let deferred {
            deferred.trailers = copy trailers
            return
        }
        sink?.didReceiveTrailers(copy trailers)
    }

    // MARK: The end

    override func taskDidComplete(_ hop: LoopTask, error: SessionError?) {
        guard hop === self.hop else { return }
        reportSent(hop)
        feed?.stop()
        feed = nil
        self.hop = nil
        collect(hop.metrics)
        if let deferred { deferred.end = .some(error) } else { exchangeEnded(error) }
    }

    func exchangeEnded(_ error: SessionError?) {
        if let next, failure == nil, !isCancelled {
            request = next
            startHop()
        } else if failure != nil || isCancelled || !waitForConnectivity(after: error) {
            finish(failure ?? error)
        }
    }

    /// The exchange's metrics become a transaction of the task's.
    private func collect(_ exchange: TaskMetrics) {
        if metrics.transaction.fetchStart != TransactionMetrics.absent {
            metrics.earlierTransactions.append(metrics.transaction)
        }
        let delay = exchange.fetchStart - metrics.fetchStart
        metrics.earlierTransactions += exchange.earlierTransactions.map { $0.later(by: delay) }
        metrics.transaction = exchange.transaction.later(by: delay)
    }

    func finish(_ error: SessionError?) {
        guard task != nil, !isFinishing else { return }
        isFinishing = true
        endWaiting()
        endDeferral()
        guard let sink else { return conclude(error) }
        sink.finish(error) { [self] error in conclude(error) }
    }

    private func conclude(_ error: SessionError?) {
        guard let task else { return }
        self.task = nil
        sink = nil
        var error = error
        if metrics.fetchStart != 0 {
            metrics.duration = max(0, session.loop.freshWallClock - metrics.fetchStart)
            error = error?.with(metrics)
        }
        task.complete(error)
        task.delegate.finish(error, metrics)
        let own = task.delegate.taskDidComplete
        session.hookBox.hooks.taskDidFinishCollectingMetrics?(task, metrics)
        (own ?? session.hookBox.hooks.taskDidComplete)?(task, error)
        session.notifyObservers(.didComplete(task))
        session.forget(task)
        task.delegate.release()
    }
}
