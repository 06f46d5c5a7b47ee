// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// One request of a client: identifies the user, routes it, and leads it through the stages of its response:
/// `OriginStage`, `HookStage` where the host has hooks, `ClientWriter`.
///
/// An exchange is reused for later requests to save memory; it keeps nothing else from one request to the next.
final class Exchange: StageOwner {
    /// The relay of a CONNECT or an upgrade.
    private var relay: ExchangeRelay?
    private let services: WorkerServices
    private let origin: OriginStage
    /// Nil for most hosts.
    private(set) var hooks: HookStage?
    let writer: ClientWriter
    /// The memory of the latest request to an origin.
    private var memory = RequestMemory()

    init(services: WorkerServices, stream: ExchangeStream) {
        self.services = services
        origin = OriginStage(services)
        writer = ClientWriter(services)
        super.init()
        attach(stream)
    }

    /// Prepares the exchange for a connection, or for a stream of one.
    func attach(_ stream: ExchangeStream) {
        self.stream = stream
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
        if let relay {
            relay.end()
            self.relay = nil
        }
        identity.reset()
        if requestIdentity != nil { requestIdentity = nil }
        // Most heads leave their memory to the next one.
        if head.byteCount > Self.keptHeadBytes { head.release() }
        origin.detach()
        writer.detach()
    }

    private static let keptHeadBytes = 8 << 10

    /// The latest route; nil before the first one.
    var route: Route? { admission.route }

    // MARK: From the client

