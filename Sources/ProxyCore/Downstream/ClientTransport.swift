import HTTPCore
import IOCore
import ServerTrust

/// A client's connection below HTTP: its socket, and what is known of its readiness.
///
/// What is spoken on it is its user's matter, and the user may change on the way.
final class ClientTransport: EventHandler {
    /// Who speaks on it.
    enum User {
        /// Nobody yet, or no more: the transport is closed.
        case none
        /// TLS begins; what is spoken inside of it comes after.
        case handshake(ClientHandshake)
        case http1(ClientConnection)
        case http2(HTTP2Connection)
        /// Bytes that are not HTTP, to and from an origin.
        case relay(Relay)
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
    /// Set where the client speaks TLS to this proxy.
    private var tls: TLSLayer?
    /// Who the client has proved to be, for all that is asked on this connection: by its certificate, as a process at a
    /// Unix socket, or with the request that opened a tunnel.
    private(set) var clientName: [UInt8]?
    /// The credentials under which that was found out; nil for a certificate, which the handshake has verified.
    private var clientCredentials: ClientCredentials?
    /// Set once TLS within a CONNECT has been taken up: what every request is for.
    private(set) var intercepted: InterceptedAuthority?
    /// There may be bytes to read: events come once, when that becomes so.
    var isReadable = false
    /// The client has said all it will say.
    private(set) var peerHasEnded = false
    /// The last write found no room; `writable` tells the user when there is some again.
    private(set) var isWriteBlocked = false
    private var isFlushPlanned = false
    private var isClosed = false
    /// Nothing follows what still waits to be written.
    private var isEnding = false

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
        if case .credentials(let credentials) = listener.security.authentication, address.family == .unix {
            identifyPeer(credentials)
        }
        switch listener.security.tls {
        case .none: serveHTTP()
        case .context(let context):
            var early = ByteBuffer()
            var pending = ByteBuffer()
            startTLS(context, early: &early, pending: &pending) { transport in
                transport.identifyClient()
                transport.serveHTTP()
            }
        case .unusable: close()
        }
        return true
    }

    private func identifyPeer(_ credentials: ClientCredentials) {
        clientName = socket.peer.flatMap { credentials.user(of: $0) }
        clientCredentials = credentials
    }

    /// Whether the client is still who it was, after a reload perhaps.
    func isStillKnown(under credentials: ClientCredentials) -> Bool {
        guard let former = clientCredentials, former !== credentials else { return true }
        guard intercepted != nil, let clientName else {
            identifyPeer(credentials)
            return self.clientName != nil
        }
        let isSamePeer = socket.peer.flatMap { credentials.user(of: $0) } == clientName
        guard isSamePeer || credentials.agrees(with: former, about: clientName) else { return false }
        clientCredentials = credentials
        return true
    }

    /// Takes up the TLS that a client speaks behind its CONNECT.
    ///
    /// - Parameters:
    ///   - user: who has sent the CONNECT, and the credentials under which that was found out.
    ///   - early: what the client has sent behind it.
    ///   - pending: the answer to it, as far as it has not been written.
    func intercept(
        _ authority: InterceptedAuthority,
        user: (name: [UInt8], credentials: ClientCredentials)?,
        _ context: TLSServerContext,
        early: inout ByteBuffer,
        pending: inout ByteBuffer
    ) {
        intercepted = authority
        if clientName == nil, let user {
            clientName = user.name
            clientCredentials = user.credentials
        }
        startTLS(context, early: &early, pending: &pending) { $0.serveHTTP() }
    }

    private func serveHTTP() {
        let connection = ClientConnection(self)
        user = .http1(connection)
        connection.open()
        if worker.isDraining { connection.drain() }
    }

    /// Speaks TLS from now on, inside of what is spoken already.
    ///
    /// - Parameters:
    ///   - early: what has been read of the handshake.
    ///   - pending: what is still to be written before it.
    ///   - next: called when the handshake is complete; has the connection taken over.
    private func startTLS(
        _ context: TLSServerContext,
        early: inout ByteBuffer,
        pending: inout ByteBuffer,
        then next: @escaping (ClientTransport) -> Void
    ) {
        guard let session = try? context.session() else { return close() }
        swap(&session.incoming, &early)
        swap(&session.outgoing, &pending)
        let layer = TLSLayer(session, over: tls)
        layer.noteReadable(peerHasEnded: peerHasEnded)
        tls = layer
        let handshake = ClientHandshake(self, then: next)
        user = .handshake(handshake)
        handshake.open()
    }

    /// Goes on with the handshake: `.bytes` when it is complete.
    func shakeHands() -> TransferCount {
        guard let tls else { return .end }
        let outcome = tls.shakeHands(over: socket)
        switch outcome {
        case .bytes:
            // More may have come with the end of the handshake.
            isReadable = true
            if tls.isHoldingBack { isWriteBlocked = true }
        case .wouldBlock:
            if tls.isHoldingBack { isWriteBlocked = true }
        case .end, .failed:
            logFault(tls.fault)
        }
        return outcome
    }

    private func logFault(_ fault: OpenSSLError?) {
        let level = worker.generation.snapshot.configuration.log.level
        guard level <= .debug else { return }
        EventLine(event: "clientHandshakeFailed")
            .with("client", String(decoding: addressText, as: UTF8.self))
            .with("message", fault?.description ?? "the connection ended in the middle of it")
            .write(.debug, at: level)
    }

