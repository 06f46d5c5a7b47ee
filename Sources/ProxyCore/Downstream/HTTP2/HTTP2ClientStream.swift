import HTTP2Core
import HTTPCore
import IOCore
import SessionCore

/// A client's stream: makes a request of what comes, and gives credit as it goes on.
final class HTTP2ClientStream: HTTP2Stream {
    private let connection: HTTP2Connection
    private var exchange: Exchange?
    private var exchangeStream: HTTP2ExchangeStream!
    private var section: RequestSection
    private var trailers: TrailerSection?
    private var hasHead = false
    /// One was too large to be handed on.
    private var isFieldMissing = false
    /// Bytes of the body that have come and for which no credit was given.
    private var uncredited = 0
    /// What came of the body while it was not known yet whether the client may ask; the window bounds it.
    private var early = ByteBuffer()
    /// The end of the stream has come behind that.
    private var endIsEarly = false
    /// How much of the body there was when it was looked at last, and when that was.
    private var bodyMark = 0
    private var markedAt: UInt64 = 0
    /// Ended by us, for a reason of our own.
    private var isGivenUp = false

    init(on connection: HTTP2Connection) {
        self.connection = connection
        section = RequestSection(limits: connection.worker.generation.headLimits)
        super.init()
        let exchangeStream = HTTP2ExchangeStream(self, connection)
        self.exchangeStream = exchangeStream
        exchange = connection.worker.borrowExchange(for: exchangeStream)
        exchange?.removeHead()
    }

    // MARK: The request

    override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        guard hasHead else {
            guard let exchange else { return true }
            return exchange.addField(name: name, value: value, to: &section)
        }
        if trailers == nil { trailers = TrailerSection(limits: connection.worker.generation.headLimits) }
        return trailers?.append(name: name, value: value) ?? false
    }

    override func didOmitField() {
        section.omitField()
        isFieldMissing = true
    }

    override func didReceiveHead(endsStream: Bool) -> Bool {
        // Trailers: what they say is for the end.
        if hasHead { return endsStream && !isFieldMissing }
        hasHead = true
        connection.headIsOver()
        guard let exchange else { return true }
        if let fault = exchange.concludeHead(
            &section,
            isForOrigin: connection.listener.isGateway,
            endsStream: endsStream
        ) {
            exchange.refuse(Problem(fault), keepAlive: true)
        } else {
            exchange.didReceiveHead()
            if bodyIsAwaited {
                markedAt = connection.worker.loop.now
                connection.awaitsBody()
            }
        }
        return true
    }

    // MARK: Pace

    /// A client that moves less than this in the time that it has is not served on.
    private static let leastProgress = 1 << 10

    /// Whether a body of announced length comes in. One without may be a conversation, in which nobody has to speak
    /// (timeouts.stall is its bound).
    var bodyIsAwaited: Bool {
        guard let exchange, exchange.isUnderWay, !exchange.body.isComplete, !exchange.clientResponse.hasBegun,
            case .length = exchange.head.framing
        else { return false }
        return true
    }

    /// A body may be slow because the origin is, or because the client was told to wait; else it has to come on.
    func checkBodyPace(at now: UInt64, limit: TimeSpan) {
        guard let exchange, now &- markedAt >= limit.nanoseconds else { return }
        if exchange.wantsBody, !exchange.holdsClientBack, exchange.bytesFromClient - bodyMark < Self.leastProgress {
            exchange.bodyIsTooSlow(limit)
        } else {
            bodyMark = exchange.bytesFromClient
            markedAt = now
        }
    }

    override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
        uncredited += bytes.count
        if let exchange {
            if exchange.acceptsBody { _ = exchange.feedBody(bytes) } else { early.append(bytes) }
        }
        giveCredit()
    }

    override func didReceiveEnd() {
        if early.isEmpty { exchange?.streamEnded(trailers: trailers?.fields) } else { endIsEarly = true }
    }

    /// The exchange can take of the body: what has waited goes on.
    func resumeBody() {
        if !early.isEmpty, let exchange, exchange.acceptsBody {
            var bytes = ByteBuffer()
            swap(&bytes, &early)
            _ = exchange.feedBody(bytes.bytes)
            if endIsEarly { self.exchange?.streamEnded(trailers: trailers?.fields) }
        }
        giveCredit()
    }

    /// The client has half-closed its connection.
    func connectionEnded() {
        if !peerHasEnded { exchange?.inputEnded() }
    }

    /// Credit for what does not wait here any more.
    func giveCredit() {
        let waiting = exchange == nil ? 0 : early.count + (exchange?.waitingBodyBytes ?? 0)
        let count = uncredited - waiting
        guard count > 0, let session else { return }
        uncredited -= count
        session.consume(self, count)
    }

    // MARK: The answer

    override func hasRoom() {
        if output.count < connection.shareOfOutput / 4 { exchange?.outputHasRoom() }
    }

    /// The exchange is over.
    func finished(_ finished: Exchange) {
        guard exchange === finished else { return }
        exchange = nil
        giveCredit()
        connection.worker.returnExchange(finished)
        connection.exchangeIsOver()
    }

    func giveUp(_ code: HTTP2ErrorCode) {
        isGivenUp = true
        session?.reset(self, code)
    }

    override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) {
        if !hasHead {
            hasHead = true
            connection.headIsOver()
        }
        let isUnderWay = exchange?.isUnderWay ?? false
        if let exchange {
            self.exchange = nil
            if exchange.isUnderWay { exchange.clientGone() }
            connection.worker.returnExchange(exchange)
            connection.exchangeIsOver()
        }
        connection.consumeRest(uncredited)
        uncredited = 0
        connection.streamClosed(isBroken: (code != .noError || isUnderWay) && !isGivenUp)
        exchangeStream.isClosed = true
    }
}

