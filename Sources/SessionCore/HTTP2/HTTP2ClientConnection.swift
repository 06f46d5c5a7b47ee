import HTTP2Core
import HTTPCore
import IOCore
import ServerTrust

/// A connection of HTTP/2 to one endpoint, which carries any number of exchanges, each in both directions at once.
///
/// It is a stream (`LoopStreamTask`) over a verified connection. It belongs to one endpoint of one policy generation, and its
/// verdict is checked again for each request.
final class HTTP2ClientConnection: HTTP2SessionDelegate {
    enum State {
        case dialling
        case open
        /// What is under way is finished; nothing new.
        case retired
        case closed
    }

    private(set) var state = State.dialling
    /// The connection, once it stands.
    private(set) var info: ConnectionInfo?
    /// When it was dialled and how long that took, for the metrics of the first exchange.
    let dialledAt: UInt64
    private(set) var dialTimes = TransactionMetrics()
    /// Whether it has carried a request.
    var isUsed = false
    /// Why it broke off; nil while it has not.
    private(set) var loss: String?
    let endpoint: Endpoint
    /// The `:authority` of its requests.
    let authority: [UInt8]

    private let pool: HTTP2ConnectionPool
    private let loop: EventLoop
    private var stream: LoopStreamTask?
    private var session: HTTP2Session!
    /// Exchanges that wait for the connection to stand.
    private var waiting: [HTTP2Exchange] = []
    private var isFlushPlanned = false
    /// The number of requests that it has carried.
    private var requestCount = 0
    private var isReceiving = false
    private var idleTimer: LoopTimer!

    /// No more than this waits for the socket.
    private static let outputLimit = 64 << 10
    /// Longer than any of the limits of a task: those are what ends it.
    private static let noLimit = TimeSpan.seconds(86_400)
    private static let streamWindow: Int32 = 128 << 10
    private static let streamLimit = 100
    private static let idleTime = TimeSpan.seconds(60)
    private static let farewellTime = TimeSpan.seconds(1)

    init?(_ endpoint: Endpoint, pool: HTTP2ConnectionPool) {
        self.endpoint = endpoint
        self.pool = pool
        loop = pool.loop
        dialledAt = loop.now
        let port = endpoint.port == 443 ? "" : ":\(endpoint.port)"
        authority = Array("\(endpoint.host.authorityText)\(port)".utf8)
        super.init()
        let settings = HTTP2Settings(
            streamWindow: Self.streamWindow,
            // Streams that nobody reads leave the others theirs.
            connectionWindow: Self.streamWindow * Int32(Self.streamLimit),
            headerListBytes: UInt32(clamping: pool.headLimits.headBytes)
        )
        guard let session = HTTP2Session(.client, settings, delegate: self) else { return nil }
        self.session = session
        idleTimer = LoopTimer { [unowned self] in timerFired() }
    }

    /// Dials.
    func start() {
        var timeouts = endpoint.timeouts
        timeouts.stall = Self.noLimit
        timeouts.total = nil
        let stream = pool.owner.makeStream(
            with: endpoint,
            // Without HTTP/2 there, the connection serves requests over HTTP/1.1.
            [.http2, .http1],
            timeouts,
            ConnectionStreamDelegate(self)
        )
        self.stream = stream
        stream.resume()
    }

    // MARK: Exchanges

    /// How many exchanges it has, or will have.
    var load: Int { waiting.count + session.streams.count }

    /// Whether one more can be carried at once.
    var hasRoom: Bool {
        switch state {
        case .dialling: waiting.count < min(Self.streamLimit, pool.requestLimit(endpoint))
        case .open:
            !session.isGoingAway && session.streams.count < min(session.peerStreamLimit, Self.streamLimit)
                && requestCount < pool.requestLimit(endpoint)
        case .retired, .closed: false
        }
    }

    /// Whether the verdict on its server holds for one more request, now.
    func mayCarry(_ endpoint: Endpoint) -> Bool {
        guard state == .open else { return state == .dialling && endpoint === self.endpoint }
        guard let verified = stream?.verifiedConnection,
            verified.mayCarry(endpoint, lifetime: pool.connectionLifetime), !session.isGoingAway,
            requestCount < pool.requestLimit(endpoint)
        else {
            retire()
            return false
        }
        return true
    }

