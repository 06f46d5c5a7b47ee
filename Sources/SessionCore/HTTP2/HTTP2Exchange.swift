import HTTP2Core
import HTTPCore
import IOCore
import ServerTrust

/// One task's request and response on a stream of an `HTTP2ClientConnection`, both of which may be under way at once. To the task
/// it is the counterpart of `OriginRequest`, which carries HTTP/1.1.
final class HTTP2Exchange {
    /// Held until its end, like this by the task.
    let task: LoopTask
    private let pool: HTTP2ConnectionPool
    private let loop: EventLoop
    private var connection: HTTP2ClientConnection?
    private var stream: OriginStream?
    private var timer: LoopTimer!
    private var clock: TransferClock

    private var section: ResponseSection
    private var head = ResponseHead()
    private var trailers: TrailerSection
    private var hasHead = false
    /// 1xx heads have been handed on.
    private var hasInterim = false
    private var isWhole = false
    /// What came while the task took nothing.
    private var held = ByteBuffer()
    private var isWorkPlanned = false
    private var isOver = false
    /// Bytes of the request body that have left the task.
    private var bodyTaken = false
    /// The bytes of the request body so far, for a request that the server has not processed; empty when they are too many.
    private var replay = ByteBuffer()
    private var isReplayable = true
    private var isReused = false

    private var start: Int64 = 0
    private var requestStart = TransactionMetrics.absent
    private var requestEnd = TransactionMetrics.absent
    private var responseStart = TransactionMetrics.absent
    private var responseEnd = TransactionMetrics.absent
    private var requestHeadBytes = 0
    private var responseHeadBytes = 0
    private var responseBodyBytes = 0

    /// The task is asked for more when less than this waits.
    private static let lowWater = 32 << 10
    /// A body of up to so many bytes is kept for a repetition.
    private static let replayLimit = 64 << 10

    init(_ task: LoopTask, pool: HTTP2ConnectionPool) {
        self.task = task
        self.pool = pool
        loop = pool.loop
        section = ResponseSection(limits: pool.headLimits)
        trailers = TrailerSection(limits: pool.headLimits)
        let timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        clock = TransferClock(timeouts, taskStart: task.startedAt, now: pool.loop.now)
        timer = LoopTimer { [unowned self] in timerFired() }
    }

    /// Finds a connection and sends the request on it.
    func resume() {
        if task.isHeldBack { clock.suspend() }
        armTimer()
        connect(isFresh: false)
    }

    /// The connection that was waited for does not come.
    func connectAnew() {
        guard !isOver else { return }
        connection = nil
        connect(isFresh: false)
    }

    private func connect(isFresh: Bool) {
        guard !pool.owner.isRetired else { return fail(.sessionInvalidated) }
        guard let connection = pool.connect(self, to: task.request.endpoint, isFresh: isFresh) else {
            return fail(SessionError(.internal, "nghttp2 has no memory for a session."))
        }
        self.connection = connection
        let isNew = connection.load == 0 && connection.state == .dialling
        connection.take(self)
        if isNew { connection.start() }
    }

    /// The connection stands.
    func begin(on connection: HTTP2ClientConnection) {
        guard !isOver else { return }
        isReused = connection.isUsed
        connection.isUsed = true
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        guard !isOver else { return }
        let stream = OriginStream(self, connection)
        self.stream = stream
        let request = task.request
        let endsStream = task.uploadEnded && task.upload.isEmpty && trailersToSend == nil
        moveBody()
        requestStart = task.elapsed
        let isSent = connection.request(stream, endsStream: endsStream) { block in
            fill(&block, request, connection.authority)
        }
        guard isSent else {
            self.stream = nil
            return again(isRefused: true, SessionError(.responseTruncated, "The connection ended before the request."))
        }
        guard !endsStream else { return }
        if task.uploadEnded {
            end()
        } else if stream.output.isEmpty {
            task.delegate.taskNeedsBodyData(task)
        }
    }

