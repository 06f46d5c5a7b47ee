// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore

/// A client's HTTP/2 connection: each stream has an exchange of its own.
///
/// Flow-control credit for request bodies is given as they are sent to the origin, and a response is read from the
/// origin only as far as the client has room. So the windows limit the connection's memory.
final class HTTP2Connection: HTTP2SessionDelegate, TransportUser {
    let transport: ClientTransport
    let services: WorkerServices
    let listener: ListenerRoutes
    let exchanges: ExchangePool
    private let session: HTTP2Session
    private var phase = Phase.open
    /// The idle time, the time after the final GOAWAY, or the lingering time: one at a time.
    private let timer = LoopTimer()
    /// Runs while a head is incomplete.
    private let headTimer = LoopTimer()
    /// Runs while bodies of known length are being received.
    private let paceTimer = LoopTimer()
    private var streamsInHead = 0
    /// The number of streams with an unfinished exchange.
    private var busyStreams = 0
    /// The streams with output for the session at the end of the turn.
    private var toFlush: [HTTP2ExchangeStream] = []
    /// Memory for the next ones.
    private var spareStreams: [HTTP2ExchangeStream] = []
    /// The head of the request whose fields are coming, or came last: the frames of a field block follow each other, whatever
    /// their stream (RFC 9113, section 4.3). So its memory serves every request.
    var section: RequestSection
    /// The stream whose head is in `section`.
    private var sectionOwner: ObjectIdentifier?
    private var isTakingBytes = false
    private var isFlushing = false
    /// Something has asked for output while it was written.
    private var wantsFlush = false
    private var lingered = 0

    /// The budget for frames that bring no request or response forward.
    private var burden: FrameRateLimiter
    /// The budget for streams that the client resets, or causes to be reset.
    private var breaks: FrameRateLimiter
    /// The budget for decoded fields.
    private var decoding: FrameRateLimiter
    /// WINDOW_UPDATE frames and requests of the client. The number of the former is limited by the number of the latter
    /// and by the bytes sent.
    private var windowUpdates = 0
    private var requests = 0
    /// What the client's streams make the process hold.
    private(set) var heldBytes = 0

    private enum Phase {
        case open
        /// The end is announced; requests that were on their way are still served.
        case announced
        /// New requests are refused.
        case goingAway
        /// Everything has been written. Input is read and dropped, because a reset would make the client lose the last
        /// frames.
        case lingering
        case closed
    }

    /// The limit of output that waits for the socket.
    private static let outputLimit = 64 << 10
    /// The limit of bytes read in one turn, so that other connections are served.
    private static let turnLimit = 256 << 10
    /// Whether the connection has had its part of the turn is looked at once for so many requests.
    private static let requestsPerReading = 8
    /// The limit of what one connection makes the process hold. Heads of which each field is one byte on the wire, and
    /// responses that the client does not take, reach it; requests that come and go do not.
    private static let heldLimit = 8 << 20
    private static let lingerTime = TimeSpan.seconds(2)
    private static let lingerBytes = 1 << 20
    /// The time in which requests arrive that were sent before the client knew about the end.
    private static let announcementTime = TimeSpan.seconds(1)

    init(_ transport: ClientTransport, _ exchanges: ExchangePool) {
        self.transport = transport
        self.exchanges = exchanges
        services = transport.services
        listener = transport.listener
        let now = services.loop.now
        burden = FrameRateLimiter(burst: 1000, rate: 200, now: now)
        breaks = FrameRateLimiter(burst: 200, rate: 100, now: now)
        decoding = .decoding(headBytes: services.generation.headLimits.headBytes, now: now)
        section = RequestSection(limits: services.generation.headLimits)
        let settings = HTTP2Settings(
            streamWindow: 64 << 10,
            // Streams whose origins take nothing leave room for other streams.
            connectionWindow: 4 << 20,
            headerListBytes: UInt32(clamping: services.generation.headLimits.headBytes)
        )
        guard let session = HTTP2Session(.server, settings, delegate: nil) else { fatalError("no memory for nghttp2") }
        self.session = session
        super.init()
        session.delegate = self
        timer.whenDue { [unowned self] in timeIsUp() }
        headTimer.whenDue { [unowned self] in terminate(.enhanceYourCalm) }
        paceTimer.whenDue { [unowned self] in checkBodyPace() }
    }

    /// Starts the connection with the bytes that were already read.
    func open(_ bytes: borrowing Span<UInt8>) {
        armIdle()
        services.loop.beginPart()
        didReceive(bytes)
        if services.isDraining { drain() }
        flush()
        if wantsInput { transport.pumpLater() }
    }

    // MARK: Input

