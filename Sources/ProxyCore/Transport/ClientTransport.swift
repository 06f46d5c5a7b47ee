// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// A client's connection below HTTP: its socket, the socket's readiness, and TLS.
///
/// The current user of the transport decides which protocol is used. The user may change during the connection's life.
final class ClientTransport: EventHandler {
    let services: WorkerServices
    let owner: TransportOwner
    let listener: ListenerRoutes
    let address: SocketAddress
    /// `127.0.0.1:53211`, for the log.
    let addressText: [UInt8]
    /// The position in the owner's table.
    var slot = -1

    private var socket: StreamSocket
    /// The object that reads and writes on the connection; nil when the transport is not open yet, or closed.
    private var user: (any TransportUser)?
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
    private var authenticated: (connections: ConnectionOwner, user: [UInt8]?)?
    /// The host and port that every request on this connection must be for: set when TLS inside a CONNECT is
    /// intercepted.
    private(set) var intercepted: InterceptedAuthority?
    /// The redirection of a connection to a transparent listener, known when its first bytes were read.
    var redirection: Redirection?
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

    init(
        descriptor: Int32,
        address: SocketAddress,
        listener: ListenerRoutes,
        services: WorkerServices,
        owner: TransportOwner
    ) {
        self.services = services
        self.owner = owner
        self.listener = listener
        self.address = address
        socket = StreamSocket(adopting: descriptor)
        var text = ByteBuffer()
        address.append(to: &text)
        addressText = text.withUnsafeBytes { Array($0) }
        super.init()
    }

