// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore
import ServerTrust

/// Carries a task whose request offers another protocol (RFC 9110, section 7.8): over HTTP/1.1 on a connection of its own, and as a
/// stream of a kept HTTP/2 connection whose server has announced that it takes such streams (RFC 8441).
///
/// A response that does not switch is delivered as for every task. Behind one that does, what comes is delivered like the bytes of a
/// body, what the task sends goes out as it is, and the end of the connection, or of the stream, is the end of the task. The time
/// limits are those of a request up to that response; behind it there is none.
final class UpgradeExchange: TaskExchange {
    private let session: TaskOwner
    private let connections: OriginConnections
    private var stream: LoopStreamTask?
    /// The connection that has promised a stream at the end of the turn.
    private var promised: HTTP2ClientConnection?
    /// In place of `stream`.
    private var shared: HTTP2OriginStream?
    /// In a session with an origin in memory, in place of either.
    private var stub: StubExchange?
    private let transport: StubTransport?
    private var reader: HTTP1ResponseReader
    /// Bytes of the connection that the task has not taken yet.
    private var pending = ByteBuffer()
    private var hasSwitched = false
    private var isContinuePlanned = false
    private var isStubWorking = false
    /// The other end has said all.
    private var isReadClosed = false
    /// This side of the HTTP/2 stream has ended.
    private var isWriteClosed = false

    init(_ task: LoopTask, session: TaskOwner, connections: OriginConnections) {
        self.session = session
        self.connections = connections
        transport = connections.stub
        reader = HTTP1ResponseReader(limits: connections.headLimits)
        reader.reset(answering: task.request.method, mayUpgrade: true)
        super.init(loop: session.loop, limits: connections.headLimits)
        self.task = task
        if transport != nil { stub = StubExchange(task.request, self, limits: connections.headLimits) }
    }

    // MARK: Start

    override func start() {
        guard let task else { return }
        timings.begin(at: task.startedAt)
        repetition.start(wasRepeated: task.wasRepeated)
        var timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        // The stream has the limits up to the connection.
        timeouts.spans.queue = nil
        clock = TransferClock(timeouts, taskStart: task.startedAt, now: loop.now)
        enter(.queued)
        if let transport, let stub { return transport.begin(stub) }
        guard let connection = connections.connectionForTunnel(task.request) else { return openConnection(for: task) }
        connection.promiseTunnel()
        connections.didBegin(elsewhere: task)
        promised = connection
        loop.atEndOfTurn { [weak self] in self?.openStream() }
    }

    /// HTTP/1.1, on a connection of its own.
    private func openConnection(for task: LoopTask) {
        var timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        // The connection may rest for any time, and the limit of the whole is this object's.
        timeouts.spans.stall = .seconds(31_536_000)
        timeouts.spans.total = nil
        let delegate = UpgradeDelegate()
        delegate.exchange = self
        let stream = LoopStreamTask(
            endpoint: task.request.endpoint,
            applicationProtocols: [.http1],
            timeouts: timeouts,
            delegate: delegate,
            session: session,
            connections: connections,
            // The task is under way, whatever has become of the session since.
            isLate: false
        )
        self.stream = stream
        stream.resume()
    }

    fileprivate func didConnect(_ stream: LoopStreamTask) {
        guard let task else { return }
        task.delegate.taskDidConnect(task)
        guard self.task != nil else { return }
        var head = ByteBuffer()
        Self.write(task.request, into: &head)
        timings.requestStart = elapsed
        timings.info = stream.connectionInfo
        didWriteHead(byteCount: head.count)
        stream.send(head.bytes)
        didSendRequest()
        enter(.waiting)
    }

    /// The head for the origin itself: where a proxy is asked for other requests without TLS, it gives these a tunnel.
    private static func write(_ request: borrowing SessionRequest, into head: inout ByteBuffer) {
        request.method.append(to: &head)
        head.append(UInt8(ascii: " "))
        head.append(request.target.span)
        head.append(" HTTP/1.1\r\n")
        head.append(request.endpoint.hostLine)
        request.fields.serialize(into: &head)
        head.append("\r\n")
    }

    // MARK: A stream of HTTP/2

