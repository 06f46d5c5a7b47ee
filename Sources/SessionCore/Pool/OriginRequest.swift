import HTTPCore
import IOCore
import ServerTrust

/// One task's request on its way to the origin: it waits for a connection, goes out, brings the response, and is repeated once
/// where that is safe (rule 57).
final class OriginRequest: ConnectionAttemptOwner {
    private enum Phase {
        /// No task.
        case idle
        /// The host has as many connections as it may have: the request waits for a place.
        case queued
        /// The request has a place in the host's pool, and no connection at the moment.
        case placed
        case connecting(ConnectionAttempt)
        /// A connection is there; the request goes out at the end of the turn.
        case ready(HTTP1Connection)
        case exchanging(HTTP1Connection)
        /// The connection is a stream's own.
        case streaming
        /// The stream has given its connection up, for requests over HTTP/1.1.
        case handedOver(HTTP1Connection)
    }

    private(set) var task: LoopTask?
    /// The place among the session's active requests.
    var slot = 0
    /// The host's pool in which the request has a place, or waits for one.
    private(set) var entry: HostEntry?
    private unowned(unsafe) let connections: OriginConnections
    private let loop: EventLoop
    private var phase = Phase.idle
    private var timer: LoopTimer!
    private var clock = TransferClock()
    private var isContinuePlanned = false

    // The exchange, for repetition and metrics.
    private var isBodyTaken = false
    private var isReused = false
    private var hasMadeRoom = false
    private var info: ConnectionInfo?
    private var connectionTimes: ConnectionTimes?
    private var attemptStart: Int64 = 0
    private var start: Int64 = 0
    private var requestStart = TransactionMetrics.absent
    private var requestEnd = TransactionMetrics.absent
    private var responseStart = TransactionMetrics.absent
    private var responseEnd = TransactionMetrics.absent
    private var status = 0
    private var protocolVersion = 0
    private var requestHeadBytes = 0
    private var requestBodyBytes = 0
    private var requestContentBytes = 0
    private var responseHeadBytes = 0
    private var responseBodyBytes = 0

    init(_ connections: OriginConnections) {
        self.connections = connections
        loop = connections.loop
        super.init()
        timer = LoopTimer { [unowned self] in timerDidFire() }
    }

    /// Lets go of the timer; the request is not used again.
    func invalidate() { loop.remove(timer) }

    // MARK: Start

    func start(_ task: LoopTask) {
        self.task = task
        reset()
        hasMadeRoom = false
        start = 0
        let request = task.request
        clock = TransferClock(request.timeouts ?? request.endpoint.timeouts, taskStart: task.startedAt, now: loop.now)
        if task.isHeldBack { clock.suspend() }
        armTimer()
        entry = connections.enter(self, request.endpoint)
    }

    private func reset() {
        isBodyTaken = false
        isReused = false
        info = nil
        connectionTimes = nil
        requestStart = TransactionMetrics.absent
        requestEnd = TransactionMetrics.absent
        responseStart = TransactionMetrics.absent
        responseEnd = TransactionMetrics.absent
        status = 0
        requestHeadBytes = 0
        requestBodyBytes = 0
        requestContentBytes = 0
        responseHeadBytes = 0
        responseBodyBytes = 0
    }

    var endpoint: Endpoint? { task?.request.endpoint }

    /// The request wants a connection of its own, for a stream.
    var isExclusive: Bool { task?.stream != nil }
    /// Offered in the handshake, the best first.
    var applicationProtocols: [ApplicationProtocol] { task?.stream?.applicationProtocols ?? [.http1] }

    // MARK: Connection

    /// The pool has no place for the request now.
    func didQueue() {
        phase = .queued
        enter(.queued)
    }

    /// Makes a connection.
    func connect() {
        guard let task else { return }
        if case .queued = phase { start = task.elapsed }
        phase = .placed
        let attempt = connections.makeAttempt(to: task.request.endpoint, owner: self)
        attemptStart = task.elapsed
        phase = .connecting(attempt)
        enter(.connecting)
        attempt.start()
    }

