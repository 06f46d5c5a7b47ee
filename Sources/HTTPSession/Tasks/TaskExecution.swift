// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// Carries out a session's task: one `LoopTask` (hop) after the other until a response is final. Belongs to the loop.
///
/// `@unchecked Sendable`: other threads hand it to the loop as part of submitted work, and only the loop touches it.
final class TaskExecution: LoopTaskDelegate, @unchecked Sendable {
    /// Nil when the execution is over. A download task takes the place of a data task (`becomeDownload`).
    private var task: SessionTask?
    private let session: SessionThread
    /// The request of the present hop, or of the next.
    private var request: HTTPSessionRequest
    /// The checked form of `request`; nil until its hop begins.
    private var checked: CheckedRequest?
    private var redirects = RedirectMachine()
    private var metrics = TaskMetrics()
    private let authenticator: TaskAuthenticator

    private var hop: LoopTask?
    private var url: AbsoluteURL?
    private var feed: BodyFeed?
    private var reportedSent: Int64 = 0
    /// The request to send when the present hop is over (redirect or authentication); nil when its response is final.
    private var next: HTTPSessionRequest?
    /// The body of a response that is not final.
    private var unwanted = UnwantedBody()

    private var connectivity: ConnectivityWait?
    private var deferred: DeferredResponse?
    private var sink: BodySink?
    /// Of the content of the response, when it is compared with digests.
    private var digest: BodyDigest?
    /// Whether the request's `Accept-Encoding` is the session's own, so that the session decodes the body.
    private var asksForCoding = false
    private var codings: [ContentCoding] = []
    /// The error that the task fails with when the present hop has ended.
    private var failure: SessionError?
    private var isCancelled = false
    private var isFinishing = false
    private var isSuspended = false
    /// The consumer of a stream is slow; the limits of the phases do not count meanwhile.
    private var isHeldByReader = false

    init(_ task: SessionTask) {
        self.task = task
        session = task.session
        authenticator = TaskAuthenticator(task.session)
        request = task.originalRequest
        checked = task.checkedRequest
        redirects.escapesLocation = session.configuration.escapesLocation
    }

    // MARK: Calls by the task

    func start() {
        guard let task, !isCancelled else { return }
        // It may have been suspended since.
        isSuspended = task.state == .suspended
        session.notifyObservers(.didResume(task))
        metrics.fetchStart = session.loop.wallClock
        let sink = makeSink(task)
        self.sink = sink
        sink.prepare(request) { [self] replacement in
            guard self.task != nil, !isFinishing else { return }
            if let replacement { replaceRequest(by: replacement) }
            startHop()
        }
    }

    private func makeSink(_ task: SessionTask) -> BodySink {
        if let own = task.makeSink(self) { return own }
        return switch task {
        case let task as DownloadTask: DownloadSink(task, execution: self)
        case let task as DataTask: task.dataDelegate.stream.map { streamSink(task, $0, $1) } ?? DataSink(task)
        default: BodySink()
        }
    }

    private func streamSink(_ task: DataTask, _ stream: ByteStream, _ validation: ResponseValidation) -> BodySink {
        stream.start { [weak self, loop = session.loop] in loop.submit { [weak self] in self?.readerHasRoom() } }
        return StreamSink(task, stream, validation)
    }

    /// The consumer of a stream waits for more bytes.
    private func readerHasRoom() {
        isHeldByReader = false
        if !isSuspended { hop?.resume() }
        hop?.resumeReceiving()
    }

    func resume() {
        guard let task, !isCancelled else { return }
        isSuspended = false
        session.notifyObservers(.didResume(task))
        feed?.hold(false)
        if !isHeldByReader { hop?.resume() }
    }

    func suspend() {
        guard let task, !isCancelled else { return }
        isSuspended = true
        session.notifyObservers(.didSuspend(task))
        feed?.hold(true)
        hop?.suspend()
    }

    func cancel() {
        guard let task, !isFinishing else { return }
        isCancelled = true
        if sink == nil { sink = makeSink(task) }
        endDeferral()
        if let hop { hop.cancel() } else { finish(.taskCancelled) }
    }

    func cancelKeepingDownload() {
        (sink as? DownloadSink)?.isToBeResumed = true
        cancel()
    }

    // MARK: Calls by the sink