    /// The head is complete: routes the request and sends it.
    func didReceiveHead() {
        reset()
        if let rules = services.generation.identities { requestIdentity = rules.identify(head) }
        if let problem = upload.begin(head.framing, limit: services.generation.requestBodyLimit) {
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
        let refusal = life.restart()
        if let unsent {
            if let hooks { hooks.recover(unsent) } else { origin.recover(unsent, keeps: true) }
        }
        if hooks?.holdsBodyAlone == true { return fail(Self.bodyWasSent) }
        origin.leaveCache()
        relay?.end()
        relay = nil
        if hooks?.isFollowing != true {
            hooks?.end()
            hooks = nil
            origin.forgetTask()
        }
        if let refusal { return fail(refusal) }
        if let problem = upload.hold(to: services.generation.requestBodyLimit, head.framing) { return fail(problem) }
        let beginning = life.mark
        identify()
        if life.isCurrent(beginning) { stream.exchangeNeedsBody() }
    }

    /// Determines the client's user.
    private func identify() {
        generation = services.generation
        identity.begin(as: stream.transport.clientName)
        forgetCredentials(restarts: true)
        switch stream.listener.security.authentication {
        case .none: routeRequest()
        case .credentials(let credentials):
            // Before anything else is done for the client.
            let isStillKnown = user != nil && stream.transport.isStillKnown(under: credentials)
            let isIntercepted = stream.transport.intercepted != nil
            follow(identity.authenticate(isStillKnown: isStillKnown, isIntercepted: isIntercepted), credentials)
        case .unusable:
            fail(Problem(.internal, "The files that this listener's clients are known by could not be loaded."))
        }
    }

    /// The client may use the proxy: determines where the request goes.
    private func routeRequest() {
        if let hooks, hooks.isFollowing { return hooks.followAgain() }
        guard let generation else { return }
        switch stream.transport.route(for: head) {
        case .own: respond(with: .options(keepAlive: canPersist, date: services.httpDate))
        case .refused(let problem, let route):
            admission.note(route)
            refuse(problem, keepAlive: canPersist)
        case .route(let route):
            let step = admission.admit(
                head,
                on: route,
                user: user,
                pseudonym: services.pseudonym,
                canHandOver: stream.canHandOver,
                generation.credentials
            )
            switch step {
            case .send(let offer, let endpoint, .ready): start(offer, endpoint)
            case .send(let offer, let endpoint, let step):
                follow(step, to: endpoint) { [self] in start(offer, endpoint) }
            case .tunnel(let endpoint): makeRelay(on: route).tunnel(to: endpoint, generation)
            case .intercept(let endpoint):
                makeRelay(on: route).intercept(to: endpoint, generation, at: life.startedWall / 1_000_000)
            case .serve(let authority): serveRequests(for: authority)
            case .respondToOptions: respond(with: .options(keepAlive: canPersist, date: services.httpDate))
            case .refuse(let problem): refuse(problem, keepAlive: canPersist)
            }
        }
    }

    /// Refuses a request of which nothing was sent. A request that follows a redirect fails.
    override func refuseUnsent(_ problem: Problem) {
        if hooks?.isFollowing == true { fail(problem) } else { refuse(problem, keepAlive: canPersist) }
    }

    /// Whether the connection stays open for the next request after a response of the proxy's own.
    override var canPersist: Bool {
        guard head.keepAlive, upload.isComplete, !services.isDraining else { return false }
        // Bytes behind a CONNECT or an Upgrade may belong to the other protocol.
        return !((head.method == .connect || head.wantsUpgrade) && stream.hasMoreInput)
    }

    /// Sends a response of the proxy's own that is no error.
    override func respond(with own: consuming OwnResponse) {
        let keepAlive = own.keepAlive
        writer.write(own)
        finish(nil)
        stream.finished(persists: keepAlive, isWhole: true)
    }

    private func reset() {
        life.begin(at: services.loop.now, wall: services.loop.wallClock)
        admission.begin()
        if hooks != nil { hooks = nil }
        identity.reset()
        if requestIdentity != nil { requestIdentity = nil }
        forgetCredentials()
        origin.reset()
        writer.begin()
        upload.reset()
    }

    /// The request may be sent, and its credentials are there.
    private func start(_ offer: UpgradeOffer?, _ endpoint: Endpoint) {
        guard let route, let generation else { return }
        if let offer { return makeRelay(on: route).upgrade(by: offer, to: endpoint, generation) }
        if route.cache != nil, route.hooks == nil, credentials == nil, stream.hasRoom,
            origin.findHit(on: route, atMost: min(ClientWriter.directWrite, stream.pieceSize))
        {
            return respondAtOnce()
        }
        upload.expect(head.expectsContinue, originDecides: endpoint.httpVersion == .http1)
        var fields = memory.takeFields()
        OriginFields.write(
            from: head,
            mark: OriginFields.Mark(for: head, on: route, services),
            keepsExpectation: upload.originDecides,
            rewriter: RequestRewriter.make(for: head, on: route, stream.listener, services.generation.router),
            to: &fields
        )
        credentials?.removeFieldsOfClient(from: &fields)
        if let requestIdentity {
            requestIdentity.write(to: &fields)
            // The configuration is refused where they share a field; a credential is never beside a client's value.
            credentials?.removeWritten(from: &fields)
        }
        if let rules = route.hooks, !rules.headers.request.isEmpty {
            rules.headers.request.apply(to: &fields)
            credentials?.removeWritten(from: &fields)
        }
        // A request whose credential may be renewed may have to be sent again; with its body, which hooks keep.
        let canRenew = credentials?.canRenew == true
        let rules = route.hooks?.ofResponses ?? (canRenew && head.framing.hasBody ? HostHooks.none : nil)
        if let rules {
            let hooks = HookStage(rules, of: self, on: route, to: endpoint, origin, writer)
            self.hooks = hooks
            hooks.keepBody(limit: generation.snapshot.configuration.limits.redirectBodyBytes)
        }
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
        if life.restarts > 0 || credentials != nil, let total = endpoint.timeouts.spans.total {
            guard let rest = life.rest(of: total, at: services.loop.now) else {
                return refuseUnsent(Problem(.responseTimeout, "The request waited longer than timeouts.total allows."))
            }
            request.timeouts = endpoint.timeouts
            request.timeouts?.spans.total = rest
        }
        if let hooks { return hooks.send(consume request, on: route) }
        origin.send(consume request, on: route, to: writer)
    }

    /// Gives the client the stored response that was found for it.
    private func respondAtOnce() {
        guard let hit = origin.hit else { return }
        _ = writer.receiveHead(hit.head)
        hit.withBody { if !$0.isEmpty { _ = writer.receiveBody($0) } }
        // A write may end the exchange.
        if !life.isOver { writer.receiveEnd(nil) }
    }

    /// Body bytes that were received from the client and not sent yet.
    ///
    /// Those that a signature waits for do not count: their client would wait for credit, and the body never end.
    var waitingBodyBytes: Int { admission.credentials.body.isGathering ? 0 : origin.waitingBytes }

    /// Whether more of the request body can be processed now.
    var wantsBody: Bool {
        guard !upload.isComplete, origin.hasRoom || admission.credentials.body.isGathering else { return false }
        return hooks?.holdsBodyBack != true
    }

    /// Whether the body is kept until it is whole, for a signature.
    var gathersBody: Bool { admission.credentials.body.isGathering }

    /// Whether there is a receiver for the body: not before the client is authenticated.
    var acceptsBody: Bool { origin.task != nil || admission.credentials.body.isGathering || life.isOver }

    /// Processes bytes of the request body; returns how many.
    func feedBody(_ bytes: borrowing Span<UInt8>) -> Int {
        var position = 0
        // Each piece that goes on costs much more than a small chunk does by itself.
        var small = ByteBuffer()
        parts: while position < bytes.count, !upload.isComplete, takesBody {
            let rest = bytes.extracting(position..<bytes.count)
            switch upload.next(rest) {
            case .data(let range, let consumed):
                position += consumed
                guard range.count >= Self.smallPiece || position == bytes.count else {
                    small.append(rest.extracting(range))
                    continue
                }
                guard !small.isEmpty else {
                    sendBody(rest.extracting(range))
                    continue
                }
                // As one piece: behind the first of two there might be nobody who takes the second.
                small.append(rest.extracting(range))
                sendBody(small.bytes)
                small.removeAll()
            case .needMore(let consumed), .end(let consumed):
                position += consumed
                if consumed == 0 { break parts }
            case .failed(let problem):
                fail(problem)
                return bytes.count
            }
        }
        if !small.isEmpty, takesBody { sendBody(small.bytes) }
        if upload.endsHere(majorVersion: head.majorVersion) { bodyDidEnd() }
        return position
    }

    private var takesBody: Bool { origin.task != nil || admission.credentials.body.isGathering }

    /// Pieces of chunks with fewer bytes go on together, as far as they have come.
    private static let smallPiece = 512

    private func bodyDidEnd() {
        if admission.credentials.body.isGathering {
            guard let then = admission.credentials.body.end() else { return }
            if canContinue() { then() }
        } else if let hooks {
            hooks.endBody()
        } else {
            origin.endBody(of: self)
        }
    }

    private func sendBody(_ bytes: borrowing Span<UInt8>) {
        if admission.credentials.body.isGathering {
            if let problem = origin.gather(bytes) { fail(problem) }
        } else if let hooks {
            hooks.send(bytes, isLast: upload.isComplete)
        } else {
            origin.send(bytes)
        }
    }

    /// A connection carries the request.
    override func originDidConnect() {
        if upload.originDidConnect() { writer.writeContinue() }
    }

    /// Checks that the request body makes progress. It may be slow because the origin is slow.
    ///
    /// - Parameter isWaitedFor: nothing else delays it.
    /// - Returns: whether it does; otherwise the request has failed.
    func checkBodyPace(isWaitedFor: Bool, limit: TimeSpan) -> Bool {
        guard upload.isTooSlow(isWaitedFor: isWaitedFor && wantsBody) else { return true }
        fail(
            Problem(
                .requestTimeout,
                "Less than 1 KB of the request body came within timeouts.body (\(limit.milliseconds) ms). Send it faster, or raise the limit."
            )
        )
        return false
    }

    /// The client sends nothing more. A body without its end must not look whole to the origin (rule 36).
    func inputEnded(_ end: RequestUpload.InputEnd) {
        guard !life.isOver else { return }
        switch upload.inputEnded(end) {
        case .known: break
        case .whole: bodyDidEnd()
        case .cut: fail(Problem(.requestInvalid, "The connection ended before the request body did. Send all of it."))
        }
    }

    /// The client has closed the connection or the stream: the response has no receiver.
    func clientGone() {
        guard !life.isOver else { return }
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
        if life.isOver { reset() }
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

    /// Ends the request: releases the task, counts the request and writes its log line.
    private func finish(_ problem: Problem?) {
        life.end(problem)
        hooks?.end()
        // The last one; nil when the request was refused before there was one.
        let task = origin.end(relay?.task)
        let now = services.loop.now
        services.count(
            task,
            status: writer.hasBegun ? writer.status : nil,
            error: problem?.code,
            bytesFromClient: bytesToOrigin,
            bytesToClient: bytesToClient,
            duration: task?.metrics.duration ?? Int64((now - life.startedAt) / 1000)
        )
        let client = stream.transport.addressText
        services.log { $0.write(self, task, client: client, now: now, to: &$1) }
        if let requestIdentity, let trace = requestIdentity.trace, trace.isSampled {
            services.trace {
                SpanRecord(self, requestIdentity, in: trace, task, client: client, now: now, masking: $0)
            }
        }
        forgetCredentials()
    }

    // MARK: The response

    /// The cache's part; nil when nothing is cached.
    var cache: CacheStage? { origin.cache }

    /// The outcome at the cache, for the log; nil when nothing is cached.
    var cacheOutcome: CacheOutcome? { origin.hit != nil ? .hit : cache?.transaction.outcome }

    /// Body bytes sent to the client.
    var bytesToClient: Int { writer.bytesSent + (relay?.bytesToClient ?? 0) }

    /// Bytes of the request's body, or of a relay's client.
    var bytesToOrigin: Int { upload.count + (relay?.bytesFromClient ?? 0) }

    /// Everything besides the response itself that decides how it is written.
    override func responseContext(for response: borrowing ResponseHead, on route: Route) -> ResponseContext {
        var cacheStatus: CacheStatus?
        var storedAge: Int?
        if origin.hit != nil {
            (cacheStatus, storedAge) = (origin.hit?.status, origin.hit?.age)
        } else if origin.cache != nil {
            (cacheStatus, storedAge) = (origin.cache?.status, origin.cache?.storedAge)
        }
        return ResponseContext(
            pseudonym: services.pseudonym,
            addsVia: route.addsVia,
            date: response.fields.contains(.date) ? nil : services.httpDate,
            // After an Upgrade, bytes of the other protocol may be on their way.
            mayPersist: upload.isComplete && relay == nil && !services.isDraining,
            // Most responses have none of these fields, and then nothing is looked up for them.
            rewriter: response.fields.mayContain(anyOf: ResponseRewriter.names)
                ? rewriter(of: response, on: route) : nil,
            cacheStatus: cacheStatus,
            storedAge: storedAge
        )
    }

    @inline(never)
    private func rewriter(of response: borrowing ResponseHead, on route: Route) -> ResponseRewriter? {
        ResponseRewriter.make(
            for: response,
            to: head,
            on: route,
            stream.listener,
            services.generation.router,
            base: hooks?.base
        )
    }

    /// The last stage has received the end of the response.
    override func responseDidEnd(_ error: SessionError?) {
        if let error { return fail(upload.problem(for: error, isAllSent: origin.task?.pendingBodyBytes == 0)) }
        finish(nil)
        stream.finished(persists: writer.persists && upload.isComplete, isWhole: true)
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
                isHop: hooks?.isFollowing ?? false,
                identity: requestIdentity
            )
        )
    }