/// What an exchange's answer goes out on: one stream.
///
/// The exchange writes heads as HTTP/1.1 has them, and bodies behind them. Heads are taken apart into fields here; they
/// are our own work, so that nothing needs to be judged again.
final class HTTP2ExchangeStream: ExchangeStream {
    private unowned let stream: HTTP2ClientStream
    private unowned let connection: HTTP2Connection
    private let peer: ClientTransport
    /// The final head, until it is known whether anything follows.
    private var head = ByteBuffer()
    private var status = 0
    private var isHeadWaiting = false
    private var isFlushPlanned = false
    /// The stream is gone.
    var isClosed = false

    init(_ stream: HTTP2ClientStream, _ connection: HTTP2Connection) {
        self.stream = stream
        self.connection = connection
        peer = connection.transport
        super.init(worker: connection.worker, listener: connection.listener)
    }

    override var transport: ClientTransport { peer }

    override var hasRoom: Bool { isClosed || output.count + stream.output.count < connection.shareOfOutput }

    override func headIsWritten(_ status: Int) {
        guard !isClosed else { return output.removeAll() }
        if status < 200 {
            var text = ByteBuffer()
            swap(&text, &output)
            stream.session?.informational(stream, status: status, headOf: text.bytes)
        } else {
            self.status = status
            isHeadWaiting = true
            var text = ByteBuffer()
            swap(&text, &output)
            // What follows the head is the beginning of the body.
            let end = HTTP2FieldBlock.endOfHead(text.bytes)
            if end < text.count { output.append(text.bytes.extracting(end..<text.count)) }
            swap(&head, &text)
            flushLater()
        }
    }

    override func write(_ bytes: borrowing Span<UInt8>) {
        guard !isClosed else { return }
        submit(endsStream: false)
        stream.output.append(bytes)
        stream.session?.resume(stream)
    }

    override func flushLater() {
        guard !isFlushPlanned, !isClosed else { return }
        isFlushPlanned = true
        connection.flushLater(self)
    }

    func flushPlanned() {
        isFlushPlanned = false
        guard !isClosed else { return }
        submit(endsStream: false)
        if output.count > 0 || stream.output.count > 0 { stream.session?.resume(stream) }
    }

    /// Hands the session what was written.
    private func submit(endsStream: Bool) {
        if isHeadWaiting {
            isHeadWaiting = false
            moveBody()
            var text = ByteBuffer()
            swap(&text, &head)
            stream.session?.respond(stream, status: status, headOf: text.bytes, endsStream: endsStream)
        } else {
            moveBody()
        }
    }

    private func moveBody() {
        guard !output.isEmpty else { return }
        if stream.output.isEmpty {
            swap(&stream.output, &output)
        } else {
            var text = ByteBuffer()
            swap(&text, &output)
            stream.output.append(text.bytes)
        }
    }

    override func exchangeNeedsBody() { stream.resumeBody() }

    override func finished(_ exchange: Exchange, persists: Bool, isWhole: Bool) {
        if !isClosed {
            if isWhole {
                let trailers = exchange.clientResponse.trailers
                let isHeadAlone = isHeadWaiting && output.isEmpty && trailers == nil
                submit(endsStream: isHeadAlone)
                if !isHeadAlone { stream.session?.endBody(stream, trailers: trailers) }
            } else {
                // The client must be able to tell that it is not all (rule 55).
                stream.giveUp(.internalError)
            }
        }
        stream.finished(exchange)
    }
}
