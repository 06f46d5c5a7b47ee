// SPDX-License-Identifier: Apache-2.0
import CNGHTTP2
package import HTTPCore
package import IOCore

/// One connection of HTTP/2, without its socket: it converts between bytes and events of streams.
///
/// nghttp2 does framing, header compression, flow control, and the checks of RFC 9113 on frames and on messages
/// (section 8). This object owns nghttp2's session. It belongs to one loop, like the connection. Public because open
/// classes use it in their signatures.
public final class HTTP2Session {
    package enum Role: Sendable { case server, client }

    package let role: Role
    /// The bytes for the peer.
    package var output = ByteBuffer()
    /// The open streams, including requests that wait until the peer allows another stream.
    package private(set) var streams: [HTTP2Stream] = []
    /// Whether the peer has sent GOAWAY: it accepts no new streams.
    package internal(set) var isGoingAway = false
    /// The last stream that the peer's GOAWAY includes.
    var lastProcessedStream = Int32.max

    /// The number of body bytes that were produced.
    package internal(set) var bodyBytesSent = 0

    /// Set before bytes come, where it was not there when the session was made.
    package unowned(unsafe) var delegate: HTTP2SessionDelegate!
    private(set) var session: OpaquePointer?
    private var block = HTTP2FieldBlock()
    /// The size of `output` at which production stops.
    private(set) var outputLimit = 0
    /// Streams whose output has shrunk, and memory for the next ones.
    private var withRoom: [HTTP2Stream] = []
    private var spareStreams: [HTTP2Stream] = []
    private var isProducing = false
    /// nghttp2 has nothing to send, until something is submitted or received.
    private var isDrained = false
    /// nghttp2 is given bytes of the peer: whoever gives them produces afterwards.
    private var isFeeding = false
    /// The stream of the field block that is being received, which `blockOwner` keeps; for a block without one, or whose stream has
    /// closed, nil.
    private(set) var blockStream: Unmanaged<HTTP2Stream>?
    /// Lives on when the stream closes, until nghttp2 has returned: a method of it may be what has closed it.
    private var blockOwner: HTTP2Stream?
    private(set) var isAbandoned = false
    /// Whether GOAWAY was sent: no new stream is accepted.
    private(set) var hasSentGoAway = false
    private var input: HTTP2Input
    /// The announced limit for the size of a head.
    private let fieldSectionLimit: Int
    /// The largest number of streams that a client may have open.
    let streamLimit: Int

    /// - Parameter delegate: must outlive the session.
    package init?(_ role: Role, _ settings: HTTP2Settings, delegate: HTTP2SessionDelegate?) {
        self.role = role
        self.delegate = delegate
        input = HTTP2Input(role)
        fieldSectionLimit = Int(clamping: settings.headerListBytes)
        streamLimit = Int(clamping: settings.concurrentStreams)
        guard let created = Self.create(role, settings, self) else { return nil }
        session = created
        guard submit(settings) else { return nil }
    }

    deinit {
        for stream in streams { stream.session = nil }
        if let session { nghttp2_session_del(session) }
    }

    /// The longest head that is sent; longer than every limit that can be set for heads.
    private static let longestHead = 64 << 20