    // MARK: - Authentication of the client

    private func follow(_ step: ClientIdentity.Step, _ credentials: ClientCredentials) {
        switch step {
        case .route: routeRequest()
        case .refuse(let problem): refuseUnsent(problem)
        case .fail(let problem): fail(problem)
        case .verify:
            let presented = PresentedCredentials(head.fields)
            let later = resumption { [self] (verdict: ClientAuthenticator.Verdict) in
                var current: ClientCredentials?
                if case .credentials(let demanded) = stream.listener.security.authentication { current = demanded }
                if ClientIdentity.outlivesReload(verdict, about: presented, credentials, current) || canContinue() {
                    follow(identity.conclude(verdict, credentials), credentials)
                }
            }
            if let verdict = services.authenticator.verify(presented, credentials, then: later) {
                follow(identity.conclude(verdict, credentials), credentials)
            }
        }
    }

    /// A step that had to wait: it is left out when the request has ended or begun again, and what waits of the body follows it.
    private func resumption<Outcome>(_ step: @escaping (Outcome) -> Void) -> (Outcome) -> Void {
        let beginning = life.mark
        return { [self] outcome in
            guard life.isCurrent(beginning) else { return }
            step(outcome)
            if life.isCurrent(beginning) { stream.exchangeNeedsBody() }
        }
    }

