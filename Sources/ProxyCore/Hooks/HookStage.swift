// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// The stage of a host's hooks, between the origin and the client: changes, refuses and saves responses, and follows
/// redirects, for which it keeps the request body. Hosts without hooks of responses have none.
///
/// `ExchangeHooks` decides; this class acts.
final class HookStage: ResponseStage {
    private let hooks: ExchangeHooks
    /// The exchange lets this stage go when its request is over.
    private let exchange: StageOwner
    private let listener: ListenerRoutes
    private let services: WorkerServices
    private let origin: OriginStage
    private let writer: ClientWriter
    /// The latest request, which is sent again when its credential is refused; nil for requests without one.
    private var sent: Sent?
    private var repetition = CredentialRepetition()
    /// A hop, or the request once more, waits for a credential. More of the client's body could be more than is kept.
    private var awaitsCredential = false
    /// The whole body, as far as it has come, was with the task that was taken back.
    private var isBodyTakenBack = false

    private struct Sent {
        var request: SessionRequest
        let route: Route
        let changes: FieldChanges?
    }

    /// - Parameter route: the route of the client's request.
    init(
        _ rules: HostHooks,
        of exchange: StageOwner,
        on route: Route,
        to endpoint: Endpoint,
        _ origin: OriginStage,
        _ writer: ClientWriter
    ) {
        let deadline = endpoint.timeouts.spans.total.map { exchange.life.startedAt &+ $0.nanoseconds }
        hooks = ExchangeHooks(rules, route: route, deadline: deadline)
        self.exchange = exchange
        listener = exchange.stream.listener
        services = exchange.stream.services
        self.origin = origin
        self.writer = writer
    }

    /// The request is over, or starts again.
    func end() { hooks.end() }

    // MARK: What others need to know

    /// Whether a redirect is being followed: the current request is no longer the client's own.
    var isFollowing: Bool { hooks.isFollowing }

    /// The route of the current request.
    var route: Route { hooks.route }

    /// The URL that the response came from, if redirects were followed.
    var base: AbsoluteURL? { hooks.base }

    /// For the log: the earlier requests, the last URL, the saved file.
    var record: Record {
        Record(earlier: hooks.earlier, prefix: route.logPrefix, url: hooks.url, download: hooks.downloaded?.path)
    }

    struct Record {
        /// The requests whose responses were redirects.
        let earlier: [EarlierTransaction]
        /// Scheme, host and port of the last request.
        let prefix: [UInt8]
        let url: AbsoluteURL?
        /// The path of the file that the response was saved to.
        let download: String?

        var hasFollowed: Bool { !earlier.isEmpty }
    }

    // MARK: - The request body

    /// Keeps the body of the request that is about to be sent for redirects, if it is no longer than the limit.
    func keepBody(limit: Int) {
        let framing = exchange.head.framing
        guard hooks.rules.keepsBodies || exchange.credentials?.canRenew == true, framing.hasBody else { return }
        if case .length(let count) = framing, count > limit { return }
        hooks.keepBody(
            in: ReplayBuffer(
                limit: limit,
                files: services.files,
                loop: services.loop,
                resume: { [weak self] in self?.replayBufferDidAdvance() },
                fail: { [weak self] in
                    self?.exchange.fail(
                        Problem(.fileFailed, "The request's body was kept for a redirect and could not be read again.")
                    )
                }
            )
        )
    }

    /// There is room for more, the replay is complete, or the end of the body need not wait any longer.
    private func replayBufferDidAdvance() {
        guard exchange.isUnderWay, let replayBuffer = hooks.replayBuffer, !replayBuffer.holdsBack else { return }
        if let end = replayBuffer.releaseEnd() { origin.send(end.span) }
        guard !replayBuffer.holdsEnd else { return }
        if !exchange.upload.isComplete { return exchange.stream.exchangeNeedsBody() }
        if exchange.upload.hasEnded { origin.endBody(of: exchange, on: route) }
    }

    /// Sends a piece of the client's body, and keeps it when redirects are followed with bodies.
    ///
    /// - Parameter isLast: whether the body is complete.
    func send(_ bytes: borrowing Span<UInt8>, isLast: Bool) {
        if let replayBuffer = hooks.replayBuffer {
            replayBuffer.append(bytes)
            if isLast, replayBuffer.holdEnd(bytes) { return }
        }
        origin.send(bytes)
    }

