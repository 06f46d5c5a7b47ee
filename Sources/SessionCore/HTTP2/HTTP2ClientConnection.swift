// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore
import ServerTrust

/// What makes an HTTP/2 connection, and keeps its place in the pool of the host afterwards. A class to inherit from.
class HTTP2ConnectionOwner: ConnectionAttemptOwner {
    /// The server's settings have come: it is known how many streams it allows.
    func connectionDidReceiveSettings(_ connection: HTTP2ClientConnection) {}
    /// The connection takes no more requests.
    func connectionDidRetire(_ connection: HTTP2ClientConnection) {}
    /// There may be room for requests that wait; nghttp2 may be on the stack now.
    func connectionMayHaveRoom(_ connection: HTTP2ClientConnection) {}
    /// The connection is closed.
    ///
    /// - Parameter isReplaced: its place in the host's pool already belongs to the connection that replaces it.
    func connectionDidClose(_ connection: HTTP2ClientConnection, isReplaced: Bool) {}
}

/// A verified connection that carries any number of HTTP/2 exchanges, each in both directions at once.
///
/// It belongs to one endpoint of one policy generation, and its verdict is checked again for each request.
final class HTTP2ClientConnection: PooledConnection, SharedPlace {
    private enum State {
        case open
        /// The exchanges that are there go on; no new one begins.
        case retired
        case closed
    }

    /// The place among the session's HTTP/2 connections.
    var slot = 0
    /// The `:authority` of its requests.
    let authority: [UInt8]
    /// The reason of its end; nil as long as it has not broken off.
    private(set) var loss: String?
    /// What the server has done against the rules of HTTP/2, which has ended the connection.
    private(set) var violation: String?
    private(set) var liveness: ConnectionLiveness
    /// The head of the response whose fields are coming, or came last: the frames of a field block follow each other, whatever
    /// their stream (RFC 9113, section 4.3). So its memory serves every response.
    var head = ResponseHead()
    /// The fields of the head before it.
    var formerFields = HeaderFields()

    private let streamOwner: HTTP2ConnectionOwner
    private let loop: EventLoop
    private let events: SessionEvents
    private let session: HTTP2Session
    private var state = State.open
    private var output = ByteBuffer()
    private var load = StreamLoad()
    private var isFlushPlanned = false
    /// nghttp2 is on the stack.
    private var isReceiving = false
    private var laterTimer: LoopTimer?
    /// The budget for frames that bring no response forward.
    private var burden: FrameRateLimiter
    /// The budget for decoded fields.
    private var decoding: FrameRateLimiter
    private var isOverburdened = false
    /// Why nothing can be written any more. What the server had sent before is still read.
    private var writeFailure: String?

    /// At most this much waits for the socket.
    private static let outputLimit = 64 << 10
    /// No size that bodies often have: a server whose last byte fills the window may not be able to end the stream any more.
    private static let streamWindow: Int32 = (128 << 10) + 4099
    /// At most this much is read in a turn of the loop.
    private static let turnLimit = 256 << 10
    private static let pieceSize = 64 << 10

    /// - Returns: nil without memory.
    init?(
        _ connection: VerifiedConnection,
        _ host: ConnectionHost,
        streamOwner: HTTP2ConnectionOwner,
        owner: PooledConnectionOwner
    ) {
        let settings = HTTP2Settings(
            streamWindow: Self.streamWindow,
            // What all streams may send at once.
            connectionWindow: Self.streamWindow * Int32(StreamLoad.limit),
            headerListBytes: UInt32(clamping: owner.headLimits.headBytes)
        )
        events = SessionEvents()
        guard let session = HTTP2Session(.client, settings, delegate: events) else { return nil }
        self.session = session
        self.streamOwner = streamOwner
        loop = owner.loop
        liveness = ConnectionLiveness(at: loop.now)
        // Servers reset streams of which they need no more, and send small pieces and pings, as they like.
        burden = FrameRateLimiter(burst: 4000, rate: 1000, now: loop.now)
        decoding = .decoding(headBytes: owner.headLimits.headBytes, now: loop.now)
        let endpoint = connection.endpoint
        authority = Array("\(endpoint.host.authorityText)\(endpoint.port == 443 ? "" : ":\(endpoint.port)")".utf8)
        super.init(connection, host, owner: owner)
        events.connection = self
    }

