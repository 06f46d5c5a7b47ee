// SPDX-License-Identifier: Apache-2.0
import CBrotli
public import HTTPSessionCore
import IOCore

extension ContentDecoder {
    /// Brotli (RFC 7932), by libbrotlidec. A body has a window of at most 16 MB; streams with large windows, which are no part of the
    /// coding, are refused.
    public static let brotli = ContentDecoder(name: "br") { BrotliDecoder() }
}

/// Decodes one body. It owns a decoder of libbrotlidec, and is for one thread.
final class BrotliDecoder: BodyDecoding {
    private let decoder: OpaquePointer
    private var state = State.start

    private enum State {
        /// No input yet.
        case start
        case inside
        /// Bytes behind the end are ignored, as those behind gzip.
        case atEnd
        case failed
    }

    /// nil when memory is short.
    init?() {
        guard let decoder = BrotliDecoderCreateInstance(nil, nil, nil) else { return nil }
        self.decoder = decoder
    }

    deinit { BrotliDecoderDestroyInstance(decoder) }

    var mayEnd: Bool { state == .start || state == .atEnd }

    func next(_ input: borrowing Span<UInt8>, _ position: inout Int, into output: inout ByteBuffer) -> DecodingStep {
        switch state {
        case .failed: return .broken("br")
        case .atEnd:
            position = input.count
            return .needsInput
        case .start where position == input.count: return .needsInput
        case .start, .inside: break
        }
        state = .inside
        var offered = input.count - position
        var result = BROTLI_DECODER_RESULT_ERROR
        input.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress?.advanced(by: position)
            _ = output.write(upTo: DecodingStep.pieceSize) { room in
                var cursor = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                var left = room.count
                result = BrotliDecoderDecompressStream(decoder, &offered, &next, &left, &cursor, nil)
                return room.count - left
            }
        }
        position = input.count - offered
        switch result {
        case BROTLI_DECODER_RESULT_SUCCESS:
            state = .atEnd
            position = input.count
            return .needsInput
        case BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT: return .needsInput
        case BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT: return .hasMore
        default:
            state = .failed
            return .broken("br", String(cString: BrotliDecoderErrorString(BrotliDecoderGetErrorCode(decoder))))
        }
    }
}