    /// The same for bytes that were kept before: the last piece may be kept back, which is not to be a copy of a whole body.
    private func sendInPieces(_ bytes: borrowing Span<UInt8>, isLast: Bool) {
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + Self.keptPiece)
            send(bytes.extracting(position..<end), isLast: isLast && end == bytes.count)
            position = end
        }
    }

    private static let keptPiece = 64 << 10

    /// The client's body has ended. The origin gets its end when the replay buffer has nothing to send or to write before it.
    func endBody() {
        if canEndBody() { origin.endBody(of: exchange, on: route) }
    }

    private func canEndBody() -> Bool {
        guard let replayBuffer = hooks.replayBuffer else { return true }
        let nothing: [UInt8] = []
        return !replayBuffer.isReplaying && !replayBuffer.holdEnd(nothing.span)
    }

    /// Whether the client has to pause its body.
    var holdsBodyBack: Bool { awaitsCredential || (hooks.replayBuffer?.holdsBack ?? false) }

    override func continueReplay() -> Bool {
        guard let replayBuffer = hooks.replayBuffer, replayBuffer.isReplaying else { return false }
        replayBuffer.sendMore()
        return true
    }

    /// Whether the whole body is here for the request that follows a redirect.
    private var hasKeptBody: Bool {
        guard hooks.isFollowing || repetition.isMade, let replayBuffer = hooks.replayBuffer else { return false }
        return !replayBuffer.isLost
    }

    override func sendKeptBody(to task: LoopTask) -> Bool {
        guard hasKeptBody else {
            origin.sendCarried { sendInPieces($0, isLast: exchange.upload.isComplete) }
            if exchange.upload.isComplete { endBody() }
            return true
        }
        hooks.replayBuffer?.replay(to: task)
        let isAllSent = hooks.replayBuffer?.isReplaying != true
        if isAllSent, exchange.upload.isComplete { origin.endBody(of: exchange, on: route) }
        return true
    }

    /// Takes back a task that has sent nothing.
    func recover(_ unsent: LoopTask) {
        // A body that is kept for redirects is sent from the replay buffer. After a 401 the request starts again without this stage.
        let isKept = hooks.isFollowing && hasKeptBody
        origin.recover(unsent, keeps: !isKept)
        isBodyTakenBack = hooks.replayBuffer?.isReplaying != true
        if !isKept, let end = hooks.replayBuffer?.removeEnd() { origin.carry(end.span) }
    }

    /// Whether the body of a request that is sent again after a 401 is in the replay buffer alone, and would be lost with this stage.
    var holdsBodyAlone: Bool {
        repetition.isMade && !hooks.isFollowing && exchange.head.framing.hasBody && !isBodyTakenBack
    }

    /// Sends a request, and keeps one whose credential may be renewed.
    func send(_ request: consuming SessionRequest, on route: Route, with changes: FieldChanges? = nil) {
        if exchange.credentials?.canRenew == true { sent = Sent(request: copy request, route: route, changes: changes) }
        origin.send(request, on: route, with: changes, to: self)
    }

    private var repeatableBody: RedirectHook.Body {
        guard exchange.head.framing.hasBody else { return .none }
        guard let replayBuffer = hooks.replayBuffer, !replayBuffer.isLost else { return .lost }
        return .kept
    }

    // MARK: - The response

    /// The final response may lead to a redirect, and then does not reach the client: its 1xx heads do not, either.
    override func receiveInformational(_ head: borrowing ResponseHead) {
        if head.status == 100 || !hooks.rules.keepsBodies { writer.receiveInformational(head) }
    }

    override func receiveHead(_ head: borrowing ResponseHead) -> ResponseDisposition {
        if head.status == 401, sent != nil {
            if repetition.mayBegin, repeatableBody != .lost, let refused = origin.renewableCredentials {
                repetition.begin(refused)
                awaitsCredential = true
                // It is not read to its end, which could be long in coming.
                return .cancel
            }
            if origin.task != nil { exchange.admission.credentials.noteRefusal() }
        }
        // The current policy: a redirected request is made under it or under a later one, which evaluates the redirect
        // again.
        let router = services.generation.router
        // A URL that held a credential leads nowhere.
        let isGuarded = exchange.credentials != nil || origin.task?.guarded != nil
        let isMasked = isGuarded && CredentialFields.isMasked(.location, of: head.fields)
        if isMasked { return hooks.change(head, then: writer.receiveHead) }
        switch hooks.decide(head, to: exchange.head, body: repeatableBody, router: router) {
        case .deliver: break
        case .refuse(let problem):
            hooks.refuse(problem)
            return .cancel
        case .follow(let plan):
            hooks.follow(plan)
            return isWorthReading(head.framing) ? .allow : .cancel
        }
        switch ResponseHook.decide(head, hooks.rules, own: hooks.route.hooks) {
        case .allow(let limit): hooks.bound(by: limit)
        case .cancel(let problem):
            hooks.refuse(problem)
            return .cancel
        case .becomeDownload(let directory, let quota, let limit):
            hooks.bound(by: limit)
            becomeDownload(in: directory, quota: quota, length: head.contentLength)
            return .allow
        }
        return hooks.change(head, then: writer.receiveHead)
    }

    /// Whether a response that nobody gets is read to its end, so that its connection can be used again.
    private func isWorthReading(_ framing: BodyFraming) -> Bool {
        let isSent = hooks.replayBuffer.map { !$0.isReplaying && !$0.holdsEnd } ?? true
        let isWhole = exchange.upload.isComplete && origin.task?.pendingBodyBytes == 0 && isSent
        return isWhole && UnwantedBody.isWorthReading(framing)
    }

    override func receiveBody(_ data: borrowing Span<UInt8>) -> BodyFlow {
        if repetition.isDropping { return .proceed }
        if hooks.isLeaving {
            if !hooks.drop(data.count) { origin.cancel() }
            return .proceed
        }
        if !hooks.countBody(data.count) {
            exchange.fail(ResponseHook.tooLarge(hooks.limit))
            return .pause
        }
        if let flow = hooks.save(data) { return flow }
        return writer.receiveBody(data)
    }

    override var pieceSize: Int { writer.pieceSize }

    override func receiveTrailers(_ trailers: borrowing HeaderFields) {
        if !repetition.isDropping, !hooks.isLeaving { writer.receiveTrailers(trailers) }
    }

    override func receiveEnd(_ error: SessionError?) {
        if let refused = repetition.end() {
            return exchange.renewCredentials(refused) { [weak self] in self?.sendAgain() }
        }
        if let failure = hooks.failure { return exchange.fail(failure) }
        if let plan = hooks.leave(origin.task) {
            if exchange.canContinue() { follow(plan) }
            return
        }
        let isSaved =
            error == nil
            && hooks.finishDownload { [weak self] result in
                switch result {
                case .success(let outcome): self?.respond(with: outcome)
                case .failure(let problem): self?.exchange.fail(problem)
                }
            }
        if !isSaved { writer.receiveEnd(error) }
    }

    /// The body was saved to a file: sends the client the file's location.
    private func respond(with outcome: DownloadedFile) {
        let date = services.httpDate
        exchange.respond(with: .download(outcome, keepAlive: exchange.canPersist, date: date))
    }

    /// Sends the request once more, with a credential that was renewed.
    private func sendAgain() {
        awaitsCredential = false
        guard var sent else { return }
        if repeatableBody == .lost { return failForLostBody() }
        let now = services.loop.now
        guard let timeouts = hooks.timeouts(of: sent.request.endpoint, now: now) else { return failForTime() }
        sent.request.timeouts = timeouts
        // A client that waits for 100 (Continue) still does, unless some of its body is here.
        sent.request.fields.remove(.expect)
        if exchange.head.framing.hasBody {
            expectContinue(of: sent.request.endpoint, keepsBody: true, &sent.request.fields)
        }
        origin.noteRepetition()
        origin.send(sent.request, on: sent.route, with: sent.changes, to: self)
    }

    /// Determines whether the origin gets the client's expectation.
    private func expectContinue(of endpoint: Endpoint, keepsBody: Bool, _ fields: inout HeaderFields) {
        let originDecides = endpoint.httpVersion == .http1
        if exchange.upload.expectAfterRedirect(keepsBody: keepsBody, originDecides: originDecides) {
            fields.append(.expect, "100-continue")
        }
    }

    private func becomeDownload(in directory: String, quota: Int, length: Int?) {
        let target = hooks.url?.target ?? exchange.target
        hooks.saveBody(
            in: ResponseDownload(
                directory: directory,
                quota: quota,
                length: length,
                name: ResponseDownload.name(of: target.span),
                files: services.files,
                loop: services.loop,
                resume: { [weak self] in self?.origin.resumeReceiving() },
                fail: { [weak self] problem in self?.exchange.fail(problem) }
            )
        )
    }

    // MARK: - The next hop

    /// Evaluates a redirect again after a reload that came before the redirected request. The client may still use the proxy.
    ///
    /// Out of line: it is rare, and what it needs would be paid for by every request.
    @inline(never)
    func followAgain() {
        let rules: HostHooks?
        switch exchange.admission.admitAgain(exchange.stream.transport.route(for: exchange.head)) {
        case .follow(let route): rules = route.hooks
        case .fail(let problem): return exchange.fail(problem)
        }
        awaitsCredential = false
        switch hooks.decideAgain(under: rules, body: repeatableBody, router: services.generation.router) {
        case .follow(let plan): follow(plan)
        case .refuse(let problem): exchange.fail(problem)
        case .deliver:
            exchange.fail(
                Problem(
                    .redirectDenied,
                    "The policy was replaced while a redirect was being followed, and does not let it be followed any more. Send the request again."
                )
            )
        }
    }

    /// Sends the request to the target of a redirect.
    private func follow(_ plan: RedirectHook.Plan) {
        guard let generation = exchange.generation else { return }
        let route = listener.route(toHop: plan.hop.url.origin, under: generation.router)
        switch route.destination {
        case .refused(let problem): fail(problem, at: plan.hop)
        case .tunnel, .intercept, .requests: exchange.fail(Problem(.internal, "A redirect leads to a tunnel."))
        case .origin(let endpoint):
            if let rules = route.rules {
                let refusal = exchange.admission.refusal(
                    ofHop: plan.hop,
                    by: rules,
                    fields: exchange.head.fields,
                    user: exchange.user
                )
                if let refusal { return fail(refusal, at: plan.hop) }
                let step = exchange.admission.credentialsOfHop(generation.credentials, plan.hop, exchange.head)
                guard case .ready = step else {
                    awaitsCredential = true
                    return exchange.follow(step, to: endpoint) { [weak self] in
                        self?.goOn(plan, to: endpoint, on: route)
                    }
                }
            }
            follow(plan, to: endpoint, on: route)
        }
    }

    /// The credential for a hop is there.
    private func goOn(_ plan: RedirectHook.Plan, to endpoint: Endpoint, on route: Route) {
        awaitsCredential = false
        if plan.hop.keepsBody, repeatableBody == .lost { return failForLostBody() }
        follow(plan, to: endpoint, on: route)
    }

    /// More of the body has come than is kept, while a credential was waited for: what was on its way is not held back.
    private func failForLostBody() {
        exchange.fail(
            Problem(
                .credentialUnavailable,
                "The credential took time, and the body of the request was too long to be kept meanwhile (limits.redirectBodyBytes). Send the request again."
            )
        )
    }

    private func failForTime() {
        let what = isFollowing ? "The redirects" : "The request and the renewal of its credential"
        exchange.fail(Problem(.responseTimeout, "\(what) took longer than timeouts.total allows."))
    }

    /// The redirect may not be followed: says where it leads, too.
    private func fail(_ problem: Problem, at hop: RedirectMachine.Hop) {
        exchange.fail(
            Problem(
                problem.code,
                status: problem.status,
                "\(hooks.redirectedFrom?.description ?? "The origin") redirects to \(hop.url.origin). \(problem.details)"
            )
        )
    }

    private func follow(_ plan: RedirectHook.Plan, to endpoint: Endpoint, on route: Route) {
        guard let timeouts = hooks.timeouts(of: endpoint, now: services.loop.now) else { return failForTime() }
        let hop = plan.hop
        hooks.prepare(for: hop, on: route)
        var fields = hooks.fields(
            of: plan,
            on: route,
            client: exchange.clientFields(on: route),
            credentials: exchange.credentials
        )
        exchange.requestIdentity?.renew(hop: hooks.earlier.count, in: &fields)
        expectContinue(of: endpoint, keepsBody: hop.keepsBody, &fields)
        var request = SessionRequest(
            endpoint: endpoint,
            method: hop.method,
            target: hop.url.target,
            fields: fields,
            bodyLength: hop.keepsBody ? exchange.bodyLength : .none,
            timeouts: timeouts
        )
        request.isBidirectional = exchange.head.majorVersion == 2 && request.bodyLength == .unknown
        send(request, on: route, with: plan.changes)
    }
}
