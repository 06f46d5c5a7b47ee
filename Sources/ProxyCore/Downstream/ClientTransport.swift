// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// A client's connection below HTTP: its socket, the socket's readiness, and TLS.
///
/// The current user of the transport decides which protocol is used. The user may change during the connection's life.
final class ClientTransport: EventHandler {
    /// The object that reads and writes on the connection.
    enum User {
        /// The transport is not open yet, or closed.
        case none
        /// A TLS handshake; the protocol inside of it begins afterwards.
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
    /// The position in the worker's table.
    var slot = -1

    private var socket: StreamSocket
    private var user = User.none
    /// TLS of a client that uses it towards this proxy.
    private var tls: TLSLayer?
    /// The authenticated user for all requests on this connection: from the client certificate, from the process at the
    /// other end of a Unix socket, or from the request that opened a tunnel.
    private(set) var clientName: [UInt8]?
    /// The credentials that `clientName` was authenticated with; nil for a certificate, which the handshake has
    /// verified.
    private var clientCredentials: ClientCredentials?
    /// The process at the other end. The kernel is asked once, when the connection is accepted; later only if a reload was the
    /// first to demand it.
    private lazy var process: ClientProcess = findProcess()
    /// The owner of the connections to origins that this client authenticates, and its user; nil for most clients.
    private var owner: (connections: ConnectionOwner, user: [UInt8]?)?
    /// The host and port that every request on this connection must be for: set when TLS inside a CONNECT is
    /// intercepted.
    private(set) var intercepted: InterceptedAuthority?
    /// There may be bytes to read. The kernel reports readiness only when it changes.
    var isReadable = false
    /// The client has closed its sending side.
    private(set) var peerHasEnded = false
    /// The last write found no room; the `writable` event notifies the user when there is room again.
    private(set) var isWriteBlocked = false
    private var isFlushPlanned = false
    private var isPumpPlanned = false
    private var isClosed = false
    /// A step of the handshake that is made on another thread, which has the session until then.
    private var step: HandshakeStep?
    private var hasMadeStep = false
    /// A client that ends before the first bytes of the server cannot finish its handshake.
    private var mayFinishHandshake: Bool { !peerHasEnded || hasMadeStep }
    /// Nothing will be written after the output that is waiting now.
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

    /// Starts to serve HTTP; false when the system refuses.
    func open() -> Bool {
        if address.family != .unix { socket.setNoDelay() }
        do {
            try worker.loop.register(socket.descriptor, [.readable, .writable, .peerClosed, .edge], self)
        } catch {
            return false
        }
        if case .credentials(let credentials) = listener.security.authentication {
            clientName = processName(credentials)
            clientCredentials = credentials
        }
        switch listener.security.tls {
        case .none: serveHTTP()
        case .context(let context):
            var early = ByteBuffer()
            var pending = ByteBuffer()
            startTLS(context, early: &early, pending: &pending) { _ in
            } then: { transport in
                transport.identifyClient()
                transport.serveHTTP()
            }
        case .unusable: close()
        }
        return true
    }

    private func findProcess() -> ClientProcess {
        if address.family == .unix {
            return socket.peer.map { .unixSocket(user: $0.user, group: $0.group) } ?? .unknown
        }
        return LoopbackClient(of: socket).map { .loopback(user: $0.user) } ?? .unknown
    }

    /// The user that the kernel says the client is, under these credentials; nil where they do not ask it.
    private func processName(_ credentials: ClientCredentials) -> [UInt8]? {
        credentials.configuration.knowsProcesses ? credentials.user(of: process) : nil
    }

    /// Appends the requests that can be closed when memory is short, if this connection has more than its part of it.
    ///
    /// - Returns: whether it has.
    func appendIdle(since limit: UInt64, to idle: inout [any MemoryHolder]) -> Bool {
        guard case .http2(let connection) = user, !worker.mayHold(connection.heldBytes) else { return false }
        connection.appendIdleStreams(since: limit, to: &idle)
        return true
    }

    /// Whether `clientName` is still valid under these credentials, which a reload may have replaced.
    func isStillKnown(under credentials: ClientCredentials) -> Bool {
        guard let former = clientCredentials, former !== credentials else { return true }
        guard intercepted != nil, let clientName else {
            self.clientName = processName(credentials)
            clientCredentials = credentials
            return self.clientName != nil
        }
        guard processName(credentials) == clientName || credentials.agrees(with: former, about: clientName) else {
            return false
        }
        clientCredentials = credentials
        return true
    }