    private func fill(_ block: inout HTTP2FieldBlock, _ request: borrowing SessionRequest, _ authority: [UInt8]) {
        var method = ByteBuffer()
        request.method.append(to: &method)
        block.add(":method", method.bytes)
        block.add(":scheme", "https")
        block.add(":authority", authority.span)
        block.add(":path", request.target.span)
        block.add(request.fields)
        // gRPC's servers ask for it, and a program that uses the library cannot write it itself.
        if request.isRemoteCall, !request.fields.contains(.te) { block.add("te", "trailers") }
        if case .bytes(let count) = request.bodyLength { block.add("content-length", Array("\(count)".utf8).span) }
        // As HTTP/1.1 would write it.
        requestHeadBytes = method.count + request.target.count + authority.count + 23
        for index in 0..<request.fields.count { requestHeadBytes += request.fields.line(at: index).count + 2 }
    }

    /// The server does not speak HTTP/2.
    func fallBack() {
        guard !isOver else { return }
        guard !pool.owner.isRetired else { return fail(.sessionInvalidated) }
        letGo()
        task.carryOverHTTP1()
    }

    // MARK: The request body

    /// The task has bytes to send, or wants more of the answer.
    func continueLater() {
        guard !isWorkPlanned else { return }
        isWorkPlanned = true
        loop.atEndOfTurn { [self] in
            isWorkPlanned = false
            continueNow()
        }
    }

    private func continueNow() {
        guard !isOver else { return }
        if let stream, !stream.isClosed {
            moveBody()
            stream.session?.resume(stream)
            if task.uploadEnded { end() }
        }
        deliverHeld()
    }

    /// How much waits for the origin's credit.
    var pendingBytes: Int { stream?.output.count ?? 0 }

    private func moveBody() {
        guard let stream, !task.upload.isEmpty else { return }
        bodyTaken = true
        if isReplayable, replay.count + task.upload.count <= Self.replayLimit {
            var piece = ByteBuffer()
            swap(&piece, &task.upload)
            replay.append(piece.bytes)
            swap(&piece, &task.upload)
        } else {
            isReplayable = false
            replay.release()
        }
        clock.active(at: loop.now)
        if stream.output.isEmpty {
            swap(&stream.output, &task.upload)
        } else {
            var piece = ByteBuffer()
            swap(&piece, &task.upload)
            stream.output.append(piece.bytes)
        }
    }

    private func end() {
        guard let stream else { return }
        stream.session?.endBody(stream, trailers: trailersToSend)
    }

    /// Trailers go to servers alone whose client expects them in both directions: many others (nginx among them) end the
    /// connection at a second field block of a request.
    private var trailersToSend: HTTPFields? {
        task.request.isFullDuplex && !task.uploadTrailers.isEmpty ? task.uploadTrailers : nil
    }

    fileprivate func hasRoom(_ stream: OriginStream) {
        guard !isOver else { return }
        clock.active(at: loop.now)
        if stream.output.count < Self.lowWater, !task.uploadEnded { task.delegate.taskNeedsBodyData(task) }
    }

    fileprivate func didEndRequest() {
        guard !isOver else { return }
        requestEnd = task.elapsed
        if clock.phase == .sending { enter(.waiting) }
    }

    // MARK: The answer

    fileprivate func take(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        guard !isOver else { return true }
        return hasHead
            ? trailers.append(name: name, value: value) : section.append(name: name, value: value, into: &head)
    }

    fileprivate func headIsComplete(endsStream: Bool) -> Bool {
        guard !isOver else { return true }
        if hasHead {
            clock.active(at: loop.now)
            return endsStream
        }
        if let fault = section.conclude(answering: task.request.method, into: &head) {
            fail(SessionError(.responseInvalid, "\(fault.message) (rule \(fault.rule))"))
            return true
        }
        responseHeadBytes += head.byteCount + 2
        if responseStart == TransactionMetrics.absent { responseStart = task.elapsed }
        if head.isInterim {
            hasInterim = true
            task.delegate.task(task, didReceiveInformational: head)
            return true
        }
        guard head.status != 101 else {
            fail(SessionError(.responseInvalid, "The origin switched protocols, which HTTP/2 cannot."))
            return true
        }
        hasHead = true
        enter(.receiving)
        if task.received(head) == .cancel, !isOver { task.cancel() }
        return true
    }

