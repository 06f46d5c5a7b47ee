// SPDX-License-Identifier: Apache-2.0
import HTTP2Core
import HTTPCore
import IOCore

/// One exchange on a stream of an `HTTP2ClientConnection`: over HTTP/2 what `HTTP1Connection` is over HTTP/1.1. Request and
/// response may be under way at once.
///
/// A request that offers another protocol becomes a tunnel: an extended CONNECT (RFC 8441), behind whose 2xx the bodies of both
/// sides are that protocol's bytes. Each side ends its own with END_STREAM; RST_STREAM(CANCEL) breaks both off.
final class HTTP2OriginStream: HTTP2Stream {
    let connection: HTTP2ClientConnection
    /// The request under way. It ends the exchange with `detach`.
    private var attached: Unmanaged<ExchangeReceiver>?
    private var receiver: ExchangeReceiver? { attached?.takeUnretainedValue() }
    /// Request and response may have trailers: the exchange may be a stream in both directions.
    private var takesTrailers = false
    /// The request is an extended CONNECT.
    private var isTunnel = false
    private var section: ResponseSection
    private var trailers: TrailerSection
    private var hasHead = false
    /// The size of the response's head.
    private var headBytes = 0
    /// Something of a head has come, be it an informational one: the server has acted on the request.
    var hasBegunResponse: Bool { hasReceivedFields }
    private var isWhole = false
    /// How many bytes of the body are still to come; never 0 for a body whose length is unknown.
    private var bodyLeft = Int.max
    /// The field that has ended the stream, and the rule.
    private var malformation: String?
    private var hasGuardedFields = false
    /// Bytes of the response that came while the task took nothing.
    private var held = ByteBuffer()
    /// The bytes that this stream is known to hold.
    private var accounted = 0

    /// The task is asked for more of the body when less than this waits.
    private static let lowWater = 32 << 10

    init(_ connection: HTTP2ClientConnection, limits: HeadLimits) {
        self.connection = connection
        section = ResponseSection(limits: limits)
        trailers = TrailerSection(limits: limits)
    }

    // MARK: Request

    /// Sends a request. Its response goes to `receiver`, until the exchange ends with `detach`.
    ///
    /// - Returns: false when the connection takes no more requests; nothing was sent then.
    func begin(
        _ request: borrowing SessionRequest,
        _ guarded: GuardedFields?,
        _ receiver: ExchangeReceiver
    ) -> Bool {
        takesTrailers = request.isFullDuplex
        isTunnel = request.isUpgrade
        hasGuardedFields = guarded != nil
        let endsStream = receiver.isBodyComplete && !receiver.hasBody && trailers(of: receiver) == nil
        var headBytes = 0
        let isSent = connection.request(self, endsStream: endsStream) { block in
            headBytes = fill(&block, request, guarded)
        }
        guard isSent else { return false }
        attached = Unmanaged.passUnretained(receiver)
        receiver.didWriteHead(byteCount: headBytes)
        guard !endsStream else { return true }
        moveBody(of: receiver)
        if receiver.isBodyComplete {
            session?.endBody(self, trailers: trailers(of: receiver))
        } else if output.isEmpty {
            receiver.needsBodyData()
        }
        return true
    }

    /// - Returns: the size of the head as HTTP/1.1 would write it.
    private func fill(
        _ block: inout HTTP2FieldBlock,
        _ request: borrowing SessionRequest,
        _ guarded: GuardedFields?
    ) -> Int {
        let authority = connection.authority
        block.add(pseudo: ":method") { (isTunnel ? HTTPMethod.connect : request.method).append(to: &$0) }
        let methodBytes = block.byteCount - 7
        if isTunnel, let offered = request.fields.first(.upgrade) {
            block.add(":protocol", request.fields.value(at: offered))
        }
        block.add(":scheme", "https")
        block.add(":authority", authority.span)
        block.add(":path", request.target.span)
        if isTunnel { addTunnelFields(request.fields, to: &block) } else { block.add(request.fields) }
        if let guarded { block.addSensitive(guarded.fields) }
        // gRPC's servers ask for it, and a program that uses the library cannot write it itself.
        if request.isRemoteCall, !request.fields.contains(.te) { block.add("te", "trailers") }
        if case .bytes(let count) = request.bodyLength { block.add("content-length") { $0.append(decimal: count) } }
        var size = methodBytes + request.target.count + authority.count + 23
        for index in 0..<request.fields.count { size += request.fields.line(at: index).count + 2 }
        if let fields = guarded?.fields {
            for index in 0..<fields.count { size += fields.line(at: index).count + 2 }
        }
        return size
    }

