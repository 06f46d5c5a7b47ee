// SPDX-License-Identifier: Apache-2.0
package import IOCore
package import SessionCore
package import WebSocketCore

/// The way that the bytes of a WebSocket take. For the loop.
package protocol WebSocketWire: AnyObject {
    /// Bytes that wait to be sent.
    var pendingBytes: Int { get }

    /// - Parameter bytes: is empty afterwards.
    func write(_ bytes: inout ByteBuffer)

    /// Nothing more is sent: the connection ends when the peer has said all, too.
    func finishWriting()

    /// Bytes of the peer are taken again.
    func readAgain()

    /// Ends the connection at once.
    func cut()
}

/// Moves the messages of a `WebSocketChannel` over a wire. Belongs to the loop.
package final class WebSocketPump {
    private var machine: WebSocketMachine
    private let channel: WebSocketChannel
    private let wire: any WebSocketWire
    private let loop: EventLoop
    private let closeTimeout: TimeSpan
    private let isClient: Bool
    private let timer = LoopTimer()
    /// Bytes of the peer that are read when the program has taken messages.
    private var input = ByteBuffer()
    /// The message that is being sent.
    private var sending: UInt64?
    private var isReading = false
    private var isOver = false

    private enum Outcome: Sendable {
        case closed
        case failed(SessionError)
    }

    /// nil while the WebSocket is open.
    private var outcome: Outcome?

    /// So many bytes go ahead of the network.
    private static let window = 128 << 10
    /// No Pong is added behind more bytes than that.
    private static let pongWindow = 256 << 10

    package init(
        _ settings: WebSocketMachine.Settings,
        _ channel: WebSocketChannel,
        over wire: any WebSocketWire,
        on loop: EventLoop,
        closeTimeout: TimeSpan
    ) {
        var settings = settings
        settings.maximumMessageSize = channel.maximumMessageSize
        machine = WebSocketMachine(settings)
        isClient = settings.role == .client
        self.channel = channel
        self.wire = wire
        self.loop = loop
        self.closeTimeout = closeTimeout
        timer.whenDue { [unowned self] in closeIsLate() }
    }

    /// Whether the program has to take messages before more of the peer is read.
    private var isHeld: Bool { channel.isFull && !machine.hasSentClose }

    // MARK: Input

    /// Bytes of the peer have come.
    ///
    /// - Returns: whether more are taken now; otherwise the wire's `readAgain` is called later.
    package func receive(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard !isOver, machine.isReceiving else { return true }
        guard input.isEmpty, !isReading, !isHeld else {
            input.append(bytes)
            return false
        }
        let position = read(bytes)
        if position < bytes.count, machine.isReceiving { input.append(bytes.extracting(position..<bytes.count)) }
        flush()
        return input.isEmpty && !isHeld
    }

    /// - Returns: how many bytes are done with.
    private func read(_ bytes: borrowing Span<UInt8>) -> Int {
        var position = 0
        isReading = true
        defer { isReading = false }
        machine.maximumMessageSize = channel.maximumMessageSize
        machine.holdsPongs = wire.pendingBytes + machine.output.count > Self.pongWindow
        while true {
            switch machine.next(bytes, &position) {
            case .needsInput: return position
            case .message(let message):
                // Behind our Close frame the program wants no more.
                guard !machine.hasSentClose else { continue }
                channel.didReceive(message)
                if isHeld { return position }
            case .ping: machine.holdsPongs = wire.pendingBytes + machine.output.count > Self.pongWindow
            case .pong(let payload): channel.didReceivePong(payload)
            case .closed(let close): didClose(close)
            case .failed(let fault): didFail(fault)
            }
        }
    }

    private func didClose(_ close: WebSocketClose) {
        end(.closed)
        channel.finish(WebSocketClose(code: close.code ?? WebSocketClose.noStatusReceived, reason: close.reason), nil)
        flush()
        // The server ends the connection (RFC 6455, section 7.1.1).
        if !isClient { wire.finishWriting() }
    }

    private func didFail(_ fault: WebSocketFault) {
        let error = SessionError(
            fault.code == WebSocketClose.messageTooBig ? .responseTooLarge : .responseInvalid,
            "The WebSocket has failed with code \(fault.code): \(fault.reason)."
        )
        end(.failed(error))
        channel.finish(WebSocketClose(code: fault.code, reason: Array(fault.reason.utf8)), error)
        flush()
        wire.finishWriting()
    }

    private func end(_ outcome: Outcome) {
        self.outcome = outcome
        sending = nil
        loop.arm(timer, after: closeTimeout)
    }

    /// The program has taken messages, or has something to send.
    package func wake() {
        channel.didWake()
        guard !isOver else { return }
        readOn()
        send()
    }

    private func readOn() {
        guard !isReading, !isHeld else { return }
        if !input.isEmpty {
            var bytes = ByteBuffer()
            swap(&bytes, &input)
            let position = read(bytes.bytes)
            bytes.consume(position)
            swap(&bytes, &input)
            flush()
        }
        if !machine.isReceiving { input.release() }
        if input.isEmpty, !isHeld, !isOver { wire.readAgain() }
    }

    // MARK: Output

    /// The wire has sent what it had.
    package func hasRoom() {
        guard !isOver else { return }
        machine.holdsPongs = false
        machine.releasePong()
        flush()
        send()
    }

    private func send() {
        while !isOver, machine.canSend, wire.pendingBytes < Self.window {
            if let id = sending {
                let isComplete = machine.writeNext()
                flush()
                guard isComplete else { continue }
                sending = nil
                channel.didSend(id)
                continue
            }
            switch channel.nextOutgoing() {
            case nil: return
            case .message(let id, let message):
                machine.begin(message)
                sending = id
            case .ping(let payload):
                machine.ping(payload)
                flush()
            case .close(let close):
                machine.close(close)
                flush()
                loop.arm(timer, after: closeTimeout)
                // Messages that nobody takes do not hold up the peer's Close frame.
                readOn()
            }
        }
    }

    private func flush() {
        guard !machine.output.isEmpty else { return }
        var output = ByteBuffer()
        swap(&output, &machine.output)
        wire.write(&output)
    }

    // MARK: The end

    /// The peer has not sent its Close frame, or not ended the connection.
    private func closeIsLate() {
        if case nil = outcome {
            let error = SessionError(
                .stalled,
                "The peer has not closed the WebSocket within closeTimeout (\(closeTimeout.milliseconds) ms)."
            )
            outcome = .failed(error)
            channel.finish(WebSocketClose(code: WebSocketClose.abnormalClosure), error)
        }
        wire.cut()
    }

    /// The wire has ended.
    ///
    /// - Returns: the error of the WebSocket; nil after a closing handshake.
    package func finish(_ error: SessionError?) -> SessionError? {
        isOver = true
        loop.remove(timer)
        input.release()
        sending = nil
        switch outcome {
        case .closed: return nil
        case .failed(let error): return error
        case nil:
            let error = error ?? SessionError(.responseTruncated, "The connection has ended without a Close frame.")
            channel.finish(WebSocketClose(code: WebSocketClose.abnormalClosure), error)
            return error
        }
    }
}