    /// Starts TLS inside the tunnel of a CONNECT.
    ///
    /// - Parameters:
    ///   - user: the user of the CONNECT, and the credentials that it was authenticated with.
    ///   - early: bytes that the client has sent behind the CONNECT.
    ///   - pending: the unwritten part of the response to the CONNECT.
    ///   - ended: called at the end of the client's handshake, with the problem if it has failed.
    func intercept(
        _ authority: InterceptedAuthority,
        user: (name: [UInt8], credentials: ClientCredentials)?,
        _ context: TLSServerContext,
        early: inout ByteBuffer,
        pending: inout ByteBuffer,
        ended: @escaping (Problem?) -> Void
    ) {
        enter(authority, user: user)
        let limit = worker.generation.headTime.milliseconds
        startTLS(context, early: &early, pending: &pending) { [worker, unowned self] failure in
            // A client that has refused the certificate has done so also where its alert is read during a stop.
            if worker.isDraining, !peerHasEnded, case .fault(.ended) = failure {
                return ended(Problem(.cancelled, "The connection was ended because pinproxy stops."))
            }
            switch failure {
            case .late: ended(InterceptedHandshake.isLate(limit, with: authority.host))
            case .fault(let fault): ended(InterceptedHandshake.problem(fault, with: authority.host))
            }
        } then: { transport in
            ended(nil)
            transport.serveHTTP()
        }
    }

    /// Binds the connection to what a CONNECT was for: from now on its requests are for that.
    ///
    /// - Parameter user: the user of the CONNECT, and the credentials that it was authenticated with.
    func enter(_ authority: InterceptedAuthority, user: (name: [UInt8], credentials: ClientCredentials)?) {
        intercepted = authority
        if case .http1(let connection) = self.user { connection.beginsAnew() }
        guard clientName == nil, let user else { return }
        clientName = user.name
        clientCredentials = user.credentials
    }

    /// The versions of HTTP that the next request may have. Over TLS that is the one which was agreed in the handshake (ALPN), and
    /// HTTP/1.1 without an agreement (RFC 9113, section 3.2); otherwise the first bytes tell, where the listener has HTTP/2.
    var expectedProtocol: ClientProtocol {
        if tls != nil, intercepted?.scheme != .http { return applicationProtocol == "h2" ? .http2 : .http1 }
        return listener.configuration.http2 ? .either : .http1
    }

    /// The owner of the connections that the client has authenticated, or is about to authenticate.
    ///
    /// - Parameters:
    ///   - user: the user of the request. Another one than before gets nothing of the former's.
    ///   - isNew: makes one if there is none.
    func connectionOwner(for user: [UInt8]?, isNew: Bool) -> ConnectionOwner? {
        if let owner, owner.user == user { return owner.connections }
        guard isNew else { return nil }
        owner?.connections.end()
        let made = ConnectionOwner()
        if isClosed { made.end() }
        owner = (made, user)
        return made
    }

    /// Whether the client has authenticated connections, or may have.
    var ownsConnections: Bool { owner != nil }

    private func serveHTTP() {
        let connection = ClientConnection(self)
        user = .http1(connection)
        connection.open()
        if worker.isDraining { connection.drain() }
    }

    /// Starts TLS inside of the current protocol.
    ///
    /// - Parameters:
    ///   - early: bytes of the handshake that were already read.
    ///   - pending: bytes that have to be written before the handshake.
    ///   - failed: called when the handshake has failed, and the connection is closed.
    ///   - next: called when the handshake is complete; hands the connection to its next user.
    private func startTLS(
        _ context: TLSServerContext,
        early: inout ByteBuffer,
        pending: inout ByteBuffer,
        failed: @escaping (ClientHandshake.Failure) -> Void,
        then next: @escaping (ClientTransport) -> Void
    ) {
        let session: TLSServerSession
        do throws(OpenSSLError) {
            session = try context.session()
        } catch {
            close()
            return failed(.fault(.other(error.description)))
        }
        swap(&session.incoming, &early)
        swap(&session.outgoing, &pending)
        let layer = TLSLayer(session, over: tls)
        layer.noteReadable(peerHasEnded: peerHasEnded)
        tls = layer
        let handshake = ClientHandshake(self, failed: failed, then: next)
        user = .handshake(handshake)
        handshake.open()
    }

