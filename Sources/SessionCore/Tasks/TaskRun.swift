import HTTPCore
import IOCore
import ServerTrust

/// How a session's task is carried out: one `LoopTask` after the other until there is an answer. Belongs to the loop.
///
/// `@unchecked Sendable`: it is handed to the loop's work by way of its task, and touched there alone.
final class TaskRun: LoopTaskDelegate, @unchecked Sendable {
    /// Gone when the run is over.
    private(set) var task: SessionTask?
    let session: SessionThread
    private(set) var request: HTTPRequest
    private var redirects = RedirectMachine()
    private(set) var metrics = TaskMetrics()

    /// The exchange under way.
    private(set) var hop: LoopTask?
    private(set) var url: AbsoluteURL?
    var authentication = TaskAuthentication()
    var waiting: ConnectivityWait?
    private var feed: BodyFeed?
    private var sink: BodySink?
    /// The session has asked for content codings: it undoes them, too.
    private var asksForCoding = false
    private var coding: ContentCoding?
    private var toldSent: Int64 = 0
    /// What is made of the exchange's answer when it is over; nil: it is the task's answer.
    private var next: HTTPRequest?
    /// How much of an answer that is not delivered has come.
    private var dropped = 0
    private var failure: SessionError?
    private var isCancelled = false
    private var isFinishing = false
    /// Suspended by the task.
    private var isHeld = false

    /// An answer that is not delivered is read to its end, so that the connection serves the next hop; a longer one is
    /// cut off.
    private static let dropLimit = 64 << 10

    init(_ task: SessionTask) {
        self.task = task
        session = task.session
        request = task.originalRequest
    }

    // MARK: What the task asks for

