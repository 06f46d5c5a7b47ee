import HTTPCore
import IOCore
import SessionCore

/// One request of a client and its answer: the delegate of the task that carries it to the origin.
///
/// Used again for one request after another; what it holds between them is memory, nothing else.
final class Exchange: LoopTaskDelegate {
    var parser: RequestParser
    var head = RequestHead()
    private(set) var body = RequestBody()
    var clientResponse = ClientResponse()
    var task: LoopTask?
    /// Of a request whose connection carries something else than HTTP in the end.
    var relay: Relay?
    private(set) var route: Route?
    private(set) var problem: Problem?
    /// Body bytes taken from the client, and delivered to it.
    var bytesFromClient = 0
    var bytesToClient = 0
    private(set) var startedAt: UInt64 = 0
    private(set) var startedWall: Int64 = 0
    /// Who the client has proved to be, where it has to.
    var user: [UInt8]?
    /// The credentials under which this request has proved it; nil where its connection has.
    var credentials: ClientCredentials?
    /// Counts requests and their restarts, so that a late result is not taken for another request's.
    private(set) var number: UInt64 = 0
    /// Set while it serves one.
    private(set) var stream: ExchangeStream!
    let worker: Worker
    /// The policy that the request is under: the one of its last beginning. What goes out goes out under this one.
    private(set) var generation: Generation?
    /// How often a reload has had it begin anew.
    private var restarts = 0
    private(set) var isOver = true
    /// What the configuration has done beyond forwarding; nil for most hosts.
    var hooks: ExchangeHooks?
    /// What the cache has to do with it; nil where nothing is cached.
    var cache: ExchangeCache?
    /// The origin was paused because the client does not keep up.
    private var isHeldBack = false
    /// The client's `Expect: 100-continue` went to the origin, which says whether the body is wanted. Over HTTP/2 servers
    /// hardly ever do, and it is said here.
    private var forwardsExpectationToOrigin = false
    /// A client waits for 100 (Continue).
    private var owesContinue = false
    private var hasSentContinue = false
    /// Body bytes that were taken from the client for a task that has not sent them.
    private var carried = ByteBuffer()
    /// What follows the body; nil as long as its end has not been said.
    private(set) var trailers: HTTPFields?
    /// It was sent once already, to no effect.
    private var isRepetition = false
    /// The latest task that has not sent it, for the log.
    private var unsent: LoopTask?

    /// This much of the request body waits for the origin before the client is held back.
    private static let uploadHighWater = 128 << 10
    /// Less than this is gathered before it is written: a copy costs less than a system call.
    private static let directWrite = 30 << 10
    /// More reloads than that, one after the other, end a request that still waits for something.
    private static let restartLimit = 16

    init(worker: Worker, stream: ExchangeStream) {
        self.worker = worker
        self.stream = stream
        parser = RequestParser(limits: worker.generation.headLimits)
    }

    /// Takes it up for a connection, or a stream of one.
    func attach(_ stream: ExchangeStream) {
        self.stream = stream
        parser = RequestParser(limits: worker.generation.headLimits)
    }

    /// Lets go of it.
    func detach() {
        stream = nil
        generation = nil
        route = nil
        task = nil
        hooks = nil
        cache = nil
        relay = nil
        credentials = nil
        carried.release()
    }

    // MARK: From the client

    /// The head is there: find out where it goes, and send it.
    func didReceiveHead() {
        reset()
        if let problem = body.begin(head.framing, limit: worker.generation.requestBodyLimit) {
            refuse(problem, keepAlive: false)
            return
        }
        identify()
    }

    // MARK: Under which policy

    /// Whether a step that was put off may be taken as it was meant to be. Everything that waits for something asks this
    /// when it goes on: for a password's verification, for the cache, for another request, for the end of a redirect.
    ///
    /// Where a reload has come in between it may not. Then the request begins anew under the policy that holds now: who
    /// asks, whether that may be asked, where it goes, what is stored of it. Nothing of it has gone to an origin, or what
    /// has is over.
    func canContinue() -> Bool {
        if generation === worker.generation { return true }
        restart()
        return false
    }

    /// Begins anew, from the question who asks on; a request that follows a redirect, from its latest hop on.
    ///
    /// - Parameter unsent: the task that was to carry it, of which nothing has been sent.
    func restart(after unsent: LoopTask? = nil) {
        number &+= 1
        restarts += 1
        if let unsent { recoverUnsentBody(unsent) }
        cache?.end()
        cache = nil
        relay = nil
        if hooks?.isFollowing != true {
            hooks?.end()
            hooks = nil
            task = nil
        }
        guard restarts <= Self.restartLimit else {
            return fail(
                Problem(
                    .sessionInvalidated,
                    "The policy was replaced again and again while this request waited to be sent. Send it once more."
                )
            )
        }
        if let problem = body.hold(to: worker.generation.requestBodyLimit, head.framing) { return fail(problem) }
        let beginning = number
        identify()
        if number == beginning, !isOver { stream.exchangeNeedsBody() }
    }

