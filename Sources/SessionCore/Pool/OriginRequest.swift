// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// One task's request on its way to the origin: it waits for a connection, goes out over HTTP/1.1 or HTTP/2, brings the response,
/// and is repeated once where that is safe (rule 57).
final class OriginRequest: TaskExchange, PoolRequest {
    /// The place among the session's active requests.
    var slot = 0
    /// The host's pool in which the request has a place, or waits for one.
    private(set) var entry: OriginConnections.Entry?
    /// The client's own way to the host; nil for most requests.
    private var lane: OwnedLane?
    private let connections: OriginConnections
    private var course = RequestCourse<OriginRequest, RequestDial, HTTP2OriginStream>()
    private var isContinuePlanned = false
    private var demand = ConnectionDemand()

    init(_ connections: OriginConnections) {
        self.connections = connections
        super.init(loop: connections.loop, limits: connections.headLimits)
    }

    // MARK: Start

    /// The request is the task's from now on.
    func carry(_ task: LoopTask) {
        self.task = task
        isPausedByDelegate = false
        isHeldBack = false
    }

    override func start() {
        guard let task else { return }
        timings.begin(at: task.startedAt)
        repetition.start(wasRepeated: task.wasRepeated)
        beginExchange(connections.headLimits)
        // Not a copy of the request, which costs as much as what is looked up in it.
        let endpoint = task.request.endpoint
        demand = ConnectionDemand(
            offersHTTP2: endpoint.httpVersion == .http2 && endpoint.scheme == .https,
            isExclusive: task.taker != nil,
            hasCredentials: task.guarded?.isMaskAlone == false
        )
        clock = TransferClock(task.request.timeouts ?? endpoint.timeouts, taskStart: task.startedAt, now: loop.now)
        armTimer()
        let entry = connections.entry(for: endpoint)
        self.entry = entry
        if task.owner != nil || task.request.fields.mayContain(anyOf: Self.credentials), demand.mayBeAuthenticated {
            lane = task.owner?.lane(entry, to: endpoint)
            if lane != nil || task.request.fields.authenticatesConnection {
                demand.beAuthenticated()
                if let owner = task.owner {
                    if lane == nil { lane = owner.openLane(entry, to: endpoint) }
                } else {
                    connections.hasAuthenticated = true
                }
            }
        }
        guard let lane else { return connections.enter(self, entry) }
        connections.enter(self, lane, entry)
    }

    /// A look at the fields that are really there would be a copy of all; what follows is exact.
    private static let credentials: FieldNameSet = [.authorization]

    override func giveConnectionToOwner() {
        guard lane == nil, demand.mayBeAuthenticated, let entry, let task, let owner = task.owner,
            let connection = course.connection, owner.lane(entry, to: task.request.endpoint) == nil
        else { return }
        let lane = owner.openLane(entry, to: task.request.endpoint)
        _ = lane.enter(self)
        lane.adopt(connection)
        self.lane = lane
    }

    var endpoint: Endpoint? { task?.request.endpoint }

    // MARK: Pool

    var isShareable: Bool {
        guard demand.isShareable, let entry else { return false }
        return entry.maySpeakHTTP2(at: loop.now)
    }

    func canUse(_ connection: HTTP1Connection) -> Bool {
        guard connection.lane === lane, let task, connection.connection.endpoint.isSamePlace(as: task.request.endpoint)
        else { return false }
        return !demand.isExclusive && !isShareable
    }

    /// Whether the verdict on the connection's server, and its age, let the request go out on it now.
    func mayUse(_ connection: HTTP1Connection, lifetime: UInt64) -> Bool {
        guard let task else { return false }
        return connection.connection.mayCarry(task.request.endpoint, lifetime: lifetime)
    }

    func canShare(_ connection: HTTP2ClientConnection) -> Bool {
        guard let endpoint, demand.canShare(madeAt: connection.connection.madeAt) else { return false }
        return connection.connection.endpoint.isSamePlace(as: endpoint)
    }

    func canAwait(_ dial: HTTP2Dial) -> Bool { dial.endpoint === endpoint }

    func canJoin(_ dial: HTTP2Dial) -> Bool {
        dial.endpoint === endpoint && demand.canJoinDial && (dial.connection.map(canShare) ?? true)
    }

    /// The pool has no place and no stream for the request now.
    func didQueue() {
        course.queue()
        enter(.queued)
    }

    /// The request waits for a dial, with others.
    func await(_ dial: HTTP2Dial) {
        if case .queue = course.await(dial) { timings.fetchStart = elapsed }
        dial.join(self)
        enter(.connecting)
    }

