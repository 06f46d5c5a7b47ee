// SPDX-License-Identifier: Apache-2.0
import CZlib

/// A message in the coding gzip (RFC 1952), all of it at once.
enum GzipMessage {
    /// - Parameter bytes: less than 4 GB, as zlib counts.
    /// - Returns: nil when memory is short.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        // zlib knows its stream again by its address.
        return withUnsafeMutablePointer(to: &stream) { stream in
            let size = Int32(MemoryLayout<z_stream>.size)
            let window = MAX_WBITS + 16
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
            let bound = Int(deflateBound(stream, UInt(bytes.count)))
            var isWhole = false
            let compressed = [UInt8](unsafeUninitializedCapacity: bound) { room, count in
                bytes.withUnsafeBufferPointer { input in
                    // zlib does not write to its input; its declaration is older than const.
                    stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                    stream.pointee.avail_in = UInt32(input.count)
                    stream.pointee.next_out = room.baseAddress
                    stream.pointee.avail_out = UInt32(room.count)
                    isWhole = deflate(stream, Z_FINISH) == Z_STREAM_END
                }
                count = room.count - Int(stream.pointee.avail_out)
            }
            return isWhole ? compressed : nil
        }
    }
}