    /// What a task was given of the body, and has not sent, goes to the next one.
    private func recoverUnsentBody(_ unsent: LoopTask) {
        isRepetition = isRepetition || unsent.wasRepeated
        self.unsent = unsent
        task = nil
        var bytes = ByteBuffer()
        unsent.takeUnsentBody(into: &bytes)
        // A body that is kept for redirects is sent again from the kept copy.
        if let hooks, hooks.isFollowing, let replayBuffer = hooks.replayBuffer, !replayBuffer.isLost { return }
        if let end = hooks?.replayBuffer?.removeEnd() { bytes.append(end.span) }
        swap(&carried, &bytes)
    }

    /// Finds out who asks.
    private func identify() {
        generation = worker.generation
        user = stream.transport.clientName
        credentials = nil
        switch stream.listener.security.authentication {
        case .none: routeRequest()
        case .credentials(let credentials): authenticate(credentials)
        case .unusable:
            fail(Problem(.internal, "The files that this listener's clients are known by could not be loaded."))
        }
    }

    /// The client may ask: find out for what.
    func routeRequest() {
        if let hooks, hooks.isFollowing { return routeHop(hooks) }
        guard let generation else { return }
        switch stream.listener.route(for: head, on: stream.transport, worker: worker) {
        case .refused(let problem, let route):
            self.route = route
            refuse(problem, keepAlive: canPersist)
        case .own: respondToOptions()
        case .route(let route):
            self.route = route
            if OriginFields.comesFromUs(head.fields, pseudonym: worker.pseudonym) {
                refuse(
                    Problem(
                        .loopDetected,
                        "The request's Via field holds this proxy's own name: it was sent here by itself. Check http_proxy of the programs behind it."
                    ),
                    keepAlive: canPersist
                )
                return
            }
            switch route.destination {
            case .refused(let problem): refuse(problem, keepAlive: canPersist)
            case .origin where head.method == .options && head.maxForwards == 0: respondToOptions()
            case .origin(let endpoint):
                if stream.canHandOver, let offer = UpgradeOffer(head) {
                    startUpgrade(offer, endpoint, generation)
                } else {
                    start(endpoint)
                }
            case .tunnel(let endpoint): startTunnel(endpoint, generation)
            case .intercept(let endpoint): startInterception(endpoint, generation)
            }
        }
    }

    /// The client may still ask: find out whether for this, and whether the redirect is still to be followed.
    private func routeHop(_ hooks: ExchangeHooks) {
        switch stream.listener.route(for: head, on: stream.transport, worker: worker) {
        case .refused(let problem, _): fail(problem)
        // It never was on its way to an origin.
        case .own: fail(Problem(.internal, "A request to the proxy itself has followed a redirect."))
        case .route(let route):
            self.route = route
            followAgain(hooks, under: route.hooks)
        }
    }

    /// Refuses a client, or a request of its, before anything went out; a hop's request is over with it.
    func refuseUnsent(_ problem: Problem) {
        if hooks?.isFollowing == true { fail(problem) } else { refuse(problem, keepAlive: canPersist) }
    }

    /// Whether an answer of this proxy's own leaves the connection to the next request.
    var canPersist: Bool {
        guard head.keepAlive, body.isComplete, !worker.isDraining else { return false }
        // What comes behind a CONNECT or an offer to switch may be of the other protocol.
        return !((head.method == .connect || head.wantsUpgrade) && stream.hasMoreInput)
    }

    /// OPTIONS of the proxy itself, or that may go no further: the answer is this proxy's own (RFC 9110, section 7.6.2).
    private func respondToOptions() {
        let keepAlive = canPersist
        clientResponse.writeOptions(keepAlive: keepAlive, to: &stream.output, date: worker.httpDate)
        stream.headIsWritten(clientResponse.status)
        finish(nil)
        stream.finished(self, persists: keepAlive, isWhole: true)
    }

    /// The answer has become a file: the client is told where.
    func respondWithDownload(_ outcome: ResponseDownload.Outcome) {
        let keepAlive = canPersist
        clientResponse.writeDownload(outcome, keepAlive: keepAlive, to: &stream.output, date: worker.httpDate)
        stream.headIsWritten(clientResponse.status)
        finish(nil)
        stream.finished(self, persists: keepAlive, isWhole: true)
    }

