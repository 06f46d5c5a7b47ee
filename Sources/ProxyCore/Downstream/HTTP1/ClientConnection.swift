// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore

/// A client's HTTP/1.1 connection: reads requests, gives each to an exchange, and writes the responses in order.
///
/// The next request is read only after the response to the current one has been written, so pipelined requests wait in
/// the kernel's buffer. An idle connection holds no buffers. `ConnectionLife` decides when it ends; this class acts.
final class ClientConnection: ExchangeStream, TransportUser {
    /// Bytes that were read beyond the current request.
    private var input = ByteBuffer()
    private let exchanges: ExchangePool
    private var exchange: Exchange?
    /// Reads the head of the request that the exchange is for.
    private var parser = RequestParser()
    private let timer = LoopTimer()

    private var life = ConnectionLife()
    /// `feed` is on the stack and continues with the next request by itself.
    private var isFeeding = false
    /// The version that the client has to use, or `either` as long as it has sent at most a part of HTTP/2's preface.
    private var expected: ClientProtocol
    /// The bytes received so far, while they are the beginning of HTTP/2's preface.
    private var preface: [UInt8] = []
    /// Bytes of the current read that follow the head.
    private var bytesBehindHead = 0
    /// The bytes that the connection is known to hold.
    private var accounted = 0
    /// Bytes of a request that are held until it is over.
    private var heldOfRequest = 0

    /// The origin is paused while more output than this is waiting.
    private static let highWater = 256 << 10
    /// So much may wait however much others hold.
    private static let alwaysHeld = 16 << 10
    private static let lowWater = 64 << 10
    /// At most this much is read in a turn of the loop: others wait.
    private static let turnLimit = 256 << 10
    private static let lingerTime = TimeSpan.seconds(2)

    init(_ transport: ClientTransport, _ exchanges: ExchangePool) {
        self.exchanges = exchanges
        expected = transport.expectedProtocol
        super.init(transport)
        timer.whenDue { [unowned self] in timeIsUp() }
    }

    /// Waits for the first request.
    func open() {
        services.loop.arm(timer, after: services.generation.headTime)
    }

    /// The same with bytes that were read already.
    func open(with early: inout ByteBuffer) {
        swap(&input, &early)
        account()
        open()
    }

    /// The next request is the first one inside a CONNECT.
    func beginsAnew() { expected = transport.expectedProtocol }

    private var phase: ConnectionLife.Phase { life.phase }

    // MARK: Input

    private var wantsInput: Bool {
        switch phase {
        case .head: mayBegin
        case .lingering: true
        case .exchange: exchange?.wantsBody ?? false
        case .closed: false
        }
    }

    /// Whether another head may be read: a client that sends requests and reads no responses is not served any further.
    private var mayBegin: Bool { exchange != nil || hasRoom }

    /// Reads while there is input and the connection can use it.
    func pump() {
        services.loop.noteWork(.request)
        if phase == .head, !isFeeding, !input.isEmpty { feedWaitingInput() }
        var left = Self.turnLimit
        while transport.isReadable, wantsInput, input.isEmpty {
            guard transport.mayRead(left, of: Self.turnLimit) else { return transport.pumpLater() }
            services.scratch.removeAll()
            switch transport.read(into: &services.scratch) {
            case .bytes(let count):
                left -= max(count, ClientTransport.leastReading)
                var scratch = services.borrowScratch()
                feed(scratch.bytes)
                services.returnScratch(&scratch)
                // A piece that is kept and digested costs more than one that goes on.
                if exchange?.gathersBody == true { left = 0 }
            case .wouldBlock: break
            case .end: inputEnded()
            case .failed: close()
            }
        }
    }

