import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// One request of a client and its response; the delegate of the task that sends the request to the origin.
///
/// An exchange is reused for later requests to save memory; it keeps nothing else from one request to the next.
final class Exchange: LoopTaskDelegate, CacheStageDelegate {
    private var parser: RequestParser
    private(set) var head = RequestHead()
    private(set) var body = RequestBody()
    private(set) var clientResponse = ClientResponse()
    private var task: LoopTask?
    /// The relay of a CONNECT or an upgrade.
    private var relay: Relay?
    private(set) var route: Route?
    private(set) var problem: Problem?
    /// Body bytes received from the client, and sent to it.
    private(set) var bytesFromClient = 0
    private(set) var bytesToClient = 0
    private(set) var startedAt: UInt64 = 0
    private(set) var startedWall: Int64 = 0
    /// The authenticated user; nil when the listener does not authenticate clients.
    private(set) var user: [UInt8]?
    /// The credentials that this request was authenticated with; nil when its connection was.
    private var credentials: ClientCredentials?
    /// Counts requests and restarts, so that a late result is not used for another request.
    private var number: UInt64 = 0
    /// The client's side; nil while the exchange is unused.
    private var stream: ExchangeStream!
    private let worker: Worker
    /// The policy generation of the request's latest start. Everything sent to an origin is sent under this one.
    private var generation: Generation?
    /// The limits of the head of the origin's response.
    var responseHeadLimits: HeadLimits { (generation ?? worker.generation).manager.responseHeadLimits }
    /// How often a reload has restarted the request.
    private var restarts = 0
    private var isOver = true
    /// State of the host's hooks for this request; nil for most hosts.
    private(set) var hooks: ExchangeHooks?
    /// State of the cache for this request; nil when nothing is cached.
    private(set) var cache: CacheStage?
    /// The origin is paused because the client reads too slowly.
    private var isHeldBack = false
    /// The client's `Expect: 100-continue`.
    private var expectation = ContinueExpectation()
    /// Body bytes that a former task received and did not send.
    private var carried = ByteBuffer()
    /// The trailers of the request; nil until its body has ended.
    private var trailers: HTTPFields?
    /// The request was sent before, without effect.
    private var isRepetition = false
    /// The latest task, of which nothing was sent; for the log.
    private var unsent: LoopTask?

    /// The client is paused while more of the request body than this waits for the origin.
    private static let uploadHighWater = 128 << 10
    /// Smaller pieces are collected before they are written: a copy costs less than a system call.
    private static let directWrite = 30 << 10
    /// A request that is still waiting after this many reloads in a row fails.
    private static let restartLimit = 16

    init(worker: Worker, stream: ExchangeStream) {
        self.worker = worker
        self.stream = stream
        parser = RequestParser(limits: worker.generation.headLimits)
    }

    /// Prepares the exchange for a connection, or for a stream of one.
    func attach(_ stream: ExchangeStream) {
        self.stream = stream
        parser = RequestParser(limits: worker.generation.headLimits)
    }

    /// Releases everything that belongs to the connection or stream.
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

    /// Whether a head has begun and is not complete (HTTP/1.1).
    var isInsideHead: Bool { parser.isInsideHead }

    /// Reads a head of HTTP/1.1, or a part of one.
    ///
    /// - Returns: how many bytes belong to it, and whether it is complete.
    func parseHead(_ bytes: borrowing Span<UInt8>) -> (consumed: Int, outcome: RequestParser.Outcome) {
        parser.parse(bytes, into: &head)
    }

    /// Makes ready for a head that comes field by field (HTTP/2).
    func removeHead() { head.removeAll() }

    /// Adds a field of HTTP/2 to the head.
    func addField(
        name: borrowing Span<UInt8>,
        value: borrowing Span<UInt8>,
        to section: inout RequestSection
    ) -> Bool {
        section.append(name: name, value: value, into: &head)
    }

    /// Checks and completes a head that came field by field.
    func concludeHead(_ section: inout RequestSection, isForOrigin: Bool, endsStream: Bool) -> RequestFault? {
        section.conclude(isForOrigin: isForOrigin, endsStream: endsStream, into: &head)
    }

    /// The head is complete: routes the request and sends it.
    func didReceiveHead() {
        reset()
        if let problem = body.begin(head.framing, limit: worker.generation.requestBodyLimit) {
            refuse(problem, keepAlive: false)
            return
        }
        identify()
    }

    // MARK: Under which policy