    /// `Sec-WebSocket-Key` shows that a server of HTTP/1.1 has understood the request; here SETTINGS have shown it (RFC 8441,
    /// section 5).
    private func addTunnelFields(_ fields: borrowing HeaderFields, to block: inout HTTP2FieldBlock) {
        for index in 0..<fields.count where !fields.name(at: index).equalsIgnoringCase("sec-websocket-key") {
            block.add(fields, at: index)
        }
    }

    /// Trailers go only to servers whose client expects them in both directions: many others (nginx among them) end the
    /// connection at a second field block of a request.
    private func trailers(of receiver: ExchangeReceiver) -> HeaderFields? {
        guard takesTrailers else { return nil }
        let trailers = receiver.bodyTrailers
        return trailers.isEmpty ? nil : trailers
    }

    /// The number of bytes that wait for the server's flow-control credit.
    var pendingBytes: Int { output.count }

    /// The task has bytes of the body, or takes bytes of the response again.
    func proceed() {
        guard let receiver else { return }
        if !isClosed {
            moveBody(of: receiver)
            session?.resume(self)
            if receiver.isBodyComplete { session?.endBody(self, trailers: trailers(of: receiver)) }
        }
        deliverHeld()
    }

    private func moveBody(of receiver: ExchangeReceiver) {
        guard receiver.hasBody else { return }
        var piece = ByteBuffer()
        receiver.takeBody(into: &piece)
        // Behind a head of the response the request is not repeated.
        if !hasBegunResponse { receiver.keepForRepetition(piece.bytes) }
        receiver.didTakeBody(contentBytes: piece.count, wireBytes: piece.count)
        receiver.didMoveBytes()
        if output.isEmpty { swap(&output, &piece) } else { output.append(piece.bytes) }
    }

    override func hasRoom() {
        guard let receiver else { return }
        receiver.didMoveBytes()
        if output.count < Self.lowWater, !receiver.isBodyComplete { receiver.needsBodyData() }
    }

    override func didEnd() {
        if isTunnel { receiver?.tunnelDidEndSending() } else { receiver?.didSendRequest() }
    }

    /// Ends this side of a tunnel, behind what the task has given.
    func endTunnel() {
        guard let receiver, !isClosed else { return }
        moveBody(of: receiver)
        session?.endBody(self)
    }

    // MARK: Response

    override func didReceiveField(name: borrowing Span<UInt8>, value: borrowing Span<UInt8>) -> Bool {
        // The rest of a section that nobody takes is not looked at.
        guard attached != nil else {
            connection.headIsOver()
            return false
        }
        if hasHead {
            let isWell = trailers.append(name: name, value: value, isInResponse: true)
            if !isWell { didRefuseField(name: name) }
            return isWell
        }
        let isWell = section.append(
            name: name,
            value: value,
            into: &connection.head,
            behind: &connection.formerFields
        )
        guard isWell else {
            didRefuseField(name: name)
            return false
        }
        guard let fault = section.fault else { return true }
        connection.headIsOver()
        connection.didProgress()
        if let receiver { fail(receiver, fault) }
        return false
    }

    override func didRefuseField(name: borrowing Span<UInt8>) {
        connection.headIsOver()
        guard malformation == nil else { return }
        let fault = ResponseFault.ofMalformedField(name)
        malformation = hasGuardedFields ? fault.words(onWholeField: name) : fault.words(onField: name)
    }

    private func fail(_ receiver: ExchangeReceiver, _ fault: ResponseFault) {
        receiver.fail(SessionError(.responseInvalid, fault.words))
    }

    override func didReceiveHead(endsStream: Bool) -> Bool {
        defer { connection.headIsOver() }
        guard let receiver else { return true }
        connection.didProgress()
        if hasHead {
            receiver.didMoveBytes()
            return endsStream
        }
        // The compiler would copy it out of the connection for each use, with all that it refers to.
        var head = ResponseHead()
        swap(&head, &connection.head)
        defer { swap(&head, &connection.head) }
        if let fault = section.conclude(answering: receiver.method, into: &head) {
            fail(receiver, fault)
        } else if head.isInterim {
            receiver.didReceiveInformational(head)
        } else if head.status == 101 {
            receiver.fail(SessionError(.responseInvalid, "The origin switched protocols, which HTTP/2 cannot."))
        } else {
            hasHead = true
            headBytes = head.byteCount
            account()
            guard connection.mayHold(accounted) else {
                receiver.fail(
                    SessionError(
                        .limitReached,
                        "The process holds as many bytes as limits.heldBytes allows, and the head of the response has too large a part in them. Try again, or raise the limit."
                    )
                )
                return true
            }
            head.isWholeMessage = endsStream
            switch head.framing {
            // What follows has no length of its own.
            case .none where isTunnel && head.status < 300: break
            case .none: bodyLeft = 0
            case .length(let count): bodyLeft = count
            default: break
            }
            receiver.didReceiveHead(head)
        }
        return true
    }