    /// Processes input of any kind: preface, head, body, or bytes to drop.
    private func feed(_ bytes: borrowing Span<UInt8>) {
        guard phase != .closed else { return }
        isFeeding = true
        defer { isFeeding = false }
        var position = 0
        while position < bytes.count {
            let rest = bytes.extracting(position..<bytes.count)
            switch phase {
            case .head:
                if expected != .http1 { return feedPreface(rest) }
                guard mayBegin else {
                    input.append(rest)
                    return
                }
                position += feedHead(rest)
            case .exchange:
                guard let exchange, exchange.wantsBody else {
                    input.append(rest)
                    return
                }
                position += exchange.feedBody(rest)
            case .lingering:
                if life.drop(rest.count) { close() }
                return
            case .closed:
                return
            }
        }
    }

    private func feedPreface(_ bytes: borrowing Span<UInt8>) {
        preface.append(bytes)
        let held = preface
        switch ClientPreface.match(held.span) {
        case .needsMore: return
        case .isNot where expected == .either:
            expected = .http1
            preface = []
            feed(held.span)
        // Anything else than the preface, where HTTP/2 was agreed on, is an error of that protocol.
        case .isNot, .isPreface:
            _ = life.close()
            services.loop.remove(timer)
            let next = HTTP2Connection(transport, exchanges)
            transport.handOver(to: next)
            next.open(held.span)
        }
    }

    /// Whether a head has begun and is not complete.
    private var isInsideHead: Bool { exchange != nil && parser.isInsideHead }

    private func feedHead(_ bytes: borrowing Span<UInt8>) -> Int {
        let current: Exchange
        if let exchange {
            current = exchange
        } else {
            current = exchanges.borrow(for: self)
            exchange = current
            parser.begin(under: services.generation.headLimits)
            services.loop.arm(timer, after: services.generation.headTime)
        }
        let (consumed, outcome) = parser.parse(bytes, into: &current.head)
        switch outcome {
        case .needMore:
            break
        case .complete:
            services.loop.disarm(timer)
            life.beginExchange()
            bytesBehindHead = bytes.count - consumed
            current.didReceiveHead()
            bytesBehindHead = 0
            if phase == .exchange, exchange === current, !current.upload.isComplete {
                services.loop.arm(timer, after: services.generation.bodyTime)
            }
        case .failed(let fault):
            services.loop.disarm(timer)
            life.beginExchange()
            current.refuse(problem(fault, bytes), keepAlive: false)
        }
        return consumed
    }

    /// Tells a client of another protocol by its first bytes.
    private func problem(_ fault: RequestFault, _ bytes: borrowing Span<UInt8>) -> Problem {
        guard fault == .methodInvalid, bytes.count > 1 else { return Problem(fault) }
        switch (bytes[0], bytes[1]) {
        case (0x16, 0x03) where transport.intercepted?.scheme == .http: return .unexpectedTLSInside
        case (0x16, 0x03): return .unexpectedTLS
        // SOCKS 4 with a command; SOCKS 5 with the number of its methods.
        case (0x04, 1...2), (0x05, 1...): return .unexpectedSOCKS
        default: return Problem(fault)
        }
    }

    private func inputEnded() {
        switch life.inputEnded() {
        case .close: close()
        case .endBody: exchange?.inputEnded(.connection)
        case .ignore: break
        }
    }

    private func timeIsUp() {
        switch life.timeIsUp(isInsideHead: isInsideHead) {
        case .refuseHead:
            exchange?.refuse(
                Problem(
                    .requestTimeout,
                    "The request head was not complete within \(services.generation.headTime.milliseconds) ms of its first byte. Send it faster, or raise timeouts.head."
                ),
                keepAlive: false
            )
        case .idle: closeIfIdle()
        case .checkBody: checkBodyPace()
        case .close: close()
        case .ignore: break
        }
    }

    private func checkBodyPace() {
        guard let exchange, !exchange.upload.isComplete, !exchange.writer.hasBegun else { return }
        let (isWaitedFor, limit) = (!transport.isReadable && input.isEmpty, services.generation.bodyTime)
        if exchange.checkBodyPace(isWaitedFor: isWaitedFor, limit: limit) { services.loop.arm(timer, after: limit) }
    }