    /// Begins to be told of the socket's readiness, and asks the system who the client is, where that is to be known.
    ///
    /// - Returns: false when the system refuses.
    func register() -> Bool {
        if address.family != .unix { socket.setNoDelay() }
        do {
            try services.loop.register(socket.descriptor, [.readable, .writable, .peerClosed, .edge], self)
        } catch {
            return false
        }
        if case .credentials(let credentials) = listener.security.authentication {
            clientName = processName(credentials)
            clientCredentials = credentials
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
        user?.appendIdle(since: limit, to: &idle) ?? false
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

    /// Binds the connection to what a CONNECT was for: from now on its requests are for that.
    ///
    /// - Parameter user: the user of the CONNECT, and the credentials that it was authenticated with.
    func enter(_ authority: InterceptedAuthority, user: (name: [UInt8], credentials: ClientCredentials)?) {
        intercepted = authority
        self.user?.beginsAnew()
        guard clientName == nil, let user else { return }
        clientName = user.name
        clientCredentials = user.credentials
    }

    /// Routes a request of this connection.
    @inline(__always)
    func route(for head: borrowing RequestHead) -> ListenerRoutes.Decision {
        if let intercepted { return listener.route(for: head, inside: intercepted, from: redirection) }
        if let redirection { return listener.route(for: head, from: redirection) }
        return listener.route(for: head, localAddress: localAddress)
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
        if let authenticated, authenticated.user == user { return authenticated.connections }
        guard isNew else { return nil }
        authenticated?.connections.end()
        let made = ConnectionOwner()
        if isClosed { made.end() }
        authenticated = (made, user)
        return made
    }

    /// Whether the client has authenticated connections, or may have.
    var ownsConnections: Bool { authenticated != nil }

    /// Puts TLS on the connection, inside of what is there already.
    ///
    /// - Parameters:
    ///   - early: bytes of the handshake that were already read.
    ///   - pending: bytes that have to be written before the handshake.
    func enterTLS(_ session: TLSServerSession, early: inout ByteBuffer, pending: inout ByteBuffer) {
        swap(&session.incoming, &early)
        swap(&session.outgoing, &pending)
        let layer = TLSLayer(session, over: tls)
        layer.noteReadable(peerHasEnded: peerHasEnded)
        tls = layer
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
        if tls.session.awaitsFinished || services.loop.isByHand { return note(tls.shakeHands(over: socket), of: tls) }
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
        let isTaken = services.handshakes.submit(for: address.party) { [loop = services.loop] in step.make(on: loop) }
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
        let level = services.generation.snapshot.configuration.log.level
        guard level <= .debug else { return }
        EventLine(event: "clientHandshakeFailed")
            .with("client", String(decoding: addressText, as: UTF8.self))
            .with("message", fault?.description ?? "the connection ended in the middle of it")
            .write(.debug, at: level)
    }

    /// Takes the user's name from the client certificate, which the handshake has verified.
    func identifyClient() {
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
        // What a redirected client speaks is not known.
        if listener.isTransparent { return }
        // Closing with unread bytes would send a reset, which may arrive before the response.
        services.scratch.removeAll()
        _ = socket.read(into: &services.scratch, upTo: WorkerServices.readSize)
        var output = ByteBuffer()
        ErrorResponse.write(
            Problem(
                .limitReached,
                "There are already as many client connections as limits.connections, or the system's limit of open files, allows. "
                    + "Try again, or raise the limit."
            ),
            to: &output,
            keepAlive: false,
            date: services.httpDate
        )
        _ = socket.write(from: &output)
        socket.shutdownWrite()
    }

    /// Hands the connection to another user. The caller passes on bytes that the former user has read and not used.
    func handOver(to next: any TransportUser) {
        user = next
    }

    /// The address of the local end, for a gateway's Host rule.
    var localAddress: SocketAddress? { socket.localAddress }

    /// Where the client has connected to before it was redirected.
    var originalDestination: SocketAddress? { socket.originalDestination }

    // MARK: Events

    override func ready(_ readiness: Readiness) {
        let isOver = readiness.contains(.failed) || readiness.contains(.hungUp) && user?.endsByHalves != true
        // A client that refuses the certificate sends an alert and resets the connection: the alert is still to be read.
        if isOver, !(hasMadeStep && user?.isHandshake == true) { return cancel() }
        if isOver || readiness.contains(.peerClosed) || readiness.contains(.hungUp) { peerHasEnded = true }
        if readiness.contains(.writable), isWriteBlocked {
            isWriteBlocked = false
            // The end of the step writes.
            if step == nil, let tls, tls.isHoldingBack, !drain(tls) { return }
            if !isWriteBlocked { user?.hasRoomForOutput() }
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

    /// Makes the user read.
    func pump() { user?.pump() }

    /// Makes the user read at the end of the turn, or in a later one.
    func pumpLater() {
        guard !isPumpPlanned else { return }
        isPumpPlanned = true
        owner.pumpLater(self)
    }

    func pumpPlanned() {
        isPumpPlanned = false
        pump()
    }

    /// Makes the user write its output at the end of the turn.
    func flushLater() {
        guard !isFlushPlanned else { return }
        isFlushPlanned = true
        owner.flushLater(self)
    }

    func flushPlanned() {
        isFlushPlanned = false
        user?.flush()
    }

    /// Makes the user close at once.
    func cancel() { user?.close() }

    /// Makes the user close after the current request: a clean stop.
    func drain() {
        isReadable = true
        user?.drain()
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
    func mayRead(_ left: Int, of limit: Int) -> Bool { left == limit || left > 0 && !services.loop.isTurnLong }

    /// Reads as much as fits into the buffer of one turn, and updates `isReadable`.
    @inline(__always)
    func read(into buffer: inout ByteBuffer) -> TransferCount {
        if let tls { return read(tls, into: &buffer) }
        let outcome = socket.read(into: &buffer, upTo: WorkerServices.readSize)
        switch outcome {
        case .bytes(let count):
            // A short read has emptied the kernel's buffer; only the end can still be there.
            if count < WorkerServices.readSize, !peerHasEnded { isReadable = false }
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

    /// Whether bytes of a file go to the socket from there, without a copy: not with TLS.
    var sendsFiles: Bool { tls == nil }

    /// Writes `buffer`, and then bytes of a file that the kernel has in memory.
    ///
    /// - Returns: how many bytes of the file were sent, which may be none; `.end` if the file gave none: its bytes have to be read then.
    func write(from buffer: inout ByteBuffer, followedBy file: FileBytes) -> TransferCount {
        if !buffer.isEmpty {
            let outcome = socket.write(from: &buffer, beforeMore: ())
            if outcome == .wouldBlock { isWriteBlocked = true }
            guard case .bytes = outcome else { return outcome }
            guard buffer.isEmpty else { return .bytes(0) }
        }
        let outcome = socket.write(file)
        switch outcome {
        case .bytes, .end: return outcome
        case .wouldBlock:
            isWriteBlocked = true
            return outcome
        // A socket that has failed is noticed with the next bytes.
        case .failed: return .end
        }
    }

    private func read(_ tls: TLSLayer, into buffer: inout ByteBuffer) -> TransferCount {
        let outcome = tls.read(into: &buffer, upTo: WorkerServices.readSize, from: socket)
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
        user = nil
        authenticated?.connections.end()
        step?.drop()
        if step == nil, let tls, tls.isHoldingBack { socket.resetOnClose() }
        services.loop.unregister(socket.descriptor)
        owner.didClose(self)
    }
}
