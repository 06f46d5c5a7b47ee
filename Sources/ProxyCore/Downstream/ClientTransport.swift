import HTTPCore
import IOCore

/// A client's connection below HTTP: its socket, and what is known of its readiness.
///
/// What is spoken on it is its user's matter, and the user may change on the way.
final class ClientTransport: EventHandler {
    /// Who speaks on it.
    enum User {
        /// Nobody yet, or no more: the transport is closed.
        case none
        case http1(ClientConnection)
        case http2(HTTP2Connection)
    }

    let worker: Worker
    let listener: WorkerListener
    let address: SocketAddress
    /// `127.0.0.1:53211`, for the log.
    let addressText: [UInt8]
    /// Its place in the worker's table.
    var slot = -1

    private var socket: StreamSocket
    private var user = User.none
    /// There may be bytes to read: events come once, when that becomes so.
    var isReadable = false
    /// The client has said all it will say.
    private(set) var peerHasEnded = false
    /// The last write found no room; `writable` tells the user when there is some again.
    private(set) var isWriteBlocked = false
    private var isFlushPlanned = false

    init(descriptor: Int32, address: SocketAddress, listener: WorkerListener, worker: Worker) {
        self.worker = worker
        self.listener = listener
        self.address = address
        socket = StreamSocket(adopting: descriptor)
        var text = ByteBuffer()
        address.append(to: &text)
        addressText = text.withUnsafeBytes { Array($0) }
        super.init()
    }

    /// Begins to serve HTTP; false when the system refuses.
    func open() -> Bool {
        if address.family != .unix { socket.setNoDelay() }
        do {
            try worker.loop.register(socket.descriptor, [.readable, .writable, .peerClosed, .edge], self)
        } catch {
            return false
        }
        let connection = ClientConnection(self)
        user = .http1(connection)
        connection.open()
        return true
    }

    /// Turns a connection away that is one too many: says so, and closes.
    func refuseForLimit() {
        var output = ByteBuffer()
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
    }

    /// Another user takes the connection over. What the former has read and not used is for the caller to hand on.
    func handOver(to next: User) {
        user = next
    }

    /// The local end's address, for a gateway's Host rule.
    var localAddress: SocketAddress? { socket.localAddress }

    // MARK: Events

    override func ready(_ readiness: Readiness) {
        if readiness.contains(.failed) || readiness.contains(.hungUp) {
            cancel()
            return
        }
        if readiness.contains(.peerClosed) { peerHasEnded = true }
        if readiness.contains(.writable), isWriteBlocked {
            isWriteBlocked = false
            switch user {
            case .none: return
            case .http1(let connection): connection.flush()
            case .http2(let connection): connection.flush()
            }
        }
        if readiness.contains(.readable) || readiness.contains(.peerClosed) {
            isReadable = true
            pump()
        }
    }

    /// Has the user read.
    func pump() {
        switch user {
        case .none: break
        case .http1(let connection): connection.pump()
        case .http2(let connection): connection.pump()
        }
    }

    /// Has the user write what it has, at the end of the turn.
    func flushLater() {
        guard !isFlushPlanned else { return }
        isFlushPlanned = true
        worker.flushLater(self)
    }

    func flushPlanned() {
        isFlushPlanned = false
        switch user {
        case .none: break
        case .http1(let connection): connection.flush()
        case .http2(let connection): connection.flush()
        }
    }

    /// Has the user close at once.
    func cancel() {
        switch user {
        case .none: break
        case .http1(let connection): connection.close()
        case .http2(let connection): connection.close()
        }
    }

    /// Has the user close if nothing is under way, and nothing has come that was not looked at yet: a clean stop.
    func closeIfIdle() {
        isReadable = true
        switch user {
        case .none: break
        case .http1(let connection): connection.closeIfIdle()
        case .http2(let connection): connection.closeIfIdle()
        }
    }

    // MARK: Bytes

    /// Reads what fits into one turn's buffer, and keeps account of whether there may be more.
    @inline(__always)
    func read(into buffer: inout ByteBuffer) -> TransferCount {
        let outcome = socket.read(into: &buffer, upTo: Worker.readSize)
        switch outcome {
        case .bytes(let count):
            // A short read has emptied the kernel's buffer; only the end can still be there.
            if count < Worker.readSize, !peerHasEnded { isReadable = false }
        case .wouldBlock, .end: isReadable = false
        case .failed: break
        }
        return outcome
    }

    /// Writes as much of `buffer` as goes, and takes that out of it.
    @inline(__always)
    func write(from buffer: inout ByteBuffer) -> TransferCount {
        let outcome = socket.write(from: &buffer)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    /// Writes `buffer`, then `tail`; what of `tail` did not go is put at the end of `buffer`.
    @inline(__always)
    func write(from buffer: inout ByteBuffer, followedBy tail: borrowing Span<UInt8>) -> TransferCount {
        let outcome = socket.write(from: &buffer, followedBy: tail)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    // MARK: The end

    /// Says that nothing more will be written.
    func shutdownWrite() { socket.shutdownWrite() }

    /// Makes the close to come a reset: what the client has been given is not the whole.
    func resetOnClose() { socket.resetOnClose() }

    /// Ends the connection; its user has let go of everything.
    func close() {
        if case .none = user { return }
        user = .none
        worker.loop.unregister(socket.descriptor)
        worker.forget(self)
    }
}
