// SPDX-License-Identifier: Apache-2.0
import CShims

/// A range of an open file, whose bytes go on from there. For the time of the call that it is passed to: the descriptor is another's.
package struct FileBytes {
    package let descriptor: Int32
    /// The offsets in the file.
    package let range: Range<Int>

    package init(_ descriptor: Int32, _ range: Range<Int>) {
        self.descriptor = descriptor
        self.range = range
    }

    package var count: Int { range.count }

    /// The same without the first `count` bytes.
    package func dropFirst(_ count: Int) -> FileBytes {
        FileBytes(descriptor, range.lowerBound + count..<range.upperBound)
    }

    /// The first `count` bytes, or all.
    package func first(_ count: Int) -> FileBytes {
        FileBytes(descriptor, range.lowerBound..<range.lowerBound + min(range.count, count))
    }

    /// The bytes from the first one on that the kernel has in memory, so that sendfile(2) does not wait for the disk; 512 KB at most.
    /// Empty where the first one is not there, where the file belongs to another user, and where the system does not tell
    /// (mincore(2)).
    package var inMemory: FileBytes {
        let count = pinproxy_cached_count(descriptor, range.count, Int64(range.lowerBound))
        return FileBytes(descriptor, range.lowerBound..<range.lowerBound + count)
    }

    /// Appends a copy of what the kernel has in memory, without waiting for the disk: also for loops.
    ///
    /// - Returns: the number of bytes; 0 where the first one has to be read from the disk, or where the filesystem does
    ///   not know (`RWF_NOWAIT` in preadv2(2)).
    package func readCached(into buffer: inout ByteBuffer) -> Int {
        guard !range.isEmpty else { return 0 }
        return buffer.write(upTo: range.count) { space in
            max(0, pinproxy_read_cached(descriptor, space.baseAddress, space.count, Int64(range.lowerBound)))
        }
    }
}
