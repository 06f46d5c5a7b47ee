// SPDX-License-Identifier: Apache-2.0
import CNGHTTP2
import HTTPCore
import IOCore

/// nghttp2's callbacks, which are passed on to the session or the stream.
///
/// `@unchecked Sendable`: made once, never changed, and copied by nghttp2 into each session.
final class HTTP2Callbacks: @unchecked Sendable {
    static let shared = HTTP2Callbacks()

    let pointer: OpaquePointer

    private static let malformed = NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    private static let fatal = NGHTTP2_ERR_CALLBACK_FAILURE.rawValue

    private init() {
        var callbacks: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks else { fatalError("no memory for nghttp2") }
        pointer = callbacks
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            HTTP2Callbacks.with(user) { HTTP2Callbacks.didBeginHeaders($0, frame!) }
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _,
            frame,
            name,
            nameCount,
            value,
            count,
            _,
            user in
            HTTP2Callbacks.with(user) { session in
                guard !session.isAbandoned else { return HTTP2Callbacks.fatal }
                guard session.note(field: nameCount + count) else { return HTTP2Callbacks.fatal }
                // Then nghttp2 decodes the rest of the block, but does not look at the fields, and calls for none of them.
                guard let owned = session.blockStream else { return HTTP2Callbacks.malformed }
                // The session keeps it until nghttp2 returns.
                return owned._withUnsafeGuaranteedRef { stream in
                    guard stream.identifier == frame!.pointee.hd.stream_id, !stream.isMalformed else {
                        return HTTP2Callbacks.malformed
                    }
                    let isWell = stream.didReceiveField(
                        name: HTTP2Callbacks.span(name, nameCount),
                        value: HTTP2Callbacks.span(value, count)
                    )
                    guard !isWell else { return 0 }
                    HTTP2Callbacks.refuse(stream, session)
                    return HTTP2Callbacks.malformed
                }
            }
        }
        // Without this nghttp2 would drop the field and continue.
        nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks) { _, frame, name, count, _, _, _, user in
            HTTP2Callbacks.with(user) { session in
                session.stream(frame!.pointee.hd.stream_id)?.didRefuseField(name: HTTP2Callbacks.span(name, count))
                return HTTP2Callbacks.malformed
            }
        }
        // What it refuses without asking, such as `connection`, it only tells in words.
        nghttp2_session_callbacks_set_error_callback2(callbacks) { _, code, words, count, user in
            guard code == NGHTTP2_ERR_HTTP_HEADER.rawValue, let words else { return 0 }
            words.withMemoryRebound(to: UInt8.self, capacity: count) { start in
                // A longer name is not shown.
                HTTP2Callbacks.with(user) {
                    HTTP2Callbacks.didRefuseField($0, HTTP2Callbacks.span(start, min(count, 512)))
                }
            }
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, identifier, bytes, count, user in
            HTTP2Callbacks.with(user) { session in
                guard !session.isAbandoned else { return HTTP2Callbacks.fatal }
                session.creditConnection(count)
                if let stream = session.stream(identifier), !stream.isMalformed {
                    stream.didReceiveData(HTTP2Callbacks.span(bytes, count))
                }
                return 0
            }
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            HTTP2Callbacks.with(user) { HTTP2Callbacks.didReceive($0, frame!) }
        }
        nghttp2_session_callbacks_set_before_frame_send_callback(callbacks) { _, frame, user in
            HTTP2Callbacks.with(user) { HTTP2Callbacks.willSend($0, frame!) }
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
            HTTP2Callbacks.with(user) { HTTP2Callbacks.didSend($0, frame!) }
            return 0
        }
        nghttp2_session_callbacks_set_send_data_callback(callbacks) { _, _, head, count, source, user in
            HTTP2Callbacks.with(user) { HTTP2Callbacks.sendBody($0, head!, count, source!.pointee.ptr) }
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, identifier, code, user in
            HTTP2Callbacks.with(user) { session in
                guard let stream = session.stream(identifier) else { return 0 }
                // The client may have sent more before it receives the reset.
                if !stream.peerHasEnded, !stream.wasResetByPeer { session.didResetStream(identifier) }
                session.close(stream, HTTP2ErrorCode(onWire: code), byPeer: stream.wasResetByPeer)
                return 0
            }
        }
    }

    // MARK: What comes

    private static func didBeginHeaders(_ session: HTTP2Session, _ frame: UnsafePointer<nghttp2_frame>) -> Int32 {
        guard !session.isAbandoned else { return fatal }
        let identifier = frame.pointee.hd.stream_id
        guard session.role == .server, UInt32(frame.pointee.hd.type) == NGHTTP2_HEADERS.rawValue,
            frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST
        else {
            session.beginFields(of: session.stream(identifier))
            return 0
        }
        session.didOpenStream(identifier)
        guard session.streams.count < session.streamLimit,
            let stream = session.delegate.sessionDidBeginStream(session)
        else {
            session.beginFields(of: nil)
            session.didResetStream(identifier)
            session.burden(HTTP2Burden.frame + Double(frame.pointee.hd.length) / HTTP2Burden.excessBytes)
            nghttp2_submit_rst_stream(
                session.session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                identifier,
                HTTP2ErrorCode.refusedStream.rawValue
            )
            // Its fields are decoded, because the compression state needs them, and not looked at.
            return malformed
        }
        session.open(stream, identifier)
        session.beginFields(of: stream)
        nghttp2_session_set_stream_user_data(
            session.session,
            identifier,
            Unmanaged.passUnretained(stream).toOpaque()
        )
        return 0
    }

    private static func didReceive(_ session: HTTP2Session, _ frame: UnsafePointer<nghttp2_frame>) -> Int32 {
        guard !session.isAbandoned else { return fatal }
        let head = frame.pointee.hd
        switch UInt32(head.type) {
        case NGHTTP2_HEADERS.rawValue:
            guard let stream = session.endFields(), stream.identifier == head.stream_id, !stream.isMalformed else {
                return 0
            }
            let ends = head.flags & endStream != 0
            session.noteEndOfSection()
            if session.hasOmittedFields { stream.didOmitField() }
            if !stream.didReceiveHead(endsStream: ends) {
                refuse(stream, session)
            } else if ends, !stream.isClosed {
                endReached(stream)
            }
        case NGHTTP2_DATA.rawValue:
            if head.flags & endStream == 0 {
                let count = head.length - frame.pointee.data.padlen
                if count < HTTP2Burden.leastMessage {
                    session.burden(count == 0 ? HTTP2Burden.frame : HTTP2Burden.smallData)
                }
            } else if let stream = session.stream(head.stream_id), !stream.isMalformed {
                endReached(stream)
            }
        case NGHTTP2_RST_STREAM.rawValue:
            session.stream(head.stream_id)?.wasResetByPeer = true
        case NGHTTP2_GOAWAY.rawValue:
            session.isGoingAway = true
            let goAway = frame.pointee.goaway
            session.lastProcessedStream = goAway.last_stream_id
            session.delegate.session(
                session,
                didReceiveGoAway: HTTP2ErrorCode(onWire: goAway.error_code),
                lastStream: goAway.last_stream_id
            )
        case NGHTTP2_PING.rawValue where head.flags & acknowledgement != 0:
            session.delegate.sessionDidReceivePong(session)
        case NGHTTP2_SETTINGS.rawValue where head.flags & acknowledgement == 0:
            session.delegate.sessionDidReceiveSettings(session)
        default: break
        }
        return session.isAbandoned ? fatal : 0
    }

    /// - Parameter words: "… stream: 1, name: [connection], value: [close]". Where another release has others, the field is
    ///   not named.
    private static func didRefuseField(_ session: HTTP2Session, _ words: borrowing Span<UInt8>) {
        guard !session.isAbandoned, let number = end(of: "stream: ", in: words, from: 0),
            let comma = words.firstIndex(of: UInt8(ascii: ","), from: number),
            let identifier = DecimalNumber.parse(words.extracting(number..<comma)),
            let start = end(of: "name: [", in: words, from: comma),
            let next = end(of: "], value: [", in: words, from: start)
        else { return }
        session.stream(Int32(clamping: identifier))?.didRefuseField(name: words.extracting(start..<next - 11))
    }

    private static func end(of text: StaticString, in words: borrowing Span<UInt8>, from start: Int) -> Int? {
        let count = text.utf8CodeUnitCount
        var index = start
        while index + count <= words.count {
            if words.extracting(index..<index + count).equals(text) { return index + count }
            index += 1
        }
        return nil
    }

    private static func refuse(_ stream: HTTP2Stream, _ session: HTTP2Session) {
        stream.isMalformed = true
        session.reset(stream, .protocolError)
    }

    private static func endReached(_ stream: HTTP2Stream) {
        stream.peerHasEnded = true
        stream.didReceiveEnd()
    }

    // MARK: What goes

    /// nghttp2 asks for the length of body data; `sendBody` copies the data.
    static let readBody: nghttp2_data_source_read_callback = { _, _, _, room, flags, source, user in
        HTTP2Callbacks.with(user) { HTTP2Callbacks.bodyLength($0, room, flags!, source?.pointee.ptr) }
    }

    private static func bodyLength(
        _ session: HTTP2Session,
        _ room: Int,
        _ flags: UnsafeMutablePointer<UInt32>,
        _ source: UnsafeMutableRawPointer?
    ) -> Int {
        guard !session.isAbandoned, let source else { return Int(fatal) }
        let stream = Unmanaged<HTTP2Stream>.fromOpaque(source).takeUnretainedValue()
        guard !stream.isReleased else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        let count = min(room, stream.output.count)
        let isLast = stream.outputEnds && count == stream.output.count
        if count == 0, !isLast {
            stream.isDeferred = true
            return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        }
        var raised = NGHTTP2_DATA_FLAG_NO_COPY.rawValue
        if isLast {
            raised |= NGHTTP2_DATA_FLAG_EOF.rawValue
            if let trailers = stream.trailers, trailers.count > 0 {
                guard session.submitTrailers(of: stream, trailers) else {
                    return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
                }
                raised |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
            }
        }
        flags.pointee |= raised
        return count
    }

    private static func sendBody(
        _ session: HTTP2Session,
        _ head: UnsafePointer<UInt8>,
        _ count: Int,
        _ source: UnsafeMutableRawPointer
    ) -> Int32 {
        guard !session.isAbandoned else { return fatal }
        guard session.output.count < session.outputLimit else { return NGHTTP2_ERR_WOULDBLOCK.rawValue }
        let stream = Unmanaged<HTTP2Stream>.fromOpaque(source).takeUnretainedValue()
        // The stream's memory was released while its frame waited for room: it is being reset.
        guard count <= stream.output.count else { return malformed }
        session.output.append(UnsafeRawBufferPointer(start: head, count: 9))
        if count > 0 {
            session.output.append(stream.output.bytes.extracting(0..<count))
            stream.output.consume(count)
            session.bodyBytesSent += count
            session.noteRoom(stream)
        }
        return 0
    }

    private static func willSend(_ session: HTTP2Session, _ frame: UnsafePointer<nghttp2_frame>) {
        let head = frame.pointee.hd
        // A part of the head may have gone out from here on.
        guard UInt32(head.type) == NGHTTP2_HEADERS.rawValue, let stream = session.stream(head.stream_id) else { return }
        stream.isHeadSent = true
        guard stream.queuedHeadBytes > 0 else { return }
        // A body may wait for the room of the head alone: no piece of it would tell of that.
        stream.queuedHeadBytes = 0
        session.noteRoom(stream)
    }

    private static func didSend(_ session: HTTP2Session, _ frame: UnsafePointer<nghttp2_frame>) {
        let head = frame.pointee.hd
        let type = UInt32(head.type)
        if type == NGHTTP2_GOAWAY.rawValue { session.isEnding = true }
        guard type == NGHTTP2_HEADERS.rawValue || type == NGHTTP2_DATA.rawValue, head.flags & endStream != 0,
            let stream = session.stream(head.stream_id), !stream.hasEnded
        else { return }
        stream.hasEnded = true
        stream.didEnd()
        // The response is complete; the rest of the client's request is not needed (RFC 9113, section 8.1).
        if session.role == .server, !stream.peerHasEnded, !stream.isClosed { session.reset(stream, .noError) }
    }

    // MARK: Pointers

    private static let endStream = UInt8(NGHTTP2_FLAG_END_STREAM.rawValue)
    private static let acknowledgement = UInt8(NGHTTP2_FLAG_ACK.rawValue)

    /// Calls `body` with the session, whose method has called nghttp2 and so keeps it: it needs no retain.
    @inline(__always)
    private static func with<Result>(_ user: UnsafeMutableRawPointer?, _ body: (HTTP2Session) -> Result) -> Result {
        Unmanaged<HTTP2Session>.fromOpaque(user!)._withUnsafeGuaranteedRef(body)
    }

    /// Bytes that are valid only during nghttp2's call.
    @_lifetime(immortal)
    private static func span(_ start: UnsafePointer<UInt8>?, _ count: Int) -> Span<UInt8> {
        let span = Span<UInt8>(_unsafeStart: start ?? UnsafePointer(bitPattern: 1)!, count: start == nil ? 0 : count)
        return unsafe _overrideLifetime(span, copying: ())
    }
}
