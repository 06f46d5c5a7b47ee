// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore
import SessionCore

/// A client's stream: makes a request of the received frames, and gives flow-control credit as the body is sent on.
final class HTTP2ClientStream: HTTP2Stream, MemoryHolder {
    private let connection: HTTP2Connection
    private var exchange: Exchange?
    private var exchangeStream: HTTP2ExchangeStream!
    private var trailers: TrailerSection?
    private var hasHead = false
    /// A field was too large to be passed on.
    private var isFieldMissing = false
    /// Received body bytes without credit.
    private var uncredited = 0
    /// Body bytes that arrived before the client was authenticated; the stream's window limits them.
    private var early = ByteBuffer()
    /// The stream ended after the early bytes.
    private var endIsEarly = false
    /// The time of the last check of the client's pace.
    private var markedAt: UInt64 = 0
    /// The bytes that the stream is known to hold, and when that changed last, in nanoseconds of the loop's clock.
    private var accounted = 0
    private(set) var movedAt: UInt64 = 0
    /// This proxy has reset the stream for a reason of its own.
    private var isGivenUp = false

    init(on connection: HTTP2Connection) {
        self.connection = connection
        super.init()
        connection.beginSection(of: self)
        let exchangeStream = HTTP2ExchangeStream(self, connection)
        self.exchangeStream = exchangeStream
        exchange = connection.exchanges.borrow(for: exchangeStream)
        exchange?.head.removeAll()
    }

    deinit { exchangeStream.close() }

    // MARK: The request

