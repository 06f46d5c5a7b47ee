// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Reading from files.
package enum DescriptorInput {
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