    func fail(_ error: SessionError) {
        failure = failure ?? error
        endDeferral()
        if let hop { hop.cancel() } else if !isFinishing { finish(failure) }
    }

    func receiveAgain() { hop?.resumeReceiving() }

    // MARK: One hop

    private var cookieStorage: CookieStorage? { request.handlesCookies ? session.configuration.cookieStorage : nil }

    private func replaceRequest(by next: HTTPSessionRequest) {
        request = next
        checked = nil
    }

    private func checkedRequest() throws(SessionError) -> CheckedRequest {
        if let checked { return checked }
        let checked = try session.check(request)
        self.checked = checked
        return checked
    }

    private func startHop() {
        guard let task else { return }
        do throws(SessionError) {
            request.body = try body(of: request, isFirst: metrics.redirectCount == 0)
            let checked = try checkedRequest()
            let place = checked.place
            // One copy for all that read it below.
            let request = request
            url = AbsoluteURL(origin: place.origin, rest: place.target)
            var fields = checked.fields
            if let urgency = task.urgency, fields.value(for: "Priority") == nil {
                try fields.setForRequest("Priority", urgency)
            }
            if let url, !fields.contains(.cookie), let cookies = cookieStorage?.field(for: url) {
                try fields.setForRequest("Cookie", cookies)
            }
            asksForCoding =
                session.configuration.decodesContent && task is DataTask && ContentCoding.mayBeAskedFor(fields)
            if asksForCoding {
                let others = session.configuration.contentDecoders
                if others.isEmpty {
                    fields.append(.acceptEncoding, ContentCoding.accepted)
                } else {
                    try fields.setForRequest("Accept-Encoding", ContentCoding.accepted(with: others))
                }
            }
            let cachePolicy = try cachePolicy(request, of: task)
            cachePolicy?.addDirectives(to: &fields)
            try authenticator.authorize(request, &fields, place)
            var sent = SessionRequest(
                endpoint: checked.endpoint,
                method: request.method,
                target: place.target,
                fields: fields,
                bodyLength: request.body.length,
                timeouts: try timeouts(request)
            )
            sent.cachePolicy = cachePolicy
            sink?.prepare(&sent)
            task.willSend(request)
            // What goes over another protocol is no body that could be recorded.
            let recording = sent.isUpgrade ? nil : session.configuration.recording?(sent, self)
            beginHop(session.manager.dataTask(with: sent, delegate: recording?.delegate ?? self), recording)
        } catch {
            finish(error)
        }
    }

    /// The request's cache policy; nil for tasks that do not use the cache.
    ///
    /// - Throws: `notStored` when the policy forbids a request to the origin.
    private func cachePolicy(_ request: HTTPSessionRequest, of task: SessionTask) throws(SessionError) -> CachePolicy? {
        let policy = request.cachePolicy ?? session.configuration.cachePolicy
        if task is DataTask { return policy }
        guard policy != .returnCacheDataDontLoad else { throw .notStored }
        return nil
    }

    private func beginHop(_ started: LoopTask, _ recording: HopRecording?) {
        hop = started
        next = nil
        unwanted = UnwantedBody()
        reportedSent = 0
        if let sink, sink.givesBody {
            sink.begin(started)
            if !isSuspended { started.resume() }
            return
        }
        let feed = BodyFeed(request.body, loop: session.loop, threads: session.blocking) { [unowned self] error in
            failure = error
            hop?.cancel()
        }
        feed.didSend = recording?.didSend
        self.feed = feed
        feed.start(started, isHeld: isSuspended)
        // The body's source may have failed already.
        if !isSuspended { hop?.resume() }
    }

    /// The body of the next request: for a streamed upload that of the hook, otherwise that of the request.
    private func body(of request: HTTPSessionRequest, isFirst: Bool) throws(SessionError) -> RequestBody {
        guard let upload = task as? UploadTask, upload.isStreamed, request.body.length.hasBody || isFirst else {
            return request.body
        }
        let hook = upload.delegate.taskNeedNewBodyStream ?? session.hookBox.hooks.taskNeedNewBodyStream
        if let source = hook?(upload) { return .source(source) }
        return request.body
    }

