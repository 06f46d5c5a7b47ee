// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// A verified connection that carries HTTP/1.1 exchanges, one after another.
///
/// The rules of the messages are in `HTTP1RequestWriter` and `HTTP1ResponseReader`; this class moves their bytes.
final class HTTP1Connection: PooledConnection {

    /// The request under way. It ends the exchange with `detach`.
    private unowned(unsafe) var receiver: ExchangeReceiver?
    /// Its identity, which is compared without a retain.
    private var requestIdentity: ObjectIdentifier?
    /// The client that the connection belongs to; nil for most.
    var lane: OwnedLane?
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
    /// The end of the connection, which came with the bytes in `held`.
    private var ending: (isClean: Bool, why: String)?
    /// Small parts of a message have taken this connection's share of the turn.
    private var isShareUsed = false

    /// The task is asked for more of the body when less than this waits for the socket.
    private static let lowWater = 64 << 10
    /// At most this much is read from one connection in a turn of the loop, and at most this much of a body is taken at once: a
    /// megabyte that goes out as a whole would be milliseconds of TLS.
    private static let turnLimit = 256 << 10
    private static let pieceSize = 64 << 10
    /// The clock is read once for so many parts of a message, a power of two: chunks of one byte cost a hundred times as much for
    /// each byte as large ones.
    private static let partsPerReading = 128

    override init(_ connection: VerifiedConnection, _ host: ConnectionHost, owner: PooledConnectionOwner) {
        loop = owner.loop
        reader = HTTP1ResponseReader(limits: owner.headLimits)
        super.init(connection, host, owner: owner)
    }

    @inline(__always)
    private func isCurrent(_ receiver: ExchangeReceiver) -> Bool { requestIdentity == ObjectIdentifier(receiver) }

    // MARK: Exchange

    /// The number of bytes that wait for the socket.
    var pendingBytes: Int { output.count }

    /// The head of the response under way or of the last one.
    var responseHead: ResponseHead { reader.head }

    /// Whether the final head has come.
    var hasHead: Bool { reader.hasHead }

    /// Sends a request. Its response goes to `receiver`, until the exchange ends with `detach`.
    func begin(_ request: borrowing SessionRequest, _ guarded: GuardedFields?, _ receiver: ExchangeReceiver) {
        self.receiver = receiver
        requestIdentity = ObjectIdentifier(receiver)
        connection.isUsed = true
        hasBegunResponse = false
        hasExcess = false
        isParked = false
        ending = nil
        isShareUsed = false
        reader.reset(answering: request.method)
        output.takeMemory(of: &loop.spare)
        writer.begin(request, guarded, into: &output)
        receiver.didWriteHead(byteCount: output.count)
        // Many may begin in one turn.
        proceed(receiver, bodyUpTo: Self.pieceSize)
    }

    /// The task has bytes of the body, or takes bytes of the response again.
    func proceed() {
        if let receiver { proceed(receiver) }
    }

    private func proceed(_ receiver: ExchangeReceiver, bodyUpTo limit: Int = turnLimit) {
        guard send(receiver, bodyUpTo: limit) else { return }
        if !held.isEmpty || isParked || connection.hasBufferedBytes, receiver.takesResponse { return receive(receiver) }
        setInterest(receiver)
    }

    /// Sends what there is of the request.
    ///
    /// - Returns: whether the exchange goes on.
    private func send(_ receiver: ExchangeReceiver, bodyUpTo limit: Int = turnLimit) -> Bool {
        guard moveBody(receiver, upTo: limit) else { return false }
        flush(receiver)
        if output.isEmpty, writer.isComplete, writeFailure == nil { receiver.didSendRequest() }
        if output.count < Self.lowWater, !writer.isComplete, writeFailure == nil, !receiver.isBodyComplete {
            receiver.needsBodyData()
        }
        return isCurrent(receiver)
    }