    /// The end of the turn: the request takes the stream that was promised.
    private func openStream() {
        guard let task, let connection = promised.take() else { return }
        guard !connections.isHandingBack else {
            connection.withdrawPromise()
            leaveTunnel(of: connection, task)
            return task.finish(.sessionInvalidated)
        }
        connection.redeemPromise()
        repetition.isOnReusedConnection = connection.connection.isUsed
        timings.info = connection.connection.info
        clock.beginExchange(at: loop.now)
        let stream = HTTP2OriginStream(connection, limits: connections.headLimits)
        shared = stream
        enter(.waiting)
        task.delegate.taskDidConnect(task)
        guard shared === stream else { return connection.exchangeDidEnd() }
        timings.requestStart = elapsed
        guard stream.begin(task.request, nil, self) else {
            // The server takes no more requests since the connection was chosen.
            connection.exchangeDidEnd()
            return openConnectionInstead(of: stream)
        }
        didSendRequest()
    }

    private func leaveTunnel(of connection: HTTP2ClientConnection, _ task: LoopTask) {
        connection.tunnelDidEnd()
        connections.didEnd(elsewhere: task)
    }

    /// The request goes out over HTTP/1.1: the HTTP/2 connection does not carry it.
    private func openConnectionInstead(of ended: HTTP2OriginStream) {
        guard let task else { return }
        shared = nil
        leaveTunnel(of: ended.connection, task)
        ended.detach()
        beginExchange(connections.headLimits)
        timings.fetchStart = elapsed
        enter(.queued)
        // nghttp2 may be on the stack.
        loop.atEndOfTurn { [weak self] in
            guard let self, let task = self.task else { return }
            openConnection(for: task)
        }
    }

    override func exchangeDidEnd(_ ending: ExchangeEnding) {
        guard let task, let shared else { return }
        // The opening handshake is a GET over HTTP/1.1.
        guard repetition.allows(ending, isIdempotent: true) else { return task.finish(ending.error) }
        task.wasRepeated = true
        repetition.repeatRequest(restoring: &task.upload)
        guard !connections.isHandingBack else { return task.finish(.sessionInvalidated) }
        openConnectionInstead(of: shared)
    }

    override func returnToPool() {
        var body = ByteBuffer()
        guard let shared, shared.takeBack(inFrontOf: &body) else { return }
        openConnectionInstead(of: shared)
    }

    /// Nothing has come for a while. Where the kept connection is provably dead, the request waits no longer.
    private func lookAtConnection() {
        guard let task, let shared, !hasSwitched, isOnReusedConnection,
            shared.connection.look(every: clock.lookInterval)
        else { return }
        shared.connection.retire()
        let place = task.request.endpoint.host
        let error = SessionError(.responseTimeout, "\(place) acknowledges nothing on the kept connection.")
        let ending = ExchangeEnding(
            cause: .connectionLost,
            hasBegunResponse: shared.hasBegunResponse,
            error: error
        )
        if repetition.allows(ending, isIdempotent: true) { exchangeDidEnd(ending) }
    }

    override func tunnelDidEndSending() {
        isWriteClosed = true
        // What the task has not taken yet is all that is left of the stream, and has its time.
        if isOver, !isReadClosed { enter(.sending) }
        endIfOver()
    }

    /// Whether nothing comes any more, nor goes.
    private var isOver: Bool { isReadClosed || isWriteClosed && shared?.isClosed == true }

    /// Both sides of the stream have ended.
    private func endIfOver() {
        if shared != nil, isReadClosed, isWriteClosed { super.didReceiveEnd() }
    }

    // MARK: Response

    fileprivate func didReceive(_ bytes: borrowing Span<UInt8>) -> BodyFlow {
        guard task != nil else { return .proceed }
        guard pending.isEmpty, takesResponse else {
            pending.append(bytes)
            return .pause
        }
        let consumed = read(bytes)
        if consumed < bytes.count, task != nil { pending.append(bytes.extracting(consumed..<bytes.count)) }
        return takesResponse && pending.isEmpty || !hasHead ? .proceed : .pause
    }

    private var hasHead: Bool { hasSwitched || reader.hasHead }

