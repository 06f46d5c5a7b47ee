import HTTP2Core
import HTTPCore
import IOCore

/// One client's connection, as HTTP/2: each stream is an exchange of its own.
///
/// Credit for bodies is given as they go on to the origin, and no more of an answer is taken from the origin than the
/// client has room for, so that a connection's memory is bounded by its windows.
final class HTTP2Connection: HTTP2SessionDelegate {
    let transport: ClientTransport
    let worker: Worker
    let listener: WorkerListener
    private var session: HTTP2Session!
    private var phase = Phase.open
    /// Idle, final GOAWAY and lingering: one at a time.
    private var timer: LoopTimer!
    /// A head has begun and is not complete.
    private var headTimer: LoopTimer!
    /// Armed while bodies of announced length come in.
    private var paceTimer: LoopTimer!
    private var streamsInHead = 0
    /// Streams whose exchange is under way.
    private var busyStreams = 0
    /// Those that have something for the session at the end of the turn.
    private var toFlush: [HTTP2ExchangeStream] = []
    private var isTakingBytes = false
    private var lingered = 0

    /// The budget for frames that bring no request or response forward.
    private var burden: FrameRateLimiter
    /// Streams that the client has broken off, or had broken off.
    private var breaks: FrameRateLimiter
    /// Credit that the client has given, and requests that it has made: the one has to be in some proportion to the other
    /// and to what was sent.
    private var windowUpdates = 0
    private var requests = 0

    private enum Phase {
        case open
        /// The end is announced; requests that were on their way are still taken.
        case announced
        /// No new request is taken.
        case goingAway
        /// All is said; what the client still sends is read and dropped, so that the last words are not lost to a reset.
        case lingering
        case closed
    }

    /// So much waits for the socket at a time.
    private static let outputLimit = 64 << 10
    /// Others wait to be read.
    private static let turnLimit = 256 << 10
    private static let lingerTime = TimeSpan.seconds(2)
    private static let lingerBytes = 1 << 20
    /// A request that left before the client knew of the end has arrived by then.
    private static let announcementTime = TimeSpan.seconds(1)

    init(_ transport: ClientTransport) {
        self.transport = transport
        worker = transport.worker
        listener = transport.listener
        let now = worker.loop.now
        burden = FrameRateLimiter(burst: 1000, rate: 200, now: now)
        breaks = FrameRateLimiter(burst: 200, rate: 100, now: now)
        super.init()
        let settings = HTTP2Settings(
            streamWindow: 64 << 10,
            // Streams whose origins take nothing leave room for others.
            connectionWindow: 4 << 20,
            headerListBytes: UInt32(clamping: worker.generation.headLimits.headBytes)
        )
        guard let session = HTTP2Session(.server, settings, delegate: self) else { fatalError("no memory for nghttp2") }
        self.session = session
        timer = LoopTimer { [unowned self] in timeIsUp() }
        headTimer = LoopTimer { [unowned self] in terminate(.enhanceYourCalm) }
        paceTimer = LoopTimer { [unowned self] in checkBodyPace() }
    }

    /// Takes over a connection whose first bytes are those.
    func open(_ bytes: borrowing Span<UInt8>) {
        armIdle()
        didReceive(bytes)
        if worker.isDraining { drain() }
        flush()
        if phase != .closed, transport.isReadable { worker.pumpLater(transport) }
    }

    // MARK: Input

    func pump() {
        var left = Self.turnLimit
        while transport.isReadable, phase != .closed {
            guard left > 0 else {
                worker.pumpLater(transport)
                break
            }
            worker.scratch.removeAll()
            switch transport.read(into: &worker.scratch) {
            case .bytes(let count):
                left -= count
                var scratch = worker.borrowScratch()
                didReceive(scratch.bytes)
                worker.returnScratch(&scratch)
            case .wouldBlock: break
            case .end: inputEnded()
            case .failed: close()
            }
        }
        flush()
    }

    private func didReceive(_ bytes: borrowing Span<UInt8>) {
        guard phase != .closed else { return }
        if phase == .lingering {
            lingered += bytes.count
            if lingered > Self.lingerBytes { close() }
            return
        }
        isTakingBytes = true
        // nghttp2 is on the stack until the call returns.
        let session = session!
        let isWell = session.receive(bytes)
        isTakingBytes = false
        if !isWell, phase != .closed { linger() }
    }

    /// The client has half-closed: what was asked is still answered.
    private func inputEnded() {
        for stream in session.streams { (stream as? HTTP2ClientStream)?.connectionEnded() }
        guard phase != .closed else { return }
        if session.streams.isEmpty || phase == .lingering { close() } else { phase = .goingAway }
    }

    // MARK: Output

    /// Hands on at the end of the turn what a stream has to say by then.
    func flushLater(_ stream: HTTP2ExchangeStream) {
        toFlush.append(stream)
        transport.flushLater()
    }

    /// Writes what there is to say, as far as the socket takes it.
    func flush() {
        guard phase != .closed else { return }
        submitPlanned()
        guard !transport.isWriteBlocked, !isTakingBytes, phase != .closed else { return }
        let session = session!
        while phase != .closed {
            let isWell = session.produce(upTo: Self.outputLimit)
            guard phase != .closed else { return }
            submitPlanned()
            guard !session.output.isEmpty else {
                if !isWell { linger() }
                break
            }
            switch transport.write(from: &session.output) {
            case .bytes, .end:
                // A slow reader is no idle one.
                if busyStreams == 0, phase != .lingering, phase != .announced { armIdle() }
            case .wouldBlock: return
            case .failed: return close()
            }
        }
        guard phase != .closed else { return }
        if phase == .lingering {
            startLingering()
        } else if session.isOver || phase == .goingAway && session.streams.isEmpty {
            linger()
        }
    }

