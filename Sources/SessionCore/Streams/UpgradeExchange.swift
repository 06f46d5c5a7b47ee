// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// Carries a task whose request offers another protocol (RFC 9110, section 7.8), on a connection of its own.
///
/// A response of any other status than 101 is delivered as for every task. Behind a 101 the connection is the new protocol's: what
/// comes on it is delivered like the bytes of a body, what the task sends goes out as it is, and the end of the connection is the
/// end of the task. The time limits are those of a request up to the 101; behind it there is none.
final class UpgradeExchange: ExchangeReceiver {
    private var task: LoopTask?
    private var stream: LoopStreamTask?
    /// In a session with an origin in memory, in place of the stream.
    private var stub: StubExchange?
    private let transport: StubTransport?
    private var reader: HTTP1ResponseReader
    private var informational: InformationalBudget
    /// Bytes of the connection that the task has not taken yet.
    private var pending = ByteBuffer()
    private var hasSwitched = false
    private var isContinuePlanned = false
    private var isStubWorking = false
    /// The other end has said all.
    private var isReadClosed = false

    init(
        _ task: LoopTask,
        session: TaskOwner,
        connections: PooledConnectionOwner,
        limits: HeadLimits,
        stub transport: StubTransport?
    ) {
        self.task = task
        reader = HTTP1ResponseReader(limits: limits)
        reader.reset(answering: task.request.method, mayUpgrade: true)
        informational = InformationalBudget(headBytes: limits.headBytes)
        self.transport = transport
        super.init(loop: session.loop)
        if transport != nil {
            stub = StubExchange(task.request, self, limits: limits)
            return
        }
        var timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        // The connection may rest for any time, and the limit of the whole is this object's.
        timeouts.spans.stall = .seconds(31_536_000)
        timeouts.spans.total = nil
        let delegate = UpgradeDelegate()
        stream = LoopStreamTask(
            endpoint: task.request.endpoint,
            applicationProtocols: [.http1],
            timeouts: timeouts,
            delegate: delegate,
            session: session,
            connections: connections
        )
        delegate.exchange = self
    }

    // MARK: Start

    override func start() {
        guard let task else { return }
        taskStart = task.startedAt
        timings.fetchStart = 0
        var timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        // The stream has the limits up to the connection.
        timeouts.spans.queue = nil
        clock = TransferClock(timeouts, taskStart: task.startedAt, now: loop.now)
        enter(.queued)
        if let transport, let stub { transport.begin(stub) } else { stream?.resume() }
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

    fileprivate func needsClientIdentity() -> ClientIdentityDecision {
        task.map { $0.delegate.taskNeedsClientIdentity($0) } ?? .none
    }

    fileprivate func mayTrust(_ trust: ConnectionTrust) -> SessionError? {
        task.flatMap { $0.delegate.task($0, mayTrust: trust) }
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

    override func didReceiveInformational(_ head: borrowing ResponseHead) {
        guard let task else { return }
        noteHead(byteCount: head.byteCount)
        clock.originIsAlive(at: loop.now)
        switch informational.receive(status: head.status, byteCount: head.byteCount, at: loop.now) {
        case .relay: task.delegate.task(task, didReceiveInformational: head)
        case .drop: break
        case .excessive(let why): fail(SessionError(.responseInvalid, why))
        }
    }

    override func didReceiveHead(_ head: borrowing ResponseHead) {
        guard let task else { return }
        noteHead(byteCount: head.byteCount)
        timings.status = head.status
        timings.protocolVersion = Int(head.majorVersion) * 10 + Int(head.minorVersion)
        enter(.receiving)
        if head.status == 101 {
            hasSwitched = true
            disarmTimer()
        }
        if task.received(head) == .cancel, self.task === task { task.cancel() }
    }

    override func didReceiveBody(_ bytes: borrowing Span<UInt8>) {
        guard let task else { return }
        didMoveBytes()
        timings.responseBodyBytes += bytes.count
        if task.delegate.task(task, didReceive: bytes) == .pause, self.task === task { isPausedByDelegate = true }
    }

    override func didReceiveEnd(trailers: borrowing HeaderFields) {
        guard let task else { return }
        if trailers.count > 0 { task.delegate.task(task, didReceiveTrailers: trailers) }
        didReceiveEnd()
    }

    override func didReceiveEnd() {
        if timings.responseEnd == TransactionMetrics.absent { timings.responseEnd = elapsed }
        task?.finish(nil)
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
        // What the task has sent before still goes out, if the other end takes it in time.
        stream?.closeWrite()
        enter(.sending)
    }

    fileprivate func streamDidComplete(_ error: SessionError?) {
        guard let task else { return }
        if error == nil, timings.responseEnd == TransactionMetrics.absent { timings.responseEnd = elapsed }
        task.finish(error)
    }

    // MARK: What the task sends

    override var method: HTTPMethod { task?.request.method ?? .get }

    override var hasBody: Bool { hasSwitched && task.map { !$0.upload.isEmpty } ?? false }

    override var isBodyComplete: Bool { hasSwitched && task.map { $0.uploadEnded && $0.upload.isEmpty } ?? true }

    override func takeBody(into piece: inout ByteBuffer, upTo limit: Int) {
        if let task { swap(&piece, &task.upload) }
    }

    override func needsBodyData() {
        if let task, hasSwitched { task.delegate.taskNeedsBodyData(task) }
    }

    override var pendingBytes: Int { hasSwitched ? stream?.pendingBytes ?? 0 : 0 }

    override func continueLater() {
        guard !isContinuePlanned else { return }
        isContinuePlanned = true
        loop.atEndOfTurn { [weak self] in self?.continueNow() }
    }

    private func continueNow() {
        isContinuePlanned = false
        if let stub { return stub.proceed() }
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

    override func fail(_ error: SessionError) { task?.finish(error) }

    override func end() {
        task = nil
        invalidate()
        pending.release()
        let (stream, stub) = (stream, stub)
        self.stub = nil
        stub?.detach()
        if let stream, stream.isRunning { stream.cancel() }
        timings.endExchange()
    }

    // MARK: Time

    override func holdDidChange() {
        if isHeldBack || isStubWorking { clock.suspend() } else { clock.resume(at: loop.now) }
        if !hasSwitched { armTimer() }
        if isHeldBack { stream?.pauseReceiving() }
    }

    override func timerDidFire() {
        guard let task, !hasSwitched || isReadClosed else { return }
        switch clock.judge(at: loop.now) {
        case .wait, .look: armTimer()
        case .expired(let expiry):
            if let error = stream?.declinedRenegotiation { return task.finish(error) }
            task.finish(expiry.error(task.request.endpoint, at: .connection))
        }
    }

    // MARK: Metrics

    override var evaluation: TrustEvaluation? { stream?.evaluation }

    override func collectMetrics(into metrics: inout TaskMetrics) {
        metrics.transaction = TransactionMetrics()
        if let stream {
            stream.task.noteMetrics()
            metrics.transaction = stream.metrics.transaction
            timings.info = stream.connectionInfo
        }
        timings.write(
            into: &metrics.transaction,
            isOnReusedConnection: false,
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
