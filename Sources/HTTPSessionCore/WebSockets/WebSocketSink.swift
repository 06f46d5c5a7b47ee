// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore
import WebSocketCore

/// Makes a WebSocket of the exchange of a task: its request is the opening handshake, and behind the response that opens it (101, or
/// 200 over HTTP/2) the bytes of its bodies are frames. Belongs to the loop.
final class WebSocketSink: BodySink {
    /// What the sink tells its task.
    struct Events {
        var didOpen: (_ subprotocol: String?) -> Void
        var didReceive: (_ byteCount: Int) -> Void
        var didClose: () -> Void
    }

    private let channel: WebSocketChannel
    private let protocols: [String]
    private let options: WebSocketOptions
    private let events: Events
    private let loop: EventLoop
    /// The offer of the present hop.
    private var offer: WebSocketOffer?
    private var hop: LoopTask?
    private var pump: WebSocketPump?

    init(
        _ channel: WebSocketChannel,
        protocols: [String],
        options: WebSocketOptions,
        loop: EventLoop,
        events: Events
    ) {
        self.channel = channel
        self.protocols = protocols
        self.options = options
        self.loop = loop
        self.events = events
    }

    override var givesBody: Bool { true }

    override func prepare(_ request: inout SessionRequest) {
        let offer = WebSocketOffer(protocols: protocols, deflate: options.compression?.offer)
        self.offer = offer
        offer.addFields(to: &request.fields)
        request.isUpgrade = true
        request.bodyLength = .unknown
    }

    override func begin(_ hop: LoopTask) { self.hop = hop }

    override func receiveHead(_ head: ResponseHead, expected: Int?) -> Reception {
        guard let offer, let hop else { return .end(.taskCancelled) }
        switch offer.agreement(head) {
        case .failure(let refusal):
            return .end(
                SessionError(.responseInvalid, "The response does not open the WebSocket: \(refusal.reason).")
            )
        case .success(let agreement):
            open(agreement, on: hop)
            return .accept
        }
    }

    private func open(_ agreement: WebSocketOffer.Agreement, on hop: LoopTask) {
        var settings = WebSocketMachine.Settings()
        settings.deflate = agreement.deflate
        if let compression = options.compression { settings.smallestCompressed = compression.minimumSize }
        pump = WebSocketPump(
            settings,
            channel,
            over: HopWire(hop),
            on: loop,
            closeTimeout: TimeSpan(nanoseconds: UInt64(min(max(options.closeTimeout / .nanoseconds(1), 1e6), 1e18)))
        )
        channel.didOpen(agreement.subprotocol) { events.didOpen(agreement.subprotocol) }
    }

    func wake() {
        // The pump takes messages that were given before the opening handshake has ended.
        if let pump { pump.wake() } else { channel.didWake() }
    }

    override func needsBodyData() { pump?.hasRoom() }

    override func append(_ bytes: borrowing Span<UInt8>) -> AppendResult {
        events.didReceive(bytes.count)
        guard let pump else { return .more }
        return pump.receive(bytes) ? .more : .pause
    }

    override var hasEnds: Bool { true }

    override func finish(_ error: SessionError?, then done: @escaping @Sendable (SessionError?) -> Void) {
        var error = error
        if let pump {
            error = pump.finish(error)
            events.didClose()
        } else {
            let why = error ?? SessionError(.responseTruncated, "The connection has ended in the opening handshake.")
            channel.finish(WebSocketClose(code: WebSocketClose.abnormalClosure), why)
            error = why
        }
        pump = nil
        hop = nil
        done(error)
    }
}

/// The hop of a task, as the wire of its WebSocket.
private final class HopWire: WebSocketWire {
    private let hop: LoopTask

    init(_ hop: LoopTask) { self.hop = hop }

    var pendingBytes: Int { hop.pendingBodyBytes }

    func write(_ bytes: inout ByteBuffer) { hop.send(taking: &bytes) }

    func finishWriting() { hop.finishSending() }

    func readAgain() { hop.resumeReceiving() }

    func cut() { hop.cancel() }
}
