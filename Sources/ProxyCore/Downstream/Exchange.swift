// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// One request of a client: reads it, identifies the user, routes it, and leads it through the stages of its response:
/// `OriginStage`, `HookStage` where the host has hooks, `ClientWriter`.
///
/// An exchange is reused for later requests to save memory; it keeps nothing else from one request to the next.
final class Exchange: StageOwner {
    private var parser: RequestParser
    /// The relay of a CONNECT or an upgrade.
    private var relay: ExchangeRelay?
    private(set) var admission = RequestAdmission()
    private(set) var problem: Problem?
    /// Body bytes received from the client.
    private(set) var bytesFromClient = 0
    private(set) var startedWall: Int64 = 0
    /// The credentials that this request was authenticated with; nil when its connection was.
    private var presented: ClientCredentials?
    /// Counts requests and restarts, so that a late result is not used for another request.
    private var number: UInt64 = 0
    /// The client's side; nil while the exchange is unused.
    private var stream: ExchangeStream!
    private let services: WorkerServices
    /// The limits of the head of the origin's response.
    override var responseHeadLimits: HeadLimits { (generation ?? services.generation).manager.responseHeadLimits }
    private let origin: OriginStage
    /// Nil for most hosts.
    private(set) var hooks: HookStage?
    let writer: ClientWriter
    /// The client's `Expect: 100-continue`.
    private var expectation = ContinueExpectation()
    /// The trailers of the request; nil until its body has ended.
    private var trailers: HeaderFields?
    /// The memory of the latest request to an origin.
    private var memory = RequestMemory()

    init(services: WorkerServices, stream: ExchangeStream) {
        self.services = services
        parser = RequestParser(limits: services.generation.headLimits)
        origin = OriginStage(services)
        writer = ClientWriter(services)
        super.init()
        attach(stream)
    }

    /// Prepares the exchange for a connection, or for a stream of one.
    func attach(_ stream: ExchangeStream) {
        self.stream = stream
        parser = RequestParser(limits: services.generation.headLimits)
        origin.attach(self)
        writer.attach(self, stream)
    }

    /// Releases everything that belongs to the connection or stream.
    func detach() {
        forgetCredentials()
        stream = nil
        generation = nil
        admission.release()
        // Most requests have none of these: looking is cheaper than a release.
        if hooks != nil { hooks = nil }
        if relay != nil { forgetRelay() }
        if presented != nil { presented = nil }
        if identity != nil { identity = nil }
        // Most heads leave their memory to the next one.
        if head.byteCount > Self.keptHeadBytes { head.release() }
        origin.detach()
        writer.detach()
    }

    private static let keptHeadBytes = 8 << 10