    func take(_ transfer: HTTP2Exchange) {
        loop.disarm(idleTimer)
        if state == .open { transfer.begin(on: self) } else { waiting.append(transfer) }
    }

    /// An exchange that waits does so no longer.
    func leave(_ transfer: HTTP2Exchange) {
        waiting.removeAll { $0 === transfer }
    }

    /// Sends a request.
    func request(_ stream: HTTP2Stream, endsStream: Bool, _ fill: (inout HTTP2FieldBlock) -> Void) -> Bool {
        guard session.request(stream, endsStream: endsStream, fill) else { return false }
        requestCount += 1
        return true
    }

    /// Bytes of an answer have gone on; also of one that is over.
    func consume(_ stream: HTTP2Stream, _ count: Int) { session.consume(stream, count) }

    /// An exchange is over.
    func exchangeEnded() {
        guard isIdle else { return }
        switch state {
        case .open: loop.arm(idleTimer, after: Self.idleTime)
        // nghttp2 may be on the stack.
        case .retired: loop.atEndOfTurn { [self] in if state == .retired, isIdle { close() } }
        case .dialling, .closed: break
        }
    }

    /// Whether it carries no exchange and none waits for it.
    var isIdle: Bool { session.streams.isEmpty && waiting.isEmpty }

    private func timerFired() {
        if state == .closed { stream?.cancel() } else if isIdle { retire() }
    }

    /// Ends the tasks that it carries.
    func cancelAll() {
        for transfer in waiting { transfer.task.cancel() }
        for stream in session.streams { (stream as? OriginStream)?.owner?.task.cancel() }
    }

    /// Ends the tasks that wait for it to stand.
    func handBack() {
        for transfer in waiting { transfer.fail(.sessionInvalidated) }
    }

    /// Takes no request any more, and closes with the last of those that are there.
    func retire() {
        guard state == .open else {
            // One that nobody waits for any more.
            if state == .dialling, waiting.isEmpty { close() }
            return
        }
        state = .retired
        pool.retire(self)
        if isIdle { close() }
    }

    /// Takes its leave, and waits a little for the server to do the same.
    private func close() {
        guard state != .closed else { return }
        pool.forget(self)
        guard state != .dialling, let stream else {
            state = .closed
            self.stream?.cancel()
            return
        }
        session.goAway()
        flush()
        guard state != .closed else { return }
        state = .closed
        session.abandon(.cancel)
        stream.closeWrite()
        loop.arm(idleTimer, after: Self.farewellTime)
    }

    /// Closes a connection that carries nothing at once: its place, or its descriptor, is needed.
    func discard() {
        guard state == .open, isIdle, let stream else { return }
        session.goAway()
        flush()
        guard state == .open else { return }
        state = .closed
        pool.forget(self)
        session.abandon(.cancel)
        stream.cancel()
    }

    // MARK: The stream

    fileprivate func didConnect(_ stream: LoopStreamTask) {
        guard state == .dialling else { return }
        guard stream.applicationProtocol == .http2 else { return fallBack() }
        state = .open
        info = stream.connectionInfo
        dialTimes = stream.connectionTimes
        let ready = waiting
        waiting = []
        // The server may allow fewer streams than requests wait: the others look for a further connection.
        for transfer in ready { hasRoom ? transfer.begin(on: self) : transfer.connectAnew() }
        planFlush()
        if pool.isRetired { retire() }
        exchangeEnded()
    }

    /// The server has chosen HTTP/1.1: the connection is kept for such requests, those that wait among them.
    private func fallBack() {
        state = .closed
        pool.didChooseHTTP1(endpoint)
        pool.forget(self)
        let ready = waiting
        waiting = []
        stream?.handOver()
        for exchange in ready { exchange.fallBack() }
    }