    override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        guard hasHead else {
            guard let exchange else { return true }
            return connection.section.append(name: name, value: value, into: &exchange.head)
        }
        if trailers == nil { trailers = TrailerSection(limits: connection.services.generation.headLimits) }
        return trailers?.append(name: name, value: value) ?? false
    }

    override func didOmitField() {
        if !hasHead { connection.section.omitField() }
        isFieldMissing = true
    }

    override func didReceiveHead(endsStream: Bool) -> Bool {
        // Trailers are processed at the end of the stream.
        if hasHead { return endsStream && !isFieldMissing }
        hasHead = true
        connection.headIsOver()
        defer {
            connection.endSection(of: self)
            account()
        }
        account()
        guard let exchange else { return true }
        if let fault = connection.section.conclude(
            isForOrigin: connection.listener.isGateway || connection.listener.isTransparent
                || connection.transport.intercepted != nil,
            endsStream: endsStream,
            into: &exchange.head
        ) {
            exchange.refuse(Problem(fault), keepAlive: true)
        } else if accounted > Self.muchMemory, !connection.mayHoldMore {
            exchange.refuse(
                Problem(
                    .limitReached,
                    "The process holds as many bytes as limits.heldBytes allows, and this connection has more than its part. Send fewer and smaller requests at once."
                ),
                keepAlive: true
            )
        } else {
            exchange.didReceiveHead()
            if bodyIsAwaited {
                markedAt = connection.services.loop.now
                connection.awaitsBody()
            }
        }
        return true
    }

    // MARK: Memory

    /// Streams that hold less are not closed for others.
    private static let muchMemory = ownMemory + (16 << 10)

    var holdsMuch: Bool { accounted > Self.muchMemory }

    /// The stream's objects, and those of its exchange and task, without what they hold (measured).
    private static let ownMemory = 6 << 10

    /// Accounts for what the stream makes the process hold: its objects; its head, as it came and as it goes on, with the room that their
    /// memory has grown by (measured); body bytes without credit; and what waits for the client.
    func account() {
        let head = 3 * (exchange?.head.byteCount ?? 0)
        let held =
            isClosed
            ? 0 : Self.ownMemory + head + uncredited + exchangeStream.output.count + output.count + queuedHeadBytes
        guard held != accounted else { return }
        connection.heldDidChange(by: held - accounted)
        accounted = held
        movedAt = connection.services.loop.now
    }

    /// Closes the stream, which holds much and on which nothing moves.
    func giveUpIdle() {
        guard !isClosed else { return }
        if let exchange, exchange.isUnderWay {
            exchange.fail(
                Problem(
                    .limitReached,
                    "The process holds as many bytes as limits.heldBytes allows, and nothing has moved in this request for longest. Try again, or raise the limit."
                )
            )
        }
        // A response that had begun, or is complete and not taken.
        guard !isClosed, output.count + queuedHeadBytes > 4 << 10 else { return account() }
        isGivenUp = true
        exchangeStream.output.release()
        session?.giveUp(self, .enhanceYourCalm)
        account()
    }

    // MARK: Pace

    /// Whether a body of known length is being received. A body of unknown length may be a conversation in which the
    /// client may pause (`timeouts.stall` limits it).
    var bodyIsAwaited: Bool {
        guard let exchange, exchange.isUnderWay, !exchange.upload.isComplete, !exchange.writer.hasBegun,
            case .length = exchange.head.framing
        else { return false }
        return true
    }

    /// Checks that the request body makes progress.
    func checkBodyPace(at now: UInt64, limit: TimeSpan) {
        guard let exchange, now &- markedAt >= limit.nanoseconds else { return }
        if exchange.checkBodyPace(isWaitedFor: true, limit: limit) { markedAt = now }
    }

    override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
        uncredited += bytes.count
        if let exchange {
            if exchange.acceptsBody { _ = exchange.feedBody(bytes) } else { early.append(bytes) }
        }
        giveCredit()
        account()
        // The windows let bodies come that find no room: streams that have been idle for longest make some.
        if holdsMuch { connection.askForRoom() }
    }

    override func didReceiveEnd() {
        if early.isEmpty { exchange?.inputEnded(.stream(trailers: trailers?.fields)) } else { endIsEarly = true }
    }

    /// The exchange can take more of the body: passes on the early bytes.
    func resumeBody() {
        if !early.isEmpty, let exchange, exchange.acceptsBody {
            var bytes = ByteBuffer()
            swap(&bytes, &early)
            _ = exchange.feedBody(bytes.bytes)
            if endIsEarly { self.exchange?.inputEnded(.stream(trailers: trailers?.fields)) }
        }
        giveCredit()
    }

    /// The client has half-closed its connection.
    func connectionEnded() {
        if !peerHasEnded { exchange?.inputEnded(.connection) }
    }

    /// Gives credit for bytes that no longer wait here.
    func giveCredit() {
        let waiting = exchange == nil ? 0 : early.count + (exchange?.waitingBodyBytes ?? 0)
        let count = uncredited - waiting
        guard count > 0, let session else { return }
        uncredited -= count
        session.consume(self, count)
        account()
    }

    // MARK: The response

    override func hasRoom() {
        account()
        // What waits was enough for a client that takes nothing: its head leaving is no reason for more.
        guard exchangeStream.hasRoom, output.count < connection.shareOfOutput / 4 else { return }
        exchange?.outputHasRoom()
    }

    /// The exchange is over.
    func finished() {
        guard let finished = exchange.take() else { return }
        giveCredit()
        account()
        connection.exchanges.giveBack(finished)
        connection.exchangeIsOver()
    }

    /// The trailers of the response.
    var responseTrailers: HeaderFields? { exchange?.writer.trailers }

    func giveUp(_ code: HTTP2ErrorCode) {
        isGivenUp = true
        session?.reset(self, code)
    }

    override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) {
        if !hasHead {
            hasHead = true
            connection.headIsOver()
            connection.endSection(of: self)
        }
        let isUnderWay = exchange?.isUnderWay ?? false
        if let exchange {
            self.exchange = nil
            if exchange.isUnderWay { exchange.clientGone() }
            connection.exchanges.giveBack(exchange)
            connection.exchangeIsOver()
        }
        uncredited = 0
        connection.streamClosed(isBroken: (code != .noError || isUnderWay) && !isGivenUp)
        exchangeStream.close()
        account()
    }
}

/// The sending side of one HTTP/2 stream.
final class HTTP2ExchangeStream: ExchangeStream {
    /// Nil when it is closed. It owns this object, and takes itself away before it is gone.
    private unowned var stream: HTTP2ClientStream?
    private let connection: HTTP2Connection
    private var isFlushPlanned = false

