import CNGHTTP2
import IOCore

/// The state of reading a peer's frames.
struct HTTP2Input {
    /// The bytes of an incomplete frame head.
    var partialHead: [UInt8] = []
    /// The remaining bytes of the frame's payload; initially those of the client's preface.
    var payloadLeft: Int
    /// Head and payload so far of a frame that is held until it is complete, because its field block has several
    /// frames.
    var gathered: [UInt8] = []
    var isGathering = false
    /// Present between HEADERS without END_HEADERS and the frame that has it.
    var filter: FieldBlockFilter?
    /// Bytes of the field block, as sent.
    var blockBytes = 0
    /// The size of the section, as RFC 9113, section 6.5.2 counts it.
    var sectionBytes = 0
    /// Whether a part of the section was removed because of its size.
    var hasOmitted = false
    /// Whether reading has stopped, because the end of the connection was announced.
    var isOver = false
    var ledger = StreamLedger()

    init(_ role: HTTP2Session.Role) {
        payloadLeft = role == .server ? ClientPreface.text.utf8CodeUnitCount : 0
    }
}

/// Each frame is inspected here before nghttp2 gets it, because nghttp2 silently ignores frames that cost work.
extension HTTP2Session {
    /// Processes bytes from the peer.
    ///
    /// - Returns: false when the connection has failed, and must be closed after `output` is written.
    package func receive(_ bytes: borrowing Span<UInt8>) -> Bool {
        var position = 0
        while position < bytes.count, !isAbandoned, !input.isOver {
            let end: Int
            if input.payloadLeft > 0 {
                end = min(bytes.count, position + input.payloadLeft)
                guard consumePayload(bytes.extracting(position..<end)) else { return false }
            } else if input.partialHead.isEmpty, bytes.count - position >= FrameHead.byteCount {
                let head = FrameHead(bytes.extracting(position..<(position + FrameHead.byteCount)))
                didReceiveFrameHead(head)
                guard !isAbandoned, !input.isOver else { break }
                end = min(bytes.count, position + FrameHead.byteCount + head.length)
                // Head and payload are passed on in one piece.
                input.payloadLeft += FrameHead.byteCount
                guard consumePayload(bytes.extracting(position..<end)) else { return false }
            } else {
                end = position + 1
                input.partialHead.append(bytes[position])
                if input.partialHead.count == FrameHead.byteCount {
                    var text: [UInt8] = []
                    swap(&text, &input.partialHead)
                    didReceiveFrameHead(FrameHead(text.span))
                    guard !isAbandoned, !input.isOver else { break }
                    input.payloadLeft += FrameHead.byteCount
                    guard consumePayload(text.span) else { return false }
                }
            }
            position = end
        }
        return !isAbandoned
    }

    private func consumePayload(_ bytes: borrowing Span<UInt8>) -> Bool {
        input.payloadLeft -= bytes.count
        guard input.isGathering else { return feed(bytes) }
        input.gathered.append(bytes)
        return input.payloadLeft > 0 || feedGathered()
    }

    private func feed(_ bytes: borrowing Span<UInt8>) -> Bool {
        let count = bytes.withUnsafeBufferPointer { nghttp2_session_mem_recv(session, $0.baseAddress, $0.count) }
        if count < 0, !isAbandoned {
            addLastWords(count == Int(NGHTTP2_ERR_FLOODED.rawValue) ? .enhanceYourCalm : .protocolError)
        }
        return count >= 0 && !isAbandoned
    }

    /// Writes a GOAWAY directly, because nghttp2 sends nothing after such an error. `output` has complete frames only.
    private func addLastWords(_ code: HTTP2ErrorCode) {
        output.append(([0, 0, 8, 7, 0, 0, 0, 0, 0] as [UInt8]).span)
        let last = UInt32(bitPattern: nghttp2_session_get_last_proc_stream_id(session))
        for number in [last, code.rawValue] {
            for shift in [24, 16, 8, 0] { output.append(UInt8(truncatingIfNeeded: number >> UInt32(shift))) }
        }
    }

    // MARK: Frames

    /// Inspects a frame head before nghttp2 gets it.
    private func didReceiveFrameHead(_ head: FrameHead) {
        input.payloadLeft = head.length
        input.isGathering = false
        // Inside a field block nghttp2 checks frames that do not belong to it.
        let isAmidBlock = input.filter != nil
        switch head.kind {
        case .data where !isAmidBlock:
            if isOfEndedStream(head) { evaluateEndedStream(.data, head, burden: HTTP2Burden.smallData) }
        case .headers where !isAmidBlock:
            beginBlock(head)
            if isOfEndedStream(head) || hasSentGoAway && head.stream > input.ledger.last {
                evaluateEndedStream(
                    .headers,
                    head,
                    burden: HTTP2Burden.frame + Double(head.length) / HTTP2Burden.ignoredBytes
                )
            }
        case .continuation:
            if isAmidBlock { continueBlock(head) }
        case .windowUpdate: delegate.sessionDidReceiveWindowUpdate(self)
        case .data, .headers: break
        case .priority, .resetStream, .settings, .pushPromise, .ping, .goAway, nil: burden(HTTP2Burden.frame)
        }
    }