    /// Continues the handshake: `.bytes` when it is complete.
    ///
    /// - Parameter later: called with the outcome of a step on another thread, after `.wouldBlock`.
    func shakeHands(later: @escaping (TransferCount) -> Void) -> TransferCount {
        guard let tls else { return .end }
        guard step == nil else { return .wouldBlock }
        // The response to a CONNECT goes out before the client's first flight comes.
        if tls.isHoldingBack, case .failed(let failure) = tls.drain(to: socket) {
            return note(.failed(failure), of: tls)
        }
        if let outcome = tls.awaitInput(from: socket) { return note(outcome, of: tls) }
        guard mayFinishHandshake else { return .end }
        // The last step takes microseconds. A loop whose clock is moved by hand makes each of them itself.
        if tls.session.awaitsFinished || worker.loop.isByHand { return note(tls.shakeHands(over: socket), of: tls) }
        return makeStep(tls, later)
    }

    /// Makes a step of the handshake on a thread for handshakes: whatever the client finds to compute delays no other one.
    /// Until its end, nothing here touches the session.
    private func makeStep(_ tls: TLSLayer, _ later: @escaping (TransferCount) -> Void) -> TransferCount {
        let step = HandshakeStep(tls.session) { [self] progress in
            self.step = nil
            hasMadeStep = true
            guard !isClosed else { return }
            if let outcome = tls.endStep(progress, over: socket) { return later(note(outcome, of: tls)) }
            if case .end = makeStep(tls, later) { later(.end) }
        }
        let isTaken = worker.handshakes.submit(for: address.party) { [loop = worker.loop] in step.make(on: loop) }
        guard isTaken else { return .end }
        self.step = step
        return .wouldBlock
    }

    private func note(_ outcome: TransferCount, of tls: TLSLayer) -> TransferCount {
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

    /// The fault that has ended the handshake.
    var handshakeFault: TLSClientFault { TLSClientFault(tls?.fault) }

    private func logFault(_ fault: OpenSSLError?) {
        let level = worker.generation.snapshot.configuration.log.level
        guard level <= .debug else { return }
        EventLine(event: "clientHandshakeFailed")
            .with("client", String(decoding: addressText, as: UTF8.self))
            .with("message", fault?.description ?? "the connection ended in the middle of it")
            .write(.debug, at: level)
    }

    /// Takes the user's name from the client certificate, which the handshake has verified.
    private func identifyClient() {
        guard let certificate = tls?.session.clientCertificate else { return }
        clientName = Array(certificate.identity.utf8)
        clientCredentials = nil
    }

    /// The protocol that was selected in the client's latest handshake.
    var applicationProtocol: String { tls?.session.applicationProtocol ?? "" }

    /// Refuses a connection beyond the limit: writes the error response and closes.
    func refuseForLimit() {
        // No response can be written before a TLS handshake.
        if case .none = listener.security.tls {} else { return }
        // Closing with unread bytes would send a reset, which may arrive before the response.
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
            date: worker.httpDate
        )
        _ = socket.write(from: &output)
        socket.shutdownWrite()
    }

    /// Hands the connection to another user. The caller passes on bytes that the former user has read and not used.
    func handOver(to next: User) {
        user = next
    }

    /// The address of the local end, for a gateway's Host rule.
    var localAddress: SocketAddress? { socket.localAddress }

    // MARK: Events

    override func ready(_ readiness: Readiness) {
        let isOver = readiness.contains(.failed) || readiness.contains(.hungUp) && !endsByHalves
        // A client that refuses the certificate sends an alert and resets the connection: the alert is still to be read.
        if isOver, !mayHoldAlert { return cancel() }
        if isOver || readiness.contains(.peerClosed) || readiness.contains(.hungUp) { peerHasEnded = true }
        if readiness.contains(.writable), isWriteBlocked {
            isWriteBlocked = false
            // The end of the step writes.
            if step == nil, let tls, tls.isHoldingBack, !drain(tls) { return }
            if !isWriteBlocked { notifyRoom() }
        }
        if step != nil, !mayFinishHandshake { return cancel() }
        if isOver || readiness.contains(.readable) || readiness.contains(.peerClosed) {
            isReadable = true
            tls?.noteReadable(peerHasEnded: peerHasEnded)
            // Input that arrives makes no turn of its own for a connection that has had its part.
            if !isPumpPlanned { pump() }
        }
    }

    /// Writes ciphertext that TLS has already produced.
    ///
    /// - Returns: false when that failed and the connection is closed.
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

    /// Notifies the user that the kernel has room for output.
    private func notifyRoom() {
        switch user {
        case .none: break
        case .handshake(let handshake): handshake.resume()
        case .http1(let connection): connection.flush()
        case .http2(let connection): connection.flush()
        case .relay(let relay): relay.flush()
        }
    }

    /// Whether there may be the client's reason to end a handshake.
    private var mayHoldAlert: Bool {
        if case .handshake = user { hasMadeStep } else { false }
    }

