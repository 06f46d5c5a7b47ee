// SPDX-License-Identifier: Apache-2.0
import CZlib
import HTTPCore
import IOCore

/// Decodes gzip (RFC 1952) or deflate (RFC 1950, and RFC 1951 without the wrapping, as some servers send it) from a
/// body in pieces. It owns a `z_stream`, and is for one thread.
final class Inflater: BodyDecoding {
    typealias Step = DecodingStep

    private let stream: UnsafeMutablePointer<z_stream>
    private let coding: ContentCoding
    /// deflate: the first byte, until the second one shows whether there is a wrapping.
    private var firstByte: UInt8?
    private var state = State.start

    private enum State {
        /// No input yet.
        case start
        case inside
        /// A member is complete; in gzip, another may follow.
        case atEnd
        /// The first byte of another member has come.
        case atMember
        /// Bytes behind the end that are no member are ignored, as by browsers.
        case behindEnd
        case failed
    }

    static let pieceSize = DecodingStep.pieceSize
    private static let wrapped = MAX_WBITS
    private static let raw = -MAX_WBITS
    private static let gzip = MAX_WBITS + 16

    /// nil when memory is short.
    init?(_ coding: ContentCoding) {
        self.coding = coding
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let window = coding == .gzip ? Self.gzip : Self.wrapped
        let size = Int32(MemoryLayout<z_stream>.size)
        // `deinit` frees the stream then.
        guard inflateInit2_(stream, window, ZLIB_VERSION, size) == Z_OK else { return nil }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Whether the body may end here: the coded data is complete, or there was none.
    var mayEnd: Bool {
        switch state {
        case .atEnd, .atMember, .behindEnd: true
        case .start: firstByte == nil
        case .inside, .failed: false
        }
    }

    /// Consumes `input` from `position`, which it moves, and appends at most `pieceSize` bytes to `output`.
    func next(_ input: borrowing Span<UInt8>, _ position: inout Int, into output: inout ByteBuffer) -> Step {
        if state == .failed { return fail() }
        if coding == .deflate, state == .start {
            guard position < input.count else { return .needsInput }
            guard let first = firstByte else {
                firstByte = input[position]
                position += 1
                return next(input, &position, into: &output)
            }
            let isWrapped = first & 0x0f == 8 && (Int(first) << 8 | Int(input[position])) % 31 == 0
            if !isWrapped { inflateReset2(stream, Self.raw) }
            state = .inside
            var begun = 0
            let one: [UInt8] = [first]
            if case .failed = step(one.span, &begun, into: &output) { return fail() }
        }
        while state == .atEnd || state == .atMember {
            guard position < input.count else { return .needsInput }
            // A file is a series of members (RFC 1952, section 2.2), each of which begins with these two bytes.
            guard coding == .gzip, input[position] == (state == .atEnd ? 0x1F : 0x8B) else {
                state = .behindEnd
                break
            }
            if state == .atEnd {
                state = .atMember
                position += 1
                continue
            }
            inflateReset(stream)
            state = .inside
            var begun = 0
            let first: [UInt8] = [0x1F]
            if case .failed = step(first.span, &begun, into: &output) { return fail() }
        }
        if state == .behindEnd {
            position = input.count
            return .needsInput
        }
        return step(input, &position, into: &output)
    }

    private func step(
        _ input: borrowing Span<UInt8>,
        _ position: inout Int,
        into output: inout ByteBuffer
    ) -> Step {
        let offered = input.count - position
        guard offered > 0 || state == .inside else { return .needsInput }
        state = .inside
        var code = Z_OK
        var isFull = false
        input.withUnsafeBufferPointer { bytes in
            // zlib does not write to its input; its declaration is older than const.
            stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress?.advanced(by: position))
            stream.pointee.avail_in = UInt32(offered)
            _ = output.write(upTo: Self.pieceSize) { room in
                stream.pointee.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.pointee.avail_out = UInt32(room.count)
                code = inflate(stream, Z_NO_FLUSH)
                isFull = stream.pointee.avail_out == 0
                return room.count - Int(stream.pointee.avail_out)
            }
        }
        position += offered - Int(stream.pointee.avail_in)
        stream.pointee.next_in = nil
        stream.pointee.next_out = nil
        switch code {
        case Z_STREAM_END:
            state = .atEnd
            return position < input.count ? .hasMore : .needsInput
        case Z_OK: return isFull || position < input.count ? .hasMore : .needsInput
        // No progress was possible, since the input has been consumed.
        case Z_BUF_ERROR where !isFull: return .needsInput
        default: return fail()
        }
    }

    private func fail() -> Step {
        state = .failed
        return .broken(coding == .gzip ? "gzip" : "deflate")
    }
}