    override func didReceiveData(_ bytes: borrowing Span<UInt8>) {
        guard let receiver else { return }
        connection.didProgress()
        receiver.didMoveBytes()
        bodyLeft -= bytes.count
        if !receiver.takesResponse || !held.isEmpty {
            held.append(bytes)
            return account()
        }
        receiver.didReceiveBody(bytes)
        // Credit for bytes that were taken: a task that pauses has the window to fill, and no more.
        connection.consume(self, bytes.count)
    }

    private func deliverHeld() {
        guard let receiver, receiver.takesResponse else { return }
        if !held.isEmpty {
            var piece = ByteBuffer()
            swap(&piece, &held)
            account()
            receiver.didReceiveBody(piece.bytes)
            connection.consume(self, piece.count)
        }
        if isWhole, held.isEmpty { self.receiver?.didReceiveEnd(trailers: trailers.fields) }
    }

    private func account() {
        let now = headBytes + held.count
        guard now != accounted else { return }
        connection.heldDidChange(by: now - accounted)
        accounted = now
    }

    override func didReceiveEnd() {
        guard let receiver else { return }
        isWhole = true
        receiver.didReceiveLastByte()
        if held.isEmpty { receiver.didReceiveEnd(trailers: trailers.fields) }
    }

    // MARK: The end

    override func didClose(_ code: HTTP2ErrorCode, byPeer: Bool) {
        defer { connection.streamDidClose() }
        guard let receiver else { return }
        // A server that has ended its side may reset the stream (RFC 9113, section 8.1).
        guard !isWhole else { return receiver.tunnelDidEndSending() }
        if isWholeWithoutEnd(code, byPeer) { return didReceiveEnd() }
        let authority = connection.connection.endpoint.authorityText
        if let violation = connection.violation, code != .refusedStream {
            return receiver.fail(
                SessionError(.responseInvalid, "The answer of \(authority) breaks the rules of HTTP/2: \(violation).")
            )
        }
        // The peer's reset, or the end of the connection, may have come with the malformed field.
        let isOwn = !byPeer && connection.loss == nil && code != .refusedStream
        if let why = malformation ?? (isOwn ? "\(code.name)." : nil) {
            return receiver.fail(
                SessionError(.responseInvalid, "The answer of \(authority) breaks the rules of HTTP/2: \(why)")
            )
        }
        if connection.liveness.lastProgress == 0, let refusal = connection.connection.certificateRefusal {
            return receiver.fail(refusal.error(of: authority))
        }
        let why = connection.loss ?? "it reset the stream (\(code.name))"
        let cause: ExchangeEnding.Cause =
            switch code {
            case .refusedStream: .notProcessed
            case .http11Required: .http11Required
            default: connection.loss == nil ? .reset : .connectionLost
            }
        receiver.exchangeDidEnd(
            ExchangeEnding(
                cause: cause,
                hasBegunResponse: hasBegunResponse,
                error: SessionError(
                    .responseTruncated,
                    hasHead ? "\(authority) broke off its answer: \(why)." : "\(authority) gave no answer: \(why)."
                )
            )
        )
    }

    /// Whether the response has come in full by its length, although its stream has no proper end: servers send RST_STREAM(NO_ERROR)
    /// in place of END_STREAM (Node, when the last byte fills the window), or close the connection. An error that the server
    /// reports is one.
    private func isWholeWithoutEnd(_ code: HTTP2ErrorCode, _ byPeer: Bool) -> Bool {
        guard hasHead, bodyLeft == 0, connection.violation == nil, malformation == nil else { return false }
        return connection.loss != nil || byPeer && code == .noError
    }

    /// The request needs the stream no longer: a response or a request that is still under way is broken off.
    func detach() {
        guard attached != nil else { return }
        attached = nil
        held.release()
        connection.heldDidChange(by: -accounted)
        accounted = 0
        if !hasEnded || !peerHasEnded { session?.reset(self, .cancel) }
        connection.exchangeDidEnd()
    }

    /// Returns the request to the pool, as long as nothing of it has gone out.
    func returnRequest() {
        guard let receiver, !isHeadSent, !isClosed else { return }
        receiver.returnToPool()
    }

    /// Takes the request back, as long as nothing of it has gone out: nghttp2 holds the head as long as the server allows no
    /// further stream, or takes no bytes.
    ///
    /// - Parameter body: the rest of the body, in front of which comes the part that the stream has taken.
    /// - Returns: false when the head has gone out, or may have.
    func takeBack(inFrontOf body: inout ByteBuffer) -> Bool {
        guard !isHeadSent, !isClosed else { return false }
        var rest = ByteBuffer()
        swap(&rest, &body)
        swap(&body, &output)
        body.append(rest.bytes)
        return true
    }
}