    /// A client certificate, which the handshake has verified, says who it is.
    private func identifyClient() {
        guard let certificate = tls?.session.clientCertificate else { return }
        clientName = Array(certificate.subject.utf8)
        clientCredentials = nil
    }

    /// The protocol that the client has chosen in its handshake.
    var applicationProtocol: String { tls?.session.applicationProtocol ?? "" }

    /// Turns a connection away that is one too many: says so, and closes.
    func refuseForLimit() {
        // Without a handshake nothing can be said.
        if case .none = listener.security.tls {} else { return }
        // With unread bytes the close would be a reset, which may overtake the answer.
        worker.scratch.removeAll()
        _ = socket.read(into: &worker.scratch, upTo: Worker.readSize)
        var output = ByteBuffer()
        ErrorResponse.write(
            Problem(
                .limitReached,
                "There are already as many client connections as limits.connections, or the system's limit of open files, allows. "
                    + "Try again, or raise the limit."
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
        if readiness.contains(.failed) || readiness.contains(.hungUp) && !endsByHalves {
            cancel()
            return
        }
        if readiness.contains(.peerClosed) || readiness.contains(.hungUp) { peerHasEnded = true }
        if readiness.contains(.writable), isWriteBlocked {
            isWriteBlocked = false
            if let tls, tls.isHoldingBack, !drain(tls) { return }
            if !isWriteBlocked { notifyRoom() }
        }
        if readiness.contains(.readable) || readiness.contains(.peerClosed) {
            isReadable = true
            tls?.noteReadable(peerHasEnded: peerHasEnded)
            pump()
        }
    }

    /// Has TLS write what it has made already.
    ///
    /// - Returns: false when that failed, and everything is closed.
    private func drain(_ tls: TLSLayer) -> Bool {
        switch tls.drain(to: socket) {
        case .bytes: if isEnding { socket.shutdownWrite() }
        case .wouldBlock, .end: isWriteBlocked = true
        case .failed:
            cancel()
            return false
        }
        return true
    }

    /// The kernel takes more.
    private func notifyRoom() {
        switch user {
        case .none: break
        case .handshake(let handshake): handshake.resume()
        case .http1(let connection): connection.flush()
        case .http2(let connection): connection.flush()
        case .relay(let relay): relay.flush()
        }
    }

    /// Whether an end of both directions is one that both sides have said, with bytes that may still be read.
    private var endsByHalves: Bool {
        if case .relay = user { true } else { false }
    }

    /// Has the user read.
    func pump() {
        switch user {
        case .none: break
        case .handshake(let handshake): handshake.resume()
        case .http1(let connection): connection.pump()
        case .http2(let connection): connection.pump()
        case .relay(let relay): relay.pump()
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
        case .none, .handshake: break
        case .http1(let connection): connection.flush()
        case .http2(let connection): connection.flush()
        case .relay(let relay): relay.flush()
        }
    }

    /// Has the user close at once.
    func cancel() {
        switch user {
        case .none: break
        case .handshake(let handshake): handshake.close()
        case .http1(let connection): connection.close()
        case .http2(let connection): connection.close()
        case .relay(let relay): relay.close()
        }
    }

    /// Has the user end when what is under way is over: a clean stop.
    func drain() {
        isReadable = true
        switch user {
        case .none, .handshake, .relay: break
        case .http1(let connection): connection.drain()
        case .http2(let connection): connection.drain()
        }
    }

    // MARK: Bytes

    /// Reads what fits into one turn's buffer, and keeps account of whether there may be more.
    @inline(__always)
    func read(into buffer: inout ByteBuffer) -> TransferCount {
        if let tls { return read(tls, into: &buffer) }
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
        let outcome = tls?.write(from: &buffer, to: socket) ?? socket.write(from: &buffer)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    /// Writes `buffer`, then `tail`; what of `tail` did not go is put at the end of `buffer`.
    @inline(__always)
    func write(from buffer: inout ByteBuffer, followedBy tail: borrowing Span<UInt8>) -> TransferCount {
        if let tls { return write(tls, from: &buffer, followedBy: tail) }
        let outcome = socket.write(from: &buffer, followedBy: tail)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    private func read(_ tls: TLSLayer, into buffer: inout ByteBuffer) -> TransferCount {
        let outcome = tls.read(into: &buffer, upTo: Worker.readSize, from: socket)
        switch outcome {
        case .bytes, .failed: break
        case .wouldBlock, .end: isReadable = false
        }
        // What the session itself had to say.
        if tls.isHoldingBack, case .wouldBlock = tls.drain(to: socket) { isWriteBlocked = true }
        return outcome
    }

    private func write(
        _ tls: TLSLayer,
        from buffer: inout ByteBuffer,
        followedBy tail: borrowing Span<UInt8>
    ) -> TransferCount {
        // A record costs as much as the copy into it: there is nothing to be saved by taking two pieces.
        buffer.append(tail)
        let outcome = tls.write(from: &buffer, to: socket)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    // MARK: The end

    /// Says that nothing more will be written.
    func shutdownWrite() {
        guard let tls else { return socket.shutdownWrite() }
        isEnding = true
        if case .wouldBlock = tls.end(to: socket) {
            isWriteBlocked = true
        } else {
            socket.shutdownWrite()
        }
    }

    /// Makes the close to come a reset: what the client has been given is not the whole.
    func resetOnClose() { socket.resetOnClose() }

    /// Ends the connection; its user has let go of everything.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        user = .none
        if let tls, tls.isHoldingBack { socket.resetOnClose() }
        worker.loop.unregister(socket.descriptor)
        worker.forget(self)
    }
}
