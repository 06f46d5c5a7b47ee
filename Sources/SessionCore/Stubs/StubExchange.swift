// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore
import ServerTrust

/// One request and its response on a `StubTransport`: for a `StubCarrier` what an `HTTP1Connection` is for an `OriginRequest`.
/// Head and framing are written and read by the same values as on a connection.
///
/// `@unchecked Sendable`: `request` does not change, and all else is for the loop; other threads only carry the reference to it
/// (`onLoop`).
package final class StubExchange: @unchecked Sendable {
    package let request: SessionRequest
    /// The URL of the request, in its normal form.
    package let url: String
    package let loop: EventLoop
    /// The request under way; nil when it is over. It ends the exchange with `detach`.
    private var owner: ExchangeReceiver?
    private var writer = HTTP1RequestWriter()
    private var reader: HTTP1ResponseReader
    private var isAccepted = false
    private var isRequestComplete = false
    /// Bytes of the response that the task has not taken yet, as on a connection.
    private var pending = ByteBuffer()
    private var isChunked = false
    /// The response is complete, as far as the origin is concerned.
    private var isEnded = false
    /// A 101 has been delivered: bytes go both ways as they are.
    private var isSwitched = false
    private var isBodyEndTold = false
    /// The error behind the bytes in `pending`.
    private var fault: SessionError?

    /// A piece of the request's body has come.
    package var didReceiveBody: ((_ bytes: borrowing Span<UInt8>) -> Void)?
    /// The request is complete.
    package var didReceiveEnd: (() -> Void)?
    /// The task has taken all bytes of the response so far, and takes more.
    package var wantsMore: (() -> Void)?
    /// The task is over, with or without a response. Called once.
    package var didEnd: (() -> Void)?

    private static let pieceSize = 64 << 10

    init(_ request: SessionRequest, _ owner: ExchangeReceiver, limits: HeadLimits) {
        self.owner = owner
        loop = owner.loop
        self.request = request
        let url = request.url
        self.url = url.origin.description + String(decoding: url.rest, as: UTF8.self)
        reader = HTTP1ResponseReader(limits: limits)
        reader.reset(answering: request.method, mayUpgrade: request.isUpgrade)
    }

    /// Runs work on the loop; from any thread. It may find the exchange over: then its calls have no effect.
    package func onLoop(_ work: @escaping @Sendable (StubExchange) -> Void) { loop.submit { [self] in work(self) } }

    // MARK: Request

    /// The connection is there: the request goes out.
    package func accept() {
        guard let owner, !isAccepted else { return }
        isAccepted = true
        if owner.stubDidAccept() {
            var head = ByteBuffer()
            var sent = request
            // What follows the head of such a request is no body.
            if sent.isUpgrade { sent.bodyLength = .none }
            writer.begin(sent, into: &head)
            owner.didWriteHead(byteCount: head.count)
        }
        proceed()
    }

    /// The task has bytes of the body, or takes bytes of the response again.
    func proceed() {
        guard isAccepted, let owner, moveBody(owner) else { return }
        if writer.isComplete, !isRequestComplete {
            isRequestComplete = true
            owner.didSendRequest()
            didReceiveEnd?()
        } else if !writer.isComplete, !owner.isBodyComplete {
            owner.needsBodyData()
        }
        deliver()
    }

    /// - Returns: false when the request has failed.
    private func moveBody(_ owner: ExchangeReceiver) -> Bool {
        if isSwitched { return moveBytes(owner) }
        guard !writer.isComplete || owner.hasBody else { return true }
        var wire = ByteBuffer()
        do {
            if owner.hasBody {
                var piece = ByteBuffer()
                owner.takeBody(into: &piece)
                try writer.append(piece.bytes, into: &wire)
                owner.didTakeBody(contentBytes: piece.count, wireBytes: wire.count)
                owner.didMoveBytes()
                didReceiveBody?(piece.bytes)
            }
            if !writer.isComplete, owner.isBodyComplete {
                wire.removeAll()
                try writer.end(trailers: owner.bodyTrailers, into: &wire)
                owner.didTakeBody(contentBytes: 0, wireBytes: wire.count)
            }
            return self.owner != nil
        } catch {
            owner.fail(
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

    /// Bytes of the protocol that was switched to.
    private func moveBytes(_ owner: ExchangeReceiver) -> Bool {
        if owner.hasBody {
            var piece = ByteBuffer()
            owner.takeBody(into: &piece)
            owner.didTakeBody(contentBytes: piece.count, wireBytes: piece.count)
            didReceiveBody?(piece.bytes)
            if self.owner != nil, !owner.isBodyComplete { owner.needsBodyData() }
        }
        guard self.owner != nil else { return false }
        if owner.isBodyComplete, !owner.hasBody, !isBodyEndTold {
            isBodyEndTold = true
            didReceiveEnd?()
        }
        return self.owner != nil
    }

    /// Bytes of the response that wait for the task.
    package var pendingBytes: Int { pending.count }

    /// Whether the origin makes the response on a thread of its own; the time limits of the phases stand still meanwhile.
    package func setWorking(_ isWorking: Bool) { owner?.stubIsWorking(isWorking) }

    // MARK: Response

    /// Sends the head of the response.
    ///
    /// - Parameters:
    ///   - status: 200 to 599; 101 for a request that asks for it.
    ///   - fields: with a `Content-Length` or without.
    ///   - bodyLength: the value of `Content-Length` when `fields` have none; nil: the length is not known beforehand.
    package func respond(status: Int, fields: HeaderFields, bodyLength: Int?) {
        guard owner != nil, !isEnded else { return }
        pending.append("HTTP/1.1 ")
        pending.append(decimal: status)
        pending.append(" \r\n")
        fields.serialize(into: &pending)
        let hasNoLength = status == 101 || status == 204 || status == 304 || fields.contains(.contentLength)
        if let bodyLength, !hasNoLength {
            pending.append("Content-Length: ")
            pending.append(decimal: bodyLength)
            pending.append("\r\n")
        }
        isChunked = bodyLength == nil && !hasNoLength
        if isChunked { pending.append("Transfer-Encoding: chunked\r\n") }
        pending.append("\r\n")
        if request.method == .head { isChunked = false }
        deliver()
    }

    /// Sends a piece of the body.
    package func send(_ bytes: borrowing Span<UInt8>) {
        guard owner != nil, !isEnded, !bytes.isEmpty, request.method != .head else { return }
        if isChunked {
            pending.append(hexadecimal: bytes.count)
            pending.append("\r\n")
        }
        pending.append(bytes)
        if isChunked { pending.append("\r\n") }
        deliver()
    }

    /// Ends the response. Trailers are sent behind a body whose length was not known beforehand.
    package func finish(trailers: HeaderFields = HeaderFields()) {
        guard owner != nil, !isEnded else { return }
        isEnded = true
        if isChunked {
            pending.append("0\r\n")
            trailers.serialize(into: &pending)
            pending.append("\r\n")
        }
        deliver()
    }

    /// Ends the exchange with an error, behind the bytes that were sent before.
    package func fail(_ error: SessionError) {
        guard let owner, !isEnded else { return }
        isEnded = true
        fault = error
        if isAccepted { deliver() } else { owner.fail(error) }
    }

    /// Gives the task what it takes: a piece for each turn of the loop.
    private func deliver() {
        guard let owner, owner.takesResponse else { return }
        if !pending.isEmpty {
            var buffer = ByteBuffer()
            swap(&buffer, &pending)
            let consumed = read(buffer.bytes, owner)
            guard self.owner != nil else { return }
            buffer.consume(consumed)
            // What the origin has sent meanwhile is behind it.
            buffer.append(pending.bytes)
            swap(&buffer, &pending)
            guard pending.isEmpty else { return owner.continueLater() }
        }
        if owner.takesResponse { conclude(owner) }
    }

    /// - Returns: how many bytes are done with.
    private func read(_ bytes: borrowing Span<UInt8>, _ owner: ExchangeReceiver) -> Int {
        var position = 0
        while self.owner != nil {
            if isSwitched {
                if position < bytes.count { owner.didReceiveBody(bytes.extracting(position..<bytes.count)) }
                return bytes.count
            }
            if reader.hasHead { owner.didMoveBytes() }
            // A head is read whole, and of a body one piece.
            let limit = reader.hasHead ? position + Self.pieceSize : bytes.count
            let rest = bytes.extracting(position..<min(limit, bytes.count))
            switch reader.next(rest) {
            case .needMore(let consumed): return position + consumed
            case .informational(let consumed):
                position += consumed
                owner.didReceiveInformational(reader.head)
            case .head(let consumed):
                position += consumed
                isSwitched = reader.head.status == 101
                owner.didReceiveHead(reader.head)
                if isSwitched, !owner.takesResponse { return position }
            case .data(let range, let consumed):
                position += consumed
                owner.didReceiveBody(rest.extracting(range))
                if !reader.isComplete { return position }
            case .end:
                endResponse(owner)
                return bytes.count
            case .failed(let why):
                owner.fail(SessionError(.responseInvalid, why))
                return bytes.count
            }
            if !reader.isComplete, !owner.takesResponse { return position }
        }
        return bytes.count
    }

    /// Everything that the origin has sent is delivered.
    private func conclude(_ owner: ExchangeReceiver) {
        if let fault { return owner.fail(fault) }
        guard isEnded else {
            wantsMore?()
            return
        }
        switch reader.end(isClean: true) {
        case .complete: endResponse(owner)
        case .truncated(let reason): owner.fail(SessionError(.responseTruncated, "\(reason) (the stub's body ended)"))
        }
    }

    private func endResponse(_ owner: ExchangeReceiver) {
        owner.didReceiveLastByte()
        if reader.trailers.isEmpty { owner.didReceiveEnd() } else { owner.didReceiveEnd(trailers: reader.trailers) }
    }

    // MARK: The end

    /// The request needs the exchange no longer.
    func detach() {
        guard owner != nil else { return }
        owner = nil
        pending.release()
        let tell = didEnd
        didReceiveBody = nil
        didReceiveEnd = nil
        wantsMore = nil
        didEnd = nil
        tell?()
    }
}