    private func reset() {
        isOver = false
        isHeldBack = false
        problem = nil
        route = nil
        hooks = nil
        cache = nil
        user = nil
        credentials = nil
        restarts = 0
        isRepetition = false
        hasSentContinue = false
        trailers = nil
        number &+= 1
        bytesFromClient = 0
        bytesToClient = 0
        startedAt = worker.loop.now
        startedWall = worker.loop.wallClock
        clientResponse = ClientResponse()
    }

    private func start(_ endpoint: Endpoint) {
        owesContinue = head.expectsContinue && !hasSentContinue
        forwardsExpectationToOrigin = owesContinue && bytesFromClient == 0 && endpoint.httpVersion == .http1
        var fields = clientFields(keepsExpectation: forwardsExpectationToOrigin)
        if let route, let rules = route.hooks { prepareHooks(rules, on: route, to: endpoint, &fields) }
        var request = SessionRequest(
            endpoint: endpoint,
            method: head.method,
            target: Array(copying: head.target),
            fields: fields,
            bodyLength: bodyLength
        )
        // A stream of HTTP/2 may go on in both directions; a client of HTTP/1.1 rarely listens before it has said all.
        request.isBidirectional = head.majorVersion == 2 && bodyLength == .unknown
        if restarts > 0, let total = endpoint.timeouts.total {
            let spent = worker.loop.now &- startedAt
            guard spent < total.nanoseconds else {
                return refuseUnsent(Problem(.responseTimeout, "The request waited longer than timeouts.total allows."))
            }
            request.timeouts = endpoint.timeouts
            request.timeouts?.total = TimeSpan(nanoseconds: total.nanoseconds - spent)
        }
        guard let responses = worker.cache, let route, let terms = route.cache,
            let digest = terms.digest(at: startedWall / 1_000_000)
        else { return dispatch(request) }
        lookUpInCache(responses, terms, digest, request, givesCredentials: route.hooks?.givesCredentials ?? false)
    }

    /// Sends a request to its origin.
    func dispatch(_ request: SessionRequest) {
        guard let generation else { return }
        var request = request
        request.isRepetition = isRepetition
        let task = generation.manager.dataTask(with: request, delegate: self)
        self.task = task
        unsent = nil
        if let hooks, hooks.isFollowing, hooks.replayBuffer?.isLost == false {
            sendAgain(hooks, to: task)
        } else {
            if !carried.isEmpty { sendCarried(task) }
            if body.isComplete, hooks.map(canEndBody) ?? true { task.finishSending(trailers: trailers ?? HTTPFields()) }
        }
        task.resume()
    }

    /// Gives a task what its predecessor has not sent.
    private func sendCarried(_ task: LoopTask) {
        sendBody(carried.bytes, to: task)
        carried.release()
    }

    /// Bytes of the body that were taken from the client and are not on their way.
    var waitingBodyBytes: Int { carried.count + (task?.pendingBodyBytes ?? 0) }

    private var via: [UInt8] {
        if head.majorVersion == 2 { return worker.viaOfVersion2 }
        return head.minorVersion == 0 ? worker.viaOfVersion10 : worker.viaOfVersion11
    }

    /// The fields of the client's request that go to an origin.
    func clientFields(keepsExpectation: Bool = false) -> HTTPFields {
        OriginFields.make(from: head, via: via, keepsExpectation: keepsExpectation)
    }

    /// Another origin is asked in the place of the one before.
    ///
    /// - Returns: whether it is to say that the body is wanted.
    func forwardsExpectation(to endpoint: Endpoint, keepsBody: Bool) -> Bool {
        if !keepsBody { owesContinue = false }
        forwardsExpectationToOrigin = owesContinue && bytesFromClient == 0 && endpoint.httpVersion == .http1
        return forwardsExpectationToOrigin
    }

    var bodyLength: RequestBodyLength {
        switch head.framing {
        case .none: .none
        case .length(let count): .bytes(count)
        case .chunked, .untilClose: .unknown
        }
    }

    /// Whether more of the request body can be taken now.
    var wantsBody: Bool {
        guard let task, !body.isComplete else { return false }
        if let hooks, holdsBodyBack(hooks) { return false }
        return task.pendingBodyBytes < Self.uploadHighWater
    }

    /// Whether the body has somewhere to go: not before it is known who asks.
    var acceptsBody: Bool { task != nil || isOver }