    private func isOfEndedStream(_ head: FrameHead) -> Bool {
        role == .server && head.stream & 1 == 1 && head.stream <= input.ledger.last && stream(head.stream) == nil
    }

    private func evaluateEndedStream(_ kind: FrameHead.Kind, _ head: FrameHead, burden weight: Double) {
        if head.stream <= input.ledger.last,
            case .violation(let code) = input.ledger.evaluate(kind, on: head.stream)
        {
            terminate(code)
        } else {
            burden(weight)
        }
    }

    func burden(_ weight: Double) {
        if weight > 0, !isAbandoned, !input.isOver { delegate.session(self, didBearBurden: weight) }
    }

    // MARK: Field blocks

    private func beginBlock(_ head: FrameHead) {
        input.blockBytes = 0
        input.sectionBytes = 0
        input.hasOmitted = false
        if !head.endsFieldBlock, role == .server { input.filter = FieldBlockFilter() }
        hold(head)
    }

    private func continueBlock(_ head: FrameHead) {
        if head.length < HTTP2Burden.leastContinuation { burden(HTTP2Burden.frame) }
        hold(head)
    }

    private func hold(_ head: FrameHead) {
        let excess = min(head.length, input.blockBytes + head.length - fieldSectionLimit)
        input.blockBytes += head.length
        burden(Double(excess) / HTTP2Burden.excessBytes)
        // nghttp2 refuses a frame that is too long.
        if input.filter != nil, head.length <= Self.frameLimit {
            input.isGathering = true
            input.gathered.removeAll(keepingCapacity: true)
        }
    }

    /// Called for each field of a section: fields beyond the limit are useless work.
    func note(field bytes: Int) {
        let before = input.sectionBytes
        input.sectionBytes += bytes + 32
        guard input.sectionBytes > fieldSectionLimit else { return }
        burden(HTTP2Burden.excessField + (before <= fieldSectionLimit ? HTTP2Burden.frame : 0))
    }

    /// The largest accepted frame: no other size is announced.
    private static let frameLimit = 1 << 14

    /// Handles a complete frame of a field block.
    private func feedGathered() -> Bool {
        var gathered: [UInt8] = []
        swap(&gathered, &input.gathered)
        let head = FrameHead(gathered.span)
        let isLast = head.endsFieldBlock
        guard var filter = input.filter, let text = Self.frame(gathered.span, head, through: &filter) else {
            // Its padding is invalid: nghttp2 reports the error.
            input.filter = nil
            return feed(gathered.span)
        }
        input.filter = isLast ? nil : filter
        if filter.hasOmitted { input.hasOmitted = true }
        guard !isLast || !filter.isCutInOmission else {
            terminate(.compressionError)
            return true
        }
        // Always the filtered frame: the filter may keep a part of a length for the next one.
        return feed(text.span)
    }

    /// The frames that replace a frame of a field block.
    ///
    /// - Returns: nil when the padding is longer than the frame.
    private static func frame(
        _ frame: borrowing Span<UInt8>,
        _ head: FrameHead,
        through filter: inout FieldBlockFilter
    ) -> [UInt8]? {
        var start = FrameHead.byteCount
        var end = frame.count
        var flags = head.flags
        var fragment: [UInt8] = []
        if head.kind == .headers {
            if head.isPadded {
                guard start < end else { return nil }
                end -= Int(frame[start])
                start += 1
                flags &= ~0x8
            }
            if head.hasPriority {
                guard start + 5 <= end else { return nil }
                for index in start..<(start + 5) { fragment.append(frame[index]) }
                start += 5
            }
            guard start <= end else { return nil }
        }
        filter.filter(frame.extracting(start..<end), isLast: head.endsFieldBlock, into: &fragment)
        var frames: [UInt8] = []
        // The substitute of a string may be longer than the part of the string in this frame.
        var type = head.type
        var position = 0
        repeat {
            let count = min(frameLimit, fragment.count - position)
            let isLast = position + count == fragment.count
            let kept = isLast ? flags : flags & ~0x4
            FrameHead(length: count, type: type, flags: kept, stream: head.stream).write(to: &frames)
            frames += fragment[position..<(position + count)]
            position += count
            type = FrameHead.Kind.continuation.rawValue
            flags &= 0x4
        } while position < fragment.count
        return frames
    }
}

/// The weights of frames that advance no request or response. A frame that needs a reply or a lookup weighs 1.
enum HTTP2Burden {
    static let frame = 1.0
    /// DATA with fewer bytes than the smallest gRPC message, or for a stream that was reset.
    static let smallData = 0.125
    static let leastMessage = 5
    /// CONTINUATION with fewer bytes than that.
    static let leastContinuation = 32
    /// The number of bytes of a field block beyond the limit that weigh 1.
    static let excessBytes = 1024.0
    /// The number of bytes of an ignored field block that weigh 1.
    static let ignoredBytes = 64.0
    /// A field beyond the limit of the section.
    static let excessField = 1.0 / 32
}
