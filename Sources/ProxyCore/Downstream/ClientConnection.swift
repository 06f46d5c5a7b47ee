import HTTPCore
import IOCore

/// One client's connection: reads requests from it, hands each to an exchange, and writes the answers in order.
///
/// The next request is not looked at before the answer to this one is written, so that pipelined requests wait in the
/// kernel's buffer. An idle connection holds no buffers.
final class ClientConnection: EventHandler {
    let worker: Worker
    let listener: WorkerListener
    let address: SocketAddress
    /// `127.0.0.1:53211`, for the log.
    let addressText: [UInt8]

    private var socket: StreamSocket
    /// What was read beyond the request under way.
    private var input = ByteBuffer()
    /// What is to be written; `Exchange` appends to it.
    var output = ByteBuffer()
    private var exchange: Exchange?
    private var timer: LoopTimer!
    /// Its place in the worker's table.
    var slot = -1

    private var phase = Phase.head
    /// The kernel may have bytes for us: events come once, when that becomes so.
    private var isReadable = false
    /// The client has said all it will say.
    private var peerHasEnded = false
    private var isWriteBlocked = false
    private var isFlushPlanned = false
    /// `feed` is on the stack and goes on with the next request by itself.
    private var isFeeding = false
    private var lingered = 0

    private enum Phase {
        /// Between requests, or inside a head.
        case head
        /// A request's body comes, or its answer goes.
        case exchange
        /// All is said; what the client still sends is read and dropped, so that the answer is not lost to a reset.
        case lingering
        case closed
    }

    /// More waiting output than this holds the origin back.
    private static let highWater = 256 << 10
    private static let lowWater = 64 << 10
    private static let lingerTime = TimeSpan.seconds(2)
    private static let lingerBytes = 1 << 20

    init(descriptor: Int32, address: SocketAddress, listener: WorkerListener, worker: Worker) {
        self.worker = worker
        self.listener = listener
        self.address = address
        socket = StreamSocket(adopting: descriptor)
        var text = ByteBuffer()
        address.append(to: &text)
        addressText = text.withUnsafeBytes { Array($0) }
        super.init()
        timer = LoopTimer { [unowned self] in timeIsUp() }
    }

    /// Begins to serve; false when the system refuses.
    func open() -> Bool {
        if address.family != .unix { socket.setNoDelay() }
        do {
            try worker.loop.register(socket.descriptor, [.readable, .writable, .peerClosed, .edge], self)
        } catch {
            return false
        }
        worker.loop.arm(timer, after: worker.generation.headTime)
        return true
    }

    /// Turns a connection away that is one too many: says so, and closes.
    func refuseForLimit() {
        ErrorAnswer.write(
            Problem(
                .limitReached,
                "There are already as many client connections as limits.connections allows. Try again, or raise the limit."
            ),
            to: &output,
            keepAlive: false,
            date: worker.httpDate.span
        )
        _ = socket.write(from: &output)
        socket.shutdownWrite()
        phase = .closed
    }

    /// Whether a request is under way.
    var isBusy: Bool { exchange != nil }

    /// The local end's address, for a gateway's Host rule.
    var localAddress: SocketAddress? { socket.localAddress }

    // MARK: Events

    override func ready(_ readiness: Readiness) {
        guard phase != .closed else { return }
        if readiness.contains(.failed) || readiness.contains(.hungUp) {
            close()
            return
        }
        if readiness.contains(.peerClosed) { peerHasEnded = true }
        if readiness.contains(.writable), isWriteBlocked {
            isWriteBlocked = false
            flush()
        }
        if readiness.contains(.readable) || readiness.contains(.peerClosed) {
            isReadable = true
            pump()
        }
    }

    private var wantsInput: Bool {
        switch phase {
        case .head: mayBegin
        case .lingering: true
        case .exchange: exchange?.wantsBody ?? false
        case .closed: false
        }
    }

    /// Whether another head may be taken: a client that asks without reading the answers is not served any further.
    private var mayBegin: Bool { exchange != nil || hasRoom }

    /// Reads while there is something to read and somebody to read it.
    func pump() {
        if phase == .head, !isFeeding, !input.isEmpty { takeUpInput() }
        while isReadable, wantsInput, input.isEmpty {
            worker.scratch.removeAll()
            switch socket.read(into: &worker.scratch, upTo: Worker.readSize) {
            case .bytes(let count):
                // A short read has emptied the kernel's buffer; only the end can still be there.
                if count < Worker.readSize, !peerHasEnded { isReadable = false }
                var scratch = worker.takeScratch()
                feed(scratch.bytes)
                worker.returnScratch(&scratch)
            case .wouldBlock:
                isReadable = false
            case .end:
                isReadable = false
                inputEnded()
            case .failed:
                close()
            }
        }
    }

    /// Takes bytes from the client, whatever they are part of.
    private func feed(_ bytes: borrowing Span<UInt8>) {
        guard phase != .closed else { return }
        isFeeding = true
        defer { isFeeding = false }
        var position = 0
        while position < bytes.count {
            let rest = bytes.extracting(position..<bytes.count)
            switch phase {
            case .head:
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
                lingered += rest.count
                if lingered > Self.lingerBytes { close() }
                return
            case .closed:
                return
            }
        }
    }

    private func feedHead(_ bytes: borrowing Span<UInt8>) -> Int {
        let current: Exchange
        if let exchange {
            current = exchange
        } else {
            current = worker.borrowExchange(for: self)
            exchange = current
            worker.loop.arm(timer, after: worker.generation.headTime)
        }
        let (consumed, outcome) = current.parser.parse(bytes, into: &current.head)
        switch outcome {
        case .needMore:
            break
        case .complete:
            worker.loop.disarm(timer)
            phase = .exchange
            current.begin()
        case .failed(let fault):
            worker.loop.disarm(timer)
            phase = .exchange
            current.refuse(Problem(fault), keepAlive: false)
        }
        return consumed
    }

