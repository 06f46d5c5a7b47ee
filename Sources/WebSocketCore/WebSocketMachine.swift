// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// A message (RFC 6455, section 5.6).
package struct WebSocketMessage: Equatable, Sendable {
    /// Whether it is text: `bytes` are UTF-8 then.
    package let isText: Bool
    package let bytes: [UInt8]

    package init(isText: Bool, bytes: [UInt8]) {
        self.isText = isText
        self.bytes = bytes
    }
}

/// One side of a WebSocket connection behind its opening handshake (RFC 6455, with permessage-deflate of RFC 7692).
///
/// A value without a socket: bytes of the peer go in, events come out, and bytes for the peer are in `output`. What the peer can
/// make it hold is one message of `maximumMessageSize` bytes, a control frame, and one Pong.
package struct WebSocketMachine: ~Copyable {
    package enum Role: Sendable {
        case client
        case server
    }

    package struct Settings: Sendable {
        package var role = Role.client
        /// The longest message that is received, in bytes of its content.
        package var maximumMessageSize = 1 << 20
        /// nil: no message is compressed.
        package var deflate: PermessageDeflate?
        /// Shorter messages are sent without compression, in bytes.
        package var smallestCompressed = 64
        /// A longer message is sent in several frames, of so many bytes of content, so that control frames go between them.
        package var fragmentSize = 128 << 10

        package init() {}
    }

    package enum Event: Equatable {
        /// All bytes are consumed.
        case needsInput
        case message(WebSocketMessage)
        /// The Pong to it is in `output` already, or follows with `releasePong`.
        case ping([UInt8])
        case pong([UInt8])
        /// The peer's Close frame; the reply is in `output` where it is due. Nothing that follows counts.
        case closed(WebSocketClose)
        /// The peer has violated the protocol, or a limit: a Close frame that says so is in `output`. Nothing that follows counts.
        case failed(WebSocketFault)
    }

    private enum Input {
        case head
        case payload(WebSocketFrameHead, received: Int)
        /// Nothing of the peer counts any more.
        case over
    }

    private var settings: Settings
    private var input = Input.head
    /// The beginning of a frame's head.
    private var partialHead: [UInt8] = []
    /// The message under way.
    private var content: [UInt8] = []
    private var contentOpcode: WebSocketOpcode?
    private var isContentCompressed = false
    private var validator = UTF8Validator()
    private var control: [UInt8] = []
    private var inflater: MessageInflater?
    private var deflater: MessageDeflater?
    private var scratch = ByteBuffer()

    /// Bytes for the peer; whoever takes them empties it.
    package var output = ByteBuffer()
    /// No Pong is added to `output` while it is set: too much waits for the peer already.
    package var holdsPongs = false
    /// The Pong that waits; a later Ping takes its place (RFC 6455, section 5.5.3).
    private var latePong: [UInt8]?
    /// The Close frame has been written.
    package private(set) var hasSentClose = false
    /// The message that is being sent.
    private var outgoing: Outgoing?

    private struct Outgoing {
        let message: WebSocketMessage
        let isCompressed: Bool
        var position = 0
        var isFirst = true
    }

    package init(_ settings: Settings = Settings()) { self.settings = settings }

    package var maximumMessageSize: Int {
        get { settings.maximumMessageSize }
        set { settings.maximumMessageSize = newValue }
    }

    /// Whether messages and pings may be sent.
    package var canSend: Bool { !hasSentClose }

    // MARK: Input

    /// Whether bytes of the peer still count.
    package var isReceiving: Bool { if case .over = input { false } else { true } }

    /// Reads on.
    ///
    /// - Parameters:
    ///   - bytes: of the peer.
    ///   - position: moves behind the bytes that are done with: all of them with `needsInput`.
    package mutating func next(_ bytes: borrowing Span<UInt8>, _ position: inout Int) -> Event {
        while true {
            switch input {
            case .over:
                position = bytes.count
                return .needsInput
            case .head:
                guard let event = nextHead(bytes, &position) else { continue }
                return event
            case .payload(let head, let received):
                let count = min(head.length - received, bytes.count - position)
                if count > 0 {
                    let fault = append(bytes.extracting(position..<(position + count)), head, received)
                    position += count
                    if let fault { return fail(fault) }
                }
                guard received + count == head.length else {
                    input = .payload(head, received: received + count)
                    return .needsInput
                }
                input = .head
                if let event = endFrame(head) { return event }
            }
        }
    }

    /// - Returns: nil when a frame's payload follows.
    private mutating func nextHead(_ bytes: borrowing Span<UInt8>, _ position: inout Int) -> Event? {
        switch readHead(bytes, &position) {
        case .needsMore: return .needsInput
        case .failed(let fault): return fail(fault)
        case .head(let head, _):
            if let fault = begin(head) { return fail(fault) }
            input = .payload(head, received: 0)
            return nil
        }
    }

    private mutating func readHead(
        _ bytes: borrowing Span<UInt8>,
        _ position: inout Int
    ) -> WebSocketFrameHead.Reading {
        let known = partialHead.count
        let reading: WebSocketFrameHead.Reading
        if known == 0 {
            reading = WebSocketFrameHead.read(bytes, at: position)
            if case .needsMore = reading { partialHead.append(bytes.extracting(position..<bytes.count)) }
        } else {
            partialHead.append(bytes.extracting(position..<min(position + Self.longestHead - known, bytes.count)))
            reading = WebSocketFrameHead.read(partialHead.span, at: 0)
        }
        guard case .head(_, let byteCount) = reading else {
            position = bytes.count
            return reading
        }
        position += byteCount - known
        partialHead.removeAll(keepingCapacity: true)
        return reading
    }

    /// The most bytes of a frame's head.
    private static let longestHead = 14

    /// Checks a head against what came before it.
    private mutating func begin(_ head: WebSocketFrameHead) -> WebSocketFault? {
        // RFC 6455, section 5.1.
        guard (head.mask != nil) == (settings.role == .server) else {
            return .protocolError(head.mask == nil ? "a frame has no mask" : "a frame of the server has a mask")
        }
        switch head.opcode {
        case .close, .ping, .pong:
            guard !head.isCompressed else { return .protocolError("a reserved bit is set") }
            control.removeAll(keepingCapacity: true)
            return nil
        case .continuation:
            guard contentOpcode != nil else { return .protocolError("there is no message to continue") }
            guard !head.isCompressed else { return .protocolError("a reserved bit is set") }
        case .text, .binary:
            guard contentOpcode == nil else { return .protocolError("a message begins within another") }
            guard !head.isCompressed || settings.deflate != nil else {
                return .protocolError("a reserved bit is set")
            }
            contentOpcode = head.opcode
            isContentCompressed = head.isCompressed
            validator = UTF8Validator()
            content = []
            if isContentCompressed, inflater == nil {
                inflater = makeInflater()
                guard inflater != nil else {
                    return WebSocketFault(code: WebSocketClose.internalError, reason: "there is no memory")
                }
            }
        }
        // Before any of it comes, and before there is memory for it.
        guard isContentCompressed || head.length <= settings.maximumMessageSize - content.count else {
            return .tooLong(settings.maximumMessageSize)
        }
        return nil
    }

    private func makeInflater() -> MessageInflater? {
        guard let deflate = settings.deflate else { return nil }
        return switch settings.role {
        case .client:
            MessageInflater(
                windowBits: deflate.serverMaxWindowBits,
                keepsContext: !deflate.serverNoContextTakeover
            )
        case .server:
            MessageInflater(
                windowBits: deflate.clientMaxWindowBits,
                keepsContext: !deflate.clientNoContextTakeover
            )
        }
    }

    private func makeDeflater() -> MessageDeflater? {
        guard let deflate = settings.deflate else { return nil }
        return switch settings.role {
        case .client:
            MessageDeflater(
                windowBits: deflate.clientMaxWindowBits,
                keepsContext: !deflate.clientNoContextTakeover
            )
        case .server:
            MessageDeflater(
                windowBits: deflate.serverMaxWindowBits,
                keepsContext: !deflate.serverNoContextTakeover
            )
        }
    }

    /// Takes bytes of a payload.
    private mutating func append(
        _ bytes: borrowing Span<UInt8>,
        _ head: WebSocketFrameHead,
        _ received: Int
    ) -> WebSocketFault? {
        guard let mask = head.mask else { return append(bytes, head.opcode) }
        var plain = ByteBuffer()
        swap(&plain, &scratch)
        plain.removeAll()
        bytes.withUnsafeBytes { masked in
            _ = plain.write(upTo: masked.count) { room in
                room.copyMemory(from: masked)
                WebSocketFrameHead.apply(mask, from: received, to: room)
                return masked.count
            }
        }
        let fault = append(plain.bytes, head.opcode)
        swap(&plain, &scratch)
        return fault
    }

    private mutating func append(_ bytes: borrowing Span<UInt8>, _ opcode: WebSocketOpcode) -> WebSocketFault? {
        guard !opcode.isControl else {
            control.append(bytes)
            return nil
        }
        guard isContentCompressed, let inflater else { return take(bytes) }
        return inflater.append(bytes) { take($0) }
    }

    /// Takes bytes of a message's content.
    private mutating func take(_ bytes: borrowing Span<UInt8>) -> WebSocketFault? {
        guard bytes.count <= settings.maximumMessageSize - content.count else {
            return .tooLong(settings.maximumMessageSize)
        }
        if contentOpcode == .text, !validator.append(bytes) { return .invalidText }
        content.append(bytes)
        return nil
    }

    /// - Returns: nil when the next frame follows without an event.
    private mutating func endFrame(_ head: WebSocketFrameHead) -> Event? {
        switch head.opcode {
        case .ping:
            pong(control)
            return .ping(control)
        case .pong: return .pong(control)
        case .close:
            switch WebSocketClose.read(control) {
            case .failure(let fault): return fail(fault)
            case .success(let close):
                self.close(close.code.map { WebSocketClose(code: $0) } ?? close)
                endInput()
                return .closed(close)
            }
        case .continuation, .text, .binary:
            return head.isFinal ? endMessage() : nil
        }
    }

    private mutating func endMessage() -> Event {
        if isContentCompressed, let inflater, let fault = inflater.finish({ take($0) }) { return fail(fault) }
        let isText = contentOpcode == .text
        guard !isText || validator.isComplete else { return fail(.invalidText) }
        contentOpcode = nil
        var bytes: [UInt8] = []
        swap(&bytes, &content)
        return .message(WebSocketMessage(isText: isText, bytes: bytes))
    }

    private mutating func fail(_ fault: WebSocketFault) -> Event {
        close(WebSocketClose(code: fault.code, reason: Array(fault.reason.utf8)))
        endInput()
        return .failed(fault)
    }

    /// Lets go of what is kept for the peer's frames.
    private mutating func endInput() {
        input = .over
        content = []
        partialHead = []
        inflater = nil
        latePong = nil
    }

    // MARK: Output

    /// Begins to send a message. The last one has to be written whole by then.
    package mutating func begin(_ message: WebSocketMessage) {
        guard !hasSentClose else { return }
        precondition(outgoing == nil, "a message begins within another")
        var isCompressed = settings.deflate != nil && message.bytes.count >= max(settings.smallestCompressed, 1)
        if isCompressed, deflater == nil {
            deflater = makeDeflater()
            isCompressed = deflater != nil
        }
        outgoing = Outgoing(message: message, isCompressed: isCompressed)
    }

    /// Writes a frame of the message that is being sent.
    ///
    /// - Returns: whether the message is complete.
    package mutating func writeNext() -> Bool {
        guard var sending = outgoing else { return true }
        let bytes = sending.message.bytes
        let end = min(bytes.count, sending.position + settings.fragmentSize)
        let isLast = end == bytes.count
        var head = WebSocketFrameHead(
            isFinal: isLast,
            isCompressed: sending.isCompressed && sending.isFirst,
            opcode: sending.isFirst ? sending.message.isText ? .text : .binary : .continuation,
            length: end - sending.position,
            mask: makeMask()
        )
        let part = bytes.span.extracting(sending.position..<end)
        if sending.isCompressed, let deflater {
            var compressed = ByteBuffer()
            swap(&compressed, &scratch)
            compressed.removeAll()
            // It cannot fail: zlib has allocated all that it needs.
            let isWell = deflater.append(part, isLast: isLast, into: &compressed)
            assert(isWell, "zlib has failed")
            head.length = compressed.count - (isLast ? MessageDeflater.tail.count : 0)
            if isLast || head.length > 0 {
                head.write(compressed.bytes.extracting(0..<head.length), into: &output)
                sending.isFirst = false
            }
            swap(&compressed, &scratch)
        } else {
            head.write(part, into: &output)
            sending.isFirst = false
        }
        sending.position = end
        outgoing = isLast ? nil : sending
        return isLast
    }

    /// Sends a Ping of at most 125 bytes.
    package mutating func ping(_ payload: [UInt8]) {
        if !hasSentClose { writeControl(.ping, payload) }
    }

    /// Sends the Close frame, behind which nothing is sent; what is left of a message is dropped.
    package mutating func close(_ close: WebSocketClose) {
        guard !hasSentClose else { return }
        hasSentClose = true
        outgoing = nil
        latePong = nil
        deflater = nil
        writeControl(.close, close.payload)
    }

    /// Writes the Pong that waits, when `holdsPongs` is false again.
    package mutating func releasePong() {
        guard !holdsPongs, let payload = latePong else { return }
        latePong = nil
        pong(payload)
    }

    private mutating func pong(_ payload: [UInt8]) {
        guard !hasSentClose else { return }
        if holdsPongs { latePong = payload } else { writeControl(.pong, payload) }
    }

    private mutating func writeControl(_ opcode: WebSocketOpcode, _ payload: [UInt8]) {
        WebSocketFrameHead(opcode: opcode, length: payload.count, mask: makeMask()).write(payload.span, into: &output)
    }

    /// A fresh mask from the system's generator: nobody on the way may guess it (RFC 6455, section 10.3).
    private func makeMask() -> UInt32? {
        settings.role == .client ? UInt32.random(in: .min ... .max) : nil
    }
}
