// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// A connection that the kernel has redirected to a transparent listener, until it is known what its client speaks.
///
/// HTTP goes on as a `ClientConnection`. TLS is judged by its hello, as a CONNECT for its server name and the original port would be:
/// an exchange gets that CONNECT, whose client sees no response of HTTP, and an alert of TLS where it is refused.
final class RedirectedConnection: ExchangeStream, TransportUser {
    private enum Phase {
        /// The first bytes are awaited.
        case reading
        /// An exchange has the CONNECT that stands for the hello.
        case serving
        /// The connection is another user's, or closed.
        case over
    }

    private let exchanges: ExchangePool
    private var exchange: Exchange?
    private var original = AddressAndPort(IPAddress(ipv4: 0), 0)
    private var phase = Phase.reading
    private var first = FirstBytes()
    /// All that the client has sent.
    private var input = ByteBuffer()
    /// The bytes that the connection is known to hold.
    private var accounted = 0
    /// The alert for a client whose hello is refused.
    private var alert: UInt8?
    private var timer: LoopTimer!

    init(_ transport: ClientTransport, _ exchanges: ExchangePool) {
        self.exchanges = exchanges
        super.init(transport)
        timer = LoopTimer { [unowned self] in timeIsUp() }
    }

    func open() {
        guard let address = transport.originalDestination.flatMap({ AddressAndPort($0) }) else { return close() }
        original = address
        services.loop.arm(timer, after: services.isDraining ? services.idleTime : services.generation.headTime)
    }

    // MARK: The first bytes

    func pump() {
        services.loop.noteWork(.request)
        while phase == .reading, transport.isReadable {
            services.scratch.removeAll()
            switch transport.read(into: &services.scratch) {
            case .bytes:
                var scratch = services.borrowScratch()
                take(scratch.bytes)
                services.returnScratch(&scratch)
            case .wouldBlock: break
            case .end: ended()
            case .failed: close()
            }
        }
    }

    private func take(_ bytes: borrowing Span<UInt8>) {
        input.append(bytes)
        let outcome = first.consume(bytes)
        account()
        if outcome == .needMore { return }
        services.loop.remove(timer)
        // The ends of a connection of this process are known before it sends anything.
        let refusal =
            OwnConnections.all.contains(from: transport.address, to: original.socketAddress)
            ? RedirectionRule.isLoop(original)
            : RedirectionRule.refusal(to: original, under: services.generation.snapshot.access.addresses)
        switch outcome {
        case .needMore: break
        case .http: serveHTTP(refusal)
        case .tls(let hello): serve(hello, refusal)
        case .brokenTLS(let fault):
            alert = TunnelRule.refusal(fault).alert
            refuse(Problem(.connectDenied, "The connection was refused: \(fault.message)."), isTLS: true)
        case .neither: refuse(RedirectionRule.isNeither(original), isTLS: false)
        }
    }

    private func serveHTTP(_ refusal: Problem?) {
        transport.redirection = Redirection(original: original, refusal: refusal, isTLS: false)
        phase = .over
        let next = ClientConnection(transport, exchanges)
        transport.handOver(to: next)
        var early = ByteBuffer()
        swap(&early, &input)
        account()
        next.open(with: &early)
        if services.isDraining { next.drain() }
        transport.pumpLater()
    }

    private func serve(_ hello: ClientHello, _ refusal: Problem?) {
        transport.redirection = Redirection(original: original, refusal: refusal, isTLS: true)
        guard let exchange = begin(hello.serverName ?? Host(original.address)) else { return close() }
        exchange.didReceiveHead()
    }

    /// Ends the connection without more than an alert, with a line in the log.
    private func refuse(_ problem: Problem, isTLS: Bool) {
        transport.redirection = Redirection(original: original, refusal: problem, isTLS: isTLS)
        guard let exchange = begin(Host(original.address)) else { return close() }
        exchange.refuse(problem, keepAlive: false)
    }

    /// Gives an exchange the CONNECT that stands for the connection.
    private func begin(_ host: Host) -> Exchange? {
        phase = .serving
        let exchange = exchanges.borrow(for: self)
        self.exchange = exchange
        let authority = host.authorityText(port: original.port)
        let head = Array("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n\r\n".utf8)
        var parser = RequestParser()
        guard case .complete = parser.parse(head.span, into: &exchange.head).outcome else { return nil }
        return exchange
    }

    private func ended() {
        if phase == .reading, !input.isEmpty {
            refuse(
                Problem(.clientClosed, "The client closed the connection in the midst of its first bytes."),
                isTLS: first.isTLS
            )
        } else {
            close()
        }
    }

    private func timeIsUp() {
        // A client without a request is not waited for in a stop.
        if services.isDraining, input.isEmpty { return close() }
        let limit = services.generation.headTime.milliseconds
        refuse(RedirectionRule.isLate(original, limit, hasBegun: !input.isEmpty), isTLS: first.isTLS)
    }

    // MARK: As the user of the transport

    func flush() {
        defer { account() }
        while phase != .over, !output.isEmpty, !transport.isWriteBlocked {
            switch transport.write(from: &output) {
            case .bytes, .end, .wouldBlock: break
            case .failed: return close()
            }
        }
    }

    func close() {
        guard phase != .over else { return }
        phase = .over
        services.loop.remove(timer)
        if let exchange {
            self.exchange = nil
            exchange.clientGone()
            exchanges.giveBack(exchange)
        }
        output.release()
        input.release()
        first = FirstBytes()
        account()
        transport.close()
    }

    func drain() {
        pump()
        if phase == .reading, input.isEmpty { services.loop.arm(timer, after: services.idleTime) }
    }

    // MARK: As the stream of the exchange

    override var hasRoom: Bool { true }

    override func write(_ own: borrowing OwnResponse) {
        guard transport.redirection?.isTLS == true else { return }
        // A fatal alert in a record of its own (RFC 8446, section 6) shows the client the reason.
        output.append([21, 3, 3, 0, 2, 2, alert ?? RedirectionRule.alert(ofStatus: own.status)].span)
    }

    // A CONNECT gets no head of an origin, and no body.
    override func writeHead(
        _ head: borrowing ResponseHead,
        _ form: ClientResponse.Form,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {}

    override func writeInformational(
        _ head: borrowing ResponseHead,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {}

    override func writeContinue() {}
    override func write(_ bytes: borrowing Span<UInt8>) {}
    override func flushLater() { transport.flushLater() }
    override func exchangeNeedsBody() {}
    override func hold(_ count: Int) -> Bool { true }
    override func releaseHeld(_ count: Int) {}

    override var canHandOver: Bool { true }
    override var hasMoreInput: Bool { true }

    override func handOver(
        to user: any TransportUser,
        _ take: (_ input: inout ByteBuffer, _ output: inout ByteBuffer) -> Void
    ) {
        phase = .over
        services.loop.remove(timer)
        take(&input, &output)
        account()
        transport.handOver(to: user)
        transport.pumpLater()
    }

    override func relayDidEnd() {
        guard let ended = exchange.take() else { return }
        exchanges.giveBack(ended)
    }

    override func finished(persists: Bool, isWhole: Bool) {
        guard let finished = exchange.take() else { return }
        exchanges.giveBack(finished)
        guard phase != .over else { return }
        flush()
        transport.shutdownWrite()
        close()
    }

    /// Accounts for what the connection makes the process hold.
    private func account() {
        let held = output.count + input.count + first.heldBytes
        guard held != accounted else { return }
        services.held.change(by: held - accounted)
        accounted = held
    }
}
