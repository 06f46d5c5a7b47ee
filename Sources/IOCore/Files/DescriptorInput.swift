// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// Reading from files.
package enum DescriptorInput {
    /// Appends the bytes that the kernel has in its page cache, without waiting for the disk: also for loops.
    ///
    /// - Parameters:
    ///   - offset: of the first byte, in the file.
    ///   - count: above 0.
    /// - Returns: the number of bytes; 0 where the first one has to be read from the disk, or where the filesystem does
    ///   not know (`RWF_NOWAIT` in preadv2(2)).
    package static func readCached(
        _ descriptor: Int32,
        at offset: Int,
        count: Int,
        into buffer: inout ByteBuffer
    ) -> Int {
        buffer.write(upTo: count) { space in
            max(0, pinproxy_read_cached(descriptor, space.baseAddress, space.count, Int64(offset)))
        }
    }

    /// Blocks on the disk: never on a loop.
    ///
    /// - Parameters:
    ///   - offset: of the first byte, in the file.
    ///   - count: above 0.
    /// - Returns: `count` bytes; nil when the disk failed, or the file ends before.
    package static func read(_ descriptor: Int32, at offset: Int, count: Int) -> [UInt8]? {
        var isBroken = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let got = pread(descriptor, buffer.baseAddress! + filled, count - filled, off_t(offset + filled))
                if got < 0, errno == EINTR { continue }
                guard got > 0 else {
                    isBroken = true
                    return
                }
                filled += got
            }
        }
        return isBroken ? nil : bytes
    }
}