    /// Goes out on a connection at the end of the turn.
    func use(_ connection: HTTP1Connection) {
        if case .queued = phase { start = task?.elapsed ?? 0 }
        phase = .ready(connection)
        connections.beginLater(self)
    }

    /// The end of the turn.
    func begin() {
        guard case .ready(let connection) = phase, let task else { return }
        isReused = connection.connection.isUsed
        info = connection.connection.info
        guard !isReused || connection.isSilent else { return connectAnew() }
        phase = .exchanging(connection)
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        guard case .exchanging = phase else { return }
        requestStart = task.elapsed
        connection.begin(self, task)
    }

    /// The idle connection that was chosen has ended, or has brought bytes, in this turn.
    private func connectAnew() {
        closeConnection()
        isReused = false
        connect()
    }

    /// The connection of a stream, on which nothing was sent, becomes one for requests over HTTP/1.1.
    func handOver(_ connection: VerifiedConnection) {
        guard case .streaming = phase, let entry else { return }
        connection.isUsed = false
        phase = .handedOver(HTTP1Connection(connection, entry: entry, connections: connections))
    }

    /// Whether nothing of the request has gone out.
    var isUnsent: Bool {
        switch phase {
        case .idle, .queued, .placed, .connecting, .ready: true
        case .exchanging, .streaming, .handedOver: false
        }
    }

    override func attemptDidConnect(_ attempt: ConnectionAttempt, _ connection: VerifiedConnection) {
        guard let entry, let task else { return connection.close(isWhole: true) }
        connectionTimes = connection.times
        if let stream = task.stream {
            info = connection.info
            phase = .streaming
            enter(.receiving)
            return stream.didConnect(connection)
        }
        use(HTTP1Connection(connection, entry: entry, connections: connections))
        // libcurl and OpenSSL are not on the stack any more, so that the request can begin at once.
        begin()
    }

    override func attemptDidFail(_ attempt: ConnectionAttempt, _ failure: ConnectionFailure) {
        info = failure.info
        connectionTimes = failure.times
        guard let task else { return }
        phase = .placed
        guard failure.isDescriptorMissing else { return task.finish(failure.error) }
        guard !hasMadeRoom, connections.makeRoom() else {
            return task.finish(
                SessionError(
                    .limitReached,
                    "There is no descriptor for a connection to \(task.request.endpoint.host): as many are in use as the system "
                        + "allows this process open files. Try again, or raise that limit (LimitNOFILE= or ulimit -n)."
                )
            )
        }
        hasMadeRoom = true
        connect()
    }

    override func attemptNeedsClientIdentity(_ attempt: ConnectionAttempt) -> ClientIdentityDecision {
        task.map { $0.delegate.taskNeedsClientIdentity($0) } ?? .none
    }

    override func attempt(_ attempt: ConnectionAttempt, mayTrust trust: ConnectionTrust) -> SessionError? {
        task.flatMap { $0.delegate.task($0, mayTrust: trust) }
    }

    override func attempt(_ attempt: ConnectionAttempt, didEvaluate trust: ConnectionTrust) {
        connections.didEvaluateTrust?(trust, attempt.endpoint)
    }

    // MARK: Request

    /// The number of bytes of the body that wait for the socket; chunk sizes and a head that waits count as well.
    var pendingBytes: Int {
        if case .exchanging(let connection) = phase { min(connection.pendingBytes, requestContentBytes) } else { 0 }
    }

    /// The task has bytes of the body, or takes bytes of the response again.
    func continueLater() {
        guard !isContinuePlanned else { return }
        isContinuePlanned = true
        connections.continueLater(self)
    }

    func continueNow() {
        isContinuePlanned = false
        guard case .exchanging(let connection) = phase else { return }
        clock.active(at: loop.now)
        connection.proceed()
    }