    /// Whether the request still waits for that dial.
    func isAwaiting(_ dial: HTTP2Dial) -> Bool { course.isAwaiting(dial) }

    /// What the request has waited for does not suit it: it enters the pool again.
    func enterAgain() {
        course.enterAgain()
        connections.beginLater(self)
    }

    // MARK: Connection

    /// Makes a connection.
    func connect() {
        guard let task else { return }
        if case .queue = course.take() { timings.fetchStart = elapsed }
        let dial = RequestDial(task.request.endpoint, for: self, task.taker, connections)
        dialDidBegin(dial)
        dial.start()
    }

    /// An attempt of the dial begins.
    func dialDidBegin(_ dial: RequestDial) {
        course.dial(dial)
        enter(.connecting)
    }

    /// Goes out on a connection at the end of the turn.
    func use(_ connection: HTTP1Connection) {
        if case .queue = course.use(connection) { timings.fetchStart = elapsed }
        connections.beginLater(self)
    }

    /// The same over HTTP/2, beside other requests.
    func share(_ connection: HTTP2ClientConnection) {
        switch course.share(connection) {
        case .none: break
        case .queue: timings.fetchStart = elapsed
        case .dial(let dial): timings.noteAttempt(dial.times, from: dial.startedAt)
        }
        connection.promise()
        connections.beginLater(self)
    }

    /// The end of the turn.
    func begin() {
        switch course.beginning {
        case .nothing: break
        case .enterPool:
            guard let endpoint else { return }
            guard !connections.isHandingBack else { return fail(.sessionInvalidated) }
            // The entry may have been forgotten since, when nothing else was in it.
            let entry = connections.entry(for: endpoint)
            self.entry = entry
            connections.enter(self, entry)
        case .send(let connection): begin(on: connection)
        case .share(let connection): begin(on: connection)
        }
    }

    private func begin(on connection: HTTP1Connection) {
        guard let task else { return }
        repetition.isOnReusedConnection = connection.connection.isUsed
        timings.info = connection.connection.info
        guard !connection.hasRested || connection.isSilent else {
            // The idle connection that was chosen has ended, or has brought bytes.
            course.dropConnection()?.abandon()
            repetition.isOnReusedConnection = false
            if let entry { connections.replace(for: self, entry) }
            return
        }
        if let guarded = task.guarded {
            let evaluation = connection.connection.trust?.evaluation
            let refusal = guarded.refusal(of: task.request.endpoint, on: evaluation, isOwned: lane != nil)
            if let refusal { return task.finish(refusal) }
        }
        clock.beginExchange(at: loop.now)
        course.begin(on: connection)
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        guard course.isExchanging else { return }
        timings.requestStart = elapsed
        send(task, on: connection)
    }

    /// A function of its own, so that the request is borrowed from the task: the compiler copies it otherwise, with all that it
    /// refers to.
    private func send(_ task: LoopTask, on connection: HTTP1Connection) {
        connection.begin(task.request, task.guarded, self)
    }

    private func send(_ task: LoopTask, on stream: HTTP2OriginStream) -> Bool {
        stream.begin(task.request, task.guarded, self)
    }

    private func begin(on connection: HTTP2ClientConnection) {
        guard let task else { return connection.withdrawPromise() }
        if let guarded = task.guarded {
            let evaluation = connection.connection.trust?.evaluation
            let refusal = guarded.refusal(of: task.request.endpoint, on: evaluation, isOwned: lane != nil)
            if let refusal { return task.finish(refusal) }
        }
        connection.redeemPromise()
        repetition.isOnReusedConnection = connection.connection.isUsed
        timings.info = connection.connection.info
        clock.beginExchange(at: loop.now)
        let stream = HTTP2OriginStream(connection, limits: connections.headLimits)
        course.begin(on: stream)
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        guard course.isSharing else { return connection.exchangeDidEnd() }
        timings.requestStart = elapsed
        guard !send(task, on: stream) else { return }
        // The server takes no more requests since the connection was chosen.
        connection.exchangeDidEnd()
        beginExchange(connections.headLimits)
        enter(.connecting)
        enterAgain()
    }

    /// The session is being replaced: a request of which nothing has gone out ends with `sessionInvalidated`, with its body.
    func handBack() {
        guard let task else { return }
        switch course.handBack {
        case .goOn: return
        case .give: break
        case .takeBack(let stream):
            guard stream.takeBack(inFrontOf: &task.upload) else { return }
        }
        task.finish(.sessionInvalidated)
    }