    func pump() {
        services.loop.noteWork(.frames)
        services.loop.beginPart()
        var left = Self.turnLimit
        if isPaused {
            // What a turn has left over is as much as one reading brings.
            left -= WorkerServices.readSize
            take { $0.resumeReading() }
        }
        while wantsInput {
            guard !isPaused, left == Self.turnLimit || left > 0 && !services.loop.isPartOver else {
                transport.pumpLater()
                break
            }
            services.scratch.removeAll()
            switch transport.read(into: &services.scratch) {
            case .bytes(let count):
                left -= max(count, ClientTransport.leastReading)
                var scratch = services.borrowScratch()
                didReceive(scratch.bytes)
                services.returnScratch(&scratch)
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
        take { $0.receive(bytes) }
    }

    private func take(_ bytes: (HTTP2Session) -> Bool) {
        isTakingBytes = true
        let isWell = bytes(session)
        isTakingBytes = false
        if !isWell, phase != .closed { linger() }
    }

    /// Whether received bytes wait for the next turn.
    private var isPaused: Bool { session.isPaused && phase != .lingering && phase != .closed }

    private var wantsInput: Bool { phase != .closed && (transport.isReadable || isPaused) }

    /// The client has half-closed: its requests still get responses.
    private func inputEnded() {
        for stream in session.streams { (stream as? HTTP2ClientStream)?.connectionEnded() }
        guard phase != .closed else { return }
        if session.streams.isEmpty || phase == .lingering { close() } else { phase = .goingAway }
    }

    // MARK: Output

    /// Passes a stream's output to the session at the end of the turn.
    func flushLater(_ stream: HTTP2ExchangeStream) {
        toFlush.append(stream)
        flushLater()
    }

    /// Has the output written at the end of the turn. While it is being written, that is soon enough.
    private func flushLater() {
        if isFlushing { wantsFlush = true } else { transport.flushLater() }
    }

    /// Writes as much output as the socket takes.
    func flush() {
        guard phase != .closed else { return }
        isFlushing = true
        submitPlanned()
        writeOutput()
        isFlushing = false
        // The last look at the session has found nothing, and has made something.
        if wantsFlush, phase != .closed { transport.flushLater() }
        wantsFlush = false
    }

    private func writeOutput() {
        guard !transport.isWriteBlocked, !isTakingBytes, phase != .closed else { return }
        var hasWritten = false
        while phase != .closed {
            wantsFlush = false
            let isWell = session.produce(upTo: Self.outputLimit)
            guard phase != .closed else { return }
            submitPlanned()
            guard !session.output.isEmpty else {
                // Once: a client that is refused and goes on does not get more time with each of its bytes.
                if !isWell, phase != .lingering { linger() }
                break
            }
            // A client that takes its responses as fast as they are written leaves the rest of the turn to others.
            if hasWritten, services.loop.isTurnLong { return transport.flushLater() }
            hasWritten = true
            switch transport.write(from: &session.output) {
            case .bytes, .end:
                // A client that reads slowly is not idle.
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

    @inline(__always)
    private func submitPlanned() {
        if !toFlush.isEmpty { submitAll() }
    }

    private func submitAll() {
        while !toFlush.isEmpty {
            var planned: [HTTP2ExchangeStream] = []
            swap(&planned, &spareStreams)
            swap(&planned, &toFlush)
            for stream in planned { stream.flushPlanned() }
            planned.removeAll(keepingCapacity: true)
            swap(&planned, &spareStreams)
        }
    }

    override func sessionHasOutput(_ session: HTTP2Session) { flushLater() }

    // MARK: Streams

    /// The share of one stream in the limit of waiting output.
    var shareOfOutput: Int { max(16 << 10, min(128 << 10, (2 << 20) / max(1, session.streams.count))) }

    override func sessionDidBeginStream(_ session: HTTP2Session) -> HTTP2Stream? {
        guard phase == .open || phase == .announced, mayHoldMore else { return nil }
        requests += 1
        if requests % Self.requestsPerReading == 0, services.loop.isPartOver { session.pause() }
        if streamsInHead == 0 { services.loop.arm(headTimer, after: services.generation.headTime) }
        streamsInHead += 1
        busyStreams += 1
        if phase == .open { services.loop.disarm(timer) }
        return HTTP2ClientStream(on: self)
    }

    /// Whether another stream may begin. Without room the owner makes some.
    var mayHoldMore: Bool {
        guard heldBytes < Self.heldLimit else { return false }
        if services.mayHold(heldBytes) { return true }
        transport.owner.relieve()
        return false
    }

    /// Has the owner make room if the connection holds more than its part.
    func askForRoom() {
        if !services.mayHold(heldBytes) { transport.owner.relieve() }
    }

    func heldDidChange(by delta: Int) {
        heldBytes += delta
        services.held.change(by: delta)
    }

    /// Appends the streams that hold something worth closing them for, and on which nothing has moved since then.
    func appendIdle(since limit: UInt64, to idle: inout [any MemoryHolder]) -> Bool {
        guard !services.mayHold(heldBytes) else { return false }
        for stream in session.streams {
            guard let stream = stream as? HTTP2ClientStream, stream.holdsMuch, stream.movedAt < limit else { continue }
            idle.append(stream)
        }
        return true
    }

    /// A stream has begun, whose head comes next.
    func beginSection(of stream: HTTP2ClientStream) {
        section.removeAll(limits: services.generation.headLimits)
        sectionOwner = ObjectIdentifier(stream)
    }

    /// What the head of the stream brought is not needed any more.
    func endSection(of stream: HTTP2ClientStream) {
        guard sectionOwner == ObjectIdentifier(stream) else { return }
        sectionOwner = nil
        section.rest()
    }

    /// A stream's head is complete, or will never be.
    func headIsOver() {
        streamsInHead -= 1
        if streamsInHead == 0 { services.loop.disarm(headTimer) }
    }

    /// A stream brings a body of known length, whose pace is checked.
    func awaitsBody() {
        if !paceTimer.isArmed { services.loop.arm(paceTimer, after: services.generation.bodyTime) }
    }

    private func checkBodyPace() {
        let now = services.loop.now
        for stream in session.streams {
            guard let stream = stream as? HTTP2ClientStream, stream.bodyIsAwaited else { continue }
            stream.checkBodyPace(at: now, limit: services.generation.bodyTime)
            awaitsBody()
        }
        transport.flushLater()
    }

    /// A stream's exchange is over; its response may still be waiting for the client.
    func exchangeIsOver() {
        busyStreams -= 1
        if busyStreams == 0, phase == .open || phase == .goingAway { armIdle() }
        flushLater()
    }

    /// - Parameter isBroken: the client has reset the stream, or caused the reset.
    func streamClosed(isBroken: Bool) {
        // A client may open and reset streams for ever, and each costs work (CVE-2023-44487).
        if isBroken, !breaks.consume(at: services.loop.now) { terminate(.enhanceYourCalm) }
        flushLater()
    }

    override func sessionDidReceiveWindowUpdate(_ session: HTTP2Session) {
        windowUpdates += 1
        if windowUpdates > 10_000 + 4 * requests + session.bodyBytesSent >> 9 { terminate(.enhanceYourCalm) }
    }

    override func session(_ session: HTTP2Session, mayDecode bytes: Int) -> Bool {
        if services.loop.isPartOver { session.pause() }
        return decoding.consume(Double(bytes), at: services.loop.now)
    }

    override func session(_ session: HTTP2Session, didReceiveCostlyFrame weight: Double) {
        if !burden.consume(weight, at: services.loop.now) { terminate(.enhanceYourCalm) }
    }

    // MARK: The end

    private func armIdle() { services.loop.arm(timer, after: services.generation.idleTime) }

    private func timeIsUp() {
        switch phase {
        case .open:
            // Either the client does not read its last responses, or it sends no requests.
            if session.streams.isEmpty { goAway() } else { close() }
        case .announced: goAway()
        case .goingAway, .lingering: close()
        case .closed: break
        }
    }

    /// Ends the connection after the current requests. Requests that were sent before the client knew about the end are
    /// still served.
    func drain() {
        guard phase == .open else { return }
        phase = .announced
        services.loop.arm(timer, after: Self.announcementTime)
        session.announceEnd()
        // The response to the PING arrives behind everything that the client sent before it knew about the end.
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
        // This time is only for a client that does not read the last frames; exchanges have limits of their own.
        if busyStreams == 0 { armIdle() } else { services.loop.disarm(timer) }
        transport.flushLater()
    }

    /// Sends the reason, and ends the connection.
    private func terminate(_ code: HTTP2ErrorCode) {
        guard phase == .open || phase == .announced || phase == .goingAway else { return }
        phase = .lingering
        services.loop.arm(timer, after: Self.lingerTime)
        session.terminate(code)
        transport.flushLater()
    }

    /// Ends the connection after the output that is waiting now.
    private func linger() {
        phase = .lingering
        services.loop.arm(timer, after: Self.lingerTime)
        while !session.output.isEmpty, !transport.isWriteBlocked {
            if case .failed = transport.write(from: &session.output) { return close() }
        }
        if session.output.isEmpty { startLingering() }
    }

    private var hasShutDown = false

    private func startLingering() {
        guard !hasShutDown else { return }
        hasShutDown = true
        session.abandon(.cancel)
        guard phase != .closed else { return }
        transport.shutdownWrite()
        transport.isReadable = true
        transport.pumpLater()
    }

    /// Closes at once, and cancels the current requests.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        if !session.output.isEmpty || busyStreams > 0 { transport.resetOnClose() }
        services.loop.remove(timer)
        services.loop.remove(headTimer)
        services.loop.remove(paceTimer)
        session.abandon(.cancel)
        session.output.release()
        toFlush = []
        transport.close()
    }
}