    /// The limits of the next hop; `total` is the time that the task has left.
    private func timeouts(_ request: HTTPSessionRequest) throws(SessionError) -> TaskTimeouts {
        var timeouts = request.timeouts ?? session.configuration.timeouts
        guard let total = timeouts.spans.total, let left = remainingTime else { return timeouts }
        guard left.nanoseconds > 1 else {
            throw SessionError(.stalled, "The task took longer than its limit of \(total.milliseconds) ms.")
        }
        timeouts.spans.total = left
        return timeouts
    }

    /// The time that the task has left, at least a nanosecond; nil without a limit.
    private var remainingTime: TimeSpan? {
        guard let total = (request.timeouts ?? session.configuration.timeouts).spans.total else { return nil }
        // This clock can be set while the task is under way, which moves the limit.
        let spent = TimeSpan.microseconds(session.loop.freshWallClock - metrics.fetchStart)
        return TimeSpan(nanoseconds: total > spent ? total.nanoseconds - spent.nanoseconds : 1)
    }

    override func taskNeedsBodyData(_ hop: LoopTask) {
        guard hop === self.hop else { return }
        reportSent(hop)
        feed?.sendMore()
        sink?.needsBodyData()
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
        guard hop === self.hop, let task, let origin = url?.origin else { return .taskCancelled }
        return ConnectionTrustEvaluator(task, at: origin).evaluate(trust)
    }

    override func taskNeedsClientIdentity(_ hop: LoopTask) -> ClientIdentityDecision {
        guard hop === self.hop, let task, let origin = url?.origin else { return .fail(.taskCancelled) }
        return ConnectionTrustEvaluator(task, at: origin).clientIdentity()
    }

    override func task(_ hop: LoopTask, willCache response: CachedResponse) -> CachedResponse? {
        guard hop === self.hop, let task else { return nil }
        return task.willCache(response, task.willCacheHook)
    }

    override func delegateForRefresh(of hop: LoopTask) -> LoopTaskDelegate? {
        guard let task, let origin = url?.origin else { return nil }
        return TaskRefreshDelegate(ConnectionTrustEvaluator(task, at: origin))
    }

    // MARK: The response

