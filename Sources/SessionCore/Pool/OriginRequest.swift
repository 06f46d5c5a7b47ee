// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// One task's request on its way to the origin: it waits for a connection, goes out over HTTP/1.1 or HTTP/2, brings the response,
/// and is repeated once where that is safe (rule 57).
final class OriginRequest: TaskExchange, PoolRequest {
    private enum Phase {
        /// No task.
        case idle
        /// The request enters the pool at the end of the turn.
        case entering
        /// The host has as many connections as it may have: the request waits for a place, or for a stream.
        case queued
        /// The request waits for a dial, with others.
        case awaiting(HTTP2Dial)
        /// The request has a place in the host's pool, and no connection at the moment.
        case placed
        case connecting(RequestDial)
        /// A connection is there; the request goes out at the end of the turn.
        case ready(HTTP1Connection)
        case exchanging(HTTP1Connection)
        /// An HTTP/2 connection is chosen; the request goes out at the end of the turn. The place belongs to the connection, not
        /// to the request.
        case promised(HTTP2ClientConnection)
        case sharing(HTTP2OriginStream)
        /// The task's taker has the connection.
        case streaming
    }

    /// The place among the session's active requests.
    var slot = 0
    /// The host's pool in which the request has a place, or waits for one.
    private(set) var entry: OriginConnections.Entry?
    /// The client's own way to the host; nil for most requests.
    private var lane: OwnedLane?
    private let connections: OriginConnections
    private var phase = Phase.idle
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
            isExclusive: task.taker != nil
        )
        clock = TransferClock(task.request.timeouts ?? endpoint.timeouts, taskStart: task.startedAt, now: loop.now)
        armTimer()
        let entry = connections.entry(for: endpoint)
        self.entry = entry
        if let lane = ownLane(of: task, entry) {
            self.lane = lane
            return connections.enter(self, lane, entry)
        }
        connections.enter(self, entry)
    }

    /// The connection that the task's client has authenticated, or is about to.
    private func ownLane(of task: LoopTask, _ entry: OriginConnections.Entry) -> OwnedLane? {
        // A stream has a connection of its own in any case.
        // A credential that a client does not have is not sent where the client has authenticated the connection.
        guard task.owner != nil || task.request.fields.contains(.authorization), task.taker == nil,
            task.guarded?.isMaskAlone != false
        else {
            return nil
        }
        let lane = task.owner?.lane(entry, to: task.request.endpoint)
        guard lane != nil || task.request.fields.authenticatesConnection else { return nil }
        // A connection of HTTP/2 carries requests of others.
        demand.requireHTTP1()
        if task.owner == nil { connections.hasAuthenticated = true }
        return lane ?? task.owner?.openLane(entry, to: task.request.endpoint)
    }

    override func giveConnectionToOwner() {
        guard lane == nil, let entry, let task, task.guarded?.isMaskAlone != false, let owner = task.owner,
            case .exchanging(let connection) = phase,
            owner.lane(entry, to: task.request.endpoint) == nil
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
        guard connection.lane === lane, let endpoint, connection.connection.endpoint.isSamePlace(as: endpoint) else {
            return false
        }
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
        phase = .queued
        enter(.queued)
    }

    /// The request waits for a dial, with others.
    func await(_ dial: HTTP2Dial) {
        if case .queued = phase { timings.fetchStart = elapsed }
        dial.join(self)
        phase = .awaiting(dial)
        enter(.connecting)
    }

    /// Whether the request still waits for that dial.
    func isAwaiting(_ dial: HTTP2Dial) -> Bool {
        if case .awaiting(let awaited) = phase { awaited === dial } else { false }
    }

    /// What the request has waited for does not suit it: it enters the pool again.
    func enterAgain() {
        phase = .entering
        connections.beginLater(self)
    }

    // MARK: Connection

    /// Makes a connection.
    func connect() {
        guard let task else { return }
        if case .queued = phase { timings.fetchStart = elapsed }
        phase = .placed
        let dial = RequestDial(task.request.endpoint, for: self, task.taker, connections)
        dialDidBegin(dial)
        dial.start()
    }

    /// An attempt of the dial begins.
    func dialDidBegin(_ dial: RequestDial) {
        phase = .connecting(dial)
        enter(.connecting)
    }

    /// Goes out on a connection at the end of the turn.
    func use(_ connection: HTTP1Connection) {
        if case .queued = phase { timings.fetchStart = elapsed }
        phase = .ready(connection)
        connections.beginLater(self)
    }

    /// The same over HTTP/2, beside other requests.
    func share(_ connection: HTTP2ClientConnection) {
        if case .queued = phase { timings.fetchStart = elapsed }
        if case .awaiting(let dial) = phase { timings.noteAttempt(dial.times, from: dial.startedAt) }
        phase = .promised(connection)
        connection.promise()
        connections.beginLater(self)
    }

    /// The end of the turn.
    func begin() {
        switch phase {
        case .entering:
            guard let endpoint else { return }
            guard !connections.isHandingBack else { return fail(.sessionInvalidated) }
            // The entry may have been forgotten since, when nothing else was in it.
            let entry = connections.entry(for: endpoint)
            self.entry = entry
            connections.enter(self, entry)
        case .ready(let connection): begin(on: connection)
        case .promised(let connection): begin(on: connection)
        case .idle, .queued, .awaiting, .placed, .connecting, .exchanging, .sharing, .streaming: break
        }
    }

    private func begin(on connection: HTTP1Connection) {
        guard let task else { return }
        repetition.isOnReusedConnection = connection.connection.isUsed
        timings.info = connection.connection.info
        guard !connection.hasRested || connection.isSilent else { return connectAnew() }
        guard mayGo(task, on: connection.connection) else { return }
        clock.beginExchange(at: loop.now)
        phase = .exchanging(connection)
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        guard case .exchanging = phase else { return }
        timings.requestStart = elapsed
        send(task, on: connection)
    }

    /// A function of its own, so that the request is borrowed from the task: the compiler copies it otherwise, with all that it
    /// refers to.
    private func send(_ task: LoopTask, on connection: HTTP1Connection) {
        connection.begin(task.request, task.guarded, self)
    }

    private func begin(on connection: HTTP2ClientConnection) {
        guard let task else { return connection.withdrawPromise() }
        guard mayGo(task, on: connection.connection) else { return }
        connection.redeemPromise()
        repetition.isOnReusedConnection = connection.connection.isUsed
        timings.info = connection.connection.info
        clock.beginExchange(at: loop.now)
        let stream = HTTP2OriginStream(connection, limits: connections.headLimits)
        phase = .sharing(stream)
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        guard case .sharing = phase else { return connection.exchangeDidEnd() }
        timings.requestStart = elapsed
        guard !stream.begin(task.request, task.guarded, self) else { return }
        // The server takes no more requests since the connection was chosen.
        connection.exchangeDidEnd()
        beginExchange(connections.headLimits)
        enter(.connecting)
        enterAgain()
    }

    /// Whether the request may go out on the connection; otherwise it has failed.
    private func mayGo(_ task: LoopTask, on connection: VerifiedConnection) -> Bool {
        guard let guarded = task.guarded else { return true }
        let evaluation = connection.trust?.evaluation
        if lane == nil || guarded.isMaskAlone, guarded.mayGo(under: evaluation) { return true }
        task.finish(guarded.refusal(of: task.request.endpoint, evaluation))
        return false
    }

    /// The idle connection that was chosen has ended, or has brought bytes.
    private func connectAnew() {
        closeConnection()
        repetition.isOnReusedConnection = false
        if let entry { connections.replace(for: self, entry) }
    }

    /// The session is being replaced: a request of which nothing has gone out ends with `sessionInvalidated`, with its body.
    func handBack() {
        guard let task else { return }
        switch phase {
        case .idle, .exchanging, .streaming: return
        case .entering, .queued, .awaiting, .placed, .connecting, .ready, .promised: break
        case .sharing(let stream):
            guard takeBack(from: stream, task) else { return }
        }
        task.finish(.sessionInvalidated)
    }

    override func returnToPool() {
        guard let task, case .sharing(let stream) = phase, takeBack(from: stream, task) else { return }
        stream.detach()
        beginExchange(connections.headLimits)
        enter(.connecting)
        enterAgain()
    }

    private func takeBack(from stream: HTTP2OriginStream, _ task: LoopTask) -> Bool {
        var body = ByteBuffer()
        guard stream.takeBack(&body) else { return false }
        var rest = ByteBuffer()
        swap(&rest, &task.upload)
        swap(&body, &task.upload)
        task.upload.append(rest.bytes)
        return true
    }

    func dialDidConnect(_ dial: RequestDial, _ connection: VerifiedConnection, for taker: ConnectionTaker) {
        timings.noteAttempt(connection.times, from: dial.startedAt)
        timings.info = connection.info
        phase = .streaming
        enter(.receiving)
        taker.didConnect(connection)
    }

    func dialDidConnect(_ dial: RequestDial, _ connection: VerifiedConnection) {
        guard let entry else { return connection.close(isWhole: true) }
        timings.noteAttempt(connection.times, from: dial.startedAt)
        timings.info = connection.info
        let made = HTTP1Connection(connection, entry, owner: connections)
        lane?.adopt(made)
        use(made)
        // libcurl and OpenSSL are not on the stack any more, so that the request can begin at once.
        begin()
    }

    func dialDidFail(_ dial: RequestDial, _ failure: ConnectionFailure) {
        timings.noteAttempt(failure.times, from: dial.startedAt)
        timings.info = failure.info
        phase = .placed
        guard failure.error.code == .tlsHandshakeFailed, let entry, demand.triesHTTP2() else {
            task?.finish(failure.error)
            return
        }
        entry.didFailOverHTTP1()
        // The place is given back only once, whatever happens to the request while others are served.
        phase = .entering
        connections.leave(entry, keeping: nil)
        enterAgain()
    }

    /// The dial that the request has waited for has failed.
    func dialDidFail(_ dial: HTTP2Dial, _ failure: ConnectionFailure) {
        timings.noteAttempt(dial.times, from: dial.startedAt)
        timings.info = failure.info
        phase = .entering
        fail(failure.error)
    }

    // MARK: Request

    /// The number of bytes of the body that wait for the socket, or for flow-control credit; over HTTP/1.1 chunk sizes and a head
    /// that waits count as well.
    override var pendingBytes: Int {
        switch phase {
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
        switch phase {
        case .exchanging(let connection):
            clock.active(at: loop.now)
            connection.proceed()
        case .sharing(let stream): stream.proceed()
        default: break
        }
    }

    // MARK: The end

    override func fail(_ error: SessionError) {
        if error.code == .responseInvalid, demand.isShareable, case .exchanging = phase { entry?.didFailOverHTTP1() }
        super.fail(error)
    }

    override func exchangeDidEnd(_ ending: ExchangeEnding) {
        guard let task else { return }
        guard mayBeSentAgain(task, ending) else { return task.finish(ending.error) }
        task.wasRepeated = true
        repetition.repeatRequest(restoring: &task.upload)
        guard !connections.isHandingBack else { return task.finish(.sessionInvalidated) }
        var sharedMadeAt: UInt64?
        if case .sharing(let stream) = phase { sharedMadeAt = stream.connection.connection.madeAt }
        demand.repeatRequest(after: ending.cause, sharedMadeAt: sharedMadeAt)
        if case .sharing(let stream) = phase {
            stream.detach()
            beginExchange(connections.headLimits)
            timings.fetchStart = elapsed
            enter(.connecting)
            // nghttp2 may be on the stack.
            enterAgain()
        } else {
            closeConnection()
            beginExchange(connections.headLimits)
            timings.fetchStart = elapsed
            connect()
        }
    }

    /// Rule 57, as `RequestRepetition` has it.
    private func mayBeSentAgain(_ task: LoopTask, _ ending: ExchangeEnding) -> Bool {
        // On a connection that the client has authenticated it was another's request than on the next.
        let isAuthenticated = lane != nil || connections.hasAuthenticated
        return !isAuthenticated && repetition.allows(ending, isIdempotent: task.request.method.isIdempotent)
    }

    /// Closes the connection and keeps the place in the host's pool.
    private func closeConnection() {
        switch phase {
        case .ready(let connection), .exchanging(let connection):
            _ = connection.detach()
            connection.close()
        case .idle, .entering, .queued, .awaiting, .placed, .connecting, .promised, .sharing, .streaming:
            break
        }
        phase = .placed
    }

    override func end() {
        defer { connections.finish(self) }
        var ended = Phase.idle
        swap(&ended, &phase)
        task = nil
        disarmTimer()
        guard let entry = entry.take() else { return }
        let lane = lane.take()
        switch consume ended {
        case .idle, .entering: break
        case .queued:
            entry.pool.withdraw(self)
        case .awaiting(let dial): dial.leave(self)
        case .promised(let connection):
            connection.withdrawPromise()
        case .sharing(let stream): stream.detach()
        case .placed, .streaming:
            connections.leave(entry, keeping: nil)
        case .connecting(let dial):
            dial.cancel()
            connections.leave(entry, keeping: nil)
        case .ready(let connection), .exchanging(let connection):
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
            switch phase {
            case .connecting(let dial):
                if !expiry.isTotal, let error = dial.pendingError { return task.finish(error) }
                stage = dial.stage
            case .awaiting(let dial): stage = dial.stage
            // A connection on which nothing comes for any request may be dead.
            case .sharing(let stream) where stream.connection.lastProgress < clock.exchangeBegan:
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
        switch phase {
        case .exchanging(let connection):
            isDoubted = error == nil ? connection.connection.isUnacknowledged : clock.doubts(connection.restedAt)
            hasBegunResponse = connection.hasBegunResponse
        case .sharing(let stream):
            let shared = stream.connection
            isDoubted = error == nil ? shared.look(every: clock.lookInterval) : shared.isUnanswered
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
        guard isDoubted, mayBeSentAgain(task, ending) else { return false }
        exchangeDidEnd(ending)
        return true
    }

    // MARK: Metrics

    override var evaluation: TrustEvaluation? {
        switch phase {
        case .connecting(let dial): dial.evaluation ?? timings.info?.evaluation
        case .awaiting(let dial): dial.evaluation ?? timings.info?.evaluation
        default: timings.info?.evaluation
        }
    }

    override func collectMetrics(into metrics: inout TaskMetrics) {
        metrics.transaction = TransactionMetrics()
        if case .queued = phase { return }
        if case .awaiting(let dial) = phase { timings.noteAttempt(dial.times, from: dial.startedAt) }
        if case .connecting(let dial) = phase { timings.noteAttempt(dial.times, from: dial.startedAt) }
        timings.write(
            into: &metrics.transaction,
            isOnReusedConnection: isOnReusedConnection,
            pendingBytes: pendingBytes,
            now: elapsed
        )
    }
}
