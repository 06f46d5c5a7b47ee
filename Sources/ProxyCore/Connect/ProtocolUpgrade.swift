// SPDX-License-Identifier: Apache-2.0
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
    /// The credentials of the request.
    private let guarded: GuardedFields?
    private var response: HTTP1ResponseReader
    /// Unprocessed bytes of the response.
    private var pending = ByteBuffer()
    private var informational: InformationalBudget

    /// - Parameters:
    ///   - request: the head in the form for the origin, without its end.
    ///   - guarded: fields that it gets when the server has proved enough.
    init(
        _ owner: any RelayOwner,
        _ clientStream: ExchangeStream,
        to endpoint: Endpoint,
        method: HTTPMethod,
        responseHeadLimits: HeadLimits,
        offer: UpgradeOffer,
        request: consuming ByteBuffer,
        guarded: GuardedFields?
    ) {
        self.offer = offer
        self.guarded = guarded
        self.request = request
        response = HTTP1ResponseReader(limits: responseHeadLimits)
        informational = InformationalBudget(headBytes: responseHeadLimits.headBytes)
        response.reset(answering: method, mayUpgrade: true)
        super.init(owner, clientStream, to: endpoint)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) {
        if let guarded {
            guard guarded.mayGo(under: task.evaluation) else {
                return fail(guarded.refusal(of: endpoint, task.evaluation))
            }
            guarded.fields.serialize(into: &request)
        }
        request.appendHeadEnd()
        task.noteRequestHead(request.count)
        task.send(request.bytes)
        request.release()
        arm(after: endpoint.timeouts.spans.firstByte)
    }

    override func timeIsUp() {
        guard phase == .dialling else { return super.timeIsUp() }
        fail(
            stream.declinedRenegotiation
                ?? SessionError(
                    .responseTimeout,
                    "No response from \(endpoint.host) within timeouts.firstByte (\(endpoint.timeouts.spans.firstByte.milliseconds) ms)."
                )
        )
    }

    // MARK: The response

    override func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        guard phase == .dialling else { return deliver(bytes) }
        pending.append(bytes)
        var buffer = ByteBuffer()
        swap(&buffer, &pending)
        var position = 0
        let flow = read(buffer.bytes, &position, task)
        buffer.consume(position)
        guard !buffer.isEmpty else { return flow }
        // Behind the head of a 101 the bytes are the new protocol's.
        if phase == .relaying { return deliver(buffer.bytes) }
        if phase == .dialling { swap(&buffer, &pending) }
        return flow
    }

    /// Reads the response as far as it has come.
    ///
    /// - Parameter position: moves behind the bytes that are done with.
    private func read(_ bytes: borrowing Span<UInt8>, _ position: inout Int, _ task: LoopStreamTask) -> BodyFlow {
        var flow = BodyFlow.proceed
        while phase == .dialling {
            let rest = bytes.extracting(position..<bytes.count)
            switch response.next(rest) {
            case .needMore(let consumed):
                position += consumed
                return flow
            case .informational(let consumed):
                position += consumed
                task.noteResponseHead(response.head.byteCount)
                didReceiveInformational()
            case .head(let consumed):
                position += consumed
                task.noteResponseHead(response.head.byteCount)
                didReceiveHead(task)
            case .data(let range, let consumed):
                position += consumed
                flow = owner.relayDidReceive(rest.extracting(range))
            case .end(let consumed):
                position += consumed
                complete()
            case .failed(let why):
                fail(SessionError(.responseInvalid, why))
            }
        }
        return flow
    }

    /// The head that has come, without what nobody may see.
    private var responseHead: ResponseHead { guarded?.masked(response.head) ?? response.head }

    private func didReceiveInformational() {
        let head = responseHead
        // It shows that the origin works on the request.
        arm(after: endpoint.timeouts.spans.firstByte)
        switch informational.receive(status: head.status, byteCount: head.byteCount, at: services.loop.now) {
        case .relay: owner.relayDidReceiveInformational(head)
        case .drop: break
        case .excessive(let why): fail(SessionError(.responseInvalid, why))
        }
    }

    /// The final head has arrived.
    private func didReceiveHead(_ task: LoopStreamTask) {
        disarm()
        task.noteResponse(status: response.head.status)
        guard response.head.status == 101 else {
            if let problem = owner.deliverUnswitched(responseHead) { end { owner.relayDidRefuse(problem) } }
            return
        }
        guard offer.isAccepted(by: response.head) else {
            return fail(
                SessionError(.responseInvalid, "\(endpoint.host) switches to a protocol that it was not asked for.")
            )
        }
        takeOverConnection(checksFirstBytes: false) { owner.writeProtocolSwitch(responseHead, &$0) }
    }

    /// A response other than 101 is complete.
    private func complete() {
        var trailers = response.trailers
        guarded?.mask(&trailers)
        end { owner.relayDidCompleteResponse(trailers: trailers) }
    }

    override func streamTaskReadClosed(_ task: LoopStreamTask) {
        guard phase == .dialling else { return super.streamTaskReadClosed(task) }
        switch response.end(isClean: true) {
        case .complete: complete()
        case .truncated(let why): fail(task.declinedRenegotiation ?? SessionError(.responseTruncated, why))
        }
    }

    private func fail(_ error: SessionError) {
        guard phase == .dialling else { return }
        let shown = guarded?.masked(error) ?? error
        end { owner.relayDidFail(shown, at: endpoint) }
    }
}
