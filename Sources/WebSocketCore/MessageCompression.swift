// SPDX-License-Identifier: Apache-2.0
import CZlib
import IOCore

/// Compresses the messages of one direction (RFC 7692, section 7.2.1). It owns a `z_stream`, and is for one thread.
final class MessageDeflater {
    private let stream: UnsafeMutablePointer<z_stream>
    private let keepsContext: Bool

    /// What each message ends with, and what is not sent.
    static let tail: [UInt8] = [0x00, 0x00, 0xFF, 0xFF]

    /// - Parameter windowBits: from 8 to 15. zlib has no window of 8 without a wrapping; with one of 9 it refers to the last 250
    ///   bytes at most, which a window of 8 has.
    /// - Returns: nil when memory is short.
    init?(windowBits: Int, keepsContext: Bool) {
        self.keepsContext = keepsContext
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let size = Int32(MemoryLayout<z_stream>.size)
        let bits = -Int32(max(windowBits, 9))
        // `deinit` frees the stream then.
        guard
            deflateInit2_(
                stream,
                Z_DEFAULT_COMPRESSION,
                Z_DEFLATED,
                bits,
                8,
                Z_DEFAULT_STRATEGY,
                ZLIB_VERSION,
                size
            ) == Z_OK
        else { return nil }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Compresses a part of a message.
    ///
    /// - Parameters:
    ///   - bytes: at least one where `isLast`.
    ///   - isLast: the message ends with it, and the output with `tail`.
    /// - Returns: false when zlib fails, which it does not do with a state of its own.
    func append(_ bytes: borrowing Span<UInt8>, isLast: Bool, into output: inout ByteBuffer) -> Bool {
        let flush = isLast ? Z_SYNC_FLUSH : Z_NO_FLUSH
        var isWell = true
        bytes.withUnsafeBufferPointer { input in
            // zlib does not write to its input; its declaration is older than const.
            stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
            stream.pointee.avail_in = UInt32(input.count)
            var isFull = true
            while isFull {
                _ = output.write(upTo: 16 << 10) { room in
                    stream.pointee.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    stream.pointee.avail_out = UInt32(room.count)
                    let code = deflate(stream, flush)
                    if code != Z_OK, code != Z_BUF_ERROR { isWell = false }
                    isFull = stream.pointee.avail_out == 0 && isWell
                    return room.count - Int(stream.pointee.avail_out)
                }
            }
            stream.pointee.next_in = nil
            stream.pointee.next_out = nil
        }
        if isLast, !keepsContext { deflateReset(stream) }
        return isWell
    }
}

/// Decompresses the messages of one direction (RFC 7692, section 7.2.2). It owns a `z_stream`, and is for one thread.
final class MessageInflater {
    private let stream: UnsafeMutablePointer<z_stream>
    private let keepsContext: Bool
    private var scratch = ByteBuffer()
    /// The final blocks in the message so far.
    private var endings = 0

    /// A message ends once. Each end costs a copy of the window, and may have two bytes.
    private static let mostEndings = 16
    private static let pieceSize = 32 << 10

    /// - Parameter windowBits: from 8 to 15.
    /// - Returns: nil when memory is short.
    init?(windowBits: Int, keepsContext: Bool) {
        self.keepsContext = keepsContext
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let size = Int32(MemoryLayout<z_stream>.size)
        // `deinit` frees the stream then.
        guard inflateInit2_(stream, -Int32(windowBits), ZLIB_VERSION, size) == Z_OK else { return nil }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Decompresses a part of a message. At most `pieceSize` bytes are made before `take` gets them.
    ///
    /// - Parameter take: returns why the message fails; nil to go on.
    /// - Returns: why the message fails; nil when all input was consumed.
    func append(
        _ bytes: borrowing Span<UInt8>,
        _ take: (borrowing Span<UInt8>) -> WebSocketFault?
    ) -> WebSocketFault? {
        var position = 0
        while true {
            scratch.removeAll()
            let (code, consumed, isFull) = step(bytes.extracting(position..<bytes.count))
            position += consumed
            if !scratch.isEmpty, let fault = take(scratch.bytes) { return fault }
            switch code {
            case Z_OK: break
            case Z_BUF_ERROR where !isFull: break
            case Z_STREAM_END:
                // A sender may end a message with a final block; another stream follows, which may refer to this one (section
                // 7.2.3.4 and 7.2.3.5).
                endings += 1
                guard endings <= Self.mostEndings, beginAgain() else { return Self.broken }
                if position < bytes.count { continue }
            default: return Self.broken
            }
            if !isFull, position == bytes.count { return nil }
        }
    }

    /// The message is complete.
    func finish(_ take: (borrowing Span<UInt8>) -> WebSocketFault?) -> WebSocketFault? {
        let tail = MessageDeflater.tail
        if let fault = append(tail.span, take) { return fault }
        // zlib is right behind a block (zlib.h, data_type); in the middle of one, a part of the message is missing.
        guard stream.pointee.data_type & 128 != 0 else { return Self.broken }
        endings = 0
        if !keepsContext { inflateReset(stream) }
        return nil
    }

    private func step(_ input: borrowing Span<UInt8>) -> (code: Int32, consumed: Int, isFull: Bool) {
        var code = Z_OK
        var isFull = false
        var left = 0
        input.withUnsafeBufferPointer { bytes in
            // zlib does not write to its input; its declaration is older than const.
            stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
            stream.pointee.avail_in = UInt32(bytes.count)
            _ = scratch.write(upTo: Self.pieceSize) { room in
                stream.pointee.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.pointee.avail_out = UInt32(room.count)
                code = inflate(stream, Z_SYNC_FLUSH)
                isFull = stream.pointee.avail_out == 0
                return room.count - Int(stream.pointee.avail_out)
            }
            left = Int(stream.pointee.avail_in)
        }
        stream.pointee.next_in = nil
        stream.pointee.next_out = nil
        return (code, input.count - left, isFull)
    }

    /// Begins a stream that may refer to the bytes of the last one.
    private func beginAgain() -> Bool {
        var window = [UInt8](repeating: 0, count: 32 << 10)
        var count: UInt32 = 0
        guard inflateGetDictionary(stream, &window, &count) == Z_OK, inflateReset(stream) == Z_OK else { return false }
        return count == 0 || inflateSetDictionary(stream, window, count) == Z_OK
    }

    private static let broken = WebSocketFault(
        code: WebSocketClose.invalidPayload,
        reason: "a compressed message is broken"
    )
}