    /// Whether a delayed step may still be carried out. Every step that had to wait checks this first: for a password's
    /// verification, for the cache, for another request, for the end of a redirect.
    ///
    /// After a reload it may not. The request then restarts under the current policy: user, access, route and stored
    /// responses are determined again. At this point nothing of it has been sent to an origin, or that exchange with
    /// the origin is over.
    private func canContinue() -> Bool {
        if generation === worker.generation { return true }
        restart()
        return false
    }

    /// Restarts the request from authentication; a request that follows a redirect restarts from its latest hop.
    ///
    /// - Parameter unsent: the task that was going to send it, and has sent nothing.
    private func restart(after unsent: LoopTask? = nil) {
        number &+= 1
        restarts += 1
        if let unsent { recoverUnsentBody(unsent) }
        cache?.leave()
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

    /// Keeps the part of the body that a task received and did not send, for the next task.
    private func recoverUnsentBody(_ unsent: LoopTask) {
        isRepetition = isRepetition || unsent.wasRepeated
        self.unsent = unsent
        task = nil
        var bytes = ByteBuffer()
        unsent.takeUnsentBody(into: &bytes)
        // A body that is kept for redirects is sent from the replay buffer.
        if let hooks, hooks.isFollowing, let replayBuffer = hooks.replayBuffer, !replayBuffer.isLost { return }
        if let end = hooks?.replayBuffer?.removeEnd() { bytes.append(end.span) }
        swap(&carried, &bytes)
    }

    /// Determines the client's user.
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

    /// The client may use the proxy: determines where the request goes.
    private func routeRequest() {
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

    /// The client may still use the proxy: determines whether the redirect may still be followed.
    private func routeHop(_ hooks: ExchangeHooks) {
        switch stream.listener.route(for: head, on: stream.transport, worker: worker) {
        case .refused(let problem, _): fail(problem)
        // A request to the proxy itself is never sent to an origin.
        case .own: fail(Problem(.internal, "A request to the proxy itself has followed a redirect."))
        case .route(let route):
            self.route = route
            followAgain(hooks, under: route.hooks)
        }
    }

    /// Refuses a request of which nothing was sent. A request that follows a redirect fails.
    private func refuseUnsent(_ problem: Problem) {
        if hooks?.isFollowing == true { fail(problem) } else { refuse(problem, keepAlive: canPersist) }
    }

    /// Whether the connection stays open for the next request after a response of the proxy's own.
    private var canPersist: Bool {
        guard head.keepAlive, body.isComplete, !worker.isDraining else { return false }
        // Bytes behind a CONNECT or an Upgrade may belong to the other protocol.
        return !((head.method == .connect || head.wantsUpgrade) && stream.hasMoreInput)
    }

    /// Responds to OPTIONS that is for the proxy itself or may not be forwarded (RFC 9110, section 7.6.2).
    private func respondToOptions() {
        let keepAlive = canPersist
        clientResponse.writeOptions(keepAlive: keepAlive, to: &stream.output, date: worker.httpDate)
        stream.headIsWritten(clientResponse.status)
        finish(nil)
        stream.finished(self, persists: keepAlive, isWhole: true)
    }

    /// The body was saved to a file: sends the client the file's location.
    private func respondWithDownload(_ outcome: ResponseDownload.Outcome) {
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
        expectation = ContinueExpectation()
        trailers = nil
        number &+= 1
        bytesFromClient = 0
        bytesToClient = 0
        startedAt = worker.loop.now
        startedWall = worker.loop.wallClock
        clientResponse = ClientResponse()
    }

    private func start(_ endpoint: Endpoint) {
        expectation.begin(
            isExpected: head.expectsContinue,
            bodyHasBegun: bodyHasBegun,
            originDecides: endpoint.httpVersion == .http1
        )
        var fields = clientFields(keepsExpectation: expectation.isForwarded)
        if let route, let rules = route.hooks { prepareHooks(rules, on: route, to: endpoint, &fields) }
        var request = SessionRequest(
            endpoint: endpoint,
            method: head.method,
            target: Array(copying: head.target),
            fields: fields,
            bodyLength: bodyLength
        )
        // A stream of HTTP/2 may transfer in both directions at once. An HTTP/1.1 client rarely reads before it has
        // sent all.
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
        else { return dispatch(consume request, delegate: self) }
        lookUpInCache(
            responses,
            terms,
            digest,
            consume request,
            givesCredentials: route.hooks?.givesCredentials ?? false
        )
    }

    /// Sends a request to its origin.
    private func dispatch(_ request: consuming SessionRequest, delegate: LoopTaskDelegate) {
        guard let generation else { return }
        request.isRepetition = isRepetition
        let task = generation.manager.dataTask(with: request, delegate: delegate)
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

    /// Gives a task the body bytes that its predecessor did not send.
    private func sendCarried(_ task: LoopTask) {
        sendBody(carried.bytes, to: task)
        carried.release()
    }

    /// Body bytes that were received from the client and not sent yet.
    var waitingBodyBytes: Int { carried.count + (task?.pendingBodyBytes ?? 0) }

    private var via: [UInt8] {
        if head.majorVersion == 2 { return worker.viaOfVersion2 }
        return head.minorVersion == 0 ? worker.viaOfVersion10 : worker.viaOfVersion11
    }

    /// The fields of the client's request that are sent to an origin.
    private func clientFields(keepsExpectation: Bool = false) -> HTTPFields {
        OriginFields.make(from: head, via: via, keepsExpectation: keepsExpectation)
    }

    /// Whether the client has sent bytes of the request body.
    private var bodyHasBegun: Bool { bytesFromClient > 0 }

    private var bodyLength: RequestBodyLength {
        switch head.framing {
        case .none: .none
        case .length(let count): .bytes(count)
        case .chunked, .untilClose: .unknown
        }
    }

    /// Whether more of the request body can be processed now.
    var wantsBody: Bool {
        guard let task, !body.isComplete else { return false }
        if let hooks, holdsBodyBack(hooks) { return false }
        return task.pendingBodyBytes < Self.uploadHighWater
    }

    /// Whether there is a receiver for the body: not before the client is authenticated.
    var acceptsBody: Bool { task != nil || isOver }

    /// Processes bytes of the request body; returns how many.
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
        // After a body of known length an HTTP/2 stream may still bring trailers.
        if body.isComplete, head.majorVersion == 1 { finishSending(trailers: body.trailers) }
        return position
    }

    /// The client's HTTP/2 stream has ended.
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

    /// Whether the exchange has begun and not ended.
    var isUnderWay: Bool { !isOver }

    /// The client waits for 100 (Continue) before it sends its body.
    var holdsClientBack: Bool { expectation.holdsClientBack(bodyHasBegun: bodyHasBegun) }

    /// The client has sent hardly anything of its body within the limit, although nothing else delayed it.
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

    /// The client has closed the connection or the stream: the response has no receiver.
    func clientGone() {
        guard !isOver else { return }
        finish(Problem(.clientClosed, "The client closed the connection before the response was complete."))
    }

    /// The client can take output again.
    func outputHasRoom() {
        guard isHeldBack else { return }
        isHeldBack = false
        resumeReceiving()
        relay?.stream?.resumeReceiving()
    }

    // MARK: Problems

    /// Sends an error response before anything was sent to an origin.
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

    /// Ends the request with an error, and cancels its task.
    private func fail(_ problem: Problem) {
        let canRespond = !clientResponse.hasBegun
        if canRespond {
            refuse(problem, false)
            stream.headIsWritten(clientResponse.status)
        }
        finish(problem)
        stream.finished(self, persists: false, isWhole: canRespond)
    }

    /// Ends the request: releases the task and writes the log line.
    private func finish(_ problem: Problem?) {
        isOver = true
        self.problem = problem
        hooks?.end()
        let ended = task ?? relay?.task ?? unsent
        // The response may go on to the cache, and to others that read it along.
        if cache?.leave() == true { ended?.noteMetrics() } else { ended?.cancel() }
        worker.log(self, ended, client: stream.transport.addressText)
        task = nil
        unsent = nil
    }

    // MARK: From the origin

    override func taskDidConnect(_ task: LoopTask) {
        if !isOver, !expectation.isForwarded { sendContinue() }
    }

    /// Sends 100 (Continue), once, to a client that waits for it (RFC 9110, section 10.1.1).
    private func sendContinue() {
        guard !body.isComplete, expectation.bodyIsWanted(bodyHasBegun: bodyHasBegun) else { return }
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
            if expectation.isForwarded { sendContinue() }
            return
        }
        // 101 comes only after Upgrade, which is not forwarded here.
        guard informational.status != 101 else { return }
        // The final response may lead to a redirect, and then does not reach the client.
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
        return didReceiveResponseHead(response)
    }

    /// Processes the final head of a response, from the origin or from the cache.
    private func didReceiveResponseHead(_ response: borrowing ResponseHead) -> ResponseDisposition {
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

    private func deliver(_ response: borrowing ResponseHead, _ context: borrowing ResponseContext) {
        clientResponse.writeHead(response, to: head, context: context, output: &stream.output)
        stream.headIsWritten(clientResponse.status)
        // The body may take long; pieces that arrive in this turn are written together with the head.
        stream.flushLater()
    }

    private var context: ResponseContext? {
        guard let route else { return nil }
        return ResponseContext(
            route: route,
            listener: stream.listener,
            worker: worker,
            clientAuthority: stream.listener.isGateway ? clientAuthority : [],
            // After an Upgrade, bytes of the other protocol may be on their way.
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
        return didReceiveResponseBody(data)
    }

    /// Processes a piece of a response body, from the origin or from the cache.
    private func didReceiveResponseBody(_ data: borrowing Span<UInt8>) -> BodyFlow {
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
        if clientResponse.hasBegun { clientResponse.addTrailers(trailers) }
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        guard !isOver else { return }
        if let error, error.code == .sessionInvalidated { return restart(after: task) }
        responseDidEnd(task, error)
    }

    /// The response has ended, successfully or not: the origin's, or a stored one.
    private func responseDidEnd(_ task: LoopTask?, _ error: SessionError?) {
        if let hooks, hooksDidEnd(hooks, after: task, error: error) { return }
        if let error {
            fail(problem(for: error))
            return
        }
        clientResponse.writeEnd(output: &stream.output)
        finish(nil)
        stream.finished(self, persists: clientResponse.persists && body.isComplete, isWhole: true)
    }

    /// A stall is reported as the client's when its request body is the part that is missing.
    private func problem(for error: SessionError) -> Problem {
        if error.code == .stalled, !body.isComplete, let task, task.pendingBodyBytes == 0 {
            return Problem(.requestTimeout, "The request body stopped coming. Send it faster, or raise timeouts.stall.")
        }
        return Problem(error)
    }

    // MARK: - Authentication of the client

    /// Authenticates the client before anything else is done for it.
    private func authenticate(_ credentials: ClientCredentials) {
        if user != nil {
            if stream.transport.isStillKnown(under: credentials) { return routeRequest() }
            user = nil
            if stream.transport.intercepted != nil {
                // The credentials of the CONNECT cannot be presented again here.
                return fail(
                    Problem(
                        .authenticationRequired,
                        status: 403,
                        "This proxy does not know the user of the CONNECT any more. Connect again."
                    )
                )
            }
        }
        let current = number
        let presented = PresentedCredentials(head.fields)
        let verdict = worker.authenticator.verify(presented, credentials) { [self] verdict in
            guard number == current, !isOver, isRefused(presented, verdict, credentials) || canContinue() else {
                return
            }
            conclude(verdict, credentials)
            if number == current, !isOver { stream.exchangeNeedsBody() }
        }
        if let verdict { conclude(verdict, credentials) }
    }

    /// Whether a refusal stays valid across a reload. It is not verified again then: otherwise a client that guesses
    /// passwords would cause one verification for each reload.
    private func isRefused(
        _ presented: PresentedCredentials,
        _ verdict: ClientAuthenticator.Verdict,
        _ former: ClientCredentials
    ) -> Bool {
        guard verdict == .refused, case .credentials(let current) = stream.listener.security.authentication else {
            return false
        }
        return current.agrees(with: former, about: presented)
    }

    private func conclude(_ verdict: ClientAuthenticator.Verdict, _ credentials: ClientCredentials) {
        switch verdict {
        case .accepted(let name):
            user = name
            self.credentials = credentials
            routeRequest()
        case .refused:
            refuseUnsent(.unauthenticated(credentials))
        case .busy:
            refuseUnsent(
                Problem(.limitReached, "Too many clients are waiting for their passwords to be verified. Try again.")
            )
        }
    }

    /// The user that this request has authenticated, with the credentials for it.
    var proven: (name: [UInt8], credentials: ClientCredentials)? {
        guard let user, let credentials else { return nil }
        return (user, credentials)
    }

    // MARK: - Cache

    // MARK: Before the origin

    /// Looks for a stored response, and sends the request to the origin when there is none.
    ///
    /// - Parameter givesCredentials: whether the configuration adds credentials to the request.
    private func lookUpInCache(
        _ responses: ResponseCache,
        _ terms: CacheTerms,
        _ digest: PolicyDigest,
        _ request: consuming SessionRequest,
        givesCredentials: Bool
    ) {
        let transaction = terms.transaction(
            in: responses,
            for: request,
            under: digest,
            user: user,
            givesCredentials: givesCredentials,
            loop: worker.loop
        )
        let cache = CacheStage(transaction, request, delegate: self, loop: worker.loop)
        self.cache = cache
        cache.begin()
    }

    func stageMayContinue(_ stage: CacheStage) -> Bool { canContinue() }

    func stage(_ stage: CacheStage, ask request: SessionRequest, delegate: LoopTaskDelegate) -> LoopTask? {
        dispatch(request, delegate: delegate)
        return task
    }

    func stage(_ stage: CacheStage, wasHandedBack task: LoopTask) {
        if !isOver { restart(after: task) }
    }

    func stageMustNotAsk(_ stage: CacheStage) {
        refuseUnsent(
            Problem(
                .notStored,
                "No stored response may be used for this request, and it forbids a request to the origin. Leave out only-if-cached (or the policy returnCacheDataDontLoad)."
            )
        )
    }

    /// Starts the background refresh of a stored response that is being served stale.
    func stageNeedsRefresh(_ stage: CacheStage) {
        guard let route = hooks?.route ?? route, let generation else { return }
        CacheRefresh.start(
            stage.transaction,
            like: stage.request,
            CacheRefresh.Setting(
                worker: worker,
                listener: self.stream.listener,
                generation: generation,
                route: route,
                isHop: hooks?.isFollowing ?? false
            )
        )
    }

    func stage(_ stage: CacheStage, didReceive head: borrowing ResponseHead) -> ResponseDisposition {
        isOver ? .cancel : didReceiveResponseHead(head)
    }

    func stage(_ stage: CacheStage, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        isOver ? .pause : didReceiveResponseBody(data)
    }

    func stage(_ stage: CacheStage, didReceiveTrailers trailers: borrowing HTTPFields) {
        if !isOver, clientResponse.hasBegun { clientResponse.addTrailers(trailers) }
    }

    func stagePatience(_ stage: CacheStage) -> TimeSpan? {
        let timeouts = stage.request.timeouts ?? stage.request.endpoint.timeouts
        guard let total = timeouts.total else { return timeouts.stall }
        let spent = min(total.nanoseconds, worker.loop.now - startedAt)
        return min(timeouts.stall, TimeSpan(nanoseconds: total.nanoseconds - spent))
    }

    func stageDidComplete(_ stage: CacheStage, error: SessionError?) {
        if !isOver { responseDidEnd(task, error) }
    }

    /// The receiver of the response has room again.
    private func resumeReceiving() {
        if let cache { cache.resumeReceiving() } else { task?.resumeReceiving() }
    }

    // MARK: - Hooks of the host

    // MARK: The request

    /// Prepares the hooks for the request that is about to be sent.
    private func prepareHooks(_ rules: HostHooks, on route: Route, to endpoint: Endpoint, _ fields: inout HTTPFields) {
        let deadline = endpoint.timeouts.total.map { startedAt &+ $0.nanoseconds }
        let hooks = ExchangeHooks(rules, route: route, deadline: deadline)
        self.hooks = hooks
        rules.headers.request.apply(to: &fields)
        if rules.keepsBodies, head.framing.hasBody { keepBody(hooks) }
    }

    private func keepBody(_ hooks: ExchangeHooks) {
        guard let limit = generation?.snapshot.configuration.limits.redirectBodyBytes else { return }
        if case .length(let count) = head.framing, count > limit { return }
        hooks.keepBody(
            in: ReplayBuffer(
                limit: limit,
                files: worker.files,
                loop: worker.loop,
                resume: { [unowned self] in replayBufferDidAdvance() },
                fail: { [unowned self] in
                    fail(
                        Problem(.fileFailed, "The request's body was kept for a redirect and could not be read again.")
                    )
                }
            )
        )
    }

    /// There is room for more, the replay is complete, or the end of the body need not wait any longer.
    private func replayBufferDidAdvance() {
        guard !isOver, let replayBuffer = hooks?.replayBuffer, !replayBuffer.holdsBack else { return }
        if let end = replayBuffer.releaseEnd() { task?.send(end.span) }
        guard !replayBuffer.holdsEnd else { return }
        if !body.isComplete { return stream.exchangeNeedsBody() }
        // Behind a body of known length the trailers of HTTP/2 may still be on their way.
        if let trailers { task?.finishSending(trailers: trailers) }
    }

    /// Sends a piece of the client's body, and keeps it when redirects are followed with bodies.
    private func sendBody(_ bytes: borrowing Span<UInt8>, to task: LoopTask) {
        if let replayBuffer = hooks?.replayBuffer {
            replayBuffer.append(bytes)
            if body.isComplete, replayBuffer.holdEnd(bytes) { return }
        }
        task.send(bytes)
    }

    /// The client's body has ended. Returns false when the replay buffer has to be sent or written first.
    private func canEndBody(_ hooks: ExchangeHooks) -> Bool {
        guard let replayBuffer = hooks.replayBuffer else { return true }
        let nothing: [UInt8] = []
        return !replayBuffer.isReplaying && !replayBuffer.holdEnd(nothing.span)
    }

    /// Whether the client has to pause its body.
    private func holdsBodyBack(_ hooks: ExchangeHooks) -> Bool { hooks.replayBuffer?.holdsBack ?? false }

    /// The transfer has room for more of the body; true when the replay buffer provides it.
    private func continueReplay(_ hooks: ExchangeHooks) -> Bool {
        guard let replayBuffer = hooks.replayBuffer, replayBuffer.isReplaying else { return false }
        replayBuffer.sendMore()
        return true
    }

    // MARK: The response

    /// Applies the hooks to the final head of a response.
    ///
    /// - Returns: the response's disposition; nil when the response goes to the client.
    private func evaluate(_ response: borrowing ResponseHead, _ hooks: ExchangeHooks) -> ResponseDisposition? {
        // The current policy: a redirected request is made under it or under a later one, which evaluates the redirect
        // again.
        let router = worker.generation.router
        switch hooks.decide(response, to: head, body: repeatableBody(hooks), router: router) {
        case .deliver: break
        case .refuse(let problem):
            hooks.refuse(problem)
            return .cancel
        case .follow(let plan):
            let isSent = hooks.replayBuffer.map { !$0.isReplaying && !$0.holdsEnd } ?? true
            let isWhole = body.isComplete && task?.pendingBodyBytes == 0 && isSent
            return hooks.follow(plan, after: response.framing, requestIsWhole: isWhole) ? .allow : .cancel
        }
        switch ResponseHook.decide(response, hooks.rules, own: hooks.route.hooks) {
        case .allow(let limit):
            hooks.bound(by: limit)
            return nil
        case .cancel(let problem):
            hooks.refuse(problem)
            return .cancel
        case .becomeDownload(let directory, let quota, let limit):
            hooks.bound(by: limit)
            becomeDownload(in: directory, quota: quota, length: response.contentLength, hooks)
            return .allow
        }
    }

    private func repeatableBody(_ hooks: ExchangeHooks) -> RedirectHook.Body {
        guard head.framing.hasBody else { return .none }
        guard let replayBuffer = hooks.replayBuffer, !replayBuffer.isLost else { return .lost }
        return .kept
    }

    /// Applies the hooks to a piece of a response body.
    ///
    /// - Returns: whether more may come; nil when the piece goes to the client.
    private func hooksDidReceiveBody(_ data: borrowing Span<UInt8>, _ hooks: ExchangeHooks) -> BodyFlow? {
        if hooks.isLeaving {
            if !hooks.drop(data.count) { task?.cancel() }
            return .proceed
        }
        if !hooks.countBody(data.count) {
            fail(ResponseHook.tooLarge(hooks.limit))
            return .pause
        }
        return hooks.save(data)
    }

    /// The task is over.
    ///
    /// - Returns: false when the exchange ends in the ordinary way.
    private func hooksDidEnd(_ hooks: ExchangeHooks, after task: LoopTask?, error: SessionError?) -> Bool {
        if let failure = hooks.failure {
            fail(failure)
            return true
        }
        if let plan = hooks.leave(task) {
            if canContinue() { follow(plan, hooks) }
            return true
        }
        guard error == nil else { return false }
        return hooks.finishDownload { [unowned self] result in
            switch result {
            case .success(let outcome): respondWithDownload(outcome)
            case .failure(let problem): fail(problem)
            }
        }
    }

    // MARK: The next hop

    /// Evaluates a redirect again after a reload that came before the redirected request.
    ///
    /// - Parameter rules: the current hooks of the host that the client requested.
    private func followAgain(_ hooks: ExchangeHooks, under rules: HostHooks?) {
        guard let generation else { return }
        switch hooks.decideAgain(under: rules, body: repeatableBody(hooks), router: generation.router) {
        case .follow(let plan): follow(plan, hooks)
        case .refuse(let problem): fail(problem)
        case .deliver:
            fail(
                Problem(
                    .redirectDenied,
                    "The policy was replaced while a redirect was being followed, and does not let it be followed any more. Send the request again."
                )
            )
        }
    }

    /// Sends the request to the target of a redirect.
    private func follow(_ plan: RedirectHook.Plan, _ hooks: ExchangeHooks) {
        guard let generation else { return }
        let hop = plan.hop
        let route = stream.listener.route(toHop: hop.url.origin, under: generation.router)
        switch route.destination {
        case .refused(let problem):
            fail(
                Problem(
                    problem.code,
                    status: problem.status,
                    "\(hooks.redirectedFrom?.description ?? "The origin") redirects to \(hop.url.origin). \(problem.details)"
                )
            )
        case .tunnel, .intercept:
            fail(Problem(.internal, "A redirect leads to a tunnel."))
        case .origin(let endpoint):
            guard let timeouts = hooks.timeouts(of: endpoint, now: worker.loop.now) else {
                fail(Problem(.responseTimeout, "The redirects took longer than timeouts.total allows."))
                return
            }
            hooks.prepare(for: hop, on: route)
            var fields = hooks.fields(of: plan, on: route, client: clientFields())
            expectation.follow(
                keepsBody: hop.keepsBody,
                bodyHasBegun: bodyHasBegun,
                originDecides: endpoint.httpVersion == .http1
            )
            if expectation.isForwarded { fields.append(.expect, "100-continue") }
            var request = SessionRequest(
                endpoint: endpoint,
                method: hop.method,
                target: hop.url.target,
                fields: fields,
                bodyLength: hop.keepsBody ? bodyLength : .none,
                timeouts: timeouts
            )
            request.isBidirectional = head.majorVersion == 2 && request.bodyLength == .unknown
            task = nil
            guard let responses = worker.cache, let terms = route.cache,
                let digest = terms.digest(at: worker.loop.wallClock / 1_000_000, with: plan.changes)
            else {
                cache = nil
                return dispatch(consume request, delegate: self)
            }
            let givesCredentials = route.hooks?.givesCredentials == true || plan.changes?.givesCredentials == true
            lookUpInCache(responses, terms, digest, consume request, givesCredentials: givesCredentials)
        }
    }

    /// Gives the task of a hop the kept body; a hop without a body has no replay buffer.
    private func sendAgain(_ hooks: ExchangeHooks, to task: LoopTask) {
        hooks.replayBuffer?.replay(to: task)
        if body.isComplete, hooks.replayBuffer?.isReplaying != true {
            task.finishSending(trailers: trailers ?? HTTPFields())
        }
    }

    // MARK: Downloads

    private func becomeDownload(in directory: String, quota: Int, length: Int?, _ hooks: ExchangeHooks) {
        var target = Array(copying: head.target)
        if let url = hooks.url { target = url.target }
        let name = ResponseDownload.name(of: target.span)
        hooks.saveBody(
            in: ResponseDownload(
                directory: directory,
                quota: quota,
                length: length,
                name: name,
                files: worker.files,
                loop: worker.loop,
                resume: { [unowned self] in resumeReceiving() },
                fail: { [unowned self] problem in fail(problem) }
            )
        )
    }

    // MARK: - Tunnels and upgrades

    // MARK: To a relay

    private func startUpgrade(_ offer: UpgradeOffer, _ endpoint: Endpoint, _ generation: Generation) {
        let usual: UInt16 = endpoint.scheme == .https ? 443 : 80
        let name = endpoint.host.authorityText
        var fields = clientFields()
        route?.hooks?.headers.request.apply(to: &fields)
        let request = offer.request(
            head,
            authority: endpoint.port == usual ? name : "\(name):\(endpoint.port)",
            fields: fields
        )
        let upgrade = ProtocolUpgrade(self, stream, to: endpoint, offer: offer, request: request)
        relay = upgrade
        upgrade.dial(generation.manager, endpoint.scheme == .https ? [.http1] : [])
    }

    private func startInterception(_ endpoint: Endpoint, _ generation: Generation) {
        guard mayConnect() else { return }
        do throws(LeafContexts.Refusal) {
            guard let leaves = generation.leaves else { throw LeafContexts.Refusal(reason: "there is none") }
            let context = try leaves.context(for: endpoint.host, at: startedWall / 1_000_000)
            let interception = Interception(self, stream, to: endpoint, context: context)
            relay = interception
            interception.dial(generation.manager, endpoint.httpVersion == .http2 ? [.http2, .http1] : [.http1])
        } catch {
            refuse(
                Problem(
                    .connectDenied,
                    "The local CA cannot stand in for \(endpoint.host): \(error.reason). Make one that takes the host in (pinproxy ca init)."
                ),
                keepAlive: canPersist
            )
        }
    }

    /// Whether a CONNECT is possible; otherwise it is refused.
    private func mayConnect() -> Bool {
        guard !head.framing.hasBody else {
            refuse(Problem(.requestInvalid, "A CONNECT has no body."), keepAlive: false)
            return false
        }
        guard stream.canHandOver else {
            refuse(
                Problem(.connectDenied, "No tunnels are made in HTTP/2. Send the CONNECT in HTTP/1.1."),
                keepAlive: true
            )
            return false
        }
        return true
    }

    private func startTunnel(_ endpoint: Endpoint, _ generation: Generation) {
        guard mayConnect() else { return }
        let tunnel = Tunnel(self, stream, to: endpoint, headTime: generation.headTime)
        relay = tunnel
        tunnel.dial(generation.manager)
    }

    // MARK: From the relay

    /// The relay's connection is established. The client's connection belongs to the relay from now on.
    func writeConnectionEstablished(_ output: inout ByteBuffer) {
        clientResponse.writeConnected(to: &output, date: worker.httpDate)
    }

    /// The origin switches protocols. The client's connection belongs to the relay from now on.
    func writeProtocolSwitch(_ response: borrowing ResponseHead, _ output: inout ByteBuffer) {
        guard let context, let route else { return }
        guard let rules = route.hooks else {
            return clientResponse.writeSwitchingProtocols(response, context: context, output: &output)
        }
        let changed = ExchangeHooks(rules, route: route, deadline: nil).changed(response)
        clientResponse.writeSwitchingProtocols(changed, context: context, output: &output)
    }

    /// The origin responds to an Upgrade like to any other request. The host's response rules apply, except that no
    /// redirect is followed and no file is written.
    ///
    /// - Returns: the error that the client gets instead.
    func deliverUnswitched(_ response: borrowing ResponseHead) -> Problem? {
        guard !isOver, let context, let route else { return nil }
        guard let rules = route.hooks else {
            deliver(response, context)
            return nil
        }
        let hooks = ExchangeHooks(rules, route: route, deadline: nil)
        let decision = hooks.decide(response, to: head, body: .none, router: worker.generation.router)
        if case .refuse(let problem) = decision { return problem }
        switch ResponseHook.decide(response, rules) {
        case .cancel(let problem): return problem
        case .allow(let limit) where limit == Int.max || response.contentLength != nil || !response.framing.hasBody:
            break
        case .allow, .becomeDownload:
            return Problem(
                .responseDenied,
                "The response to an Upgrade would become a file, or has no length that could be compared with a limit."
            )
        }
        deliver(hooks.changed(response), context)
        return nil
    }

    /// The relay's connection has carried a complete ordinary response.
    func relayDidCompleteResponse() {
        guard !isOver else { return }
        clientResponse.writeEnd(output: &stream.output)
        finish(nil)
        stream.finished(self, persists: false, isWhole: true)
    }

    func countRelayedBytes(fromClient: Int = 0, toClient: Int = 0) {
        bytesFromClient += fromClient
        bytesToClient += toClient
    }

    /// The relay could not be established; the client's connection is still HTTP.
    func relayDidFail(_ error: SessionError, at endpoint: Endpoint) {
        // A refused server puts the origin's stored responses in doubt, whatever the request was.
        if error.originFailure == .untrusted { worker.cache?.doubt(endpoint.origin) }
        guard !isOver else { return }
        if error.code == .sessionInvalidated { return restart() }
        if clientResponse.hasBegun { fail(Problem(error)) } else { refuse(Problem(error), keepAlive: canPersist) }
    }

    /// The relay was refused by the proxy itself.
    func relayDidRefuse(_ problem: Problem) {
        guard !isOver else { return }
        refuse(problem, keepAlive: false)
    }

    /// The relay is over; the exchange can be reused.
    func relayDidEnd(_ problem: Problem?) {
        guard !isOver else { return }
        finish(problem)
        worker.returnExchange(self)
    }
}