    fileprivate func takeBody(_ bytes: borrowing Span<UInt8>, _ stream: OriginStream) {
        guard !isOver else {
            connection?.consume(stream, bytes.count)
            return
        }
        clock.active(at: loop.now)
        responseBodyBytes += bytes.count
        if task.isReceivePaused || !held.isEmpty {
            held.append(bytes)
            return
        }
        if task.delegate.task(task, didReceive: bytes) == .pause { task.pausedByDelegate = true }
        // Credit for what was taken: one that pauses has the window to fill, and no more.
        connection?.consume(stream, bytes.count)
    }

    private func deliverHeld() {
        guard !isOver, !task.isReceivePaused else { return }
        if !held.isEmpty {
            var piece = ByteBuffer()
            swap(&piece, &held)
            if task.delegate.task(task, didReceive: piece.bytes) == .pause { task.pausedByDelegate = true }
            if let stream { connection?.consume(stream, piece.count) }
        }
        if isWhole, !isOver, held.isEmpty { complete() }
    }

    fileprivate func answerIsWhole() {
        guard !isOver else { return }
        isWhole = true
        responseEnd = task.elapsed
        if held.isEmpty { complete() }
    }

    private func complete() {
        if trailers.fields.count > 0 { task.delegate.task(task, didReceiveTrailers: trailers.fields) }
        if !isOver { task.finish(nil) }
    }

    // MARK: The end

    fileprivate func streamClosed(_ code: HTTP2ErrorCode, byPeer: Bool) {
        guard !isOver, !isWhole else { return }
        let endpoint = task.request.endpoint
        let place = "\(endpoint.host.authorityText):\(endpoint.port)"
        if !byPeer, connection?.loss == nil, code != .refusedStream {
            return fail(
                SessionError(.responseInvalid, "The answer of \(place) breaks the rules of HTTP/2 (\(code.name)).")
            )
        }
        let why = connection?.loss ?? "it reset the stream (\(code.name))"
        let error = SessionError(
            .responseTruncated,
            hasHead ? "\(place) broke off its answer: \(why)." : "\(place) gave no answer: \(why)."
        )
        if code == .http11Required {
            if task.mayBeRepeated, !hasHead, !hasInterim, !bodyTaken {
                task.wasRepeated = true
                return fallBack()
            }
        }
        again(isRefused: code == .refusedStream, error)
    }

    /// Rule 57: once more, if nothing of it can have been done, or it may be done twice.
    ///
    /// - Parameter isRefused: the server says that it has not looked at the request (RFC 9113, section 8.7).
    private func again(isRefused: Bool, _ error: SessionError) {
        let isSafe = isRefused || (isReused && connection?.loss != nil && task.request.method.isIdempotent)
        // A request that the server has not processed goes out again with its body; another one only if it has none yet.
        let isBodyThere = !bodyTaken || isRefused && isReplayable
        guard isSafe, task.mayBeRepeated, isBodyThere, !hasHead, !hasInterim else {
            return fail(error)
        }
        task.wasRepeated = true
        restoreBody()
        stream?.owner = nil
        stream = nil
        connection = nil
        isReused = false
        section = ResponseSection(limits: pool.headLimits)
        start = task.elapsed
        enter(.connecting)
        // Not from within the session that has just closed the stream.
        loop.atEndOfTurn { [self] in
            if !isOver { connect(isFresh: !isRefused) }
        }
    }

    private func restoreBody() {
        guard !replay.isEmpty else { return }
        var rest = ByteBuffer()
        swap(&rest, &task.upload)
        swap(&replay, &task.upload)
        task.upload.append(rest.bytes)
        bodyTaken = false
    }

    func fail(_ error: SessionError) {
        if !isOver { task.finish(error) }
    }