    private func inputEnded() {
        switch phase {
        case .head:
            // Nothing was asked: a connection that ends inside a head has nothing to be answered.
            close()
        case .exchange:
            // A half-close: what was asked is still answered, but a body that lacks its end never will have one.
            exchange?.inputEnded()
        case .lingering:
            close()
        case .closed:
            break
        }
    }

    private func timeIsUp() {
        switch phase {
        case .head:
            if let exchange, exchange.parser.isInsideHead {
                phase = .exchange
                exchange.refuse(
                    Problem(
                        .requestTimeout,
                        "The request head was not complete within \(worker.generation.headTime.milliseconds) ms of its first byte. Send it faster, or raise timeouts.head."
                    ),
                    keepAlive: false
                )
            } else {
                close()
            }
        case .lingering: close()
        case .exchange, .closed: break
        }
    }

    // MARK: Output

    /// How the answer's bytes go on: false when the origin should hold back.
    var hasRoom: Bool { output.count < Self.highWater }

    /// Writes a large piece of a body, with what waits before it, without copying it first.
    func write(_ bytes: borrowing Span<UInt8>) {
        guard phase == .exchange else { return }
        if isWriteBlocked {
            output.append(bytes)
            return
        }
        switch socket.write(from: &output, followedBy: bytes) {
        case .bytes, .end:
            if !output.isEmpty { flush() }
        case .wouldBlock:
            isWriteBlocked = true
        case .failed:
            close()
        }
    }

    /// Writes what is there at the end of the turn, together with what still comes in it.
    func flushLater() {
        guard !isFlushPlanned else { return }
        isFlushPlanned = true
        worker.flushLater(self)
    }

    func flushPlanned() {
        isFlushPlanned = false
        flush()
    }

    /// Writes what waits; tells the exchange when there is room again.
    func flush() {
        guard phase != .closed, !isWriteBlocked else { return }
        while !output.isEmpty {
            switch socket.write(from: &output) {
            case .bytes, .end:
                // A slow reader is no idle one.
                if exchange == nil { worker.loop.arm(timer, after: worker.generation.idleTime) }
            case .wouldBlock:
                isWriteBlocked = true
                if output.count < Self.lowWater { hasRoomAgain() }
                return
            case .failed:
                close()
                return
            }
        }
        if phase == .lingering {
            beginLinger()
        } else if output.count < Self.lowWater {
            hasRoomAgain()
        }
    }

    private func hasRoomAgain() {
        if let exchange {
            exchange.outputHasRoom()
        } else if phase == .head, !isFeeding, !input.isEmpty || isReadable {
            worker.pumpLater(self)
        }
    }

    // MARK: The end of an exchange

    /// The answer is written out to `output`, or given up.
    ///
    /// - Parameters:
    ///   - persists: whether the connection can carry another request.
    ///   - isWhole: false when the client must be able to tell that the answer broke off.
    func finished(_ finished: Exchange, persists: Bool, isWhole: Bool) {
        guard phase != .closed else { return }
        if !isWhole, finished.answer.endsWithConnection { socket.resetOnClose() }
        exchange = nil
        worker.returnExchange(finished)
        if !isWhole {
            flush()
            close()
            return
        }
        if !persists || worker.isDraining {
            phase = .lingering
            // What waits here would keep the rest from being read, and the close would become a reset.
            input.release()
            worker.loop.arm(timer, after: worker.generation.idleTime)
            flush()
            return
        }
        phase = .head
        flush()
        guard phase == .head else { return }
        if output.isEmpty { output.release() }
        worker.loop.arm(timer, after: worker.generation.idleTime)
        if !isFeeding { goOn() }
    }

    /// Takes up the requests that wait.
    private func goOn() {
        takeUpInput()
        // What else the client has sent is read in a turn of its own: another connection may be waiting.
        if isReadable, wantsInput { worker.pumpLater(self) }
    }

    private func takeUpInput() {
        while phase == .head, mayBegin, !input.isEmpty {
            var waiting = ByteBuffer()
            swap(&waiting, &input)
            feed(waiting.bytes)
        }
    }

    /// The exchange can take more of the request body.
    func exchangeWantsBody() {
        if !isFeeding, !input.isEmpty, wantsInput {
            var waiting = ByteBuffer()
            swap(&waiting, &input)
            feed(waiting.bytes)
        }
        if isReadable, wantsInput { worker.pumpLater(self) }
    }

    /// Says that no more comes and waits a little for the client to have read it.
    private func beginLinger() {
        socket.shutdownWrite()
        worker.loop.arm(timer, after: Self.lingerTime)
        isReadable = true
        if !isFeeding { worker.pumpLater(self) }
    }

    /// Closes at once; what is under way is cancelled.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        // A clean end would make what has been written look like all of it.
        if !output.isEmpty || exchange?.answer.endsWithConnection == true { socket.resetOnClose() }
        worker.loop.unregister(socket.descriptor)
        worker.loop.remove(timer)
        if let exchange {
            self.exchange = nil
            exchange.clientGone()
            worker.returnExchange(exchange)
        }
        output.release()
        input.release()
        worker.forget(self)
    }

    /// Closes if nothing is under way, and nothing has come that was not looked at yet: a clean stop.
    func closeIfIdle() {
        isReadable = true
        pump()
        guard exchange == nil, phase == .head else { return }
        if output.isEmpty {
            close()
        } else {
            // A slow client still reads its last answer.
            input.release()
            phase = .lingering
        }
    }
}