    /// The latest route; nil before the first one.
    var route: Route? { admission.route }

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
        if let rules = services.generation.identities { identity = rules.identify(head) }
        if let problem = body.begin(head.framing, limit: services.generation.requestBodyLimit) {
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
    override func canContinue() -> Bool {
        if generation === services.generation { return true }
        restart(after: nil)
        return false
    }

    /// Restarts the request from authentication; a request that follows a redirect restarts from its latest hop.
    ///
    /// - Parameter unsent: the task that was going to send it, and has sent nothing.
    override func restart(after unsent: LoopTask?) {
        number &+= 1
        let refusal = admission.restart()
        if let unsent {
            if let hooks { hooks.recover(unsent) } else { origin.recover(unsent, keeps: true) }
        }
        if hooks?.holdsBodyAlone == true { return fail(Self.bodyWasSent) }
        origin.leaveCache()
        forgetRelay()
        if hooks?.isFollowing != true {
            hooks?.end()
            hooks = nil
            origin.forgetTask()
        }
        if let refusal { return fail(refusal) }
        if let problem = body.hold(to: services.generation.requestBodyLimit, head.framing) { return fail(problem) }
        let beginning = number
        identify()
        if number == beginning, !isOver { stream.exchangeNeedsBody() }
    }

    /// Determines the client's user.
    private func identify() {
        generation = services.generation
        user = stream.transport.clientName
        if presented != nil { presented = nil }
        forgetCredentials(restarts: true)
        switch stream.listener.security.authentication {
        case .none: routeRequest()
        case .credentials(let credentials): authenticate(credentials)
        case .unusable:
            fail(Problem(.internal, "The files that this listener's clients are known by could not be loaded."))
        }
    }

    @inline(__always)
    private func routing() -> ListenerRoutes.Decision {
        let listener = stream.listener
        if let authority = stream.transport.intercepted { return listener.route(for: head, inside: authority) }
        return listener.route(for: head, localAddress: listener.isGateway ? stream.transport.localAddress : nil)
    }

    /// The client may use the proxy: determines where the request goes.
    private func routeRequest() {
        if let hooks, hooks.isFollowing { return routeHop(hooks) }
        guard let generation else { return }
        switch routing() {
        case .own: respondToOptions()
        case .refused(let problem, let route):
            admission.note(route)
            refuse(problem, keepAlive: canPersist)
        case .route(let route):
            let step = admission.admit(
                head,
                on: route,
                user: user,
                pseudonym: services.pseudonym,
                mayUpgrade: stream.canHandOver,
                generation.credentials
            )
            switch step {
            case .send(let offer, let endpoint, .ready): start(offer, endpoint)
            case .send(let offer, let endpoint, let step):
                follow(step, to: endpoint) { [self] in start(offer, endpoint) }
            case .tunnel(let endpoint): startTunnel(endpoint, generation)
            case .intercept(let endpoint): startInterception(endpoint, generation)
            case .serve(let authority): serveRequests(for: authority)
            case .respondToOptions: respondToOptions()
            case .refuse(let problem): refuse(problem, keepAlive: canPersist)
            }
        }
    }

    /// The client may still use the proxy: determines whether the redirect may still be followed.
    ///
    /// Out of line: it is rare, and what it needs would be paid for by every request.
    @inline(never)
    private func routeHop(_ hooks: HookStage) {
        switch admission.admitAgain(routing()) {
        case .follow(let route): hooks.followAgain(under: route.hooks)
        case .fail(let problem): fail(problem)
        }
    }

    /// The refusal of a redirected request. It has fields of the client, and the client's user.
    override func refusal(ofHop hop: RedirectMachine.Hop, by rules: HostRules) -> Problem? {
        admission.refusal(ofHop: hop, by: rules, fields: head.fields, user: user)
    }

    /// Refuses a request of which nothing was sent. A request that follows a redirect fails.
    override func refuseUnsent(_ problem: Problem) {
        if hooks?.isFollowing == true { fail(problem) } else { refuse(problem, keepAlive: canPersist) }
    }

    /// Whether the connection stays open for the next request after a response of the proxy's own.
    override var canPersist: Bool {
        guard head.keepAlive, body.isComplete, !services.isDraining else { return false }
        // Bytes behind a CONNECT or an Upgrade may belong to the other protocol.
        return !((head.method == .connect || head.wantsUpgrade) && stream.hasMoreInput)
    }

    /// Responds to OPTIONS that is for the proxy itself or may not be forwarded (RFC 9110, section 7.6.2).
    private func respondToOptions() {
        let keepAlive = canPersist
        writer.writeOptions(keepAlive: keepAlive)
        finish(nil)
        stream.finished(persists: keepAlive, isWhole: true)
    }

    /// The body was saved to a file: sends the client the file's location.
    override func respondWithDownload(_ outcome: DownloadedFile) {
        let keepAlive = canPersist
        writer.writeDownload(outcome, keepAlive: keepAlive)
        finish(nil)
        stream.finished(persists: keepAlive, isWhole: true)
    }

    private func reset() {
        isOver = false
        if problem != nil { problem = nil }
        admission.begin()
        if hooks != nil { hooks = nil }
        if user != nil { user = nil }
        if presented != nil { presented = nil }
        if identity != nil { identity = nil }
        forgetCredentials()
        origin.reset()
        writer.begin()
        expectation = ContinueExpectation()
        if trailers != nil { trailers = nil }
        number &+= 1
        bytesFromClient = 0
        startedAt = services.loop.now
        startedWall = services.loop.wallClock
    }

    /// The request may be sent, and its credentials are there.
    private func start(_ offer: UpgradeOffer?, _ endpoint: Endpoint) {
        guard let generation else { return }
        if let offer { startUpgrade(offer, endpoint, generation) } else { start(endpoint) }
    }

    private func start(_ endpoint: Endpoint) {
        guard let route else { return }
        expectation.begin(
            isExpected: head.expectsContinue,
            bodyHasBegun: bodyHasBegun,
            originDecides: endpoint.httpVersion == .http1
        )
        var fields = memory.takeFields()
        OriginFields.write(
            from: head,
            mark: mark(on: route),
            keepsExpectation: expectation.isForwarded,
            rewriter: requestRewriter,
            to: &fields
        )
        credentials?.removeFieldsOfClient(from: &fields)
        if let identity { identity.write(to: &fields) }
        // A request whose credential may be renewed may have to be sent again; with its body, which hooks keep.
        let canRenew = credentials?.canRenew == true
        let rules = route.hooks ?? (canRenew && head.framing.hasBody ? HostHooks.none : nil)
        if let rules { prepareHooks(rules, on: route, to: endpoint, &fields) }
        // Also where the request has begun under another policy, without hooks.
        origin.repeatRefused(canRenew && rules == nil)
        var request = SessionRequest(
            endpoint: endpoint,
            method: head.method,
            target: memory.copyTarget(of: head),
            fields: fields,
            bodyLength: bodyLength
        )
        memory.keep(consume fields)
        // A stream of HTTP/2 may transfer in both directions at once. An HTTP/1.1 client rarely reads before it has
        // sent all.
        request.isBidirectional = head.majorVersion == 2 && bodyLength == .unknown
        if admission.restarts > 0 || credentials != nil, let total = endpoint.timeouts.spans.total {
            let spent = services.loop.now &- startedAt
            guard spent < total.nanoseconds else {
                return refuseUnsent(Problem(.responseTimeout, "The request waited longer than timeouts.total allows."))
            }
            request.timeouts = endpoint.timeouts
            request.timeouts?.spans.total = TimeSpan(nanoseconds: total.nanoseconds - spent)
        }
        if let hooks { return hooks.send(consume request, on: route) }
        origin.send(consume request, on: route, to: writer)
    }

    /// The owner of the connections to origins that the client authenticates; nil as long as it has authenticated none.
    ///
    /// - Parameter isNew: the client is about to.
    override func connectionOwner(isNew: Bool) -> ConnectionOwner? {
        guard isNew || stream.transport.ownsConnections else { return nil }
        return stream.transport.connectionOwner(for: user, isNew: isNew)
    }

    /// Sends a new task the part of the body that is here.
    override func sendWaitingBody(to task: LoopTask) {
        if let hooks, hooks.hasKeptBody {
            if hooks.replay(to: task), body.isComplete { endBody() }
            return
        }
        if let hooks { origin.sendCarried { sendInPieces($0, through: hooks) } } else { origin.sendCarried() }
        if body.isComplete, hooks?.canEndBody() ?? true { endBody() }
    }

    /// A stage may keep the last piece back, which is not to be a copy of a whole body.
    private func sendInPieces(_ bytes: borrowing Span<UInt8>, through hooks: HookStage) {
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + Self.pieceSize)
            hooks.send(bytes.extracting(position..<end), isLast: body.isComplete && end == bytes.count)
            position = end
        }
    }

    private static let pieceSize = 64 << 10

    /// Body bytes that were received from the client and not sent yet.
    ///
    /// Those that a signature waits for do not count: their client would wait for credit, and the body never end.
    var waitingBodyBytes: Int { admission.credentials.body.isGathering ? 0 : origin.waitingBytes }

    private func mark(on route: Route?) -> OriginFields.Mark {
        if let route, !route.addsVia { return .cdnLoop(services.pseudonym) }
        if head.majorVersion == 2 { return .via(services.viaOfVersion2) }
        return .via(head.minorVersion == 0 ? services.viaOfVersion10 : services.viaOfVersion11)
    }

    /// The fields of the client's request that are sent to an origin.
    override func clientFields(on route: Route?) -> HeaderFields {
        var fields = OriginFields.make(from: head, mark: mark(on: route), rewriter: requestRewriter)
        credentials?.removeFieldsOfClient(from: &fields)
        identity?.write(to: &fields)
        return fields
    }

    /// Gives the origin its own URLs, at each hop of redirects: the client has asked for the first one.
    private var requestRewriter: RequestRewriter? {
        guard head.fields.mayContain(anyOf: RequestRewriter.names), let route else { return nil }
        return RequestRewriter.make(
            on: route,
            stream.listener.configuration,
            services.generation.router,
            clientAuthority: clientAuthority
        )
    }

    /// Whether the client has sent bytes of the request body.
    private var bodyHasBegun: Bool { bytesFromClient > 0 }

    /// Whether more of the request body can be processed now.
    var wantsBody: Bool {
        guard !body.isComplete, origin.hasRoom || admission.credentials.body.isGathering else { return false }
        return hooks?.holdsBodyBack != true
    }

    /// Whether the body is kept until it is whole, for a signature.
    var gathersBody: Bool { admission.credentials.body.isGathering }

    /// Whether there is a receiver for the body: not before the client is authenticated.
    var acceptsBody: Bool { origin.task != nil || admission.credentials.body.isGathering || isOver }

    /// Processes bytes of the request body; returns how many.
    func feedBody(_ bytes: borrowing Span<UInt8>) -> Int {
        var position = 0
        while position < bytes.count, !body.isComplete, origin.task != nil || admission.credentials.body.isGathering {
            let rest = bytes.extracting(position..<bytes.count)
            switch body.next(rest) {
            case .data(let range, let consumed):
                bytesFromClient += range.count
                sendBody(rest.extracting(range))
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
    func streamEnded(trailers: HeaderFields?) {
        guard !isOver else { return }
        body.streamEnded()
        if body.isComplete { finishSending(trailers: trailers) } else { inputEnded() }
    }

    private func finishSending(trailers received: HeaderFields? = nil) {
        trailers = received ?? HeaderFields()
        if admission.credentials.body.isGathering { return bodyWasGathered() }
        if let hooks, !hooks.canEndBody() { return }
        endBody()
    }

    /// The origin gets the end of the body, with the trailers that may go there: each hop and each start has a policy of its own.
    private func endBody() {
        guard trailers?.isEmpty == false else { return origin.finishSending(trailers: nil) }
        if let route = hooks?.route ?? route { prune(&trailers!, on: route) }
        origin.finishSending(trailers: trailers)
    }

    /// Removes what would undo the decisions about the head: some servers add trailers to its fields.
    private func prune(_ trailers: inout HeaderFields, on route: Route) {
        credentials?.removeFieldsOfClient(from: &trailers)
        identity?.removeNames(from: &trailers)
        route.hooks?.headers.request.removeNames(from: &trailers)
        if route.rules != nil, !RequestReading.override(trailers).isEmpty { trailers = HeaderFields() }
    }

    private func sendBody(_ bytes: borrowing Span<UInt8>) {
        if admission.credentials.body.isGathering { return gather(bytes) }
        if let hooks { hooks.send(bytes, isLast: body.isComplete) } else { origin.send(bytes) }
    }

    /// The replay buffer has room for more of the body, or has let its end go.
    override func bodyCanGoOn() {
        if !body.isComplete { return stream.exchangeNeedsBody() }
        // Behind a body of known length the trailers of HTTP/2 may still be on their way.
        if trailers != nil { endBody() }
    }

    /// A connection carries the request.
    override func originDidConnect() {
        if !expectation.isForwarded { sendContinue() }
    }

    /// The origin has room for more of the body.
    override func originNeedsBody() {
        if hooks?.continueReplay() != true { stream.exchangeNeedsBody() }
    }

    /// Sends 100 (Continue), once, to a client that waits for it (RFC 9110, section 10.1.1).
    private func sendContinue() {
        guard !body.isComplete, expectation.bodyIsWanted(bodyHasBegun: bodyHasBegun) else { return }
        writer.writeContinue()
    }

    /// A redirected request is sent: determines whether the origin gets the client's expectation.
    override func expectContinue(of endpoint: Endpoint, keepsBody: Bool, _ fields: inout HeaderFields) {
        expectation.follow(
            keepsBody: keepsBody,
            bodyHasBegun: bodyHasBegun,
            originDecides: endpoint.httpVersion == .http1
        )
        if expectation.isForwarded { fields.append(.expect, "100-continue") }
    }

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
        guard writer.resume() else { return }
        origin.resumeReceiving()
        relay?.resumeReceiving()
    }

    // MARK: Problems

    /// Sends an error response before anything was sent to an origin.
    override func refuse(_ problem: Problem, keepAlive: Bool) {
        if isOver { reset() }
        writer.writeError(problem, keepAlive: keepAlive, cacheStatus: cache?.statusOfRefusal)
        finish(problem)
        stream.finished(persists: keepAlive, isWhole: true)
    }

    /// Ends the request with an error, and cancels its task.
    override func fail(_ problem: Problem) {
        let canRespond = !writer.hasBegun
        if canRespond { writer.writeError(problem, keepAlive: false, cacheStatus: cache?.statusOfRefusal) }
        finish(problem)
        stream.finished(persists: false, isWhole: canRespond)
    }

    /// Ends the request: releases the task and writes the log line.
    private func finish(_ problem: Problem?) {
        isOver = true
        self.problem = problem
        hooks?.end()
        log(origin.end(relay?.task))
        forgetCredentials()
    }

    /// Counts and logs the request, which is over.
    ///
    /// - Parameter task: the last one; nil when the request was refused before there was one.
    private func log(_ task: LoopTask?) {
        let now = services.loop.now
        services.count(
            task,
            status: writer.hasBegun ? writer.status : nil,
            error: problem?.code,
            bytesFromClient: bytesToOrigin,
            bytesToClient: bytesToClient,
            duration: task?.metrics.duration ?? Int64((now - startedAt) / 1000)
        )
        let client = stream.transport.addressText
        services.log { $0.write(self, task, client: client, now: now, to: &$1) }
        if let identity, let trace = identity.trace, trace.isSampled {
            services.trace { SpanRecord(self, identity, in: trace, task, client: client, now: now, masking: $0) }
        }
    }

    // MARK: The response

    /// The cache's part; nil when nothing is cached.
    var cache: CacheStage? { origin.cache }

    /// Body bytes sent to the client.
    var bytesToClient: Int { writer.bytesSent + (relay?.bytesToClient ?? 0) }

    /// Bytes of the request's body, or of a relay's client.
    var bytesToOrigin: Int { bytesFromClient + (relay?.bytesFromClient ?? 0) }

    /// Passes a 1xx head from the origin on.
    override func receiveInformational(_ head: borrowing ResponseHead) {
        switch head.status {
        case 100: if expectation.isForwarded { sendContinue() }
        // 101 comes only after Upgrade, which is not forwarded here.
        case 101: break
        default: if hooks?.passesInformational ?? true { writer.receiveInformational(head) }
        }
    }

    /// Everything besides the response itself that decides how it is written.
    override func responseContext(for response: borrowing ResponseHead) -> ResponseContext? {
        guard let route else { return nil }
        let cache = cache
        return ResponseContext(
            pseudonym: services.pseudonym,
            addsVia: route.addsVia,
            date: response.fields.contains(.date) ? nil : services.httpDate,
            // After an Upgrade, bytes of the other protocol may be on their way.
            mayPersist: body.isComplete && relay == nil && !services.isDraining,
            rewriter: response.fields.mayContain(anyOf: ResponseRewriter.names) ? responseRewriter(on: route) : nil,
            cacheStatus: cache?.status,
            storedAge: cache?.storedAge
        )
    }

    private func responseRewriter(on route: Route) -> ResponseRewriter? {
        ResponseRewriter.make(
            on: route,
            stream.listener.configuration,
            services.generation.router,
            clientAuthority: clientAuthority,
            clientOrigin: value(of: .origin),
            base: hooks?.base
        )
    }

    /// Host and port as the client of a gateway wrote them; empty for others.
    private var clientAuthority: [UInt8] { stream.listener.isGateway ? value(of: .host) ?? [] : [] }

    /// The value of the first field of that name in the client's request.
    private func value(of name: FieldName) -> [UInt8]? {
        guard let index = head.fields.first(name) else { return nil }
        var value: [UInt8] = []
        head.fields.appendValue(at: index, to: &value)
        return value
    }

    /// The last stage has received the end of the response.
    override func responseDidEnd(_ error: SessionError?) {
        if let error { return fail(problem(for: error)) }
        finish(nil)
        stream.finished(persists: writer.persists && body.isComplete, isWhole: true)
    }

    /// Starts the background refresh of a stored response that is being served stale.
    override func refresh(_ stage: CacheStage) {
        guard let route = hooks?.route ?? route, let generation else { return }
        CacheRefresh.start(
            stage.transaction,
            like: stage.request,
            CacheRefresh.Setting(
                services: services,
                listener: stream.listener,
                generation: generation,
                route: route,
                user: user,
                credentials: credentials,
                isHop: hooks?.isFollowing ?? false
            )
        )
    }

    /// A stall is reported as the client's when its request body is the part that is missing.
    private func problem(for error: SessionError) -> Problem {
        if error.code == .stalled, !body.isComplete, let task = origin.task, task.pendingBodyBytes == 0 {
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
        let verdict = services.authenticator.verify(presented, credentials) { [self] verdict in
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
            presented = credentials
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
    override var authenticatedUser: (name: [UInt8], credentials: ClientCredentials)? {
        guard let user, let presented else { return nil }
        return (user, presented)
    }

    // MARK: - Credentials of rules

    /// - Parameter restarts: the request starts again.
    private func forgetCredentials(restarts: Bool = false) {
        if admission.credentials.body.held > 0 { stream?.letGo(admission.credentials.body.held) }
        if restarts { admission.credentials.restart() } else { admission.credentials.end() }
    }

    /// The credentials that the request gets, or the hop of it that is under way; nil for most.
    override var credentials: RuleCredentials? { admission.credentials.rule }

    /// Determines the credentials of a hop, by its rule.
    ///
    /// - Parameter then: called when the values are there, where their sources have to run first.
    /// - Returns: whether they are there already; otherwise the request waits, or was refused.
    override func obtainCredentials(
        ofHop hop: RedirectMachine.Hop,
        to endpoint: Endpoint,
        _ then: @escaping () -> Void
    ) -> Bool {
        let step = admission.credentialsOfHop(generation?.credentials, hop, head)
        if case .ready = step { return true }
        follow(step, to: endpoint, then)
        return false
    }

    /// Waits for what the credentials need.
    private func follow(_ step: RequestCredentials.Step, to endpoint: Endpoint, _ then: @escaping () -> Void) {
        switch step {
        case .ready: then()
        case .gather: gatherBody(then)
        case .refused(let problem): refuseUnsent(problem)
        case .wait:
            let current = number
            admission.credentials.awaitSources(for: head, atMost: queueTime(of: endpoint)) { [self] step in
                guard number == current, !isOver, canContinue() else { return }
                follow(step, to: endpoint, then)
                if number == current, !isOver { stream.exchangeNeedsBody() }
            }
        }
    }

    /// The time that a request may wait for credentials: as long as for a connection.
    private func queueTime(of endpoint: Endpoint) -> TimeSpan {
        endpoint.timeouts.spans.queue ?? endpoint.timeouts.spans.connect
    }

    /// The fields that the request's credentials make of it; nil for most requests.
    override func guardedFields(of request: borrowing SessionRequest) -> GuardedFields? {
        admission.credentials.fields(of: request)
    }

    /// The fields of the request that the server has refused (401), if there may be others: the request can be sent again then.
    override func renewableCredentials() -> CredentialFields? {
        origin.task?.wasRepeated == false ? admission.credentials.renewable : nil
    }

    /// The server has refused the credentials of a request that is not sent again.
    override func noteRefusedCredentials() { admission.credentials.noteRefusal() }

    /// Waits for other credentials than the refused ones.
    override func renewCredentials(_ refused: CredentialFields, _ then: @escaping () -> Void) {
        let current = number
        let limit = (hooks?.route ?? route)?.endpoint.map { queueTime(of: $0) } ?? .seconds(0)
        admission.credentials.renew(refused, atMost: limit) { [self] problem in
            guard number == current, !isOver else { return }
            if generation !== services.generation {
                restartRepetition()
            } else if let problem {
                fail(problem)
            } else {
                then()
            }
            if number == current, !isOver { stream.exchangeNeedsBody() }
        }
    }

    override func sendAgain() {
        guard let endpoint = route?.endpoint else { return }
        origin.noteRepetition()
        start(endpoint)
    }

    /// The policy was replaced while the credential of a request was renewed, which the server has refused to process: it begins again
    /// under the current policy, and is its one repeat.
    private func restartRepetition() {
        guard head.framing.hasBody else {
            origin.noteRepetition()
            return restart(after: nil)
        }
        fail(Self.bodyWasSent)
    }

    private static let bodyWasSent = Problem(
        .sessionInvalidated,
        "The policy was replaced while the credential of this request was renewed, and its body was sent. Send it once more."
    )

    // MARK: Bodies that are signed

    /// Waits for the whole body of the request.
    private func gatherBody(_ then: @escaping () -> Void) {
        // A body whose length is known finds its room before it comes.
        let length = admission.credentials.body.begin(head.framing, then)
        if length > 0 {
            guard stream.hold(length) else { return fail(Self.heldTooMuch) }
            origin.reserve(length)
        }
        // What came before a reload is still here.
        if let problem = origin.withCarried({ add($0) }) { return fail(problem) }
        if body.isComplete, trailers != nil || head.majorVersion == 1 { return bodyWasGathered() }
        expectation.begin(isExpected: head.expectsContinue, bodyHasBegun: bodyHasBegun, originDecides: false)
        sendContinue()
        stream.exchangeNeedsBody()
    }

    private func gather(_ bytes: borrowing Span<UInt8>) {
        origin.carry(bytes)
        if let problem = add(bytes) { fail(problem) }
    }

    /// Counts bytes of a body that is gathered.
    ///
    /// - Returns: why it may not become longer.
    private func add(_ bytes: borrowing Span<UInt8>) -> Problem? {
        guard let more = admission.credentials.body.add(bytes) else { return SignedBody.tooLong }
        return more == 0 || stream.hold(more) ? nil : Self.heldTooMuch
    }

    private static let heldTooMuch = Problem(
        .limitReached,
        "The process holds as many bytes as limits.heldBytes allows, and the body of this request is signed as a whole. Try again, or raise the limit."
    )

    private func bodyWasGathered() {
        guard let then = admission.credentials.body.end() else { return }
        if canContinue() { then() }
    }

    // MARK: - Hooks

    /// Prepares the hooks for the request that is about to be sent.
    private func prepareHooks(_ rules: HostHooks, on route: Route, to endpoint: Endpoint, _ fields: inout HeaderFields)
    {
        let hooks = HookStage(
            rules,
            of: self,
            on: route,
            deadline: endpoint.timeouts.spans.total.map { startedAt &+ $0.nanoseconds },
            files: services.files,
            loop: services.loop,
            origin: origin,
            writer: writer
        )
        self.hooks = hooks
        rules.headers.request.apply(to: &fields)
        if !rules.headers.request.isEmpty { credentials?.removeWritten(from: &fields) }
        guard let limit = generation?.snapshot.configuration.limits.redirectBodyBytes else { return }
        hooks.keepBody(of: head.framing, limit: limit)
    }

    /// The router of the current policy.
    override var currentRouter: Router { services.generation.router }

    /// The route of a redirected request.
    override func route(toHop target: Origin) -> Route? {
        generation.map { stream.listener.route(toHop: target, under: $0.router) }
    }

    // MARK: - Tunnels and upgrades

    private func startUpgrade(_ offer: UpgradeOffer, _ endpoint: Endpoint, _ generation: Generation) {
        guard let route else { return }
        makeRelay(on: route).upgrade(by: offer, to: endpoint, generation)
    }

    private func startInterception(_ endpoint: Endpoint, _ generation: Generation) {
        guard mayConnect(), let route else { return }
        do throws(LeafContexts.Refusal) {
            guard let leaves = generation.leaves else { throw LeafContexts.Refusal(reason: "there is none") }
            let context = try leaves.context(for: endpoint.host, at: startedWall / 1_000_000)
            makeRelay(on: route).intercept(to: endpoint, generation, context)
        } catch {
            refuse(
                Problem(
                    .connectDenied,
                    "The local CA cannot stand in for \(endpoint.host): \(error.reason). \(error.remedy)"
                ),
                keepAlive: canPersist
            )
        }
    }

    private func startTunnel(_ endpoint: Endpoint, _ generation: Generation) {
        guard mayConnect(), let route else { return }
        makeRelay(on: route).tunnel(to: endpoint, generation)
    }

    private func forgetRelay() {
        relay?.end()
        relay = nil
    }

    private func makeRelay(on route: Route) -> ExchangeRelay {
        let made = ExchangeRelay(of: self, stream, writer, on: route)
        relay = made
        return made
    }

    /// Serves requests of plain HTTP inside the CONNECT: each is handled as one in absolute form.
    private func serveRequests(for authority: InterceptedAuthority) {
        guard mayConnect() else { return }
        stream.transport.enter(authority, user: authenticatedUser)
        writer.writeConnectionEstablished(to: &stream.output)
        finish(nil)
        stream.finished(persists: !services.isDraining, isWhole: true)
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

    /// The relay is over; the exchange can be reused.
    override func relayDidEnd(_ problem: Problem?) {
        guard !isOver else { return }
        finish(problem)
        stream.relayDidEnd()
    }
}