    private static func create(_ role: Role, _ settings: HTTP2Settings, _ owner: HTTP2Session) -> OpaquePointer? {
        var option: OpaquePointer?
        guard nghttp2_option_new(&option) == 0, let option else { return nil }
        defer { nghttp2_option_del(option) }
        // A stream's flow-control credit is given when bytes were consumed, not when they arrive.
        nghttp2_option_set_no_auto_window_update(option, 1)
        nghttp2_option_set_no_closed_streams(option, 1)
        nghttp2_option_set_max_outbound_ack(option, 1100)
        nghttp2_option_set_max_settings(option, 32)
        // A server counts them itself, by weight. A client takes as many as a head within the limit has in frames of 4 KB.
        let continuations = Int(settings.headerListBytes >> 12) + 8
        nghttp2_option_set_max_continuations(option, role == .server ? 1 << 20 : continuations)
        // nghttp2 drops a longer head without a word (64 KB unless set), and its stream never ends.
        nghttp2_option_set_max_send_header_block_length(option, longestHead)
        nghttp2_option_set_stream_reset_rate_limit(option, 1000, 100)
        // Servers send values with white space at the ends; the section leaves it out.
        if role == .client { nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1) }
        // The value before the peer's settings arrive.
        nghttp2_option_set_peer_max_concurrent_streams(option, 100)
        var session: OpaquePointer?
        let user = Unmanaged.passUnretained(owner).toOpaque()
        let callbacks = HTTP2Callbacks.shared.pointer
        let result =
            role == .server
            ? nghttp2_session_server_new2(&session, callbacks, user, option)
            : nghttp2_session_client_new2(&session, callbacks, user, option)
        return result == 0 ? session : nil
    }

    private func submit(_ settings: HTTP2Settings) -> Bool {
        func entry(_ id: nghttp2_settings_id, _ value: UInt32) -> nghttp2_settings_entry {
            nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: value)
        }
        var entries = [
            entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, UInt32(settings.streamWindow)),
            entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.headerListBytes),
        ]
        if role == .client { entries.append(entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)) }
        if role == .server, settings.allowsExtendedConnect {
            entries.append(entry(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1))
        }
        guard nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count) == 0 else {
            return false
        }
        guard role == .client || announceStreamLimit(settings.concurrentStreams) else { return false }
        return nghttp2_session_set_local_window_size(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            0,
            settings.connectionWindow
        ) == 0
    }

    /// Adds the limit of concurrent streams to the first SETTINGS frame. nghttp2 does not know this limit: it would end
    /// the connection when a stream exceeds it, but only that stream has to be refused (RFC 9113, section 5.1.2).
    private func announceStreamLimit(_ limit: UInt32) -> Bool {
        var bytes: UnsafePointer<UInt8>?
        let count = nghttp2_session_mem_send(session, &bytes)
        guard count >= FrameHead.byteCount, let bytes else { return false }
        let frame = UnsafeBufferPointer(start: bytes, count: count)
        let head = FrameHead(frame.span)
        guard head.kind == .settings, head.length + FrameHead.byteCount == count else { return false }
        var text: [UInt8] = []
        FrameHead(length: head.length + 6, type: head.type, flags: head.flags, stream: head.stream).write(to: &text)
        text += frame[FrameHead.byteCount...]
        text += [0, UInt8(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue)]
        for shift in [24, 16, 8, 0] { text.append(UInt8(truncatingIfNeeded: limit >> UInt32(shift))) }
        output.append(text.span)
        return true
    }

    // MARK: Bytes

    /// Produces frames into `output`, up to about `limit` bytes.
    ///
    /// - Returns: false when the connection has failed.
    package func produce(upTo limit: Int) -> Bool {
        guard !isAbandoned, !isProducing, !isDrained else { return !isAbandoned }
        // Bytes of the peer rarely make frames, and to be told so costs a quarter of looking for them in vain. Behind a GOAWAY nghttp2 says
        // no, whatever waits.
        if !isEnding, !wantsToWrite {
            isDrained = true
            return true
        }
        isProducing = true
        outputLimit = limit
        var isWell = true
        while output.count < limit {
            var bytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &bytes)
            guard count > 0 else {
                isWell = count == 0
                // `sendBody` may have found no more room.
                isDrained = isWell && output.count < limit
                break
            }
            output.append(UnsafeRawBufferPointer(start: bytes, count: count))
        }
        isProducing = false
        notifyOfRoom()
        return isWell && !isAbandoned
    }

    private func notifyOfRoom() {
        while !withRoom.isEmpty {
            var streams: [HTTP2Stream] = []
            swap(&streams, &spareStreams)
            swap(&streams, &withRoom)
            for stream in streams {
                stream.isRoomNotificationPlanned = false
                if !stream.isClosed { stream.hasRoom() }
            }
            streams.removeAll(keepingCapacity: true)
            swap(&streams, &spareStreams)
        }
    }

    func noteRoom(_ stream: HTTP2Stream) {
        guard !stream.isRoomNotificationPlanned else { return }
        stream.isRoomNotificationPlanned = true
        withRoom.append(stream)
    }

    /// Whether there is something to write now, or the end of the session to look for. Bytes of the peer rarely bring anything.
    package var mayProduce: Bool { isEnding || isGoingAway || isAbandoned || !output.isEmpty || wantsToWrite }

    /// Whether frames are waiting to be produced.
    var wantsToWrite: Bool { nghttp2_session_want_write(session) != 0 }

    /// Whether a GOAWAY was sent, be it by nghttp2 itself.
    var isEnding = false

    /// Whether the connection has ended in both directions. Before a GOAWAY nghttp2 reads on.
    package var isOver: Bool {
        (isEnding || isGoingAway) && !wantsToWrite && nghttp2_session_want_read(session) == 0
    }

    /// Ends the session because the connection is closed: it notifies the streams, and then makes no more calls.
    package func abandon(_ code: HTTP2ErrorCode, byPeer: Bool = true) {
        guard !isAbandoned else { return }
        isAbandoned = true
        while let stream = streams.last {
            // The server has not processed a request that it never got, or that its GOAWAY excludes (RFC 9113, section 6.8).
            let isUnprocessed = !stream.isHeadSent || stream.identifier > lastProcessedStream
            close(stream, role == .client && isUnprocessed ? .refusedStream : code, byPeer: byPeer)
        }
    }

    private func hasOutput() {
        isDrained = false
        if !isProducing, !isAbandoned { delegate.sessionHasOutput(self) }
    }

    // MARK: Streams

    func open(_ stream: HTTP2Stream, _ identifier: Int32) {
        stream.identifier = identifier
        stream.session = self
        stream.index = streams.count
        streams.append(stream)
    }

    func close(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode, byPeer: Bool) {
        guard stream.index >= 0 else { return }
        let last = streams.removeLast()
        if last !== stream {
            streams[stream.index] = last
            last.index = stream.index
        }
        stream.index = -1
        if blockOwner === stream {
            blockStream = nil
            if !isFeeding { blockOwner = nil }
        }
        stream.isClosed = true
        stream.session = nil
        stream.output.release()
        stream.didClose(code, byPeer: byPeer)
    }

    /// - Returns: nil also after `abandon`: nghttp2 still has addresses of streams that have been freed.
    func stream(_ identifier: Int32) -> HTTP2Stream? {
        guard !isAbandoned else { return nil }
        guard let known = nghttp2_session_get_stream_user_data(session, identifier) else { return nil }
        return Unmanaged<HTTP2Stream>.fromOpaque(known).takeUnretainedValue()
    }

    /// Notes that a field block begins, whose fields all go to one stream.
    func beginFields(of stream: HTTP2Stream?) {
        blockOwner = stream
        blockStream = stream.map(Unmanaged.passUnretained)
    }

    /// The field block is complete.
    ///
    /// - Returns: its stream, unless it has none.
    func endFields() -> HTTP2Stream? {
        let stream = isAbandoned || blockStream == nil ? nil : blockOwner
        beginFields(of: nil)
        return stream
    }

    /// The peer's limit of concurrent streams.
    package var peerStreamLimit: Int {
        Int(nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    /// Whether the peer, a server, has announced that it takes CONNECT with `:protocol` (RFC 8441, section 3).
    package var peerAllowsExtendedConnect: Bool {
        nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1
    }

    /// Sends a request, with the body in `stream.output` and the bytes that are appended to it before `endBody`.
    ///
    /// - Parameter fill: adds the pseudo-header fields first, then the other fields.
    /// - Returns: false when this connection accepts no more requests.
    package func request(
        _ stream: HTTP2Stream,
        endsStream: Bool,
        _ fill: (inout HTTP2FieldBlock) -> Void
    ) -> Bool {
        guard !isGoingAway, !isAbandoned, nghttp2_session_check_request_allowed(session) != 0 else { return false }
        block.removeAll()
        fill(&block)
        let user = Unmanaged.passUnretained(stream).toOpaque()
        var provider = Self.provider(of: stream)
        let identifier = block.withFields { fields, count in
            withUnsafeMutablePointer(to: &provider) {
                nghttp2_submit_request(session, nil, fields, count, endsStream ? nil : $0, user)
            }
        }
        guard identifier > 0 else { return false }
        if endsStream { stream.outputEnds = true }
        open(stream, identifier)
        hasOutput()
        return true
    }

    /// Sends a 1xx head.
    ///
    /// - Parameter fill: adds `:status` first, then the fields.
    package func informational(_ stream: HTTP2Stream, _ fill: (inout HTTP2FieldBlock) -> Void) {
        guard !stream.isClosed, !isAbandoned else { return }
        block.removeAll()
        fill(&block)
        stream.queuedHeadBytes += block.byteCount
        _ = block.withFields { fields, count in
            nghttp2_submit_headers(
                session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                stream.identifier,
                nil,
                fields,
                count,
                nil
            )
        }
        hasOutput()
    }

    /// Sends the final head of a response, followed by the bytes in `stream.output`.
    ///
    /// - Parameters:
    ///   - endsStream: whether there is neither body nor trailer section.
    ///   - fill: adds `:status` first, then the fields.
    package func respond(
        _ stream: HTTP2Stream,
        endsStream: Bool,
        _ fill: (inout HTTP2FieldBlock) -> Void
    ) {
        guard !stream.isClosed, !isAbandoned else { return }
        block.removeAll()
        fill(&block)
        stream.queuedHeadBytes += block.byteCount
        var provider = Self.provider(of: stream)
        let result = block.withFields { fields, count in
            withUnsafeMutablePointer(to: &provider) {
                nghttp2_submit_response(session, stream.identifier, fields, count, endsStream ? nil : $0)
            }
        }
        if endsStream { stream.outputEnds = true }
        if result != 0 { reset(stream, .internalError) }
        hasOutput()
    }

    private static func provider(of stream: HTTP2Stream) -> nghttp2_data_provider {
        var provider = nghttp2_data_provider()
        provider.source.ptr = Unmanaged.passUnretained(stream).toOpaque()
        provider.read_callback = HTTP2Callbacks.readBody
        return provider
    }

    /// Resumes the sending after `stream.output` has grown.
    package func resume(_ stream: HTTP2Stream) {
        guard !stream.isClosed, !isAbandoned else { return }
        if stream.isDeferred {
            stream.isDeferred = false
            nghttp2_session_resume_data(session, stream.identifier)
        }
        hasOutput()
    }

    /// Ends the body with the bytes in `stream.output`.
    package func endBody(_ stream: HTTP2Stream, trailers: HeaderFields? = nil) {
        guard !stream.isClosed, !stream.outputEnds else { return }
        stream.outputEnds = true
        stream.trailers = trailers
        resume(stream)
    }

    /// Called after the last bytes of the body when trailers follow.
    func submitTrailers(of stream: HTTP2Stream, _ trailers: HeaderFields) -> Bool {
        block.removeAll()
        block.add(trailers)
        return block.withFields { nghttp2_submit_trailer(session, stream.identifier, $0, $1) } == 0
    }

    /// Resets a stream; the peer knows that it is incomplete.
    package func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        guard !stream.isClosed, !isAbandoned else { return }
        nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.identifier, code.rawValue)
        hasOutput()
    }

    /// Resets a stream, and releases its output at once: a peer that takes no bytes does not take the reset, either.
    package func giveUp(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        guard !stream.isClosed, !isAbandoned else { return }
        stream.isReleased = true
        stream.isMalformed = true
        stream.output.release()
        reset(stream, code)
    }

    /// The number of body bytes that the peer takes of a stream now.
    package func sendWindow(of stream: HTTP2Stream) -> Int {
        guard !stream.isClosed, !isAbandoned else { return 0 }
        let window = nghttp2_session_get_stream_remote_window_size(session, stream.identifier)
        return Int(max(0, min(window, nghttp2_session_get_remote_window_size(session))))
    }

    /// Returns flow-control credit for consumed bytes of a stream's body.
    package func consume(_ stream: HTTP2Stream, _ count: Int) {
        guard count > 0, !isAbandoned, !stream.isClosed else { return }
        nghttp2_session_consume_stream(session, stream.identifier, count)
        if !isFeeding, wantsToWrite { hasOutput() }
    }

    /// Returns the connection's credit, for bytes that have just come: streams that nobody reads would take it from all
    /// others otherwise. What waits is bounded by the windows of the streams.
    func creditConnection(_ count: Int) { nghttp2_session_consume_connection(session, count) }

    // MARK: The connection

    /// Announces the end of the connection, but still accepts requests in flight (RFC 9113, section 6.8).
    package func announceEnd() {
        guard !isAbandoned else { return }
        nghttp2_submit_shutdown_notice(session)
        hasOutput()
    }

    /// Announces that no further stream will be processed.
    package func goAway(_ code: HTTP2ErrorCode = .noError) {
        guard !isAbandoned else { return }
        hasSentGoAway = true
        nghttp2_submit_goaway(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            nghttp2_session_get_last_proc_stream_id(session),
            code.rawValue,
            nil,
            0
        )
        hasOutput()
    }

    /// The same, and ends the connection when the announcement was written.
    package func terminate(_ code: HTTP2ErrorCode) {
        guard !isAbandoned, !input.isOver else { return }
        input.isOver = true
        nghttp2_session_terminate_session(session, code.rawValue)
        hasOutput()
    }

    package func ping() {
        guard !isAbandoned else { return }
        nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
        hasOutput()
    }
}