    /// - Returns: how many bytes are done with.
    private func read(_ bytes: borrowing Span<UInt8>) -> Int {
        var position = 0
        while task != nil, !hasSwitched {
            let rest = bytes.extracting(position..<bytes.count)
            switch reader.next(rest) {
            case .needMore(let consumed): return position + consumed
            case .informational(let consumed):
                position += consumed
                didReceiveInformational(reader.head)
            case .head(let consumed):
                position += consumed
                didReceiveHead(reader.head)
            case .data(let range, let consumed):
                position += consumed
                didReceiveBody(rest.extracting(range))
                if !reader.isComplete, !takesResponse { return position }
            case .end(let consumed):
                position += consumed
                didReceiveLastByte()
                didReceiveEnd(trailers: reader.trailers)
            case .failed(let why): fail(SessionError(.responseInvalid, why))
            }
            if hasSwitched, !takesResponse { return position }
        }
        if task != nil, position < bytes.count { didReceiveBody(bytes.extracting(position..<bytes.count)) }
        return bytes.count
    }

    override var method: HTTPMethod { shared == nil ? super.method : .connect }

    override func didReceiveHead(_ head: borrowing ResponseHead) {
        guard let task else { return }
        hasSwitched = task.request.isSwitched(by: head)
        super.didReceiveHead(head)
        if self.task != nil, hasSwitched { disarmTimer() }
    }

    override func didReceiveBody(_ bytes: borrowing Span<UInt8>) {
        didMoveBytes()
        super.didReceiveBody(bytes)
    }

    override func didReceiveEnd() {
        guard shared != nil, hasSwitched else { return super.didReceiveEnd() }
        // Bytes that the task was given may still wait there. The stream tells of its end again whenever the task goes on.
        guard takesResponse else { return }
        guard !isReadClosed else { return }
        isReadClosed = true
        endReading()
    }

    fileprivate func readDidClose(_ stream: LoopStreamTask) {
        guard task != nil else { return }
        isReadClosed = true
        guard !hasSwitched else { return endReading() }
        switch reader.end(isClean: true) {
        case .complete: didReceiveEnd()
        case .truncated(let why): fail(stream.declinedRenegotiation ?? SessionError(.responseTruncated, why))
        }
    }

    /// Nothing follows what the task has not taken yet.
    private func endReading() {
        guard isReadClosed, hasSwitched, pending.isEmpty else { return }
        enter(.sending)
        // What the task has sent before still goes out, if the other end takes it in time.
        if let shared {
            shared.endTunnel()
            endIfOver()
        } else {
            stream?.closeWrite()
        }
    }

    fileprivate func streamDidComplete(_ error: SessionError?) {
        guard let task else { return }
        if error == nil, timings.responseEnd == TransactionMetrics.absent { timings.responseEnd = elapsed }
        task.finish(error)
    }

    // MARK: What the task sends

    override var hasBody: Bool { hasSwitched && task.map { !$0.upload.isEmpty } ?? false }

    override var isBodyComplete: Bool { hasSwitched && task.map { $0.uploadEnded && $0.upload.isEmpty } ?? true }

    override var bodyTrailers: HeaderFields { HeaderFields() }

    override func takeBody(into piece: inout ByteBuffer, upTo limit: Int) {
        if let task { swap(&piece, &task.upload) }
    }

    override func needsBodyData() {
        if let task, hasSwitched { task.delegate.taskNeedsBodyData(task) }
    }

    override var pendingBytes: Int { hasSwitched ? shared?.pendingBytes ?? stream?.pendingBytes ?? 0 : 0 }

    override func continueLater() {
        guard !isContinuePlanned else { return }
        isContinuePlanned = true
        loop.atEndOfTurn { [weak self] in self?.continueNow() }
    }

    private func continueNow() {
        isContinuePlanned = false
        if let stub { return stub.proceed() }
        if let shared { return isReadClosed ? () : shared.proceed() }
        guard task != nil, let stream else { return }
        sendBody(stream)
        guard task != nil, takesResponse else { return }
        if !pending.isEmpty {
            var bytes = ByteBuffer()
            swap(&bytes, &pending)
            let consumed = read(bytes.bytes)
            bytes.consume(consumed)
            swap(&bytes, &pending)
        }
        guard task != nil, takesResponse, pending.isEmpty else { return }
        if isReadClosed { endReading() } else { stream.resumeReceiving() }
    }