    deinit { events.connection = nil }

    /// Sends the preface and the settings, and waits for the server's.
    func start() {
        connection.want(reading: true, writing: false)
        flushLater()
        becomeIdle()
        if connection.hasBufferedBytes { readLater() }
    }

    // MARK: Exchanges

    var hasRoom: Bool {
        guard state == .open, !session.isGoingAway else { return false }
        let limit = load.isSettled ? session.peerStreamLimit : host.streamLimit(at: loop.now)
        return load.hasRoom(beside: session.streams.count, of: limit, requests: host.requestLimit(at: loop.now))
    }

    /// Whether a stream can carry another protocol than HTTP now (RFC 8441). The server must have announced that it takes such
    /// streams.
    var hasRoomForTunnel: Bool {
        hasRoom && session.peerAllowsExtendedConnect && load.hasRoomForTunnel(of: session.peerStreamLimit)
    }

    var isIdle: Bool { load.isIdle }

    /// Whether the verdict on the server holds for a further request, now.
    func mayCarry(_ endpoint: Endpoint, lifetime: UInt64) -> Bool {
        state == .open && connection.mayCarry(endpoint, lifetime: lifetime)
    }

    /// A request is going to begin at the end of the turn.
    func promise() {
        load.promise()
        owner.didEndIdleness(self)
    }

    /// The same for a tunnel; `tunnelDidEnd` follows.
    func promiseTunnel() {
        load.beginTunnel()
        promise()
    }

    /// A tunnel has ended, or does not begin.
    func tunnelDidEnd() { load.endTunnel() }

    /// The request takes its stream; `exchangeDidEnd` follows.
    func redeemPromise() { load.redeemPromise() }

    /// The request does not begin.
    func withdrawPromise() {
        redeemPromise()
        exchangeDidEnd()
    }

    /// Sends a request that was promised a stream, be it before the connection was retired.
    ///
    /// - Returns: false when the server takes no more requests.
    func request(_ stream: HTTP2Stream, endsStream: Bool, _ fill: (inout HTTP2FieldBlock) -> Void) -> Bool {
        guard state != .closed, session.request(stream, endsStream: endsStream, fill) else {
            retire()
            return false
        }
        connection.isUsed = true
        if load.begin(of: host.requestLimit(at: loop.now)) { retire() }
        return true
    }

    /// The head was given to its request, or is refused. The memory of a large one is not kept.
    func headIsOver() {
        if head.fields.footprint > Self.keptHeadBytes { head = ResponseHead() }
        if formerFields.footprint > Self.keptHeadBytes { formerFields = HeaderFields() }
    }

    private static let keptHeadBytes = 8 << 10

    /// Something of a response has come.
    func didProgress() { liveness.didProgress(at: loop.now) }

    /// A request waits: looks whether the server is there.
    ///
    /// - Parameter interval: of such looks, in nanoseconds.
    /// - Returns: whether it is known not to be there: its machine acknowledges nothing, or it gave no sign of life for long.
    func look(every interval: UInt64) -> Bool {
        if connection.isUnacknowledged { return true }
        switch liveness.look(every: interval, at: loop.now) {
        case .wait: return false
        case .ask: session.ping()
        case .retire: retire()
        case .leave:
            retire()
            return true
        }
        return false
    }

    /// Counts what a stream holds.
    func heldDidChange(by delta: Int) { owner.held?.change(by: delta) }

    /// Whether a response may hold so many bytes.
    func mayHold(_ bytes: Int) -> Bool { owner.mayHold(bytes) }

    /// Bytes of a response were taken.
    func consume(_ stream: HTTP2Stream, _ count: Int) { session.consume(stream, count) }

    /// A request has no more use for its stream.
    func exchangeDidEnd() {
        load.end()
        becomeIdle()
    }

