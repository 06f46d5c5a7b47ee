import HTTPCore
import IOCore

/// A verified connection that carries HTTP/1.1 exchanges, one after another.
///
/// The rules of the messages are in `HTTP1RequestWriter` and `HTTP1ResponseReader`; this class moves their bytes.
final class HTTP1Connection: PooledConnection {

    /// The request under way. It ends the exchange with `detach`.
    private unowned(unsafe) var request: OriginRequest?
    /// Its identity, which is compared without a retain.
    private var requestIdentity: ObjectIdentifier?
    /// The client that the connection belongs to; nil for most.
    var lane: OwnedLane?
    private let connections: OriginConnections
    private let loop: EventLoop
    private var writer = HTTP1RequestWriter()
    /// Its head and trailers are lent to the request while a delegate runs: it changes only with events of the socket, timers and
    /// the end of a turn, never from within a call of the request.
    private var reader: HTTP1ResponseReader
    private var output = ByteBuffer()
    /// Bytes that have come and were not read yet: a part of a head, or what the task does not take now.
    private var held = ByteBuffer()
    /// Bytes of the response have come.
    private(set) var hasBegunResponse = false
    /// It has been idle: what has come since is for no request.
    var hasRested: Bool { restedAt != nil }
    /// When it became idle last, in nanoseconds of the loop's clock.
    private(set) var restedAt: UInt64?
    /// Bytes came behind the end of the response.
    private var hasExcess = false
    /// Why nothing can be written any more. What the origin sent before is still read.
    private var writeFailure: String?
    private var laterTimer: LoopTimer?
    /// The socket has reported its end while the task took nothing.
    private var isParked = false

    /// The task is asked for more of the body when less than this waits for the socket.
    private static let lowWater = 64 << 10
    /// At most this much is read from one connection in a turn of the loop.
    private static let turnLimit = 256 << 10
    private static let pieceSize = 64 << 10

    init(_ connection: VerifiedConnection, entry: HostEntry, connections: OriginConnections) {
        self.connections = connections
        loop = connections.loop
        reader = HTTP1ResponseReader(limits: connections.headLimits)
        super.init(connection, entry)
    }

    @inline(__always)
    private func isCurrent(_ request: OriginRequest) -> Bool { requestIdentity == ObjectIdentifier(request) }

    // MARK: Exchange

    /// The number of bytes that wait for the socket.
    var pendingBytes: Int { output.count }

    /// The head of the response under way or of the last one.
    var responseHead: ResponseHead { reader.head }

    /// Whether the final head has come.
    var hasHead: Bool { reader.hasHead }

    /// Sends a request. Its response goes to `request`, until the exchange ends with `detach`.
    func begin(_ request: OriginRequest, _ task: LoopTask) {
        self.request = request
        requestIdentity = ObjectIdentifier(request)
        connection.isUsed = true
        hasBegunResponse = false
        hasExcess = false
        isParked = false
        reader.reset(answering: task.request.method)
        writer.begin(task.request, into: &output)
        request.didWriteHead(byteCount: output.count)
        proceed(request, task)
    }

    /// The task has bytes of the body, or takes bytes of the response again.
    func proceed() {
        guard let request, let task = request.task else { return }
        proceed(request, task)
    }

    private func proceed(_ request: OriginRequest, _ task: LoopTask) {
        guard send(request, task) else { return }
        if !held.isEmpty || isParked || connection.hasBufferedBytes, request.takesResponse { return receive(request) }
        setInterest(request)
    }

    /// Sends what there is of the request.
    ///
    /// - Returns: whether the exchange goes on.
    private func send(_ request: OriginRequest, _ task: LoopTask) -> Bool {
        guard moveBody(request, task) else { return false }
        flush(request)
        if output.isEmpty, writer.isComplete, writeFailure == nil { request.didSendRequest() }
        if output.count < Self.lowWater, !writer.isComplete, !task.uploadEnded, writeFailure == nil {
            task.delegate.taskNeedsBodyData(task)
        }
        return isCurrent(request)
    }

