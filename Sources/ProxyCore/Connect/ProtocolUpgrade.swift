import HTTPCore
import IOCore
import SessionCore

/// A request that offers to switch to another protocol (RFC 9110, section 7.8). It is sent on an origin connection of
/// its own, and if the origin agrees, that connection and the client's are relayed.
///
/// Until then the client's connection is HTTP's, and bytes that the client has sent behind its request wait there.
final class ProtocolUpgrade: Relay {
    private let offer: UpgradeOffer
    private var request: ByteBuffer
    private var response: ResponseReader
    private let headLimit: Int
    /// Unprocessed bytes of the response.
    private var pending = ByteBuffer()

    /// - Parameter request: the head in the form for the origin.
    init(
        _ exchange: Exchange,
        _ clientStream: ExchangeStream,
        to endpoint: Endpoint,
        offer: UpgradeOffer,
        request: consuming ByteBuffer
    ) {
        self.offer = offer
        self.request = request
        let limits = exchange.responseHeadLimits
        response = ResponseReader(limits: limits)
        headLimit = limits.headBytes
        super.init(exchange, clientStream, to: endpoint)
        response.reset(for: exchange.head.method, mayUpgrade: true)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) {
        task.noteRequestHead(request.count)
        task.send(request.bytes)
        request.release()
        arm(after: endpoint.timeouts.firstByte)
    }

    override func timeIsUp() {
        guard phase == .dialling else { return super.timeIsUp() }
        fail(
            SessionError(
                .responseTimeout,
                "No response from \(endpoint.host) within timeouts.firstByte (\(endpoint.timeouts.firstByte.milliseconds) ms)."
            )
        )
    }

    // MARK: The response

    override func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        guard phase == .dialling else { return deliver(bytes) }
        guard !response.hasHead else { return readBody(bytes) }
        pending.append(bytes)
        readHead(task)
        guard phase == .dialling else {
            // The bytes were already delivered to the client.
            return .proceed
        }
        guard response.hasHead, !pending.isEmpty else { return .proceed }
        var rest = ByteBuffer()
        swap(&rest, &pending)
        return readBody(rest.bytes)
    }

    private func readHead(_ task: LoopStreamTask) {
        while phase == .dialling, !response.hasHead {
            guard let end = pending.bytes.firstIndex(of: UInt8(ascii: "\n")) else {
                if pending.count > headLimit { fail(SessionError(.responseInvalid, ResponseReader.headIsTooLong)) }
                return
            }
            task.noteResponseHead(end + 1)
            let outcome = response.take(line: pending.bytes.extracting(0..<(end + 1)))
            pending.consume(end + 1)
            switch outcome {
            case .needMore, .trailers: break
            case .informational: exchange.task(task.task, didReceiveInformational: response.head)
            case .response: didReceiveHead(task)
            case .failed(let why): fail(SessionError(.responseInvalid, why))
            }
        }
    }

    /// The final head has arrived.
    private func didReceiveHead(_ task: LoopStreamTask) {
        disarm()
        task.noteResponse(status: response.head.status)
        guard response.head.status == 101 else {
            if let problem = exchange.deliverUnswitched(response.head) {
                phase = .closed
                exchange.relayDidRefuse(problem)
                return letGo()
            }
            if response.isComplete, phase == .dialling { complete() }
            return
        }
        guard offer.isAccepted(by: response.head) else {
            return fail(
                SessionError(.responseInvalid, "\(endpoint.host) switches to a protocol that it was not asked for.")
            )
        }
        exchange.writeProtocolSwitch(response.head, &output)
        takeOverConnection(.relaying)
        if !pending.isEmpty {
            var rest = ByteBuffer()
            swap(&rest, &pending)
            if deliver(rest.bytes) == .pause, phase == .relaying { task.pauseReceiving() }
        }
    }

    private func readBody(_ bytes: borrowing Span<UInt8>) -> BodyFlow {
        var flow = BodyFlow.proceed
        var position = 0
        while phase == .dialling, position < bytes.count {
            let rest = bytes.extracting(position..<bytes.count)
            switch response.next(rest) {
            case .data(let range, let consumed):
                flow = exchange.task(stream.task, didReceive: rest.extracting(range))
                position += consumed
                if response.isComplete, position == bytes.count { complete() }
            case .needMore:
                return flow
            case .end:
                complete()
                return flow
            case .failed(let why):
                fail(SessionError(.responseInvalid, why))
            }
        }
        return flow
    }

    /// A response other than 101 is complete.
    private func complete() {
        phase = .closed
        if response.trailers.count > 0 { exchange.task(stream.task, didReceiveTrailers: response.trailers) }
        exchange.relayDidCompleteResponse()
        letGo()
    }

    override func streamTaskReadClosed(_ task: LoopStreamTask) {
        guard phase == .dialling else { return super.streamTaskReadClosed(task) }
        switch response.end(closedCleanly: true) {
        case .complete: complete()
        case .truncated(let why): fail(SessionError(.responseTruncated, why))
        }
    }

    private func fail(_ error: SessionError) {
        guard phase == .dialling else { return }
        phase = .closed
        exchange.relayDidFail(error, at: endpoint)
        letGo()
    }
}