    override func task(_ hop: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        guard let task, hop === self.hop, let url else { return .cancel }
        reportSent(hop)
        // A stored response set its cookies when it came from the origin, and it is no challenge.
        if !hop.isAnsweredByCache {
            storeCookies(of: response.fields, from: url)
            switch authenticator.didReceiveHead(response, to: request, at: url, of: task) {
            case .deliver: break
            case .follow(let again): return discardBody(of: response, then: again)
            case .fail(let error):
                failure = error
                return .cancel
            case .wait(let question, let decision):
                wait(for: decision, on: question)
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
            switch decide(on: step, after: head, at: url, of: task) {
            case .follow(let following):
                metrics.redirectCount = redirects.count
                return discardBody(of: head, then: following)
            case .deliver: return deliver(head, to: task)
            case .fail(let error):
                failure = error
                return .cancel
            case .wait: return .allow
            }
        }
    }

    /// Decides about a redirect: by the rules, and by the hook.
    private func decide(
        on hop: RedirectMachine.Hop,
        after head: ResponseHead,
        at url: AbsoluteURL,
        of task: SessionTask
    ) -> ResponseStep {
        let redirect = RedirectEvaluation(
            hop,
            of: request,
            from: (url.origin, try? session.endpoint(for: url.origin)),
            to: try? session.endpoint(for: hop.url.origin),
            now: session.loop.wallClock / 1_000_000
        )
        let denial = redirect.denial
        let proposal = RedirectProposal(
            request: redirect.following,
            denial: denial.map { RedirectProposal.Denial($0) }
        )
        let hook = task.delegate.taskWillPerformHTTPRedirection ?? session.hookBox.hooks.taskWillPerformHTTPRedirection
        switch hook?(task, head, proposal) ?? .proceed {
        case .stop: return .deliver
        case .follow(let request): return .follow(request)
        case .proceed:
            guard let denial else { return .follow(redirect.following) }
            return .fail(SessionError(denial, from: url.origin, to: hop.url.origin))
        }
    }

    override func task(_ hop: LoopTask, didReceiveUnused head: borrowing ResponseHead) {
        guard let url, hop === self.hop else { return }
        storeCookies(of: head.fields, from: url)
        // A 304 proves credentials good as well.
        if let task { _ = authenticator.didReceiveHead(head, to: request, at: url, of: task) }
    }

    private func storeCookies(of fields: borrowing HeaderFields, from url: AbsoluteURL) {
        cookieStorage?.storeCookies(of: copy fields, from: url, at: session.loop.wallClock / 1_000_000)
    }

    override func task(_ hop: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard hop === self.hop, sink != nil, !isCancelled else { return .proceed }
        if let deferred { return deferred.append(data) ? .proceed : .pause }
        guard next == nil else {
            if !unwanted.didReceive(data.count) { hop.cancel() }
            return .proceed
        }
        return passOn(data)
    }

    @discardableResult
    private func passOn(_ data: borrowing Span<UInt8>) -> BodyFlow {
        digest?.update(data)
        switch sink?.append(data) {
        case .more, nil: return .proceed
        case .pause:
            // A download waits for the disk, a data task for its consumer, which may take any time.
            if task is DataTask {
                isHeldByReader = true
                hop?.suspend()
            }
            return .pause
        case .failed(let error):
            fail(error)
            return .proceed
        }
    }

    override func task(_ hop: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {
        guard hop === self.hop, next == nil else { return }
        if let deferred {
            deferred.trailers = copy trailers
            return
        }
        digest?.add(trailers)
        sink?.didReceiveTrailers(copy trailers)
    }

    /// Delivers a final response to the task.
    private func deliver(_ head: ResponseHead, to task: SessionTask) -> ResponseDisposition {
        codings = asksForCoding ? ContentCoding.of(head, session.configuration.contentDecoders) : []
        digest = BodyDigest(head, request.digestCheck ?? session.configuration.digestCheck)
        let expected = expectedLength(head)
        if !codings.isEmpty, let plain = sink {
            guard let decoding = DecodingSink.decoding(codings, for: plain) else {
                failure = SessionError(.internal, "There is no memory to decode the response's body in.")
                return .cancel
            }
            sink = decoding
        }
        task.delegate.reset()
        task.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        task.didReceive(head, expected: expected.map { Int64($0) })
        switch sink?.receive(head, expected: expected) ?? .accept {
        case .accept: return .allow
        case .ask(let request): return discardBody(of: head, then: request)
        case .end(let error):
            failure = error
            return .cancel
        case .becomeDownload: return becomeDownload(head, expected, task)
        }
    }

    /// Ends this hop without delivering its response, and sends another request then.
    private func discardBody(of head: borrowing ResponseHead, then following: HTTPSessionRequest) -> ResponseDisposition
    {
        next = following
        return UnwantedBody.isWorthReading(head.framing) ? .allow : .cancel
    }

    private func becomeDownload(_ head: ResponseHead, _ expected: Int?, _ task: SessionTask) -> ResponseDisposition {
        guard let data = task as? DataTask, let machine = data.handOver() else { return .cancel }
        let own = DownloadTaskDelegate(callbacks: session.callbacks, continuing: data.delegate)
        own.inherit(from: data.delegate)
        let download = DownloadTask(takingOver: data, machine, delegate: own)
        download.adopt(self)
        // Its handlers wait for the file.
        data.replaced(by: download)
        download.delegate.whenComplete { [unowned download] in
            data.delegate.finish(download.error, own.metrics ?? TaskMetrics())
            data.delegate.release()
        }
        session.table.insert(download)
        session.table.remove(data)
        self.task = download
        let file = DownloadSink(download, execution: self)
        let sink = DecodingSink.decoding(codings, for: file) ?? file
        self.sink = sink
        download.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        download.didReceive(head, expected: expected.map { Int64($0) })
        session.hookBox.hooks.dataTaskDidBecomeDownloadTask?(data, download)
        _ = sink.receive(head, expected: expected)
        // A range of the response is one of the coded body, and the file has the decoded one.
        file.mayBeResumed = codings.isEmpty
        return .allow
    }

    /// The length of the body; nil when it is not known before the end.
    private func expectedLength(_ head: ResponseHead) -> Int? {
        guard codings.isEmpty, hop?.request.isSwitched(by: head) != true else { return nil }
        return switch head.framing {
        case .none: 0
        case .length(let count): count
        default: nil
        }
    }

    // MARK: A 401 that a hook decides about later

    private func wait(
        for decision: @escaping @Sendable () async -> ChallengeDisposition,
        on question: AuthenticationQuestion
    ) {
        let deferred =
            deferred
            ?? DeferredResponse(
                question.response,
                on: session.loop,
                threads: session.blocking,
                timeLimit: remainingTime
            ) { [weak self] in
                self?.fail(SessionError(.responseTimeout, "No hook answered the 401 within the task's total time."))
            }
        self.deferred = deferred
        deferred.start(decision) { [self] disposition in hookDidDecide(disposition, on: question, deferred) }
    }

    private func hookDidDecide(
        _ disposition: ChallengeDisposition,
        on question: AuthenticationQuestion,
        _ deferred: DeferredResponse
    ) {
        guard let task, deferred === self.deferred else { return }
        let step = authenticator.hookDidDecide(disposition, on: question, of: task)
        if case .wait(let question, let decision) = step { return wait(for: decision, on: question) }
        endDeferral()
        switch step {
        case .follow(let again):
            next = again
            if let hop { hop.cancel() } else { hopEnded(nil) }
        case .fail(let error): fail(error)
        case .deliver, .wait: deliver(deferred, to: task)
        }
    }

    /// Delivers a 401 that was held back.
    private func deliver(_ deferred: DeferredResponse, to task: SessionTask) {
        if deliver(deferred.head, to: task) == .cancel { hop?.cancel() }
        if hop == nil, deferred.end == nil { return }
        if next == nil {
            passOn(deferred.body.bytes)
            if !deferred.trailers.isEmpty {
                digest?.add(deferred.trailers)
                sink?.didReceiveTrailers(deferred.trailers)
            }
        }
        if let end = deferred.end {
            hopEnded(end)
        } else if !isSuspended {
            hop?.resumeReceiving()
        }
    }

    private func endDeferral() {
        deferred?.cancel()
        deferred = nil
    }

    // MARK: The end

    override func taskDidComplete(_ hop: LoopTask, error: SessionError?) {
        guard hop === self.hop else { return }
        reportSent(hop)
        feed?.stop()
        feed = nil
        self.hop = nil
        collect(hop.metrics)
        if let deferred { deferred.end = .some(error) } else { hopEnded(error) }
    }

    private func hopEnded(_ error: SessionError?) {
        if let next, failure == nil, !isCancelled {
            replaceRequest(by: next)
            startHop()
        } else if failure != nil || isCancelled || !waitsForConnectivity(after: error) {
            finish(failure ?? error)
        }
    }

    /// Lets the task wait for the network instead of failing.
    ///
    /// - Returns: false when it fails.
    private func waitsForConnectivity(after error: SessionError?) -> Bool {
        guard let task, let error, let host = url?.origin.host, session.configuration.waitsForConnectivity,
            // The network says nothing about a stub origin.
            session.configuration.stub == nil
        else { return false }
        connectivity = ConnectivityWait.start(
            after: error,
            host: host,
            limit: remainingTime,
            loop: session.loop,
            watch: session.configuration.connectivity
        ) { [weak self] event in
            guard let self else { return }
            if case .unreachable = event {
                session.hookBox.hooks.taskIsWaitingForConnectivity?(task)
                return
            }
            connectivity = nil
            if case .fail(let error) = event { finish(error) } else { startHop() }
        }
        return connectivity != nil
    }

    /// Adds a hop's metrics to the task's as one transaction or more.
    private func collect(_ exchange: TaskMetrics) {
        if metrics.transaction.fetchStart != TransactionMetrics.absent {
            metrics.earlierTransactions.append(metrics.transaction)
        }
        let delay = exchange.fetchStart - metrics.fetchStart
        metrics.earlierTransactions += exchange.earlierTransactions.map { $0.later(by: delay) }
        metrics.transaction = exchange.transaction.later(by: delay)
    }

    private func finish(_ error: SessionError?) {
        guard task != nil, !isFinishing else { return }
        isFinishing = true
        connectivity?.cancel()
        connectivity = nil
        endDeferral()
        let error = error ?? digest?.fault()
        digest = nil
        guard let sink else { return conclude(error) }
        sink.finish(error) { [self] error in conclude(error) }
    }

    private func conclude(_ error: SessionError?) {
        guard let task else { return }
        self.task = nil
        sink = nil
        request.body = .none
        next = nil
        var error = error
        if metrics.fetchStart != 0 {
            metrics.duration = max(0, session.loop.freshWallClock - metrics.fetchStart)
            error = error?.with(metrics)
        }
        error = error?.named(RequestName.text(request.method, request.url))
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