    func didWriteHead(byteCount: Int) { requestHeadBytes = byteCount }

    /// - Parameters:
    ///   - contentBytes: bytes that the task has given.
    ///   - wireBytes: the same with the sizes of chunks, and trailers.
    func didTakeBody(contentBytes: Int, wireBytes: Int) {
        isBodyTaken = true
        requestContentBytes += contentBytes
        requestBodyBytes += wireBytes
    }

    @inline(__always)
    func didMoveBytes() { clock.active(at: loop.now) }

    /// The last byte of the request has gone to the system.
    func didSendRequest() {
        guard let task, requestEnd == TransactionMetrics.absent else { return }
        requestEnd = task.elapsed
        if clock.phase == .sending { enter(.waiting) }
    }

    // MARK: Response

    private func noteResponseStart(_ task: LoopTask) {
        if responseStart == TransactionMetrics.absent { responseStart = task.elapsed }
    }

    func didReceiveInformational(_ head: borrowing ResponseHead) {
        guard let task else { return }
        noteResponseStart(task)
        responseHeadBytes += head.byteCount
        task.delegate.task(task, didReceiveInformational: head)
    }

    func didReceiveHead(_ head: borrowing ResponseHead) {
        guard let task else { return }
        noteResponseStart(task)
        responseHeadBytes += head.byteCount
        status = head.status
        protocolVersion = Int(head.majorVersion) * 10 + Int(head.minorVersion)
        enter(.receiving)
        if task.received(head) == .cancel, self.task === task { task.cancel() }
    }

    func didReceiveBody(_ bytes: borrowing Span<UInt8>) {
        guard let task else { return }
        responseBodyBytes += bytes.count
        if task.delegate.task(task, didReceive: bytes) == .pause { task.pausedByDelegate = true }
    }

    /// The response is complete. A request that is still going out ends here: the rest of its body would go to nobody.
    func didReceiveEnd(trailers: borrowing HTTPFields) {
        guard let task else { return }
        responseEnd = task.elapsed
        if trailers.count > 0 { task.delegate.task(task, didReceiveTrailers: copy trailers) }
        if self.task === task { task.finish(nil) }
    }

    // MARK: The end

    func fail(_ error: SessionError) { task?.finish(error) }

    /// The connection has ended before the response was complete.
    ///
    /// - Parameters:
    ///   - hasBegunResponse: bytes of the response have come, be it a part of its head: the origin has acted on the request.
    ///   - why: what happened to the connection, in words for people.
    ///   - reason: what the response lacks.
    func connectionDidEnd(hasBegunResponse: Bool, why: String, reason: String) {
        guard let task else { return }
        let host = task.request.endpoint.host
        let place = "\(host.authorityText):\(task.request.endpoint.port)"
        guard isReused, !hasBegunResponse else {
            return task.finish(
                SessionError(
                    .responseTruncated,
                    hasBegunResponse
                        ? "\(reason) (\(place): \(why))" : "\(place) closed the connection without a response: \(why)."
                )
            )
        }
        guard task.mayBeRepeated, task.request.method.isIdempotent, !isBodyTaken else {
            return task.finish(
                SessionError(
                    .responseTruncated,
                    "\(host) closed the kept connection while the \(task.request.method) request went out. "
                        + "It is not sent again, because the origin may have acted on it; send it again if that is safe."
                )
            )
        }
        guard !connections.isHandingBack else { return task.finish(.sessionInvalidated) }
        task.wasRepeated = true
        closeConnection()
        reset()
        start = task.elapsed
        connect()
    }

    /// Closes the connection and keeps the place in the host's pool.
    private func closeConnection() {
        switch phase {
        case .ready(let connection), .exchanging(let connection):
            _ = connection.detach()
            connection.close()
        case .idle, .queued, .placed, .connecting, .streaming, .handedOver: break
        }
        phase = .placed
    }