    // MARK: - Credentials of rules

    /// - Parameter restarts: the request starts again.
    private func forgetCredentials(restarts: Bool = false) {
        if admission.credentials.body.held > 0 { stream?.releaseHeld(admission.credentials.body.held) }
        if restarts { admission.credentials.restart() } else { admission.credentials.end() }
    }

    /// Waits for what the credentials need.
    override func follow(_ step: RequestCredentials.Step, to endpoint: Endpoint, _ then: @escaping () -> Void) {
        switch step {
        case .ready: then()
        case .gather: gatherBody(then)
        case .refused(let problem): refuseUnsent(problem)
        case .wait:
            let later = resumption { [self] (step: RequestCredentials.Step) in
                if canContinue() { follow(step, to: endpoint, then) }
            }
            admission.credentials.awaitSources(for: head, atMost: RequestCredentials.patience(at: endpoint), later)
        }
    }

    /// Waits for other credentials than the refused ones.
    override func renewCredentials(_ refused: CredentialFields, _ then: @escaping () -> Void) {
        let limit = (hooks?.route ?? route)?.endpoint.map { RequestCredentials.patience(at: $0) } ?? .seconds(0)
        let later = resumption { [self] (problem: Problem?) in
            if generation !== services.generation {
                // It begins again under the current policy, and is its one repeat.
                if head.framing.hasBody { return fail(Self.bodyWasSent) }
                origin.noteRepetition()
                restart(after: nil)
            } else if let problem {
                fail(problem)
            } else {
                then()
            }
        }
        admission.credentials.renew(refused, atMost: limit, later)
    }