    private func submitPlanned() {
        while !toFlush.isEmpty {
            let planned = toFlush
            toFlush.removeAll(keepingCapacity: true)
            for stream in planned { stream.flushPlanned() }
        }
    }

    override func sessionHasOutput(_ session: HTTP2Session) { transport.flushLater() }

    // MARK: Streams

    /// How much of a stream's answer may wait here: all streams share a bound.
    var shareOfOutput: Int { max(16 << 10, min(128 << 10, (2 << 20) / max(1, session.streams.count))) }

    override func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? {
        guard phase == .open || phase == .announced else { return nil }
        requests += 1
        if streamsInHead == 0 { worker.loop.arm(headTimer, after: worker.generation.headTime) }
        streamsInHead += 1
        busyStreams += 1
        if phase == .open { worker.loop.disarm(timer) }
        return HTTP2ClientStream(on: self)
    }

    /// A stream's head is complete, or will not be.
    func headIsOver() {
        streamsInHead -= 1
        if streamsInHead == 0 { worker.loop.disarm(headTimer) }
    }

    /// A stream brings a body of a length that it has announced: that has to come on.
    func awaitsBody() {
        if !paceTimer.isArmed { worker.loop.arm(paceTimer, after: worker.generation.bodyTime) }
    }

    private func checkBodyPace() {
        let now = worker.loop.now
        for stream in session.streams {
            guard let stream = stream as? HTTP2ClientStream, stream.bodyIsAwaited else { continue }
            stream.checkBodyPace(at: now, limit: worker.generation.bodyTime)
            awaitsBody()
        }
        transport.flushLater()
    }

    /// A stream's exchange is over; its answer may still be on its way.
    func exchangeIsOver() {
        busyStreams -= 1
        if busyStreams == 0, phase == .open || phase == .goingAway { armIdle() }
        transport.flushLater()
    }

    /// - Parameter isBroken: the client has broken it off, or made us do so.
    func streamClosed(isBroken: Bool) {
        // A client may ask and break off for ever, and each time somebody has worked for it (CVE-2023-44487).
        if isBroken, !breaks.consume(at: worker.loop.now) { terminate(.enhanceYourCalm) }
        transport.flushLater()
    }

    /// Bytes that no stream has any more.
    func consumeRest(_ count: Int) { session.consumeOfConnection(count) }

    override func sessionDidReceiveWindowUpdate(_ session: HTTP2Session) {
        windowUpdates += 1
        if windowUpdates > 10_000 + 4 * requests + session.bodyBytesSent >> 9 { terminate(.enhanceYourCalm) }
    }

    override func session(_ session: HTTP2Session, didBearBurden weight: Double) {
        if !burden.consume(weight, at: worker.loop.now) { terminate(.enhanceYourCalm) }
    }

    // MARK: The end

    private func armIdle() { worker.loop.arm(timer, after: worker.generation.idleTime) }

    private func timeIsUp() {
        switch phase {
        case .open:
            // One that does not read its last answers, or one that asks for nothing.
            if session.streams.isEmpty { goAway() } else { close() }
        case .announced: goAway()
        case .goingAway, .lingering: close()
        case .closed: break
        }
    }

    /// Ends the connection when nothing is under way any more, and takes what is on its way until the client knows.
    func drain() {
        guard phase == .open else { return }
        phase = .announced
        worker.loop.arm(timer, after: Self.announcementTime)
        session.announceEnd()
        // Its answer comes behind everything that was sent before the client heard of the end.
        session.ping()
        transport.flushLater()
    }

    override func sessionDidReceivePong(_ session: HTTP2Session) {
        if phase == .announced { goAway() }
    }

    private func goAway() {
        guard phase == .open || phase == .announced else { return }
        phase = .goingAway
        session.goAway()
        // Only for a client that leaves the last words unread; exchanges have limits of their own.
        if busyStreams == 0 { armIdle() } else { worker.loop.disarm(timer) }
        transport.flushLater()
    }

    /// Says why, and serves the client no further.
    private func terminate(_ code: HTTP2ErrorCode) {
        guard phase == .open || phase == .announced || phase == .goingAway else { return }
        phase = .lingering
        worker.loop.arm(timer, after: Self.lingerTime)
        session.terminate(code)
        transport.flushLater()
    }

    /// Nothing more will be said but what is there.
    private func linger() {
        phase = .lingering
        worker.loop.arm(timer, after: Self.lingerTime)
        let session = session!
        while !session.output.isEmpty, !transport.isWriteBlocked {
            if case .failed = transport.write(from: &session.output) { return close() }
        }
        if session.output.isEmpty { startLingering() }
    }

    private var hasShutDown = false

    private func startLingering() {
        guard !hasShutDown else { return }
        hasShutDown = true
        let session = session!
        session.abandon(.cancel)
        guard phase != .closed else { return }
        transport.shutdownWrite()
        transport.isReadable = true
        worker.pumpLater(transport)
    }

    /// Closes at once; what is under way is cancelled.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        if !session.output.isEmpty || busyStreams > 0 { transport.resetOnClose() }
        worker.loop.remove(timer)
        worker.loop.remove(headTimer)
        worker.loop.remove(paceTimer)
        let session = session!
        session.abandon(.cancel)
        session.output.release()
        toFlush = []
        transport.close()
    }
}
