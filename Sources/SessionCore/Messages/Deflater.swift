// SPDX-License-Identifier: Apache-2.0
import CZlib

/// Compresses a body that is in memory.
package enum Deflater {
    package enum Format: Sendable {
        /// RFC 1952.
        case gzip
        /// RFC 1950, which HTTP calls deflate (RFC 9110, section 8.4.1.2).
        case zlib
    }

    /// The bytes that zlib gets and gives at once.
    private static let pieceSize = 64 << 10

    /// - Returns: nil when memory is short.
    package static func compress(_ bytes: [UInt8], as format: Format) -> [UInt8]? {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        defer { stream.deallocate() }
        let window = format == .gzip ? MAX_WBITS + 16 : MAX_WBITS
        let size = Int32(MemoryLayout<z_stream>.size)
        guard
            deflateInit2_(
                stream,
                Z_DEFAULT_COMPRESSION,
                Z_DEFLATED,
                window,
                8,
                Z_DEFAULT_STRATEGY,
                ZLIB_VERSION,
                size
            ) == Z_OK
        else { return nil }
        defer { deflateEnd(stream) }
        var input = bytes[...]
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count / 4 + 64)
        var piece = [UInt8](repeating: 0, count: pieceSize)
        while true {
            // zlib counts in 32 bits.
            let part = input.prefix(pieceSize)
            input = input.dropFirst(part.count)
            let code = write(part, isLast: input.isEmpty, stream, &piece, &output)
            if code == Z_STREAM_END { return output }
            guard code == Z_OK || code == Z_BUF_ERROR else { return nil }
        }
    }

    private static func write(
        _ part: ArraySlice<UInt8>,
        isLast: Bool,
        _ stream: UnsafeMutablePointer<z_stream>,
        _ piece: inout [UInt8],
        _ output: inout [UInt8]
    ) -> Int32 {
        part.withUnsafeBufferPointer { bytes in
            // zlib does not write to its input; its declaration is older than const.
            stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
            stream.pointee.avail_in = UInt32(bytes.count)
            var code = Z_OK
            repeat {
                let count = piece.withUnsafeMutableBufferPointer { room in
                    stream.pointee.next_out = room.baseAddress
                    stream.pointee.avail_out = UInt32(room.count)
                    code = deflate(stream, isLast ? Z_FINISH : Z_NO_FLUSH)
                    return room.count - Int(stream.pointee.avail_out)
                }
                output += piece[..<count]
            } while code == Z_OK && stream.pointee.avail_out == 0
            return code
        }
    }
}