    override func sendAgain() {
        guard let endpoint = route?.endpoint else { return }
        origin.noteRepetition()
        start(nil, endpoint)
    }

    private static let bodyWasSent = Problem(
        .sessionInvalidated,
        "The policy was replaced while the credential of this request was renewed, and its body was sent. Send it once more."
    )

    // MARK: Bodies that are signed

    /// Waits for the whole body of the request.
    private func gatherBody(_ then: @escaping () -> Void) {
        if let problem = origin.gatherBody(then) { return fail(problem) }
        if upload.isComplete, upload.hasEnded || head.majorVersion == 1 { return bodyDidEnd() }
        upload.expect(head.expectsContinue, originDecides: false)
        if upload.bodyIsWanted() { writer.writeContinue() }
        stream.exchangeNeedsBody()
    }

    // MARK: - Tunnels and upgrades

    private func makeRelay(on route: Route) -> ExchangeRelay {
        let made = ExchangeRelay(of: self, stream, writer, on: route)
        relay = made
        return made
    }

    /// Serves requests of plain HTTP inside the CONNECT: each is handled as one in absolute form.
    private func serveRequests(for authority: InterceptedAuthority) {
        stream.transport.enter(authority, user: identity.authenticated)
        writer.writeConnectionEstablished(to: &stream.output)
        finish(nil)
        stream.finished(persists: !services.isDraining, isWhole: true)
    }

    /// The relay is over; the exchange can be reused.
    override func relayDidEnd(_ problem: Problem?) {
        guard !life.isOver else { return }
        finish(problem)
        stream.relayDidEnd()
    }
}