    private func sendBody(_ stream: LoopStreamTask) {
        guard hasSwitched, let task else { return }
        if !task.upload.isEmpty {
            var bytes = ByteBuffer()
            swap(&bytes, &task.upload)
            timings.requestContentBytes += bytes.count
            timings.requestBodyBytes += bytes.count
            stream.send(bytes.bytes)
        }
        if task.uploadEnded { stream.closeWrite() }
    }

    fileprivate func streamHasSpace() {
        guard task?.uploadEnded == false else { return }
        needsBodyData()
    }

    // MARK: An origin in memory

    override func stubDidAccept() -> Bool {
        guard let task, stub != nil else { return false }
        task.delegate.taskDidConnect(task)
        guard self.task != nil else { return false }
        timings.requestStart = elapsed
        enter(.waiting)
        return true
    }

    override func stubIsWorking(_ isWorking: Bool) {
        guard task != nil, isWorking != isStubWorking else { return }
        isStubWorking = isWorking
        if !isHeldBack { holdDidChange() }
    }

    // MARK: The end

    override func end() {
        let ended = task
        task = nil
        invalidate()
        pending.release()
        let (stream, stub) = (stream, stub)
        self.stub = nil
        stub?.detach()
        if let stream, stream.isRunning { stream.cancel() }
        if let connection = promised.take(), let ended {
            connection.withdrawPromise()
            leaveTunnel(of: connection, ended)
        }
        if let shared = shared.take(), let ended {
            leaveTunnel(of: shared.connection, ended)
            shared.detach()
        }
        timings.endExchange()
    }

    // MARK: Time

    override func holdDidChange() {
        if isHeldBack || isStubWorking { clock.suspend() } else { clock.resume(at: loop.now) }
        if !hasSwitched { armTimer() }
        if isHeldBack { stream?.pauseReceiving() }
    }

    override func timerDidFire() {
        guard let task, !hasSwitched || isOver else { return }
        switch clock.judge(at: loop.now) {
        case .wait: armTimer()
        case .look:
            lookAtConnection()
            if self.task != nil { armTimer() }
        case .expired(let expiry):
            // A connection on which nothing comes for any request may be dead.
            if let shared, shared.connection.liveness.lastProgress < clock.exchangeBegan { shared.connection.retire() }
            if let error = stream?.declinedRenegotiation { return task.finish(error) }
            task.finish(expiry.error(task.request.endpoint, at: .connection))
        }
    }

    // MARK: Metrics

    override var evaluation: TrustEvaluation? { stream?.evaluation ?? timings.info?.evaluation }

    override func collectMetrics(into metrics: inout TaskMetrics) {
        metrics.transaction = TransactionMetrics()
        if let stream {
            stream.task.noteMetrics()
            metrics.transaction = stream.metrics.transaction
            timings.info = stream.connectionInfo
        }
        timings.write(
            into: &metrics.transaction,
            isOnReusedConnection: isOnReusedConnection,
            pendingBytes: pendingBytes,
            now: elapsed
        )
    }
}

/// Hands the events of the stream on to the exchange, which has the stream.
private final class UpgradeDelegate: LoopStreamTaskDelegate {
    weak var exchange: UpgradeExchange?

    override func streamTaskNeedsClientIdentity(_ task: LoopStreamTask) -> ClientIdentityDecision {
        exchange?.needsClientIdentity() ?? .none
    }

    override func streamTask(_ task: LoopStreamTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        exchange?.mayTrust(trust)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) { exchange?.didConnect(task) }

    override func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        exchange?.didReceive(bytes) ?? .proceed
    }

    override func streamTaskReadClosed(_ task: LoopStreamTask) { exchange?.readDidClose(task) }

    override func streamTaskHasSpace(_ task: LoopStreamTask) { exchange?.streamHasSpace() }

    override func streamTaskDidComplete(_ task: LoopStreamTask, error: SessionError?) {
        exchange?.streamDidComplete(error)
    }
}