    func start() {
        guard let task, !isCancelled else { return }
        session.tell(.didResume(task))
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
        case let task as DownloadTask: DownloadSink(task, run: self)
        case let task as DataTask: DataSink(task)
        default: BodySink()
        }
    }

    func resume() {
        guard let task, !isCancelled else { return }
        isHeld = false
        session.tell(.didResume(task))
        hop?.resume()
    }

    func suspend() {
        guard let task, !isCancelled else { return }
        isHeld = true
        session.tell(.didSuspend(task))
        hop?.suspend()
    }

    func cancel() {
        guard let task, !isFinishing else { return }
        isCancelled = true
        if sink == nil { sink = makeSink(task) }
        if let hop { hop.cancel() } else { finish(Self.cancelled) }
    }

    func cancelKeepingDownload() {
        (sink as? DownloadSink)?.isToBeResumed = true
        cancel()
    }

    // MARK: What the sink asks for

    func fail(_ error: SessionError) {
        failure = failure ?? error
        hop?.cancel()
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
            cachePolicy?.tell(in: &fields)
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
            begin(session.manager.dataTask(with: sent, delegate: self))
        } catch {
            finish(error)
        }
    }

    private func begin(_ started: LoopTask) {
        hop = started
        next = nil
        dropped = 0
        toldSent = 0
        let feed = BodyFeed(request.body, loop: session.loop) { [unowned self] error in
            failure = error
            hop?.cancel()
        }
        self.feed = feed
        feed.begin(started)
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
        guard let total = timeouts.total else { return timeouts }
        let spent = UInt64(max(0, session.loop.wallClock - metrics.fetchStart)) * 1000
        guard spent < total.nanoseconds else {
            throw SessionError(.stalled, "The task took longer than its limit of \(total.milliseconds) ms.")
        }
        timeouts.total = TimeSpan(nanoseconds: total.nanoseconds - spent)
        return timeouts
    }

    override func taskNeedsBodyData(_ hop: LoopTask) {
        guard hop === self.hop else { return }
        tellSent(hop)
        feed?.more()
    }

    private func tellSent(_ hop: LoopTask) {
        let sent = hop.bodyBytesSent
        guard let task, sent > toldSent else { return }
        let more = sent - toldSent
        toldSent = sent
        let counts = task.count { $0.sent = sent }
        task.delegate.sending.tell(
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
        return ConnectionJudge(task, at: origin).judge(trust)
    }

    override func taskNeedsClientIdentity(_ hop: LoopTask) -> ClientIdentityDecision {
        guard hop === self.hop, let task, let origin = url?.origin else { return .fail(Self.cancelled) }
        return ConnectionJudge(task, at: origin).clientIdentity()
    }

    override func task(_ hop: LoopTask, willCache response: CachedResponse) -> CachedResponse? {
        guard hop === self.hop, let task else { return nil }
        return Self.willCache(response, task, task.willCacheHook)
    }

    override func delegateForRefresh(of hop: LoopTask) -> LoopTaskDelegate {
        guard let task, let origin = url?.origin else { return super.delegateForRefresh(of: hop) }
        return TaskRefreshDelegate(ConnectionJudge(task, at: origin))
    }

    // MARK: The answer

    override func task(_ hop: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        guard let task, hop === self.hop, let url else { return .cancel }
        tellSent(hop)
        // What is stored has set its cookies before, and asks nobody who he is.
        if !hop.isAnsweredByCache {
            take(cookies: response.fields, from: url)
            switch authenticate(response, at: url, of: task) {
            case .answer: break
            case .follow(let again): return drop(response, then: again)
            case .fail(let error):
                failure = error
                return .cancel
            }
        }
        switch redirects.take(response, url: url, method: request.method) {
        case .answer:
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
            case .answer: return deliver(head, to: task)
            case .fail(let error):
                failure = error
                return .cancel
            }
        }
    }

    override func task(_ hop: LoopTask, didReceiveUnused head: borrowing ResponseHead) {
        guard let url, hop === self.hop else { return }
        take(cookies: head.fields, from: url)
        // A credential that was good is one also where nothing has changed.
        if let task { _ = authenticate(head, at: url, of: task) }
    }

    private func take(cookies fields: borrowing HTTPFields, from url: AbsoluteURL) {
        cookieStorage?.take(copy fields, from: url, at: session.loop.wallClock / 1_000_000)
    }

    private func deliver(_ head: ResponseHead, to task: SessionTask) -> ResponseDisposition {
        coding = asksForCoding ? ContentCoding(head) : nil
        let expected = expectedLength(head)
        if let coding, let plain = sink {
            guard let decoding = DecodingSink(plain, coding) else {
                failure = SessionError(.internal, "There is no memory to decode the answer's body in.")
                return .cancel
            }
            sink = decoding
        }
        task.delegate.reset()
        task.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        task.didReceive(head, expected: expected.map { Int64($0) })
        switch sink?.receive(head, expected: expected) ?? .take {
        case .take: return .allow
        case .ask(let request): return drop(head, then: request)
        case .end(let error):
            failure = error
            return .cancel
        case .becomeDownload: return becomeDownload(head, expected, task)
        }
    }

    /// Has the answer read to its end, or cut off, and goes on with another request.
    private func drop(_ head: borrowing ResponseHead, then following: HTTPRequest) -> ResponseDisposition {
        next = following
        if case .length(let count) = head.framing, count > Self.dropLimit { return .cancel }
        return .allow
    }

    private func becomeDownload(_ head: ResponseHead, _ expected: Int?, _ task: SessionTask) -> ResponseDisposition {
        guard let data = task as? DataTask, let machine = data.handOver() else { return .cancel }
        let download = DownloadTask(
            takingOver: data,
            machine,
            delegate: DownloadTaskDelegate(callbacks: session.callbacks)
        )
        download.adopt(self)
        session.table.insert(download)
        session.table.remove(data)
        self.task = download
        let file = DownloadSink(download, run: self)
        let sink: BodySink = coding.flatMap { DecodingSink(file, $0) } ?? file
        self.sink = sink
        download.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        download.didReceive(head, expected: expected.map { Int64($0) })
        session.hookBox.hooks.dataTaskDidBecomeDownloadTask?(data, download)
        let error = SessionError(.cancelled, "The task goes on as download task \(download.taskIdentifier).")
        data.replaced(error)
        data.delegate.finish(error, metrics)
        data.delegate.release()
        _ = sink.receive(head, expected: expected)
        // What is on the disk is not what a range would be of.
        file.mayBeResumed = coding == nil
        return .allow
    }

    private func expectedLength(_ head: ResponseHead) -> Int? {
        guard coding == nil else { return nil }
        return switch head.framing {
        case .none: 0
        case .length(let count): count
        default: nil
        }
    }

    override func task(_ hop: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard hop === self.hop, let sink, !isCancelled else { return .proceed }
        guard next == nil else {
            dropped += data.count
            if dropped > Self.dropLimit { hop.cancel() }
            return .proceed
        }
        switch sink.take(data) {
        case .more: return .proceed
        case .pause: return .pause
        case .failed(let error):
            fail(error)
            return .proceed
        }
    }

    override func task(_ hop: LoopTask, didReceiveTrailers trailers: borrowing HTTPFields) {
        guard hop === self.hop, next == nil else { return }
        sink?.take(trailers: copy trailers)
    }

    // MARK: The end

    override func taskDidComplete(_ hop: LoopTask, error: SessionError?) {
        guard hop === self.hop else { return }
        tellSent(hop)
        feed?.end()
        feed = nil
        self.hop = nil
        collect(hop.metrics)
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
        guard let sink else { return conclude(error) }
        sink.finish(error) { [self] error in conclude(error) }
    }

    private func conclude(_ error: SessionError?) {
        guard let task else { return }
        self.task = nil
        sink = nil
        if metrics.fetchStart != 0 { metrics.duration = max(0, session.loop.freshWallClock - metrics.fetchStart) }
        task.complete(error)
        task.delegate.finish(error, metrics)
        let own = task.delegate.taskDidComplete
        session.hookBox.hooks.taskDidFinishCollectingMetrics?(task, metrics)
        (own ?? session.hookBox.hooks.taskDidComplete)?(task, error)
        session.tell(.didComplete(task))
        session.forget(task)
        task.delegate.release()
    }
}
