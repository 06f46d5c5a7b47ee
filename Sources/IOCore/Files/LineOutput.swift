// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// Appends lines to a descriptor without leaving incomplete ones: when a full disk truncates a line, it is removed, or
/// completed as soon as the disk has space again.
///
/// `@unchecked Sendable` because only its owner uses it, one thread at a time.
package final class LineOutput: @unchecked Sendable {
    /// write(2), with the negative error code.
    package typealias Write = (_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int

    package let descriptor: Int32
    private let write: Write
    /// The missing end of a line whose beginning could not be removed: it is written before anything else.
    private var remainder: [UInt8] = []

    /// - Parameter write: a replacement of write(2) for tests.
    package init(descriptor: Int32, write: @escaping Write = { pinproxy_write_file($0, $1, $2) }) {
        self.descriptor = descriptor
        self.write = write
    }

    /// Writes complete lines, each with its newline. Blocks while the descriptor is not writable: never on a loop.
    ///
    /// - Returns: the number of lines that were not written, and the `errno` value of the failure, or 0.
    package func append(_ lines: UnsafeRawBufferPointer) -> (lost: Int, code: Int32) {
        if let code = complete() { return (Self.count(lines[...]), code) }
        let size = sizeOfFile
        let (written, code) = put(lines)
        guard code != 0 else { return (0, 0) }
        let start = lines[..<written].lastIndex(of: Self.newline).map { $0 + 1 } ?? 0
        var lost = Self.count(lines[start...])
        if written > start, !truncate(written - start, from: size.map { $0 + written }) {
            let end = lines[written...].firstIndex(of: Self.newline).map { $0 + 1 } ?? lines.count
            remainder = Array(lines[written..<end])
            lost -= 1
        }
        return (lost, code)
    }

    /// Tries a last time to complete a line.
    ///
    /// - Returns: the number of incomplete lines: 0 or 1.
    package func finish() -> Int { complete() == nil ? 0 : 1 }

    private static let newline = UInt8(ascii: "\n")

    private static func count(_ lines: Slice<UnsafeRawBufferPointer>) -> Int {
        lines.count { $0 == newline }
    }

    /// - Returns: the `errno` value of the failure.
    private func complete() -> Int32? {
        guard !remainder.isEmpty else { return nil }
        let (written, code) = remainder.withUnsafeBytes { put($0) }
        remainder.removeFirst(written)
        return code == 0 ? nil : code
    }

    private func put(_ bytes: UnsafeRawBufferPointer) -> (written: Int, code: Int32) {
        var written = 0
        while written < bytes.count {
            let part = UnsafeRawBufferPointer(rebasing: bytes[written...])
            let count = write(descriptor, part.baseAddress, part.count)
            if count == -Int(EAGAIN) {
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&waiting, 1, -1)
            } else if count <= 0 {
                return (written, count == 0 ? EIO : Int32(-count))
            } else {
                written += count
            }
        }
        return (written, 0)
    }

    /// The size of a regular file; nil for others.
    private var sizeOfFile: Int? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return status.st_size
    }

    /// Truncates the last bytes of a file, unless another process has written to it meanwhile.
    private func truncate(_ count: Int, from end: Int?) -> Bool {
        guard let end, sizeOfFile == end, lseek(descriptor, 0, SEEK_CUR) == end, ftruncate(descriptor, end - count) == 0
        else { return false }
        // Without O_APPEND the next line would be written after a hole.
        lseek(descriptor, end - count, SEEK_SET)
        return true
    }
}