    /// Takes bytes of the request body; returns how many.
    func feedBody(_ bytes: borrowing Span<UInt8>) -> Int {
        var position = 0
        while position < bytes.count, !body.isComplete, let task {
            let rest = bytes.extracting(position..<bytes.count)
            switch body.next(rest) {
            case .data(let range, let consumed):
                bytesFromClient += range.count
                sendBody(rest.extracting(range), to: task)
                position += consumed
            case .needMore(let consumed), .end(let consumed):
                position += consumed
                if consumed == 0 { return position }
            case .failed(let problem):
                fail(problem)
                return bytes.count
            }
        }
        // A stream that has brought all bytes of its length may still bring trailers.
        if body.isComplete, head.majorVersion == 1 { finishSending(trailers: body.trailers) }
        return position
    }

    /// The stream that brings the request has ended (HTTP/2).
    func streamEnded(trailers: HTTPFields?) {
        guard !isOver else { return }
        body.streamEnded()
        if body.isComplete { finishSending(trailers: trailers) } else { inputEnded() }
    }

    private func finishSending(trailers: HTTPFields? = nil) {
        self.trailers = trailers ?? HTTPFields()
        if let hooks, !canEndBody(hooks) { return }
        task?.finishSending(trailers: trailers ?? HTTPFields())
    }

    /// Whether it has begun and not ended.
    var isUnderWay: Bool { !isOver }

    /// The client waits for a word of ours, or of the origin's, before it sends its body.
    var holdsClientBack: Bool { owesContinue && bytesFromClient == 0 }

    /// Hardly anything of the body came for that long, and nobody but the client was waited for.
    func bodyIsTooSlow(_ limit: TimeSpan) {
        fail(
            Problem(
                .requestTimeout,
                "Less than 1 KB of the request body came within timeouts.body (\(limit.milliseconds) ms). Send it faster, or raise the limit."
            )
        )
    }

    /// The client has half-closed. A body without its end must not look whole to the origin (rule 36).
    func inputEnded() {
        guard !isOver, !body.isComplete else { return }
        fail(Problem(.requestInvalid, "The connection ended before the request body did. Send all of it."))
    }

    /// The client is gone altogether: nobody waits for the answer.
    func clientGone() {
        guard !isOver else { return }
        finish(Problem(.clientClosed, "The client closed the connection before the answer was complete."))
    }

    /// The client reads again.
    func outputHasRoom() {
        guard isHeldBack else { return }
        isHeldBack = false
        resumeReceiving()
        relay?.stream?.resumeReceiving()
    }

    // MARK: Problems

    /// Answers in the origin's place, before anything was sent to it.
    func refuse(_ problem: Problem, keepAlive: Bool) {
        if isOver { reset() }
        refuse(problem, keepAlive)
        stream.headIsWritten(clientResponse.status)
        finish(problem)
        stream.finished(self, persists: keepAlive, isWhole: true)
    }

    private func refuse(_ problem: Problem, _ keepAlive: Bool) {
        clientResponse.writeError(
            problem,
            head: head,
            keepAlive: keepAlive,
            cacheStatus: cache?.statusOfRefusal,
            to: &stream.output,
            date: worker.httpDate
        )
    }

    /// Gives up a request that is under way; the task is cancelled.
    func fail(_ problem: Problem) {
        let canRespond = !clientResponse.hasBegun
        if canRespond {
            refuse(problem, false)
            stream.headIsWritten(clientResponse.status)
        }
        finish(problem)
        stream.finished(self, persists: false, isWhole: canRespond)
    }

    /// The bookkeeping of the end: the task goes, the log line is written.
    func finish(_ problem: Problem?) {
        isOver = true
        self.problem = problem
        hooks?.end()
        cache?.end()
        let ended = task ?? relay?.task ?? unsent
        ended?.cancel()
        worker.log(self, ended, client: stream.transport.addressText)
        task = nil
        unsent = nil
    }

    // MARK: From the origin

    override func taskDidConnect(_ task: LoopTask) {
        if !isOver, !forwardsExpectationToOrigin { sendContinue() }
    }

    /// Tells a client that waits for it to send its body (RFC 9110, section 10.1.1), once.
    private func sendContinue() {
        guard owesContinue, !body.isComplete, bytesFromClient == 0 else { return }
        owesContinue = false
        hasSentContinue = true
        stream.output.append("HTTP/1.1 100 Continue\r\n\r\n")
        stream.headIsWritten(100)
        stream.flushLater()
    }

    override func taskNeedsBodyData(_ task: LoopTask) {
        guard !isOver else { return }
        if let hooks, continueReplay(hooks) { return }
        stream.exchangeNeedsBody()
    }