    /// The task is done with it.
    func end() {
        let ended = phase
        phase = .idle
        task = nil
        loop.disarm(timer)
        guard let entry else { return }
        self.entry = nil
        switch ended {
        case .idle: break
        case .queued:
            entry.pool.withdraw(self)
        case .placed, .streaming:
            connections.leave(entry, keeping: nil)
        case .connecting(let attempt):
            attempt.cancel()
            connections.leave(entry, keeping: nil)
        case .handedOver(let connection):
            connections.leave(entry, keeping: connection)
        case .ready(let connection), .exchanging(let connection):
            if connection.detach() {
                connections.leave(entry, keeping: connection)
            } else {
                connection.close()
                connections.leave(entry, keeping: nil)
            }
        }
        info = nil
        connectionTimes = nil
    }

    // MARK: Time

    private func enter(_ phase: TransferClock.Phase) {
        clock.enter(phase, at: loop.now)
        armTimer()
    }

    /// The task is suspended, or resumed.
    func holdClock(_ isHeld: Bool) {
        if isHeld { clock.suspend() } else { clock.resume(at: loop.now) }
        armTimer()
    }

    /// The timer is armed for the shortest wait, and looks, when it fires, how much time is left: entering a phase costs two
    /// stores.
    private func armTimer() {
        let deadline = clock.deadline
        if !timer.isArmed || timer.deadline > deadline { loop.arm(timer, at: deadline) }
    }

    private func timerDidFire() {
        guard let task else { return }
        switch clock.judge(at: loop.now) {
        case .wait(let deadline): loop.arm(timer, at: deadline)
        case .expired(let expiry):
            var isResolving = false
            if case .connecting(let attempt) = phase { isResolving = attempt.isResolving }
            task.finish(expiry.error(task.request.endpoint, isResolving: isResolving))
        }
    }

    // MARK: Metrics

    /// The evaluation of the server, also of one that was refused.
    var evaluation: TrustEvaluation? {
        if case .connecting(let attempt) = phase, let evaluation = attempt.evaluation { return evaluation }
        return info?.evaluation
    }

    func collectMetrics(into metrics: inout TaskMetrics) {
        var transaction = TransactionMetrics()
        defer { metrics.transaction = transaction }
        if case .queued = phase { return }
        transaction.fetchStart = start
        transaction.isReusedConnection = isReused
        var times = connectionTimes
        if case .connecting(let attempt) = phase { times = attempt.times }
        if let times, !isReused {
            let offset = attemptStart
            func time(_ value: Int64) -> Int64 { value == TransactionMetrics.absent ? value : value + offset }
            if times.lookupEnd != TransactionMetrics.absent {
                transaction.domainLookupStart = offset
                transaction.domainLookupEnd = time(times.lookupEnd)
            }
            transaction.connectStart = time(times.connectStart)
            transaction.secureConnectionStart = time(times.secureConnectionStart)
            transaction.secureConnectionEnd = time(times.secureConnectionEnd)
            transaction.connectEnd = time(times.connectEnd)
        }
        if requestStart != TransactionMetrics.absent {
            transaction.requestStart = requestStart
            transaction.requestEnd = requestEnd == TransactionMetrics.absent ? requestStart : requestEnd
            transaction.requestHeaderBytesSent = Int64(requestHeadBytes)
            transaction.requestBodyBytesSent = Int64(requestBodyBytes - min(pendingBytes, requestBodyBytes))
        }
        if status > 0 {
            transaction.status = status
            transaction.protocolVersion = protocolVersion
            transaction.responseStart = responseStart
            transaction.responseEnd =
                responseEnd == TransactionMetrics.absent ? task?.elapsed ?? responseStart : responseEnd
        }
        transaction.responseHeaderBytesReceived = Int64(responseHeadBytes)
        transaction.responseBodyBytesReceived = Int64(responseBodyBytes)
        transaction.connection = info
    }
}