    private func becomeIdle() {
        switch state {
        case .open:
            if isIdle { owner.didBecomeIdle(self) }
            streamOwner.connectionMayHaveRoom(self)
        case .retired: if isIdle { closeLater() }
        case .closed: break
        }
    }

    // MARK: The end

    override func discard() { close() }

    /// A stream has ended: there may be room for a request that waits.
    func streamDidClose() { streamOwner.connectionMayHaveRoom(self) }

    /// Takes no more requests, and closes after the last exchange.
    func retire() {
        guard state == .open else { return }
        state = .retired
        owner.didEndIdleness(self)
        streamOwner.connectionDidRetire(self)
        if isIdle { closeLater() }
        // A further connection may be made for those that wait for room on this one.
        streamOwner.connectionMayHaveRoom(self)
    }

    /// nghttp2 may be on the stack.
    private func closeLater() {
        loop.atEndOfTurn { [self] in if state == .retired, isIdle { close() } }
    }

    /// Closes the connection with a GOAWAY, whatever it carries.
    ///
    /// - Parameter isReplaced: its place already belongs to the connection that replaces it.
    func close(isReplaced: Bool = false) {
        guard state != .closed else { return }
        // It is written here: nothing is put off to a turn that may never come, with a reference to this.
        isFlushPlanned = true
        session.goAway()
        if !isReceiving { _ = write() }
        end(.cancel, isWhole: output.isEmpty, isReplaced: isReplaced)
    }

    /// The connection is gone: the exchanges on it have failed.
    private func lose(_ why: String, isViolation: Bool = false) {
        guard state != .closed else { return }
        loss = why
        if isViolation { violation = why }
        end(.internalError, isWhole: false, isReplaced: false)
    }

    /// The server has ended the connection, as the protocol wants it.
    private func didEnd() {
        if isIdle { end(.cancel, isWhole: true, isReplaced: false) } else { lose("the server ended it") }
    }

    private func end(_ code: HTTP2ErrorCode, isWhole: Bool, isReplaced: Bool) {
        state = .closed
        streamOwner.connectionDidRetire(self)
        if let laterTimer { loop.remove(laterTimer) }
        laterTimer = nil
        connection.close(isWhole: isWhole)
        // Streams may find their way to another connection from here.
        session.abandon(code)
        output.release()
        streamOwner.connectionDidClose(self, isReplaced: isReplaced)
    }

    // MARK: Bytes

    override func connectionIsReady(isOver: Bool) {
        if !output.isEmpty { flushNow() }
        receive()
    }

    private func receive() {
        loop.noteWork(.frames)
        loop.beginPart()
        if session.isPaused {
            isReceiving = true
            let isWell = session.resumeReading()
            isReceiving = false
            flushLater()
            guard isWell else { return loseBroken() }
        }
        var left = Self.turnLimit
        while state != .closed {
            guard left > 0, !session.isPaused else { return readLater() }
            var buffer = ByteBuffer()
            swap(&buffer, &loop.scratch)
            var room = Self.pieceSize
            let reading = connection.fill(&buffer, &room)
            left -= max(Self.pieceSize - room, 1)
            var isWell = true
            if !buffer.isEmpty {
                liveness.didReceiveBytes(at: loop.now)
                isReceiving = true
                isWell = session.receive(buffer.bytes)
                isReceiving = false
                if session.mayProduce { flushLater() }
            }
            buffer.removeAll()
            swap(&buffer, &loop.scratch)
            guard isWell else { return loseBroken() }
            // What the reading has found comes again behind the bytes that wait.
            if session.isPaused { continue }
            switch reading {
            case .bytes where connection.hasBufferedBytes: continue
            case .bytes, .wouldBlock:
                if let writeFailure { return lose(writeFailure) }
                return setInterest()
            case .end: return didEnd()
            case .broken(let why): return lose(why)
            }
        }
    }

    private func loseBroken() {
        // The server gets nghttp2's GOAWAY, which says what is wrong.
        _ = write()
        let why =
            session.hasDecodedTooMuch
            ? "its heads and trailers are larger than a connection may send in a second"
            : isOverburdened ? Self.overburdened : "it sent what is no HTTP/2, or a field of more than 64 KB"
        lose(why, isViolation: true)
    }

