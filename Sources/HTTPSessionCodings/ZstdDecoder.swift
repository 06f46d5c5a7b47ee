// SPDX-License-Identifier: Apache-2.0
import CZstd
public import HTTPSessionCore
import IOCore

extension ContentDecoder {
    /// Zstandard (RFC 8878), by libzstd. A body has a window of at most 8 MB (RFC 9659); one with a larger window is refused before there is
    /// memory for it.
    public static let zstd = ContentDecoder(name: "zstd") { ZstdDecoder() }
}

/// Decodes one body. It owns a decoder of libzstd, and is for one thread.
final class ZstdDecoder: BodyDecoding {
    private let decoder: OpaquePointer
    private var state = State.start
    /// The first bytes of a frame, until they say whether it is one. libzstd sees no others: as Debian builds it, it takes formats from
    /// before the standard, too, whose decoders know no limit of the window.
    private var magic: [UInt8] = []

    private enum State {
        /// No input yet.
        case start
        /// The first bytes of the first frame have not all come.
        case beginning
        case inside
        /// A frame is complete; another one may follow.
        case atEnd
        /// Bytes behind the end that are no frame are ignored, as those behind gzip.
        case behindEnd
        case failed
    }

    /// The largest window of the coding, as a power of two: 8 MB (RFC 9659, section 3).
    private static let windowLimit: Int32 = 23

    /// nil when memory is short.
    init?() {
        guard let decoder = ZSTD_createDCtx() else { return nil }
        self.decoder = decoder
        ZSTD_DCtx_setParameter(decoder, ZSTD_d_windowLogMax, Self.windowLimit)
    }

    deinit { ZSTD_freeDCtx(decoder) }

    var mayEnd: Bool {
        switch state {
        case .start, .atEnd, .behindEnd: true
        case .beginning, .inside, .failed: false
        }
    }

    func next(_ input: borrowing Span<UInt8>, _ position: inout Int, into output: inout ByteBuffer) -> DecodingStep {
        switch state {
        case .failed: return .broken("zstd")
        case .behindEnd:
            position = input.count
            return .needsInput
        case .start, .beginning, .atEnd:
            let isFirst = state != .atEnd
            guard position < input.count else { return .needsInput }
            if isFirst { state = .beginning }
            while magic.count < 4, position < input.count {
                magic.append(input[position])
                position += 1
            }
            guard magic.count == 4 else { return .needsInput }
            guard Self.isFrame(magic) else {
                state = isFirst ? .failed : .behindEnd
                position = input.count
                return isFirst ? .broken("zstd") : .needsInput
            }
            state = .inside
            let bytes = magic
            magic = []
            var begun = 0
            // The first bytes of a frame make no output.
            if case .failed(let why) = step(bytes.span, &begun, into: &output) { return .failed(why) }
        case .inside: break
        }
        return step(input, &position, into: &output)
    }

    /// Whether the bytes begin a frame, or one that is skipped (RFC 8878, sections 3.1.1 and 3.1.2).
    private static func isFrame(_ bytes: [UInt8]) -> Bool {
        bytes == [0x28, 0xB5, 0x2F, 0xFD] || bytes[0] & 0xF0 == 0x50 && bytes[1...] == [0x2A, 0x4D, 0x18]
    }

    private func step(_ input: borrowing Span<UInt8>, _ position: inout Int, into output: inout ByteBuffer)
        -> DecodingStep
    {
        let start = position
        var consumed = 0
        var isFull = false
        var result = 0
        input.withUnsafeBufferPointer { bytes in
            var source = ZSTD_inBuffer(src: bytes.baseAddress, size: bytes.count, pos: start)
            _ = output.write(upTo: DecodingStep.pieceSize) { room in
                var target = ZSTD_outBuffer(dst: room.baseAddress, size: room.count, pos: 0)
                result = ZSTD_decompressStream(decoder, &target, &source)
                isFull = target.pos == target.size
                return target.pos
            }
            consumed = source.pos
        }
        position = consumed
        guard ZSTD_isError(result) == 0 else {
            state = .failed
            return .broken("zstd", String(cString: ZSTD_getErrorName(result)))
        }
        if result == 0 { state = .atEnd }
        return isFull && result != 0 || position < input.count ? .hasMore : .needsInput
    }
}