/// Each frame is inspected here before nghttp2 gets it, because nghttp2 silently ignores frames that cost work.
extension HTTP2Session {
    /// Processes bytes from the peer. A paused session gets none. There may be new frames to write, of which the delegate is not
    /// told.
    ///
    /// - Returns: false when the connection has failed, and must be closed after `output` is written.
    package func receive(_ bytes: borrowing Span<UInt8>) -> Bool {
        assert(!isPaused)
        var position = 0
        while position < bytes.count, !isAbandoned, !input.isOver {
            if isPaused {
                input.unread.append(bytes.extracting(position..<bytes.count))
                break
            }
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

    /// Makes `receive` keep the rest of its bytes, because the turn has taken long. Takes effect within a few hundred bytes.
    package func pause() { input.isPaused = true }

    /// Whether bytes wait for `resumeReading`.
    package var isPaused: Bool { input.isPaused && !isAbandoned && !input.isOver }

    /// Processes the bytes that a pause has kept. The session may be paused again afterwards.
    ///
    /// - Returns: as `receive`.
    package func resumeReading() -> Bool {
        guard isPaused else { return !isAbandoned }
        input.isPaused = false
        var bytes = ByteBuffer()
        swap(&bytes, &input.unfed)
        guard feed(bytes.bytes) else { return false }
        if isPaused { return true }
        bytes = ByteBuffer()
        swap(&bytes, &input.unread)
        return receive(bytes.bytes)
    }

    private func consumePayload(_ bytes: borrowing Span<UInt8>) -> Bool {
        input.payloadLeft -= bytes.count
        guard input.isGathering else { return feed(bytes) }
        input.gathered.append(bytes)
        return input.payloadLeft > 0 || feedGathered()
    }

    private func feed(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard input.isOfBlock else { return feed(piece: bytes) }
        var position = 0
        while position < bytes.count {
            if isPaused {
                input.unfed.append(bytes.extracting(position..<bytes.count))
                break
            }
            let end = min(bytes.count, position + HTTP2Input.blockPiece)
            guard feed(piece: bytes.extracting(position..<end)) else { return false }
            position = end
        }
        return true
    }

    private func feed(piece: borrowing Span<UInt8>) -> Bool {
        isFeeding = true
        isDrained = false
        let count = piece.withUnsafeBufferPointer { nghttp2_session_mem_recv(session, $0.baseAddress, $0.count) }
        isFeeding = false
        if blockStream == nil { blockOwner = nil }
        if count < 0, !isAbandoned {
            let isFlooded = count == Int(NGHTTP2_ERR_FLOODED.rawValue) || input.hasDecodedTooMuch || input.isOver
            addLastWords(isFlooded ? .enhanceYourCalm : .protocolError)
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
        input.isOfBlock = head.kind == .headers || head.kind == .continuation
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
            if isAmidBlock || role == .client { continueBlock(head) }
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

    /// Records in the ledger that the client has opened a stream.
    func didOpenStream(_ identifier: Int32) { input.ledger.opened(identifier) }

    /// Records in the ledger that this side has reset a stream.
    func didResetStream(_ identifier: Int32) { input.ledger.wasReset(identifier) }

    /// Whether a part of the current field section was removed because of its size.
    var hasOmittedFields: Bool { input.hasOmitted }

    func burden(_ weight: Double) {
        if weight > 0, !isAbandoned, !input.isOver { delegate.session(self, didReceiveCostlyFrame: weight) }
    }

    // MARK: Field blocks

    private func beginBlock(_ head: FrameHead) {
        input.blockBytes = 0
        input.sectionBytes = 0
        input.hasOmitted = false
        if !head.endsFieldBlock, role == .server { input.filter = FieldBlockFilter() }
        hold(head)
        guard role == .client else { return }
        if let stream = stream(head.stream) {
            stream.hasReceivedFields = true
        } else {
            // A server's head for a stream that is over is decoded for the compression state alone.
            burden(HTTP2Burden.frame)
        }
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
    ///
    /// - Returns: false when the peer has had more decoded than it may: the connection ends.
    @inline(__always)
    func note(field bytes: Int) -> Bool {
        let size = bytes &+ 32
        input.sectionBytes &+= size
        input.decodingAllowance &-= size
        if input.decodingAllowance >= 0, input.sectionBytes <= fieldSectionLimit { return true }
        return noteExcess(size)
    }

    @inline(never)
    private func noteExcess(_ size: Int) -> Bool {
        guard input.decodingAllowance >= 0 || drawDecodingAllowance() else { return false }
        guard input.sectionBytes > fieldSectionLimit else { return true }
        let isFirst = input.sectionBytes - size <= fieldSectionLimit
        burden(HTTP2Burden.excessField + (isFirst ? HTTP2Burden.frame : 0))
        return !input.isOver
    }

    private func drawDecodingAllowance() -> Bool {
        let count = HTTP2Input.decodingStep - input.decodingAllowance
        guard delegate.session(self, mayDecode: count) else {
            input.hasDecodedTooMuch = true
            return false
        }
        input.decodingAllowance += count
        return true
    }

    /// A section is complete, and its stream takes it. Small ones are paid for by the work of their message; only large ones,
    /// which references of a few bytes can make, and useless ones count.
    func noteEndOfSection() {
        if input.sectionBytes <= HTTP2Input.smallSection { input.decodingAllowance += input.sectionBytes }
    }

    /// Whether the connection has ended because the peer had more fields decoded than it may.
    package var hasDecodedTooMuch: Bool { input.hasDecodedTooMuch }

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