    /// Whether both sides have closed their sending sides, so that bytes may still be read.
    private var endsByHalves: Bool {
        if case .relay = user { true } else { false }
    }

    /// Makes the user read.
    func pump() {
        switch user {
        case .none: break
        case .handshake(let handshake): handshake.resume()
        case .http1(let connection): connection.pump()
        case .http2(let connection): connection.pump()
        case .relay(let relay): relay.pump()
        }
    }

    /// Makes the user read at the end of the turn, or in a later one.
    func pumpLater() {
        guard !isPumpPlanned else { return }
        isPumpPlanned = true
        worker.pumpLater(self)
    }

    func pumpPlanned() {
        isPumpPlanned = false
        pump()
    }

    /// Makes the user write its output at the end of the turn.
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

    /// Makes the user close at once.
    func cancel() {
        switch user {
        case .none: break
        case .handshake(let handshake): handshake.close()
        case .http1(let connection): connection.close()
        case .http2(let connection): connection.close()
        case .relay(let relay): relay.close()
        }
    }

    /// Makes the user close after the current request: a clean stop.
    func drain() {
        isReadable = true
        switch user {
        case .none, .handshake, .relay: break
        case .http1(let connection): connection.drain()
        case .http2(let connection): connection.drain()
        }
    }

    // MARK: Bytes

    /// A few bytes count in a turn's part like so many: with TLS each record is read by itself, and costs as much.
    static let leastReading = 512

    /// Whether the user reads again in this turn. The first reading is free; behind it a turn that has taken long leaves the rest to
    /// the next one, in which other connections have theirs.
    ///
    /// - Parameters:
    ///   - left: the bytes that are left of the connection's part in the turn.
    ///   - limit: that part.
    @inline(__always)
    func mayRead(_ left: Int, of limit: Int) -> Bool { left == limit || left > 0 && !worker.loop.isTurnLong }

    /// Reads as much as fits into the buffer of one turn, and updates `isReadable`.
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

    /// Writes as much of `buffer` as the socket takes, and removes that from it.
    @inline(__always)
    func write(from buffer: inout ByteBuffer) -> TransferCount {
        let outcome = tls?.write(from: &buffer, to: socket) ?? socket.write(from: &buffer)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    /// Writes `buffer`, then `tail`; the unwritten rest of `tail` is appended to `buffer`.
    @inline(__always)
    func write(from buffer: inout ByteBuffer, followedBy tail: borrowing Span<UInt8>) -> TransferCount {
        if let tls { return write(tls, from: &buffer, followedBy: tail) }
        let outcome = socket.write(from: &buffer, followedBy: tail)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    /// The same for two pieces.
    func write(
        from buffer: inout ByteBuffer,
        followedBy tail: borrowing Span<UInt8>,
        _ end: borrowing Span<UInt8>
    ) -> TransferCount {
        if let tls {
            buffer.append(tail)
            return write(tls, from: &buffer, followedBy: end)
        }
        let outcome = socket.write(from: &buffer, followedBy: tail, end)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    private func read(_ tls: TLSLayer, into buffer: inout ByteBuffer) -> TransferCount {
        let outcome = tls.read(into: &buffer, upTo: Worker.readSize, from: socket)
        switch outcome {
        case .bytes, .failed: break
        case .wouldBlock, .end: isReadable = false
        }
        // Records of the session itself, such as alerts.
        if tls.isHoldingBack, case .wouldBlock = tls.drain(to: socket) { isWriteBlocked = true }
        return outcome
    }

    private func write(
        _ tls: TLSLayer,
        from buffer: inout ByteBuffer,
        followedBy tail: borrowing Span<UInt8>
    ) -> TransferCount {
        // Making a record costs as much as the copy, so writing two pieces would save nothing.
        buffer.append(tail)
        let outcome = tls.write(from: &buffer, to: socket)
        if outcome == .wouldBlock { isWriteBlocked = true }
        return outcome
    }

    // MARK: The end

    /// Closes the sending side.
    func shutdownWrite() {
        guard let tls else { return socket.shutdownWrite() }
        isEnding = true
        if case .wouldBlock = tls.end(to: socket) {
            isWriteBlocked = true
        } else {
            socket.shutdownWrite()
        }
    }

    /// Makes the coming close a reset, because the client did not get the complete response.
    func resetOnClose() { socket.resetOnClose() }

    /// Closes the connection. Its user holds nothing of it any more.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        user = .none
        owner?.connections.end()
        step?.drop()
        if step == nil, let tls, tls.isHoldingBack { socket.resetOnClose() }
        worker.loop.unregister(socket.descriptor)
        worker.forget(self)
    }
}