    override func task(_ task: LoopTask, didReceiveInformational informational: borrowing ResponseHead) {
        guard !isOver else { return }
        if informational.status == 100 {
            if forwardsExpectationToOrigin { sendContinue() }
            return
        }
        // 101 is not to be had without Upgrade, which is not forwarded.
        guard informational.status != 101 else { return }
        // Of an answer that may not be the client's.
        if let hooks, hooks.rules.keepsBodies { return }
        clientResponse.writeInformational(informational, to: head, output: &stream.output, pseudonym: worker.pseudonym)
        stream.headIsWritten(informational.status)
        stream.flushLater()
    }

    override func task(
        _ task: LoopTask,
        didReceive response: borrowing ResponseHead
    ) -> ResponseDisposition {
        guard !isOver else { return .cancel }
        if let cache, let disposition = cacheDidReceiveHead(response, task, cache) { return disposition }
        return didReceiveResponseHead(response)
    }

    /// Takes the final head of an answer, from the origin or out of the cache.
    func didReceiveResponseHead(_ response: borrowing ResponseHead) -> ResponseDisposition {
        guard let context else { return .cancel }
        if unsent != nil { unsent = nil }
        guard let hooks else {
            deliver(response, context)
            return .allow
        }
        if let disposition = evaluate(response, hooks) { return disposition }
        deliver(hooks.changed(response), context)
        return .allow
    }

    func deliver(_ response: borrowing ResponseHead, _ context: borrowing ResponseContext) {
        clientResponse.writeHead(response, to: head, context: context, output: &stream.output)
        stream.headIsWritten(clientResponse.status)
        // The body may be long in coming; what comes of it in this turn goes along.
        stream.flushLater()
    }

    var context: ResponseContext? {
        guard let route else { return nil }
        return ResponseContext(
            route: route,
            listener: stream.listener,
            worker: worker,
            // The client's next request, for which fields are rewritten, comes under the policy of this moment.
            router: worker.generation.router,
            clientAuthority: stream.listener.isGateway ? clientAuthority : [],
            // Behind an offer to switch protocols bytes of the other one may be under way.
            requestIsWhole: body.isComplete && relay == nil,
            base: hooks?.base,
            cacheStatus: cache?.status,
            storedAge: cache?.storedAge
        )
    }

    private var clientAuthority: [UInt8] {
        guard let index = head.fields.first(.host) else { return [] }
        var value: [UInt8] = []
        head.fields.appendValue(at: index, to: &value)
        return value
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        guard !isOver else { return .pause }
        if let cache, let flow = cacheDidReceiveBody(data, cache) { return flow }
        return didReceiveResponseBody(data)
    }

    /// Takes a piece of an answer's body, from the origin or out of the cache.
    func didReceiveResponseBody(_ data: borrowing Span<UInt8>) -> BodyFlow {
        if let hooks, let flow = hooksDidReceiveBody(data, hooks) { return flow }
        bytesToClient += data.count
        if stream.output.count + data.count >= Self.directWrite {
            clientResponse.writePieceHead(data.count, output: &stream.output)
            stream.write(data)
            guard !isOver else { return .pause }
            clientResponse.writePieceEnd(output: &stream.output)
        } else {
            clientResponse.writePieceHead(data.count, output: &stream.output)
            stream.output.append(data)
            clientResponse.writePieceEnd(output: &stream.output)
            stream.flushLater()
        }
        if stream.hasRoom { return .proceed }
        isHeldBack = true
        return .pause
    }

    override func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HTTPFields) {
        guard !isOver else { return }
        if let cache, cacheDidReceiveTrailers(trailers, cache) { return }
        if clientResponse.hasBegun { clientResponse.addTrailers(trailers) }
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        guard !isOver else { return }
        if let error, error.code == .sessionInvalidated { return restart(after: task) }
        if let cache, cacheDidEnd(cache, error: error) { return }
        responseDidEnd(task, error)
    }

    /// The answer has ended, well or not: the origin's, or one out of the cache.
    func responseDidEnd(_ task: LoopTask?, _ error: SessionError?) {
        if let hooks, hooksDidEnd(hooks, after: task, error: error) { return }
        if let error {
            fail(problem(for: error))
            return
        }
        clientResponse.writeEnd(output: &stream.output)
        finish(nil)
        stream.finished(self, persists: clientResponse.persists && body.isComplete, isWhole: true)
    }

    /// A stall is the client's when it is the client's body that does not come.
    private func problem(for error: SessionError) -> Problem {
        if error.code == .stalled, !body.isComplete, let task, task.pendingBodyBytes == 0 {
            return Problem(.requestTimeout, "The request body stopped coming. Send it faster, or raise timeouts.stall.")
        }
        return Problem(error)
    }
}
