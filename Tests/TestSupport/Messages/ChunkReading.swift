// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// The result of decoding a chunked body.
package struct ChunkReading: Equatable {
    package var data: [UInt8] = []
    package var fault: ChunkFault?
    /// The place of the byte that is wrong.
    package var faultPosition: Int?
    package var isEnded = false
    /// The bytes after the end.
    package var rest = 0
    package var trailers = HeaderFields()
    /// Whether the decoder reported inconsistent numbers of consumed bytes, which would be a bug.
    package var miscounted = false

    /// Decodes `bytes`, fed in pieces of `pieceSize`, up to the end of the body.
    package init(
        _ bytes: [UInt8],
        pieceSize: Int,
        limits: ChunkLimits = ChunkLimits(),
        isInResponse: Bool = false
    ) {
        var decoder = ChunkedDecoder(limits: limits, isInResponse: isInResponse)
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + pieceSize)
            switch decoder.next(bytes.span.extracting(position..<end)) {
            case .data(let range, let consumed):
                guard !range.isEmpty, range.upperBound == consumed else {
                    miscounted = true
                    return
                }
                data += bytes[position + range.lowerBound..<position + range.upperBound]
                position += consumed
            case .needMore(let consumed):
                guard position + consumed == end else {
                    miscounted = true
                    return
                }
                position = end
            case .end(let consumed):
                isEnded = true
                rest = bytes.count - position - consumed
                trailers = decoder.trailers
                return
            case .failed(let fault):
                self.fault = fault
                faultPosition = decoder.position
                return
            }
        }
    }

    /// The body encoded again, in one chunk.
    package var written: [UInt8] {
        var buffer = ByteBuffer()
        if !data.isEmpty {
            buffer.appendChunkHead(size: data.count)
            buffer.append(data)
            buffer.appendChunkEnd()
        }
        buffer.appendLastChunk(trailers: trailers)
        var bytes: [UInt8] = []
        bytes.append(buffer.bytes)
        return bytes
    }

    /// Whether both results are equal, without the bytes after the end, which depend on the division into pieces.
    package func isSame(as other: ChunkReading) -> Bool {
        data == other.data && fault == other.fault && isEnded == other.isEnded && trailers == other.trailers
            && miscounted == other.miscounted
    }
}