    /// Moves bytes of the body from the task to the output.
    ///
    /// - Returns: false when the request has failed.
    private func moveBody(_ request: OriginRequest, _ task: LoopTask) -> Bool {
        // Most requests have none.
        guard !writer.isComplete || !task.upload.isEmpty else { return true }
        do {
            if !task.upload.isEmpty {
                var piece = ByteBuffer()
                swap(&piece, &task.upload)
                let before = output.count
                try writer.append(piece.bytes, into: &output)
                request.didTakeBody(contentBytes: piece.count, wireBytes: output.count - before)
            }
            if task.uploadEnded, !writer.isComplete {
                let before = output.count
                try writer.end(trailers: task.uploadTrailers, into: &output)
                request.didTakeBody(contentBytes: 0, wireBytes: output.count - before)
            }
            return true
        } catch {
            request.fail(
                SessionError(
                    .requestInvalid,
                    error == .bodyTooLong
                        ? "The body is longer than the request's Content-Length says."
                        : "The body has ended before the length that the request's Content-Length says."
                )
            )
            return false
        }
    }

    private func flush(_ request: OriginRequest) {
        var hasMoved = false
        loop: while !output.isEmpty, writeFailure == nil {
            switch connection.write(output.bytes) {
            case .bytes(let count):
                output.consume(count)
                hasMoved = true
            case .wouldBlock: break loop
            case .broken(let why):
                writeFailure = why
                // The origin may have sent a response before it went.
                isParked = true
            }
        }
        if output.isEmpty { output.removeAll() }
        if hasMoved { request.didMoveBytes() }
    }

    private func setInterest(_ request: OriginRequest) {
        connection.want(
            reading: request.takesResponse,
            writing: !output.isEmpty && writeFailure == nil
        )
    }

    override func connectionIsReady(isOver: Bool) {
        guard let request else { return becameReadyWhileIdle() }
        isParked = isOver
        if !output.isEmpty {
            guard let task = request.task, send(request, task) else { return }
        }
        receive(request)
        if isParked, isCurrent(request), !request.takesResponse {
            // epoll would report the end again and again; reading begins anew with `proceed`.
            connection.want(reading: false, writing: false)
        }
    }

    // MARK: Response

    /// Reads what has come, up to a turn's share.
    private func receive(_ request: OriginRequest) {
        loop.noteWork(.response)
        var left = Self.turnLimit
        while isCurrent(request), request.takesResponse {
            guard left > 0 else { return readLater() }
            if !held.isEmpty, process(held: request) { return }
            guard isCurrent(request), request.takesResponse else { break }
            let reading = read(request, &left)
            guard isCurrent(request) else { return }
            switch reading {
            case .bytes where connection.hasBufferedBytes: continue
            case .bytes, .wouldBlock: return setInterest(request)
            case .end: return connectionDidEnd(request, isClean: true, "it closed the connection")
            case .broken(let why): return connectionDidEnd(request, isClean: false, why)
            }
        }
        if isCurrent(request) { setInterest(request) }
    }

    private func receiveLater() {
        if let request { receive(request) }
    }

    /// Reads bytes and hands them on.
    private func read(_ request: OriginRequest, _ left: inout Int) -> VerifiedConnection.Reading {
        var buffer = ByteBuffer()
        let isScratch = held.isEmpty
        if isScratch { swap(&buffer, &connections.loop.scratch) } else { swap(&buffer, &held) }
        let known = buffer.count
        var room = Self.pieceSize
        let reading = connection.fill(&buffer, &room)
        left -= max(Self.pieceSize - room, 1)
        if buffer.count > known { hasBegunResponse = true }
        let consumed = buffer.count > known ? process(buffer.bytes, request) : 0
        if isCurrent(request), consumed < buffer.count {
            if isScratch {
                held.append(buffer.bytes.extracting(consumed..<buffer.count))
            } else {
                buffer.consume(consumed)
                swap(&held, &buffer)
            }
        }
        if isScratch {
            buffer.removeAll()
            swap(&buffer, &connections.loop.scratch)
        }
        return reading
    }

    /// Hands on what was held back.
    ///
    /// - Returns: whether the exchange is over or paused again.
    private func process(held request: OriginRequest) -> Bool {
        var buffer = ByteBuffer()
        swap(&buffer, &held)
        let consumed = process(buffer.bytes, request)
        guard isCurrent(request) else { return true }
        if consumed < buffer.count {
            buffer.consume(consumed)
            swap(&held, &buffer)
        }
        guard request.takesResponse else {
            setInterest(request)
            return true
        }
        return false
    }

