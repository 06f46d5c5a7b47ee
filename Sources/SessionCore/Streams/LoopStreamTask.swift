// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
public import ServerTrust

/// A connection to an endpoint that carries the bytes of its owner, of any kind: those of a tunnel, or of a WebSocket.
///
/// It is dialled, proxied and judged like the connections of `LoopTask`: address rules, `resolve`, the upstream proxy,
/// `TaskTimeouts.connect`, and over TLS the security policy in the handshake, before any byte goes. It is never shared
/// with a task, and never used again.
///
/// ```swift
/// let stream = session.streamTask(with: endpoint, applicationProtocols: [.http2], delegate: delegate)
/// stream.resume()
/// // streamTaskDidConnect: stream.applicationProtocol == .http2, or nil when the server chose nothing
/// stream.send(bytes)
/// ```
///
/// Back-pressure: return `.pause` from `streamTask(_:didReceive:)`, or call `pauseReceiving`, and `resumeReceiving` when
/// there is room; hold back while `pendingBytes` is large, until `streamTaskHasSpace`. Time: `TaskTimeouts.connect` until
/// it stands, then `stall` without a byte in either direction, and `total` over all.
///
/// Belongs to its session's loop, like its delegate: all members are for that thread.
public final class LoopStreamTask {
    /// Where it goes, and what the server there has to prove.
    public let endpoint: Endpoint
    /// The receiver of the stream's events. The stream retains it.
    public let delegate: LoopStreamTaskDelegate
    /// The protocols that are offered in the handshake, the best first; none when empty.
    public let applicationProtocols: [ApplicationProtocol]
    /// The protocol that the server has chosen; nil before the connection is established, without TLS, and when it chose none.
    public private(set) var applicationProtocol: ApplicationProtocol?
    /// Bytes that have gone to the system.
    public private(set) var bytesSent: Int64 = 0
    /// Bytes that have been delivered.
    public private(set) var bytesReceived: Int64 = 0

    /// The task that counts for the session and has the metrics, as for a request.
    package let task: LoopTask
    private let loop: EventLoop
    /// The session's, which the task holds.
    private unowned let connections: PooledConnectionOwner
    private var connection: VerifiedConnection?
    private var output = ByteBuffer()
    private var isReadPaused = false
    private var isReadClosed = false
    private var isWriteClosing = false
    private var isWriteClosed = false
    /// Why nothing can be written any more; what there is to read is still delivered.
    private var writeFailure: String?
    /// The connection is over, and not read now.
    private var isParked = false
    private var isWorkPlanned = false
    private var isSpacePlanned = false
    private var isEndTold = false
    /// For what is left behind a turn's share.
    private var later: LoopTimer?

    init(
        endpoint: Endpoint,
        applicationProtocols: [ApplicationProtocol],
        timeouts: TaskTimeouts?,
        delegate: LoopStreamTaskDelegate,
        session: TaskOwner,
        connections: PooledConnectionOwner,
        isLate: Bool
    ) {
        self.endpoint = endpoint
        self.applicationProtocols = applicationProtocols
        self.delegate = delegate
        loop = session.loop
        self.connections = connections
        let bridge = StreamBridge()
        let request = SessionRequest(
            endpoint: endpoint,
            method: .connect,
            target: [UInt8(ascii: "/")],
            fields: HeaderFields(),
            timeouts: timeouts
        )
        task = session.makeTask(with: request, delegate: bridge, isLate: isLate)
        bridge.stream = self
    }

    /// Unique among the tasks of a process.
    public var taskIdentifier: UInt64 { task.taskIdentifier }

    /// Complete at the stream's end: the times of the connection, and its addresses.
    public var metrics: TaskMetrics { task.metrics }

    /// Why the stream broke off; nil before the end, and when both sides have said all.
    public var error: SessionError? { task.error }

    /// The security policy's evaluation; nil before the handshake, and without TLS.
    public var evaluation: TrustEvaluation? { task.evaluation }

    /// The connection; nil before it stands. At the end, the one that was refused in its handshake, too.
    public var connectionInfo: ConnectionInfo? { connection?.info ?? task.metrics.transaction.connection }

    /// Microseconds from `resume`.
    package var elapsed: Int64 { task.elapsed }

    /// Whether it has been resumed and has not ended.
    public var isRunning: Bool { task.state == .running }

    /// Dials. Once.
    public func resume() {
        guard task.state == .suspended, task.taker == nil else { return }
        // The task under way holds the stream.
        task.taker = StreamTaker(self)
        task.resume()
    }

    /// Ends the stream at once: the other end gets a reset, the delegate the error `cancelled`.
    public func cancel() {
        task.cancel()
    }

    // MARK: Sending

    /// Bytes that wait to be sent; hold back when there are many.
    public var pendingBytes: Int { output.count }

    /// Whether bytes can be sent: the connection stands, and `closeWrite` has not been called.
    public var canSend: Bool { connection != nil && !isWriteClosing && writeFailure == nil }