    /// The task is done with it: what the origin still does is broken off.
    func letGo() {
        guard !isOver else { return }
        isOver = true
        loop.remove(timer)
        connection?.leave(self)
        if let stream {
            stream.owner = nil
            connection?.consume(stream, held.count)
            if !stream.hasEnded || !stream.peerHasEnded { stream.session?.reset(stream, .cancel) }
        }
        held.release()
        replay.release()
        stream = nil
        connection?.exchangeEnded()
    }

    // MARK: Time

    private func enter(_ phase: TransferClock.Phase) {
        clock.enter(phase, at: loop.now)
        armTimer()
    }

    /// The task's owner suspends it, or lets it go on.
    func holdClock(_ isHeld: Bool) {
        if isHeld { clock.suspend() } else { clock.resume(at: loop.now) }
        armTimer()
    }

    private func armTimer() {
        let deadline = clock.deadline
        if !timer.isArmed || timer.deadline > deadline { loop.arm(timer, at: deadline) }
    }

    private func timerFired() {
        guard !isOver else { return }
        switch clock.judge(at: loop.now) {
        case .wait(let deadline): loop.arm(timer, at: deadline)
        case .expired(let expiry):
            // Whoever is silent here may be for all.
            if expiry.phase != .connecting { connection?.retire() }
            fail(expiry.error(task.request.endpoint, isResolving: false))
        }
    }

    // MARK: Metrics

    /// What the security policy found.
    var evaluation: TrustEvaluation? { connection?.info?.evaluation }

    func collectMetrics(into metrics: inout TaskMetrics) {
        var transaction = TransactionMetrics()
        transaction.fetchStart = start
        transaction.isReusedConnection = isReused
        if let connection {
            if !isReused {
                let dialled = connection.dialTimes.later(
                    by: Int64(connection.dialledAt / 1000) - Int64(task.startedAt / 1000)
                )
                transaction.domainLookupStart = dialled.domainLookupStart
                transaction.domainLookupEnd = dialled.domainLookupEnd
                transaction.connectStart = dialled.connectStart
                transaction.secureConnectionStart = dialled.secureConnectionStart
                transaction.secureConnectionEnd = dialled.secureConnectionEnd
                transaction.connectEnd = dialled.connectEnd
            }
        }
        if connection != nil, requestStart != TransactionMetrics.absent {
            transaction.requestStart = requestStart
            transaction.requestEnd = requestEnd
            transaction.requestHeaderBytesSent = Int64(requestHeadBytes)
            transaction.requestBodyBytesSent = task.bodyBytesSent
        }
        if hasHead {
            transaction.status = head.status
            transaction.responseStart = responseStart
            transaction.responseEnd = max(responseEnd, responseStart)
            transaction.protocolVersion = 20
        }
        transaction.responseHeaderBytesReceived = Int64(responseHeadBytes)
        transaction.responseBodyBytesReceived = Int64(responseBodyBytes)
        transaction.connection = connection?.info
        metrics.transaction = transaction
    }
}

/// The stream of such an exchange; one that is repeated has two, one after the other.
final class OriginStream: HTTP2Stream {
    /// Nil when nobody waits for what comes any more.
    var owner: HTTP2Exchange?
    private unowned let connection: HTTP2ClientConnection

    init(_ owner: HTTP2Exchange, _ connection: HTTP2ClientConnection) {
        self.owner = owner
        self.connection = connection
    }

    override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        owner?.take(name: name, value: value) ?? true
    }

    override func didReceiveHead(endsStream: Bool) -> Bool { owner?.headIsComplete(endsStream: endsStream) ?? true }

    override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
        if let owner { owner.takeBody(bytes, self) } else { connection.consume(self, bytes.count) }
    }

    override func didReceiveEnd() { owner?.answerIsWhole() }
    override func hasRoom() { owner?.hasRoom(self) }
    override func didEnd() { owner?.didEndRequest() }

    override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) {
        owner?.streamClosed(code, byPeer: byPeer)
        connection.exchangeEnded()
    }
}