    fileprivate func didReceive(_ bytes: borrowing Span<UInt8>) {
        guard state == .open || state == .retired else { return }
        isReceiving = true
        // nghttp2 is on the stack until the call returns.
        let session = session!
        let isWell = session.receive(bytes)
        isReceiving = false
        planFlush()
        if !isWell { lose("it sent what is no HTTP/2, or a field of more than 64 KB") }
    }

    override func sessionHasOutput(_ session: HTTP2Session) { planFlush() }

    fileprivate func planFlush() {
        guard !isFlushPlanned else { return }
        isFlushPlanned = true
        loop.atEndOfTurn { [self] in
            isFlushPlanned = false
            flush()
        }
    }

    private func flush() {
        guard let stream, !isReceiving else { return }
        let session = session!
        while stream.canSend, stream.pendingBytes < Self.outputLimit {
            let isWell = session.produce(upTo: Self.outputLimit)
            guard !session.output.isEmpty else {
                if !isWell { lose("the session failed") }
                break
            }
            var piece = ByteBuffer()
            swap(&piece, &session.output)
            stream.send(piece.bytes)
        }
        if state != .closed, session.isOver { lose("the server ended it") }
    }

    override func session(_ session: HTTP2Session, didReceiveGoAway code: HTTP2ErrorCode, lastStream: Int32) {
        planFlush()
        // Streams of a client have the numbers 1, 3, 5 …; the largest number announces an end without refusing anything.
        if code == .noError, lastStream > 0, lastStream < Int32.max {
            pool.didEndConnection(after: (Int(lastStream) + 1) / 2, endpoint)
        }
        loop.atEndOfTurn { [self] in retire() }
    }

    /// The connection is gone: what it carried has failed.
    fileprivate func lose(_ why: String) {
        guard state != .closed else { return }
        state = .closed
        loss = why
        pool.forget(self)
        session.abandon(.internalError)
        stream?.cancel()
    }

    fileprivate func didComplete(_ error: SessionError?) {
        if state == .dialling, let stream {
            // Whom those that wait were to go to, and how far the connection came.
            info = stream.connectionInfo
            dialTimes = stream.metrics.transaction
        }
        stream = nil
        if state == .open || state == .retired { lose(error?.details ?? "the server ended it") }
        loop.remove(idleTimer)
        guard state == .dialling else { return }
        state = .closed
        pool.forget(self)
        let failed = waiting
        waiting = []
        let error = error ?? SessionError(.connectFailed, "The connection to \(endpoint.host) broke off.")
        for transfer in failed {
            // What one task's delegate refuses, another's may accept.
            if let refusing, refusing !== transfer { transfer.connectAnew() } else { transfer.fail(error) }
        }
        refusing = nil
    }

    fileprivate var asker: HTTP2Exchange? { waiting.first }
    /// Whose delegate has refused the server, whom the policy accepts.
    private var refusing: HTTP2Exchange?

    fileprivate func mayTrust(_ trust: ConnectionTrust) -> SessionError? {
        guard let asker, let refusal = asker.task.delegate.task(asker.task, mayTrust: trust) else { return nil }
        refusing = asker
        return refusal
    }
}

/// Hands what a connection's stream is told on to the connection.
private final class ConnectionStreamDelegate: LoopStreamTaskDelegate {
    private let connection: HTTP2ClientConnection

    init(_ connection: HTTP2ClientConnection) { self.connection = connection }

    override func streamTaskNeedsClientIdentity(_ task: LoopStreamTask) -> ClientIdentityDecision {
        connection.asker.map { $0.task.delegate.taskNeedsClientIdentity($0.task) } ?? .none
    }

    override func streamTask(_ task: LoopStreamTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        connection.mayTrust(trust)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) { connection.didConnect(task) }

    override func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        connection.didReceive(bytes)
        return .proceed
    }

    override func streamTaskReadClosed(_ task: LoopStreamTask) { connection.lose("the server ended it") }
    override func streamTaskHasSpace(_ task: LoopStreamTask) { connection.planFlush() }

    override func streamTaskDidComplete(_ task: LoopStreamTask, error: SessionError?) {
        connection.didComplete(error)
    }
}