    /// Sends bytes, at once or as soon as the other end takes them. Dropped unless `canSend`.
    public func send(_ bytes: borrowing Span<UInt8>) {
        guard canSend, !bytes.isEmpty else { return }
        guard output.isEmpty else { return output.append(bytes) }
        let written = write(bytes)
        if written < bytes.count, writeFailure == nil { output.append(bytes.extracting(written..<bytes.count)) }
        if !output.isEmpty { setInterest() } else { tellOfSpace() }
    }

    /// Says, after what is pending, that nothing more will be sent: a FIN, or close_notify over TLS. The stream ends when the
    /// other end has said all, too.
    public func closeWrite() {
        guard connection != nil, !isWriteClosing else { return }
        isWriteClosing = true
        if output.isEmpty { planWork() }
    }

    // MARK: A request on it

    /// The owner's figures of a request and a response among the bytes, for the metrics.
    private var account = Account()

    private struct Account {
        var requestHead: Int64 = 0
        var responseHead: Int64 = 0
        var status = 0
        var responseStart = TransactionMetrics.absent
    }

    /// So many bytes of the request's head go out.
    package func noteRequestHead(_ count: Int) { account.requestHead += Int64(count) }

    /// Counts bytes of a response's head.
    package func noteResponseHead(_ count: Int) {
        if account.responseStart == TransactionMetrics.absent { account.responseStart = task.elapsed }
        account.responseHead += Int64(count)
    }

    /// The status of the final head.
    package func noteResponse(status: Int) { account.status = status }

    fileprivate func complete(_ transaction: inout TransactionMetrics) {
        transaction.requestHeaderBytesSent = account.requestHead
        transaction.requestBodyBytesSent = max(0, bytesSent - account.requestHead)
        transaction.responseHeaderBytesReceived = account.responseHead
        transaction.responseBodyBytesReceived = max(0, bytesReceived - account.responseHead)
        guard account.status > 0 else { return }
        transaction.status = account.status
        transaction.protocolVersion = 11
        transaction.responseStart = account.responseStart
        transaction.responseEnd = task.elapsed
    }

    // MARK: Receiving

    /// Takes no more bytes until `resumeReceiving`.
    public func pauseReceiving() {
        isReadPaused = true
        setInterest()
    }

    /// Lets the other end send on.
    public func resumeReceiving() {
        guard isReadPaused else { return }
        isReadPaused = false
        // OpenSSL may hold bytes that the socket does not report.
        planWork()
    }

    // MARK: The connection

    /// The connection stands.
    fileprivate func didConnect(_ connection: VerifiedConnection, _ user: ConnectionUser) {
        self.connection = connection
        connection.user = user
        connection.isUsed = true
        applicationProtocol = connection.applicationProtocol
        delegate.streamTaskDidConnect(self)
        guard self.connection != nil else { return }
        setInterest()
        if connection.hasBufferedBytes { planWork() }
    }

    /// The task ends.
    ///
    /// - Parameter isWhole: both sides have ended.
    fileprivate func detach(isWhole: Bool) {
        if let connection {
            connection.user = nil
            connection.close(isWhole: isWhole)
        }
        if let later { loop.remove(later) }
        later = nil
        connection = nil
        output.release()
    }

    fileprivate func complete(_ error: SessionError?) {
        delegate.streamTaskDidComplete(self, error: error)
    }

    fileprivate func connectionIsReady(isOver: Bool) {
        isParked = isOver
        doWork()
    }

    /// At the end of the turn, when no other bytes are being delivered.
    private func planWork() {
        guard !isWorkPlanned, connection != nil else { return }
        isWorkPlanned = true
        loop.atEndOfTurn { [self] in
            isWorkPlanned = false
            doWork()
        }
    }

    private func doWork() {
        loop.noteWork(.relay)
        guard connection != nil else { return }
        flush()
        receive()
        guard let connection else { return }
        if isEndTold, let writeFailure { return breakOff(writeFailure) }
        if isEndTold, isWriteClosed { return task.finish(nil) }
        // epoll would report the end again and again. Reading begins anew with `resumeReceiving`.
        if isParked, isReadPaused || isReadClosed, output.isEmpty || writeFailure != nil {
            return connection.want(reading: false, writing: false)
        }
        setInterest()
    }

    private func setInterest() {
        guard let connection, !(isParked && isReadPaused) else { return }
        let hasToWrite = writeFailure == nil && (!output.isEmpty || isWriteClosing && !isWriteClosed)
        connection.want(reading: !isReadPaused && !isReadClosed, writing: hasToWrite)
    }

    private func flush() {
        guard let connection, writeFailure == nil else { return }
        if !output.isEmpty {
            let written = write(output.bytes)
            if writeFailure != nil { return output.release() }
            output.consume(written)
            guard output.isEmpty else { return }
            output.release()
            tellOfSpace()
        }
        guard isWriteClosing, !isWriteClosed else { return }
        switch connection.closeWrite() {
        case .bytes: isWriteClosed = true
        case .wouldBlock: break
        case .broken(let why): writeFailed(why)
        }
    }