    init(_ stream: HTTP2ClientStream, _ connection: HTTP2Connection) {
        self.stream = stream
        self.connection = connection
        super.init(connection.transport)
    }

    /// The stream is gone.
    func close() { stream = nil }

    override var hasRoom: Bool {
        guard let stream else { return true }
        return waitingBytes(on: stream) < limit(of: stream)
    }

    override var pieceSize: Int {
        guard let stream else { return .max }
        let limit = limit(of: stream)
        return max(min(limit, Self.leastOutput), limit - waitingBytes(on: stream))
    }

    private func waitingBytes(on stream: HTTP2ClientStream) -> Int {
        output.count + stream.output.count + stream.queuedHeadBytes
    }

    /// So much may wait for a client that takes nothing.
    private static let leastOutput = 16 << 10
    /// And so much when its connection holds more than its part: what goes out first when the client takes something again.
    private static let leastPiece = 1 << 10

    /// The limit of what waits: as much as the client takes now, within the stream's share.
    private func limit(of stream: HTTP2ClientStream) -> Int {
        let window = stream.session?.sendWindow(of: stream) ?? 0
        guard services.mayHold(connection.heldBytes) else { return min(Self.leastOutput, max(Self.leastPiece, window)) }
        return min(connection.shareOfOutput, max(Self.leastOutput, window))
    }

    override func writeHead(
        _ head: borrowing ResponseHead,
        _ form: ClientResponse.Form,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {
        guard let stream else { return }
        // Programs tell a head that is all from one with an empty body behind it: gRPC's trailers may be in the head.
        var isAlone = head.isWholeMessage
        if case .none = head.framing { isAlone = true }
        stream.session?.respond(stream, endsStream: isAlone) { block in
            ClientResponse.writeHead(head, form, to: request, context: context, output: &block)
        }
    }

    override func writeInformational(
        _ head: borrowing ResponseHead,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {
        guard let stream else { return }
        stream.session?.informational(stream) { block in
            ClientResponse.writeInformational(head, context: context, output: &block)
        }
    }

    override func writeContinue() {
        if let stream { stream.session?.informational(stream) { $0.add(status: 100) } }
    }

    override func write(_ own: borrowing OwnResponse) {
        guard let stream else { return }
        stream.session?.respond(stream, endsStream: own.body.isEmpty) { own.writeHead(to: &$0) }
        output.append(own.body.bytes)
    }

    override func write(_ bytes: borrowing Span<UInt8>) {
        guard let stream else { return }
        moveBody(to: stream)
        stream.output.append(bytes)
        stream.account()
        stream.session?.resume(stream)
    }

    override func writeOutput() {
        guard let stream else { return }
        moveBody(to: stream)
        stream.account()
        stream.session?.resume(stream)
    }

    override func flushLater() {
        guard !isFlushPlanned, stream != nil else { return }
        isFlushPlanned = true
        connection.flushLater(self)
    }

    func flushPlanned() {
        isFlushPlanned = false
        guard let stream else { return }
        moveBody(to: stream)
        stream.account()
        if stream.output.count > 0 { stream.session?.resume(stream) }
    }

    /// Passes the output to the session.
    private func moveBody(to stream: HTTP2ClientStream) {
        guard !output.isEmpty else { return }
        if stream.output.isEmpty {
            swap(&stream.output, &output)
        } else {
            var bytes = ByteBuffer()
            swap(&bytes, &output)
            stream.output.append(bytes.bytes)
        }
    }

    override func exchangeNeedsBody() { stream?.resumeBody() }

    override func hold(_ count: Int) -> Bool {
        connection.heldDidChange(by: count)
        // The streams of a connection have one part together.
        return services.mayHold(connection.heldBytes)
    }

    override func releaseHeld(_ count: Int) { connection.heldDidChange(by: -count) }

    override func finished(persists: Bool, isWhole: Bool) {
        guard let stream else { return }
        if isWhole {
            moveBody(to: stream)
            stream.session?.endBody(stream, trailers: stream.responseTrailers)
        } else {
            // The client must notice that the response is incomplete (rule 55).
            stream.giveUp(.internalError)
        }
        stream.finished()
    }
}
