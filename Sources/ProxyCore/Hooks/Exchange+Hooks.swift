import HTTPCore
import IOCore
import SessionCore

/// Where an exchange meets the hooks of its host. Each of these is called only where the host has hooks.
extension Exchange {
    // MARK: The request

    /// Makes ready for the request that is about to go out.
    func prepareHooks(_ rules: HostHooks, on route: Route, to endpoint: Endpoint, _ fields: inout HTTPFields) {
        let deadline = endpoint.timeouts.total.map { startedAt &+ $0.nanoseconds }
        let hooks = ExchangeHooks(rules, route: route, deadline: deadline)
        self.hooks = hooks
        rules.headers.request.apply(to: &fields)
        if rules.keepsBodies, head.framing.hasBody { keepBody(hooks) }
    }

    private func keepBody(_ hooks: ExchangeHooks) {
        guard let limit = generation?.snapshot.configuration.limits.redirectBodyBytes else { return }
        if case .length(let count) = head.framing, count > limit { return }
        hooks.replayBuffer = ReplayBuffer(
            limit: limit,
            files: worker.files,
            loop: worker.loop,
            resume: { [unowned self] in replayBufferDidAdvance() },
            fail: { [unowned self] in
                fail(Problem(.fileFailed, "The request's body was kept for a redirect and could not be read again."))
            }
        )
    }

    /// There is room for more, all that was kept has been sent again, or the end of the body need not wait any longer.
    private func replayBufferDidAdvance() {
        guard !isOver, let replayBuffer = hooks?.replayBuffer, !replayBuffer.holdsBack else { return }
        if let end = replayBuffer.releaseEnd() { task?.send(end.span) }
        guard !replayBuffer.holdsEnd else { return }
        if !body.isComplete { return stream.exchangeNeedsBody() }
        // Behind a body of known length the trailers of HTTP/2 may still be on their way.
        if let trailers { task?.finishSending(trailers: trailers) }
    }

    /// Sends a piece of the client's body on, and keeps it where redirects are followed with bodies.
    func sendBody(_ bytes: borrowing Span<UInt8>, to task: LoopTask) {
        if let replayBuffer = hooks?.replayBuffer {
            replayBuffer.append(bytes)
            if body.isComplete, replayBuffer.holdEnd(bytes) { return }
        }
        task.send(bytes)
    }

    /// The client's body has ended; false when what was kept of it has to be sent first, or is being written.
    func canEndBody(_ hooks: ExchangeHooks) -> Bool {
        guard let replayBuffer = hooks.replayBuffer else { return true }
        let nothing: [UInt8] = []
        return !replayBuffer.isReplaying && !replayBuffer.holdEnd(nothing.span)
    }

    /// Whether the client has to wait with its body.
    func holdsBodyBack(_ hooks: ExchangeHooks) -> Bool { hooks.replayBuffer?.holdsBack ?? false }

    /// The transfer has room for more of the body; true when it gets what was kept.
    func continueReplay(_ hooks: ExchangeHooks) -> Bool {
        guard let replayBuffer = hooks.replayBuffer, replayBuffer.isReplaying else { return false }
        replayBuffer.sendMore()
        return true
    }

    // MARK: The answer

    /// Judges the final head of an answer.
    ///
    /// - Returns: what becomes of it; nil when it goes to the client.
    func evaluate(_ response: borrowing ResponseHead, _ hooks: ExchangeHooks) -> ResponseDisposition? {
        // Of the policy of this moment: a request that a redirect leads to is made under that, or under a later one, which
        // judges again.
        let router = worker.generation.router
        switch hooks.decide(response, to: head, body: repeatableBody(hooks), router: router) {
        case .deliver: break
        case .refuse(let problem):
            hooks.failure = problem
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
            hooks.failure = problem
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

    /// Takes a piece of an answer's body.
    ///
    /// - Returns: whether more may come; nil when the piece goes to the client.
    func hooksDidReceiveBody(_ data: borrowing Span<UInt8>, _ hooks: ExchangeHooks) -> BodyFlow? {
        if hooks.next != nil {
            if !hooks.drop(data.count) { task?.cancel() }
            return .proceed
        }
        if !hooks.takes(data.count) {
            fail(ResponseHook.tooLarge(hooks.limit))
            return .pause
        }
        return hooks.download?.append(data)
    }

    /// The task is over.
    ///
    /// - Returns: false when it ends the exchange as any other does.
    func hooksDidEnd(_ hooks: ExchangeHooks, after task: LoopTask?, error: SessionError?) -> Bool {
        if let failure = hooks.failure {
            fail(failure)
            return true
        }
        if let plan = hooks.next {
            hooks.next = nil
            hooks.leave(task)
            if canContinue() { follow(plan, hooks) }
            return true
        }
        guard error == nil, let download = hooks.download else { return false }
        download.finish { [unowned self] result in
            switch result {
            case .success(let outcome):
                hooks.downloaded = outcome
                respondWithDownload(outcome)
            case .failure(let problem): fail(problem)
            }
        }
        return true
    }

    // MARK: The next hop

    /// A reload has come between a redirect and the request that it leads to: it is judged again.
    ///
    /// - Parameter rules: those of the host that the client asked for, by now.
    func followAgain(_ hooks: ExchangeHooks, under rules: HostHooks?) {
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

    /// Sends the request on to where a redirect leads.
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
            var fields = fields(of: plan, on: route, hooks)
            if forwardsExpectation(to: endpoint, keepsBody: hop.keepsBody) { fields.append(.expect, "100-continue") }
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
                return dispatch(request)
            }
            let givesCredentials = route.hooks?.givesCredentials == true || plan.changes?.givesCredentials == true
            lookUpInCache(responses, terms, digest, request, givesCredentials: givesCredentials)
        }
    }

    /// Gives the request of a hop what was kept of the client's body; a hop without one has let go of that.
    func sendAgain(_ hooks: ExchangeHooks, to task: LoopTask) {
        hooks.replayBuffer?.replay(to: task)
        if body.isComplete, hooks.replayBuffer?.isReplaying != true {
            task.finishSending(trailers: trailers ?? HTTPFields())
        }
    }

    private func fields(of plan: RedirectHook.Plan, on route: Route, _ hooks: ExchangeHooks) -> HTTPFields {
        var fields = hooks.fields ?? clientFields()
        RedirectMachine.prune(&fields, for: plan.hop, leavesTLS: plan.leavesTLS)
        plan.changes?.removeNames(from: &fields)
        // What follows is for this host alone.
        hooks.fields = fields
        plan.changes?.addValues(to: &fields)
        route.hooks?.headers.request.apply(to: &fields)
        return fields
    }

    // MARK: Downloads

    private func becomeDownload(in directory: String, quota: Int, length: Int?, _ hooks: ExchangeHooks) {
        var target = Array(copying: head.target)
        if let url = hooks.url { target = url.target }
        let name = ResponseDownload.name(of: target.span)
        hooks.download = ResponseDownload(
            directory: directory,
            quota: quota,
            length: length,
            name: name,
            files: worker.files,
            loop: worker.loop,
            resume: { [unowned self] in resumeReceiving() },
            fail: { [unowned self] problem in fail(problem) }
        )
    }
}