    // MARK: Output

    override var hasRoom: Bool {
        let count = output.count
        return count < Self.alwaysHeld || count < Self.highWater && services.mayHold(count)
    }

    /// Accounts for what the connection makes the process hold: input that waits for the end of a response, and output.
    private func account() {
        let held = output.count + input.count
        guard held != accounted else { return }
        services.held.change(by: held - accounted)
        accounted = held
    }

    override func hold(_ count: Int) -> Bool {
        heldOfRequest += count
        services.held.change(by: count)
        return services.mayHold(heldOfRequest)
    }

    override func releaseHeld(_ count: Int) {
        heldOfRequest -= count
        services.held.change(by: -count)
    }

    override func writeHead(
        _ head: borrowing ResponseHead,
        _ form: ClientResponse.Form,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {
        output.takeMemory(of: &services.loop.spare)
        ClientResponse.writeHead(head, form, to: request, context: context, output: &output)
    }

    override func writeInformational(
        _ head: borrowing ResponseHead,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {
        // HTTP/1.0 does not have these (rule 49).
        guard request.minorVersion >= 1 else { return }
        ClientResponse.writeInformational(head, context: context, output: &output)
    }

    override func writeContinue() { output.append("HTTP/1.1 100 Continue\r\n\r\n") }

    override func write(_ own: borrowing OwnResponse) {
        own.writeHead(to: &output)
        output.append(own.body.bytes)
    }

    override func write(_ bytes: borrowing Span<UInt8>) {
        guard phase == .exchange else { return }
        if transport.isWriteBlocked {
            output.append(bytes)
            return account()
        }
        didWrite(transport.write(from: &output, followedBy: bytes))
    }

    override func write(_ bytes: borrowing Span<UInt8>, followedBy more: borrowing Span<UInt8>) {
        guard phase == .exchange else { return }
        if transport.isWriteBlocked {
            output.append(bytes)
            output.append(more)
            return account()
        }
        didWrite(transport.write(from: &output, followedBy: bytes, more))
    }

    /// From the file to the socket, without a copy, as long as the socket has room: nothing of it waits here.
    override func write(_ file: FileBytes) -> (count: Int, isFull: Bool)? {
        guard phase == .exchange, transport.sendsFiles else { return nil }
        if transport.isWriteBlocked { return (0, true) }
        var rest = file.inMemory
        var sent = 0
        defer { account() }
        while rest.count > 0 {
            switch transport.write(from: &output, followedBy: rest) {
            case .bytes(let count):
                sent += count
                rest = rest.dropFirst(count)
            case .wouldBlock: return (sent, true)
            case .end: return sent > 0 ? (sent, false) : nil
            case .failed:
                // The bytes that were sent are counted before the connection closes.
                if sent == 0 { close() }
                return (sent, sent == 0)
            }
        }
        return sent > 0 ? (sent, false) : nil
    }

    override func writeOutput() {
        guard phase == .exchange else { return }
        if transport.isWriteBlocked { return account() }
        didWrite(transport.write(from: &output))
        account()
    }

    private func didWrite(_ outcome: TransferCount) {
        switch outcome {
        case .bytes, .end:
            if !output.isEmpty { flush() }
        case .wouldBlock: break
        case .failed: close()
        }
    }

    override func flushLater() { transport.flushLater() }

    /// Writes the waiting output; notifies the exchange when there is room again.
    func flush() {
        defer { account() }
        guard phase != .closed, !transport.isWriteBlocked else { return }
        while !output.isEmpty {
            switch transport.write(from: &output) {
            case .bytes(let count):
                if life.wrote(count, isAll: output.isEmpty, hasExchange: exchange != nil) {
                    services.loop.arm(
                        timer,
                        after: phase == .lingering ? services.generation.idleTime : services.idleTime
                    )
                }
            case .end: break
            case .wouldBlock:
                if output.count < Self.lowWater { hasRoomAgain() }
                return
            case .failed:
                close()
                return
            }
        }
        if phase == .lingering {
            startLingering()
        } else if output.count < Self.lowWater {
            hasRoomAgain()
        }
    }

    private func hasRoomAgain() {
        if let exchange {
            exchange.outputHasRoom()
        } else if phase == .head, !isFeeding, !input.isEmpty || transport.isReadable {
            transport.pumpLater()
        }
    }

    // MARK: The end of an exchange

    override func finished(persists: Bool, isWhole: Bool) {
        guard phase != .closed, let finished = exchange else { return }
        if !isWhole, finished.writer.endsWithConnection { transport.resetOnClose() }
        exchange = nil
        exchanges.giveBack(finished)
        switch life.exchangeEnded(persists: persists, isWhole: isWhole) {
        case .close:
            flush()
            close()
            return
        case .linger:
            // The client may send one more request where the response had begun without Connection: close.
            // Waiting input would stop the connection from being read, and closing it would then send a reset.
            input.release()
            services.loop.arm(timer, after: services.generation.idleTime)
            flush()
            return
        case .next: break
        }
        flush()
        guard phase == .head else { return }
        if output.isEmpty, output.hasMemory { output.giveMemory(to: &services.loop.spare) }
        services.loop.arm(timer, after: services.idleTime)
        if !isFeeding { resumeReading() }
    }

    /// Continues with requests that are waiting.
    private func resumeReading() {
        feedWaitingInput()
        // Unread input is read in a later turn, so that other connections are served in between.
        if transport.isReadable, wantsInput { transport.pumpLater() }
    }

    private func feedWaitingInput() {
        while phase == .head, mayBegin, !input.isEmpty {
            var waiting = ByteBuffer()
            swap(&waiting, &input)
            feed(waiting.bytes)
        }
    }

    override func exchangeNeedsBody() {
        if !isFeeding, !input.isEmpty, wantsInput {
            var waiting = ByteBuffer()
            swap(&waiting, &input)
            feed(waiting.bytes)
        }
        if transport.isReadable, wantsInput { transport.pumpLater() }
    }

    /// Closes the sending side, and gives the client a little time to read the response.
    private func startLingering() {
        transport.shutdownWrite()
        services.loop.arm(timer, after: Self.lingerTime)
        transport.isReadable = true
        if !isFeeding { transport.pumpLater() }
    }

    override var hasMoreInput: Bool { bytesBehindHead > 0 || !input.isEmpty || transport.isReadable }

    override var canHandOver: Bool { true }

    override func handOver(
        to user: any TransportUser,
        _ take: (_ input: inout ByteBuffer, _ output: inout ByteBuffer) -> Void
    ) {
        _ = life.close()
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

    /// Closes at once, and cancels the current request.
    func close() {
        guard life.close() else { return }
        // After a clean end the client would take the bytes it has for the whole response.
        if !output.isEmpty || exchange?.writer.endsWithConnection == true { transport.resetOnClose() }
        services.loop.remove(timer)
        if let exchange {
            self.exchange = nil
            exchange.clientGone()
            exchanges.giveBack(exchange)
        }
        output.release()
        input.release()
        account()
        transport.close()
    }

    /// The response to the next request will be the last one. A client without a request gets a little time, because
    /// its request may be on its way.
    func drain() {
        pump()
        guard exchange == nil, phase == .head else { return }
        services.loop.arm(timer, after: services.idleTime)
    }

    /// Closes the connection if no request is being served and no input is waiting.
    private func closeIfIdle() {
        transport.isReadable = true
        pump()
        let next = life.idle(
            isInsideHead: isInsideHead,
            isDraining: services.isDraining,
            hasOutput: !output.isEmpty || transport.isWriteBlocked
        )
        switch next {
        case .awaitHead:
            if !timer.isArmed { services.loop.arm(timer, after: services.generation.headTime) }
        case .linger:
            input.release()
            services.loop.arm(timer, after: services.generation.idleTime)
        case .close: close()
        case .goOn: break
        }
    }
}