    private func readLater() {
        let timer = laterTimer ?? LoopTimer { [unowned self] in receive() }
        laterTimer = timer
        loop.arm(timer, after: TimeSpan(nanoseconds: 1))
    }

    private func setInterest() { connection.want(reading: true, writing: !output.isEmpty) }

    fileprivate func flushLater() {
        guard !isFlushPlanned, state != .closed else { return }
        isFlushPlanned = true
        owner.flushLater(self)
    }

    override func flush() {
        isFlushPlanned = false
        flushNow()
    }

    private func flushNow() {
        guard state != .closed, !isReceiving, writeFailure == nil else { return }
        if let why = write() {
            // Responses that the server sent before it went are still read, which may take more turns than this one.
            writeFailure = why
            retire()
            return receive()
        }
        if session.isOver, output.isEmpty {
            // nghttp2 ends the session itself when the server breaks the rules, unless the server has announced the end.
            let why = isOverburdened ? Self.overburdened : "it sent frames that HTTP/2 does not allow"
            return session.isGoingAway ? didEnd() : lose(why, isViolation: true)
        }
        setInterest()
    }

    /// Writes as much as the socket takes.
    ///
    /// - Returns: the reason why nothing can be written any more.
    private func write() -> String? {
        while true {
            if output.isEmpty {
                let isWell = session.produce(upTo: Self.outputLimit)
                swap(&output, &session.output)
                if output.isEmpty { return isWell ? nil : "the session failed" }
            }
            switch connection.write(output.bytes) {
            case .bytes(let count):
                output.consume(count)
                if output.isEmpty { output.removeAll() }
            case .wouldBlock:
                return nil
            case .broken(let why):
                output.release()
                return why
            }
        }
    }

    // MARK: The session

    private static let overburdened = "it sends frames without end that bring no response forward"

    fileprivate func didReceiveCostlyFrame(_ weight: Double) {
        guard !isOverburdened, !burden.consume(weight, at: loop.now) else { return }
        isOverburdened = true
        session.terminate(.enhanceYourCalm)
    }

    fileprivate func mayDecode(_ bytes: Int) -> Bool {
        if loop.isPartOver { session.pause() }
        return decoding.consume(Double(bytes), at: loop.now)
    }

    fileprivate func didReceiveGoAway(_ code: HTTP2ErrorCode, lastStream: Int32) {
        flushLater()
        // Streams of a client have the numbers 1, 3, 5 …; the largest number announces an end without refusing anything.
        if code == .noError, lastStream > 0, lastStream < Int32.max {
            host.didEndConnection(after: (Int(lastStream) + 1) / 2, at: loop.now)
        }
        retire()
    }

    fileprivate func didReceiveSettings() {
        guard state == .open else { return }
        let limit = session.peerStreamLimit
        host.didLimitStreams(to: limit, at: loop.now)
        // Requests that have to wait now wait in the pool, where another connection may take them.
        if session.streams.count > limit {
            for stream in session.streams { (stream as? HTTP2OriginStream)?.returnRequest() }
        }
        if load.settle() { streamOwner.connectionDidReceiveSettings(self) }
        streamOwner.connectionMayHaveRoom(self)
    }
}

/// Passes the events of a session on to its connection.
private final class SessionEvents: HTTP2SessionDelegate {
    /// Cleared when it goes.
    unowned(unsafe) var connection: HTTP2ClientConnection?

    override func sessionHasOutput(_ session: HTTP2Session) { connection?.flushLater() }

    override func session(_ session: HTTP2Session, didReceiveGoAway code: HTTP2ErrorCode, lastStream: Int32) {
        connection?.didReceiveGoAway(code, lastStream: lastStream)
    }

    override func session(_ session: HTTP2Session, didReceiveCostlyFrame weight: Double) {
        connection?.didReceiveCostlyFrame(weight)
    }

    override func session(_ session: HTTP2Session, mayDecode bytes: Int) -> Bool {
        connection?.mayDecode(bytes) ?? false
    }

    override func sessionDidReceiveSettings(_ session: HTTP2Session) { connection?.didReceiveSettings() }
}