    override func returnToPool() {
        guard let task, let stream = course.sharedStream, stream.takeBack(inFrontOf: &task.upload) else { return }
        stream.detach()
        beginExchange(connections.headLimits)
        enter(.connecting)
        enterAgain()
    }

    /// - Parameter taker: takes the connection in place of the request.
    func dialDidConnect(_ dial: RequestDial, _ connection: VerifiedConnection, for taker: ConnectionTaker?) {
        timings.noteAttempt(connection.times, from: dial.startedAt)
        timings.info = connection.info
        if let taker {
            course.stream()
            enter(.receiving)
            return taker.didConnect(connection)
        }
        guard let entry else { return connection.close(isWhole: true) }
        let made = HTTP1Connection(connection, entry, owner: connections)
        lane?.adopt(made)
        use(made)
        // libcurl and OpenSSL are not on the stack any more, so that the request can begin at once.
        begin()
    }

    func dialDidFail(_ dial: RequestDial, _ failure: ConnectionFailure) {
        timings.noteAttempt(failure.times, from: dial.startedAt)
        timings.info = failure.info
        course.dialDidFail()
        guard failure.error.code == .tlsHandshakeFailed, let entry, demand.triesHTTP2() else {
            task?.finish(failure.error)
            return
        }
        entry.didFailOverHTTP1()
        // The place is given back only once, whatever happens to the request while others are served.
        course.enterAgain()
        connections.leave(entry, keeping: nil)
        enterAgain()
    }

    /// The dial that the request has waited for has failed.
    func dialDidFail(_ dial: HTTP2Dial, _ failure: ConnectionFailure) {
        timings.noteAttempt(dial.times, from: dial.startedAt)
        timings.info = failure.info
        course.enterAgain()
        fail(failure.error)
    }

    // MARK: Request

    /// The number of bytes of the body that wait for the socket, or for flow-control credit; over HTTP/1.1 chunk sizes and a head
    /// that waits count as well.
    override var pendingBytes: Int {
        switch course.phase {
        case .exchanging(let connection): min(connection.pendingBytes, timings.requestContentBytes)
        case .sharing(let stream): stream.pendingBytes
        default: 0
        }
    }

    override func continueLater() {
        guard !isContinuePlanned else { return }
        isContinuePlanned = true
        connections.continueLater(self)
    }

    func continueNow() {
        isContinuePlanned = false
        switch course.phase {
        case .exchanging(let connection):
            clock.active(at: loop.now)
            connection.proceed()
        case .sharing(let stream): stream.proceed()
        default: break
        }
    }

    // MARK: The end

    override func fail(_ error: SessionError) {
        if error.code == .responseInvalid, demand.isShareable, course.isExchanging { entry?.didFailOverHTTP1() }
        super.fail(error)
    }

    override func exchangeDidEnd(_ ending: ExchangeEnding) {
        guard let task else { return }
        let isIdempotent = task.request.method.isIdempotent
        guard repetition.allows(ending, isIdempotent: isIdempotent, isAuthenticated: isAuthenticated) else {
            return task.finish(ending.error)
        }
        task.wasRepeated = true
        repetition.repeatRequest(restoring: &task.upload)
        guard !connections.isHandingBack else { return task.finish(.sessionInvalidated) }
        let stream = course.sharedStream
        demand.repeatRequest(after: ending.cause, sharedMadeAt: stream?.connection.connection.madeAt)
        if let stream {
            stream.detach()
            beginExchange(connections.headLimits)
            timings.fetchStart = elapsed
            enter(.connecting)
            // nghttp2 may be on the stack.
            enterAgain()
        } else {
            course.dropConnection()?.abandon()
            beginExchange(connections.headLimits)
            timings.fetchStart = elapsed
            connect()
        }
    }

    /// Whether a client has authenticated the connection.
    private var isAuthenticated: Bool { lane != nil || connections.hasAuthenticated }

    override func end() {
        defer { connections.finish(self) }
        let departure = course.end()
        task = nil
        disarmTimer()
        guard let entry = entry.take() else { return }
        let lane = lane.take()
        switch consume departure {
        case .nothing: break
        case .leaveQueue: entry.pool.withdraw(self)
        case .leaveDial(let dial): dial.leave(self)
        case .withdrawPromise(let connection): connection.withdrawPromise()
        case .endStream(let stream): stream.detach()
        case .leave: connections.leave(entry, keeping: nil)
        case .cancel(let dial):
            dial.cancel()
            connections.leave(entry, keeping: nil)
        case .give(let connection):
            if connection.detach(), lane?.isOver != true {
                connections.leave(entry, keeping: connection)
            } else {
                connection.close()
                connections.leave(entry, keeping: nil)
            }
        }
        timings.endExchange()
        repetition.release()
        lane?.leave(self)
    }

