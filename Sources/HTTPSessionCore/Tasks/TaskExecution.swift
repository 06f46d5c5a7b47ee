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
    private var redirects: TaskRedirects
    private var metrics = TaskMetrics()
    /// Made for the first challenge, or for credentials that an origin has accepted before.
    private var authenticator: TaskAuthenticator?

    private var hop: LoopTask?
    private var url: AbsoluteURL?
    private var feed: BodyFeed?
    private var flow: ExecutionFlow

    private var connectivity: ConnectivityWait?
    private var deferred: DeferredResponse?
    private var sink: BodySink?
    private var content = ContentNegotiation()

    init(_ task: SessionTask) {
        self.task = task
        session = task.session
        request = task.originalRequest
        checked = task.checkedRequest
        // No copy of the configuration, which has many parts.
        redirects = TaskRedirects(escapesLocation: session.configuration.escapesLocation)
        // The network says nothing about a stub origin.
        let waits = session.configuration.waitsForConnectivity && session.configuration.stub == nil
        flow = ExecutionFlow(awaitsNetwork: waits)
    }

    // MARK: Calls by the task

    func start() {
        // It may have been suspended since.
        guard let task, flow.setSuspended(task.state == .suspended) else { return }
        session.notifyObservers(.didResume(task))
        metrics.fetchStart = session.loop.wallClock
        let sink = task.makeSink(self)
        self.sink = sink
        guard sink.hasEnds else { return startHop() }
        sink.prepare(request) { [self] replacement in
            guard !flow.isFinishing else { return }
            if let replacement { (request, checked) = (replacement, nil) }
            startHop()
        }
    }

    func resume() {
        guard let task, flow.setSuspended(false) else { return }
        session.notifyObservers(.didResume(task))
        feed?.hold(false)
        if flow.isRunning { hop?.resume() }
    }

    func suspend() {
        guard let task, flow.setSuspended(true) else { return }
        session.notifyObservers(.didSuspend(task))
        feed?.hold(true)
        hop?.suspend()
    }

    /// - Parameter keepsDownload: the received part of a download is kept for a later task.
    func cancel(keepsDownload: Bool = false) {
        if keepsDownload { (sink as? DownloadSink)?.isToBeResumed = true }
        guard let task, !flow.isFinishing else { return }
        if sink == nil { sink = task.makeSink(self) }
        endDeferral()
        carryOut(flow.cancel())
    }

    // MARK: Calls by the sink

    func fail(_ error: SessionError) {
        endDeferral()
        carryOut(flow.fail(error))
    }

    /// The consumer takes more bytes.
    func receiveAgain() {
        flow.setHeldByReader(false)
        if flow.isRunning { hop?.resume() }
        hop?.resumeReceiving()
    }

    // MARK: One hop

    private var cookieStorage: CookieStorage? { request.handlesCookies ? session.configuration.cookieStorage : nil }

    private func startHop() {
        guard let task else { return }
        do throws(SessionError) {
            if let body = task.newBody(for: request, isFirst: metrics.redirectCount == 0) { request.body = body }
            let checked = if let checked { checked } else { try session.check(request) }
            self.checked = checked
            let place = checked.place
            let request = request
            url = AbsoluteURL(origin: place.origin, rest: place.target)
            var fields = checked.fields
            if let urgency = task.urgency, fields.value(for: "Priority") == nil {
                try fields.setForRequest("Priority", urgency)
            }
            if let url, !fields.contains(.cookie), let cookies = cookieStorage?.field(for: url) {
                try fields.setForRequest("Cookie", cookies)
            }
            let isData = task is DataTask
            try content.ask(
                session.configuration.decodesContent && isData,
                for: session.configuration.contentDecoders,
                in: &fields
            )
            let cachePolicy = try request.cachePolicy(session.configuration.cachePolicy, isData: isData)
            cachePolicy?.addDirectives(to: &fields)
            if authenticator != nil || !session.authorizers.isEmpty {
                try knownAuthenticator.authorize(request, &fields, place)
            }
            var sent = SessionRequest(
                endpoint: checked.endpoint,
                method: request.method,
                target: place.target,
                fields: fields,
                bodyLength: request.body.length,
                timeouts: try limits.next(after: spentTime)
            )
            sent.cachePolicy = cachePolicy
            sink?.prepare(&sent)
            task.willSend(request)
            // What goes over another protocol is no body that could be recorded.
            let recording = sent.isUpgrade ? nil : session.configuration.recording?(sent, self)
            beginHop(session.engine.dataTask(with: consume sent, delegate: recording?.delegate ?? self), recording)
        } catch {
            finish(error)
        }
    }

    private var knownAuthenticator: TaskAuthenticator {
        if let authenticator { return authenticator }
        let made = TaskAuthenticator(session)
        authenticator = made
        return made
    }

    private func beginHop(_ started: LoopTask, _ recording: HopRecording?) {
        hop = started
        flow.beginHop()
        if let sink, sink.givesBody {
            sink.begin(started)
            if flow.isRunning { started.resume() }
            return
        }
        if case .none = request.body {
            if flow.isRunning { started.resume() }
            return
        }
        let feed = BodyFeed(request.body, loop: session.loop, threads: session.blocking) { [unowned self] error in
            carryOut(flow.fail(error))
        }
        feed.didSend = recording?.didSend
        self.feed = feed
        feed.start(started, isHeld: flow.isSuspended)
        // The body's source may have failed already.
        if flow.isRunning { hop?.resume() }
    }

    private var limits: TaskTimeouts { request.timeouts ?? session.configuration.timeouts }

    /// The time since the start of the task. This clock can be set while the task is under way, which moves the limit.
    private var spentTime: TimeSpan { .microseconds(session.loop.freshWallClock - metrics.fetchStart) }

    override func taskNeedsBodyData(_ hop: LoopTask) {
        guard hop === self.hop else { return }
        task?.didSend(hop.bodyBytesSent)
        feed?.sendMore()
        sink?.needsBodyData()
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
        task.didSend(hop.bodyBytesSent)
        // A stored response set its cookies when it came from the origin, and it is no challenge.
        var step = hop.isAnsweredByCache ? .deliver : authenticate(response, at: url, of: task)
        if case .deliver = step {
            step = redirects.didReceiveHead(
                response,
                to: request,
                at: url,
                now: session.loop.wallClock / 1_000_000,
                endpoint: { try? session.endpoint(for: $0) }
            ) { head, proposal in
                let own = task.delegate.taskWillPerformHTTPRedirection
                return (own ?? session.hookBox.hooks.taskWillPerformHTTPRedirection)?(task, head, proposal)
            }
            if case .follow = step { metrics.redirectCount = redirects.count }
        }
        switch step {
        case .deliver: return deliver(copy response, to: task)
        case .follow(let following): return flow.follow(following, after: response.framing)
        case .fail(let error):
            flow.fail(error)
            return .cancel
        case .wait(let question, let decision):
            wait(for: decision, on: question)
            return .allow
        }
    }

    override func task(_ hop: LoopTask, didReceiveUnused head: borrowing ResponseHead) {
        guard let task, let url, hop === self.hop else { return }
        // A 304 proves credentials good as well.
        _ = authenticate(head, at: url, of: task)
    }

    /// Stores the cookies of a response from the origin, and reads its challenges.
    private func authenticate(
        _ head: borrowing ResponseHead,
        at url: AbsoluteURL,
        of task: SessionTask
    ) -> ResponseStep {
        cookieStorage?.storeCookies(of: (copy head).fields, from: url, at: session.loop.wallClock / 1_000_000)
        guard authenticator != nil || head.status == 401 else { return .deliver }
        return knownAuthenticator.didReceiveHead(head, to: request, at: url, of: task)
    }

    override func task(_ hop: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard hop === self.hop else { return .proceed }
        switch flow.receive(data.count) {
        case .deliver: return passOn(data)
        case .hold: return deferred?.append(data) == false ? .pause : .proceed
        case .drop: return .proceed
        case .cancel:
            hop.cancel()
            return .proceed
        }
    }

    @discardableResult
    private func passOn(_ data: borrowing Span<UInt8>) -> BodyFlow {
        content.receive(data)
        switch sink?.append(data) {
        case .more, nil: return .proceed
        case .pause:
            // A download waits for the disk, a data task for its consumer, which may take any time.
            if task is DataTask {
                flow.setHeldByReader(true)
                hop?.suspend()
            }
            return .pause
        case .failed(let error):
            fail(error)
            return .proceed
        }
    }

    override func task(_ hop: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {
        guard hop === self.hop else { return }
        switch flow.receive(0) {
        case .deliver: passOn(trailers: copy trailers)
        case .hold: deferred?.trailers = copy trailers
        case .drop, .cancel: break
        }
    }

    private func passOn(trailers: HeaderFields) {
        content.receive(trailers: trailers)
        sink?.didReceiveTrailers(trailers)
    }

    /// Delivers a final response to the task.
    private func deliver(_ head: ResponseHead, to task: SessionTask) -> ResponseDisposition {
        content.begin(
            head,
            isSwitched: hop?.request.isSwitched(by: head) == true,
            session.configuration.contentDecoders,
            request.digestCheck ?? session.configuration.digestCheck
        )
        let expected = content.expectedLength
        if !content.codings.isEmpty, let plain = sink {
            guard let decoding = DecodingSink.decoding(content.codings, for: plain) else {
                flow.fail(SessionError(.internal, "There is no memory to decode the response's body in."))
                return .cancel
            }
            sink = decoding
        }
        task.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        task.didReceive(head, expected: expected.map { Int64($0) })
        switch sink?.receiveHead(head, expected: expected) ?? .accept {
        case .accept: return .allow
        case .ask(let request): return flow.follow(request, after: head.framing)
        case .end(let error):
            flow.fail(error)
            return .cancel
        case .becomeDownload: return becomeDownload(head, expected, task)
        }
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
        let sink = DecodingSink.decoding(content.codings, for: file) ?? file
        self.sink = sink
        download.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        download.didReceive(head, expected: expected.map { Int64($0) })
        session.hookBox.hooks.dataTaskDidBecomeDownloadTask?(data, download)
        _ = sink.receiveHead(head, expected: expected)
        // A range of the response is one of the coded body, and the file has the decoded one.
        file.mayBeResumed = content.codings.isEmpty
        return .allow
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
                timeLimit: limits.remaining(after: spentTime)
            ) { [weak self] in
                self?.fail(SessionError(.responseTimeout, "No hook answered the 401 within the task's total time."))
            }
        self.deferred = deferred
        flow.holdBack()
        deferred.start(decision) { [self] disposition in hookDidDecide(disposition, on: question, deferred) }
    }

    private func hookDidDecide(
        _ disposition: ChallengeDisposition,
        on question: AuthenticationQuestion,
        _ deferred: DeferredResponse
    ) {
        guard let task, deferred === self.deferred else { return }
        let step = knownAuthenticator.hookDidDecide(disposition, on: question, of: task)
        if case .wait(let question, let decision) = step { return wait(for: decision, on: question) }
        endDeferral()
        switch step {
        case .follow(let again): carryOut(flow.followHeldBack(again))
        case .fail(let error): fail(error)
        case .deliver, .wait: deliver(deferred, to: task)
        }
    }

    /// Delivers a 401 that was held back.
    private func deliver(_ deferred: DeferredResponse, to task: SessionTask) {
        flow.release()
        if deliver(deferred.head, to: task) == .cancel { hop?.cancel() }
        guard flow.hasResponse else { return }
        if case .deliver = flow.receive(0) {
            passOn(deferred.body.bytes)
            if !deferred.trailers.isEmpty { passOn(trailers: deferred.trailers) }
        }
        carryOut(flow.leaveHop())
        // The pause that ends is that of the deferral; a suspended task still takes nothing.
        hop?.resumeReceiving()
    }

    private func endDeferral() {
        deferred?.cancel()
        deferred = nil
    }

    // MARK: The end

    override func taskDidComplete(_ hop: LoopTask, error: SessionError?) {
        guard hop === self.hop else { return }
        task?.didSend(hop.bodyBytesSent)
        feed?.stop()
        feed = nil
        self.hop = nil
        metrics.add(hop.metrics)
        carryOut(flow.hopDidEnd(error))
    }

    private func carryOut(_ step: ExecutionFlow.Step) {
        switch step {
        case .nothing: break
        case .cancelHop: hop?.cancel()
        case .send(let next):
            (request, checked) = (next, nil)
            startHop()
        case .awaitNetwork(let error): awaitNetwork(after: error)
        case .finish(let error): finish(error)
        }
    }

    private func awaitNetwork(after error: SessionError) {
        guard let task, let host = url?.origin.host else { return finish(error) }
        connectivity = ConnectivityWait.start(
            after: error,
            host: host,
            limit: limits.remaining(after: spentTime),
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
        if connectivity == nil { finish(error) }
    }

    private func finish(_ error: SessionError?) {
        guard flow.finish() else { return }
        connectivity?.cancel()
        connectivity = nil
        endDeferral()
        let fault = content.end()
        let error = error ?? fault
        guard let sink, sink.hasEnds else { return conclude(error) }
        sink.finish(error) { [self] error in conclude(error) }
    }

    private func conclude(_ error: SessionError?) {
        guard let task else { return }
        self.task = nil
        sink = nil
        // A source may capture the task.
        if case .source = request.body { request.body = .none }
        var error = error
        if metrics.fetchStart != 0 {
            metrics.duration = max(0, session.loop.freshWallClock - metrics.fetchStart)
            error = error?.with(metrics)
        }
        error = error?.named(RequestName.text(request.method, request.url))
        task.complete(error)
        let own = task.delegate.finish(error, metrics)
        session.hookBox.hooks.taskDidFinishCollectingMetrics?(task, metrics)
        (own ?? session.hookBox.hooks.taskDidComplete)?(task, error)
        session.notifyObservers(.didComplete(task))
        session.forget(task)
        task.delegate.release()
    }
}