    private func tellOfSpace() {
        guard !isSpacePlanned else { return }
        isSpacePlanned = true
        loop.atEndOfTurn { [self] in
            isSpacePlanned = false
            if connection != nil, output.isEmpty { delegate.streamTaskHasSpace(self) }
        }
    }

    /// Writes until the system has no room.
    private func write(_ bytes: borrowing Span<UInt8>) -> Int {
        guard let connection else { return 0 }
        var position = 0
        loop: while position < bytes.count {
            switch connection.write(bytes.extracting(position..<bytes.count)) {
            case .bytes(let count):
                position += count
            case .wouldBlock:
                break loop
            case .broken(let why):
                writeFailed(why)
                break loop
            }
        }
        if position > 0 { moved(sent: position) }
        return position
    }

    /// Bytes that the peer sent before it went are still read: the stream ends behind them.
    private func writeFailed(_ why: String) {
        writeFailure = why
        planWork()
    }

    private func moved(sent: Int = 0, received: Int = 0) {
        bytesSent += Int64(sent)
        bytesReceived += Int64(received)
        task.takerDidMoveBytes()
    }

    /// At most that much is read in a turn from one stream: others wait.
    private static let turnLimit = 256 << 10
    private static let pieceSize = 64 << 10

    private func receive() {
        var left = Self.turnLimit
        while let connection, !isReadPaused, left > 0 {
            guard !isReadClosed else { return tellOfEnd() }
            var piece = ByteBuffer()
            var room = Self.pieceSize
            let reading = fill(&piece, &room, from: connection)
            left -= max(Self.pieceSize - room, 1)
            if !piece.isEmpty { deliver(piece.bytes) }
            switch reading {
            case .bytes: break
            case .wouldBlock: return
            case .end:
                noteEnd(of: connection)
                isReadClosed = true
            case .broken(let why):
                noteEnd(of: connection)
                if self.connection != nil { breakOff(why) }
                return
            }
        }
        // More than a turn's share: OpenSSL may hold the rest, which the socket does not report.
        if connection?.hasBufferedBytes == true, !isReadPaused { readLater() }
    }

    private func noteEnd(of connection: VerifiedConnection) {
        if bytesReceived == 0, bytesSent > 0 { connections.didEndUnanswered(connection) }
    }

    /// As much as one delivery carries: several records, since each comes by itself.
    private func fill(
        _ piece: inout ByteBuffer,
        _ room: inout Int,
        from connection: VerifiedConnection
    ) -> VerifiedConnection.Reading {
        while room > 0 {
            let reading = connection.fill(&piece, &room)
            guard case .bytes = reading else { return reading }
            if !connection.hasSecureEnd { break }
        }
        return .bytes(piece.count)
    }

    private func readLater() {
        let timer = later ?? LoopTimer { [unowned self] in doWork() }
        later = timer
        loop.arm(timer, after: TimeSpan(nanoseconds: 1))
    }

    private func deliver(_ bytes: borrowing Span<UInt8>) {
        moved(received: bytes.count)
        if delegate.streamTask(self, didReceive: bytes) == .pause { isReadPaused = true }
    }

    private func tellOfEnd() {
        guard !isEndTold else { return }
        isEndTold = true
        delegate.streamTaskReadClosed(self)
    }

    /// The error for a server that has sent nothing since it got no other handshake; nil for others.
    package var declinedRenegotiation: SessionError? {
        guard bytesReceived == 0, connection?.hasDeclinedRenegotiation == true else { return nil }
        return HandshakeFailure.declinedRenegotiation(by: endpoint)
    }

    private func breakOff(_ why: String) {
        if bytesReceived == 0, let refusal = connection?.certificateRefusal {
            return task.finish(refusal.error(of: endpoint.authorityText))
        }
        if let error = declinedRenegotiation { return task.finish(error) }
        task.finish(SessionError(.responseTruncated, "\(endpoint.host) broke off the connection: \(why)."))
    }
}

/// Takes the connection for a stream, and keeps the stream as long as its task is under way.
private final class StreamTaker: ConnectionTaker {
    private let stream: LoopStreamTask

    init(_ stream: LoopStreamTask) {
        self.stream = stream
        super.init(offering: stream.applicationProtocols)
    }

    override func didConnect(_ connection: VerifiedConnection) { stream.didConnect(connection, self) }

    override func connectionIsReady(isOver: Bool) { stream.connectionIsReady(isOver: isOver) }

    override func complete(_ transaction: inout TransactionMetrics) { stream.complete(&transaction) }

    override func detach(isWhole: Bool) { stream.detach(isWhole: isWhole) }
}

/// Hands the events of a stream's task on to the stream.
private final class StreamBridge: LoopTaskDelegate {
    weak var stream: LoopStreamTask?

    override func taskNeedsClientIdentity(_ task: LoopTask) -> ClientIdentityDecision {
        stream.map { $0.delegate.streamTaskNeedsClientIdentity($0) } ?? .none
    }

    override func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        stream.flatMap { $0.delegate.streamTask($0, mayTrust: trust) }
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        stream?.complete(error)
    }
}