    override func laneIsFree() {
        if let lane, let entry { connections.enter(self, lane, entry) }
    }

    // MARK: Time

    override func holdDidChange() {
        if isHeldBack { clock.suspend() } else { clock.resume(at: loop.now) }
        armTimer()
    }

    override func timerDidFire() {
        guard let task else { return }
        switch clock.judge(at: loop.now) {
        case .wait: armTimer()
        case .look:
            _ = leaveSilentConnection(task, error: nil)
            if self.task != nil { armTimer() }
        case .expired(let expiry):
            var stage = ConnectionStage.connection
            switch course.phase {
            case .connecting(let dial):
                if !expiry.isTotal, let error = dial.pendingError { return task.finish(error) }
                stage = dial.stage
            case .awaiting(let dial): stage = dial.stage
            // A connection on which nothing comes for any request may be dead.
            case .sharing(let stream) where stream.connection.liveness.lastProgress < clock.exchangeBegan:
                stream.connection.retire()
            case .exchanging(let connection)
            where !connection.hasHead && connection.connection.hasDeclinedRenegotiation:
                return task.finish(HandshakeFailure.declinedRenegotiation(by: task.request.endpoint))
            default: break
            }
            let error = expiry.error(task.request.endpoint, at: stage)
            let isHeadLate = expiry.phase == .waiting && !expiry.isTotal
            if isHeadLate, leaveSilentConnection(task, error: error) { return }
            task.finish(error)
        }
    }

    // MARK: Connections that are silently dead

    /// Nothing has come for a while, or the final head has not come in time. On a kept connection whose server is provably not
    /// there, or where the connection may be the reason, the request waits no longer, if it may be sent again; and the connection's
    /// idle siblings go.
    ///
    /// - Parameter error: of the request whose head has not come in time; nil: it has time yet.
    /// - Returns: whether the request is sent again, on another connection.
    private func leaveSilentConnection(_ task: LoopTask, error: SessionError?) -> Bool {
        guard isOnReusedConnection, let entry else { return false }
        let hasBegunResponse: Bool
        let isDoubted: Bool
        switch course.phase {
        case .exchanging(let connection):
            isDoubted = error == nil ? connection.connection.isUnacknowledged : clock.doubts(connection.restedAt)
            hasBegunResponse = connection.hasBegunResponse
        case .sharing(let stream):
            let shared = stream.connection
            isDoubted = error == nil ? shared.look(every: clock.lookInterval) : shared.liveness.isUnanswered
            hasBegunResponse = stream.hasBegunResponse
            if error == nil, isDoubted { shared.retire() }
        default: return false
        }
        guard isDoubted || error != nil else { return false }
        connections.letGoOfKept(entry, silentSince: clock.exchangeBegan)
        let place = task.request.endpoint.host
        let ending = ExchangeEnding(
            cause: .connectionLost,
            hasBegunResponse: hasBegunResponse,
            error: error ?? SessionError(.responseTimeout, "\(place) acknowledges nothing on the kept connection.")
        )
        let isIdempotent = task.request.method.isIdempotent
        guard isDoubted, repetition.allows(ending, isIdempotent: isIdempotent, isAuthenticated: isAuthenticated) else {
            return false
        }
        exchangeDidEnd(ending)
        return true
    }

    // MARK: Metrics

    override var evaluation: TrustEvaluation? {
        switch course.phase {
        case .connecting(let dial): dial.evaluation ?? timings.info?.evaluation
        case .awaiting(let dial): dial.evaluation ?? timings.info?.evaluation
        default: timings.info?.evaluation
        }
    }

    override func collectMetrics(into metrics: inout TaskMetrics) {
        metrics.transaction = TransactionMetrics()
        if case .queued = course.phase { return }
        if case .awaiting(let dial) = course.phase { timings.noteAttempt(dial.times, from: dial.startedAt) }
        if case .connecting(let dial) = course.phase { timings.noteAttempt(dial.times, from: dial.startedAt) }
        timings.write(
            into: &metrics.transaction,
            isOnReusedConnection: isOnReusedConnection,
            pendingBytes: pendingBytes,
            now: elapsed
        )
    }
}