    /// Moves bytes of the body from the task to the output.
    ///
    /// - Returns: false when the request has failed.
    private func moveBody(_ receiver: ExchangeReceiver, upTo limit: Int) -> Bool {
        // Most requests have none.
        guard !writer.isComplete || receiver.hasBody else { return true }
        do {
            if receiver.hasBody, output.count < Self.lowWater {
                var piece = ByteBuffer()
                receiver.takeBody(into: &piece, upTo: limit)
                let before = output.count
                try writer.append(piece.bytes, into: &output)
                receiver.didTakeBody(contentBytes: piece.count, wireBytes: output.count - before)
            }
            if !writer.isComplete, receiver.isBodyComplete {
                let before = output.count
                try writer.end(trailers: receiver.bodyTrailers, into: &output)
                receiver.didTakeBody(contentBytes: 0, wireBytes: output.count - before)
            }
            return true
        } catch {
            receiver.fail(
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

    private func flush(_ receiver: ExchangeReceiver) {
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
        if output.isEmpty {
            if writer.isComplete { output.giveMemory(to: &loop.spare) } else { output.removeAll() }
        }
        if hasMoved { receiver.didMoveBytes() }
    }

    private func setInterest(_ receiver: ExchangeReceiver) {
        connection.want(
            reading: receiver.takesResponse,
            writing: !output.isEmpty && writeFailure == nil
        )
    }

    override func connectionIsReady(isOver: Bool) {
        guard let receiver else { return becameReadyWhileIdle() }
        isParked = isOver
        if !output.isEmpty {
            guard send(receiver) else { return }
        }
        receive(receiver)
        if isParked, isCurrent(receiver), !receiver.takesResponse {
            // epoll would report the end again and again; reading begins anew with `proceed`.
            connection.want(reading: false, writing: false)
        }
    }

    // MARK: Response

    /// Reads what has come, up to a turn's share.
    private func receive(_ receiver: ExchangeReceiver) {
        loop.noteWork(.response)
        var left = Self.turnLimit
        while isCurrent(receiver), receiver.takesResponse {
            guard left > 0, !isShareUsed else {
                isShareUsed = false
                return readLater()
            }
            if !held.isEmpty {
                if process(held: receiver) { return }
                if isShareUsed { continue }
            }
            guard isCurrent(receiver), receiver.takesResponse else { break }
            if let ending { return connectionDidEnd(receiver, isClean: ending.isClean, ending.why) }
            let reading = read(receiver, &left)
            guard isCurrent(receiver) else { return }
            switch reading {
            case .bytes where connection.hasBufferedBytes || isShareUsed: continue
            case .bytes, .wouldBlock:
                if isShareUsed { continue }
                return setInterest(receiver)
            case .end: ending = (true, "it closed the connection")
            case .broken(let why): ending = (false, why)
            }
            // The bytes before the end are processed first.
            if held.isEmpty || receiver.takesResponse && !isShareUsed, let ending {
                return connectionDidEnd(receiver, isClean: ending.isClean, ending.why)
            }
        }
        if isCurrent(receiver) { setInterest(receiver) }
    }

    private func receiveLater() {
        if let receiver { receive(receiver) }
    }

    /// Reads bytes and hands them on.
    private func read(_ receiver: ExchangeReceiver, _ left: inout Int) -> VerifiedConnection.Reading {
        var buffer = ByteBuffer()
        let isScratch = held.isEmpty
        if isScratch { swap(&buffer, &loop.scratch) } else { swap(&buffer, &held) }
        let known = buffer.count
        var room = Self.pieceSize
        let reading = connection.fill(&buffer, &room)
        left -= max(Self.pieceSize - room, 1)
        if buffer.count > known { hasBegunResponse = true }
        let consumed = buffer.count > known ? process(buffer.bytes, receiver) : 0
        if isCurrent(receiver), consumed < buffer.count {
            if isScratch {
                held.append(buffer.bytes.extracting(consumed..<buffer.count))
            } else {
                buffer.consume(consumed)
                swap(&held, &buffer)
            }
        }
        if isScratch {
            buffer.removeAll()
            swap(&buffer, &loop.scratch)
        }
        return reading
    }

    /// Hands on what was held back.
    ///
    /// - Returns: whether the exchange is over or paused again.
    private func process(held receiver: ExchangeReceiver) -> Bool {
        var buffer = ByteBuffer()
        swap(&buffer, &held)
        let consumed = process(buffer.bytes, receiver)
        guard isCurrent(receiver) else { return true }
        if consumed < buffer.count {
            buffer.consume(consumed)
            swap(&held, &buffer)
        }
        guard receiver.takesResponse else {
            setInterest(receiver)
            return true
        }
        return false
    }

    /// Hands bytes on, as far as they are understood and the task takes them.
    ///
    /// - Returns: how many bytes are done with.
    private func process(_ bytes: borrowing Span<UInt8>, _ receiver: ExchangeReceiver) -> Int {
        // Heads are no bytes of a body: however long an origin sends informational ones, an upload may have stalled.
        if reader.hasHead { receiver.didMoveBytes() }
        var position = 0
        var parts = 0
        while true {
            let rest = bytes.extracting(position..<bytes.count)
            switch reader.next(rest) {
            case .needMore(let consumed):
                return position + consumed
            case .informational(let consumed):
                position += consumed
                receiver.didReceiveInformational(reader.head)
            case .head(let consumed):
                position += consumed
                reader.lendHead(to: receiver)
            case .data(let range, let consumed):
                position += consumed
                receiver.didReceiveBody(rest.extracting(range))
            case .end(let consumed):
                position += consumed
                hasExcess = position < bytes.count
                endResponse(receiver)
                return bytes.count
            case .failed(let why):
                receiver.fail(SessionError(.responseInvalid, why))
                return bytes.count
            }
            // The end of a response without a body, or behind its last byte, needs no further byte.
            guard isCurrent(receiver) else { return bytes.count }
            if !reader.isComplete, !receiver.takesResponse { return position }
            parts += 1
            if parts & (Self.partsPerReading - 1) == 0, isShareOver(after: parts) { return position }
        }
    }

    /// Whether so many parts of a message, processed one after another, have taken this connection's share of the turn.
    private func isShareOver(after parts: Int) -> Bool {
        guard parts > Self.partsPerReading else {
            loop.beginPart()
            return false
        }
        isShareUsed = loop.isPartOver
        return isShareUsed
    }

    /// Trailers, which are rare, are copied for the delegate.
    private func endResponse(_ receiver: ExchangeReceiver) {
        guard reader.trailers.isEmpty else { return receiver.didReceiveEnd(trailers: reader.trailers) }
        receiver.didReceiveEnd()
    }

    private func connectionDidEnd(_ receiver: ExchangeReceiver, isClean: Bool, _ why: String) {
        switch reader.end(isClean: isClean) {
        case .complete: endResponse(receiver)
        case .truncated(let reason):
            if !hasBegunResponse, !receiver.isOnReusedConnection { owner.didEndUnanswered(connection) }
            let error = truncation(receiver, why: writeFailure ?? why, reason: reason)
            receiver.exchangeDidEnd(
                ExchangeEnding(cause: .connectionLost, hasBegunResponse: hasBegunResponse, error: error)
            )
        }
    }

    private func truncation(
        _ receiver: ExchangeReceiver,
        why: String,
        reason: String
    ) -> SessionError {
        let endpoint = connection.endpoint
        let authority = endpoint.authorityText
        if !hasBegunResponse, connection.hasDeclinedRenegotiation {
            return HandshakeFailure.declinedRenegotiation(by: endpoint)
        }
        if !hasBegunResponse, !receiver.isOnReusedConnection, let refusal = connection.certificateRefusal {
            return refusal.error(of: authority)
        }
        if hasBegunResponse { return SessionError(.responseTruncated, "\(reason) (\(authority): \(why))") }
        guard receiver.isOnReusedConnection else {
            return SessionError(.responseTruncated, "\(authority) closed the connection without a response: \(why).")
        }
        return SessionError(
            .responseTruncated,
            "\(endpoint.host) closed the kept connection while the \(receiver.method) request went out. "
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
        receiver = nil
        requestIdentity = nil
        if let laterTimer { loop.disarm(laterTimer) }
        let isReusable =
            reader.isComplete && reader.keepsConnection && writer.isComplete && output.isEmpty && !hasExcess
            && held.isEmpty && writeFailure == nil && !isParked && ending == nil
        if output.hasMemory { output.giveMemory(to: &loop.spare) }
        if held.hasMemory { held.release() }
        return isReusable && !(connection.hasBufferedBytes && connection.hasSomethingToRead())
    }

    /// The request needs another connection than this one.
    func abandon() {
        _ = detach()
        close()
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
        if !isSilent { owner.discard(self) }
    }

    /// Its owner is gone.
    func discardIdle() { owner.discard(self) }

    override func discard() {
        if host.remove(self) { close() }
    }

    /// Closes the connection.
    func close() {
        if let laterTimer { loop.remove(laterTimer) }
        laterTimer = nil
        if let lane = lane.take() { lane.connectionDidClose() }
        connection.close(isWhole: writer.isComplete && output.isEmpty && (reader.isComplete || !connection.isUsed))
    }
}

extension HTTP1ResponseReader {
    /// A function of the reader, so that the head is borrowed from it: the compiler copies it out of the connection otherwise, with all
    /// that it refers to.
    @inline(never)
    fileprivate borrowing func lendHead(to receiver: ExchangeReceiver) { receiver.didReceiveHead(head) }
}