    /// Hands bytes on, as far as they are understood and the task takes them.
    ///
    /// - Returns: how many bytes are done with.
    private func process(_ bytes: borrowing Span<UInt8>, _ request: OriginRequest) -> Int {
        // Heads are no bytes of a body: however long an origin sends informational ones, an upload may have stalled.
        if reader.hasHead { request.didMoveBytes() }
        var position = 0
        while true {
            let rest = bytes.extracting(position..<bytes.count)
            switch reader.next(rest) {
            case .needMore(let consumed):
                return position + consumed
            case .informational(let consumed):
                position += consumed
                request.didReceiveInformational(reader.head)
            case .head(let consumed):
                position += consumed
                request.didReceiveHead(reader.head)
            case .data(let range, let consumed):
                position += consumed
                request.didReceiveBody(rest.extracting(range))
            case .end(let consumed):
                position += consumed
                hasExcess = position < bytes.count
                endResponse(request)
                return bytes.count
            case .failed(let why):
                request.fail(SessionError(.responseInvalid, why))
                return bytes.count
            }
            // The end of a response without a body, or behind its last byte, needs no further byte.
            guard isCurrent(request) else { return bytes.count }
            if !reader.isComplete, !request.takesResponse { return position }
        }
    }

    /// Trailers, which are rare, are copied for the delegate.
    private func endResponse(_ request: OriginRequest) {
        if reader.trailers.isEmpty { request.didReceiveEnd() } else { request.didReceiveEnd(trailers: reader.trailers) }
    }

    private func connectionDidEnd(_ request: OriginRequest, isClean: Bool, _ why: String) {
        switch reader.end(isClean: isClean) {
        case .complete: endResponse(request)
        case .truncated(let reason):
            guard let endpoint = request.endpoint else { return }
            if !hasBegunResponse, !request.isOnReusedConnection { connections.didEndUnanswered(connection) }
            let error = truncation(request, endpoint, why: writeFailure ?? why, reason: reason)
            request.exchangeDidEnd(
                ExchangeEnding(cause: .connectionLost, hasBegunResponse: hasBegunResponse, error: error)
            )
        }
    }

    private func truncation(
        _ request: OriginRequest,
        _ endpoint: Endpoint,
        why: String,
        reason: String
    ) -> SessionError {
        let place = endpoint.authorityText
        if !hasBegunResponse, connection.hasDeclinedRenegotiation {
            return HandshakeFailure.declinedRenegotiation(by: endpoint)
        }
        if !hasBegunResponse, !request.isOnReusedConnection, let refusal = connection.certificateRefusal {
            return refusal.error(of: place)
        }
        if hasBegunResponse { return SessionError(.responseTruncated, "\(reason) (\(place): \(why))") }
        guard request.isOnReusedConnection, let method = request.task?.request.method else {
            return SessionError(.responseTruncated, "\(place) closed the connection without a response: \(why).")
        }
        return SessionError(
            .responseTruncated,
            "\(endpoint.host) closed the kept connection while the \(method) request went out. "
                + "It is not sent again, because the origin may have acted on it; send it again if that is safe."
        )
    }

    private func readLater() {
        let timer = laterTimer ?? LoopTimer { [unowned self] in receiveLater() }
        laterTimer = timer
        loop.arm(timer, after: TimeSpan(nanoseconds: 1))
    }

    // MARK: The end

    /// The request needs the connection no longer.
    ///
    /// - Returns: whether the connection can carry another request.
    func detach() -> Bool {
        request = nil
        requestIdentity = nil
        if let laterTimer { loop.disarm(laterTimer) }
        let isReusable =
            reader.isComplete && reader.keepsConnection && writer.isComplete && output.isEmpty && !hasExcess
            && held.isEmpty && writeFailure == nil && !isParked
        output.release()
        held.release()
        return isReusable && !(connection.hasBufferedBytes && connection.hasSomethingToRead())
    }

    /// Whether nothing has come since the last response: whatever came would be taken for the next one.
    var isSilent: Bool { !connection.hasSomethingToRead() }

    /// Waits for the origin to close the connection, or to send bytes for which there is no request.
    override func rest() {
        restedAt = loop.now
        connection.want(reading: true, writing: false)
    }

    private func becameReadyWhileIdle() {
        // A session ticket of TLS 1.3 is no application data.
        if !isSilent { connections.discard(self) }
    }

    /// Its owner is gone.
    func discardIdle() { connections.discard(self) }

    override func discard() {
        if entry.pool.remove(self) { close() }
    }

    /// Closes the connection.
    func close() {
        if let laterTimer { loop.remove(laterTimer) }
        laterTimer = nil
        if let lane = lane.take() { lane.connectionDidClose() }
        connection.close(isWhole: writer.isComplete && output.isEmpty && (reader.isComplete || !connection.isUsed))
    }
}
