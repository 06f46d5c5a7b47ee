// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A private file of this user that grows at its end. All members block on the disk: never on a loop.
package final class GrowingFile {
    package let path: String
    private let descriptor: OwnedDescriptor
    package private(set) var size: Int

    /// Creates a new file; an existing file of that name is not touched.
    package init(creating path: String) throws(IOFailure) {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        descriptor = try OwnedDescriptor(open(path, flags, 0o600), of: "open")
        self.path = path
        size = 0
        // The lock is free, so that this does not block; it fails only on file systems without locks.
        flock(descriptor.number, LOCK_EX | LOCK_NB)
    }

    /// Opens a file of an earlier process of this user: a regular file without further hard links, and not open
    /// elsewhere through this type.
    package init(reopening path: String) throws(IOFailure) {
        let opened = try OwnedDescriptor(open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), of: "open")
        var status = stat()
        guard fstat(opened.number, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
            status.st_nlink == 1, flock(opened.number, LOCK_EX | LOCK_NB) == 0,
            lseek(opened.number, 0, SEEK_END) >= 0
        else { throw IOFailure(code: EPERM, during: "open") }
        self.path = path
        descriptor = opened
        size = Int(status.st_size)
    }

    /// Reads a file that was reopened.
    ///
    /// - Returns: `count` bytes; nil when they could not be read.
    package func read(at offset: Int, count: Int) -> [UInt8]? {
        DescriptorInput.read(descriptor.number, at: offset, count: count)
    }

    package func append(_ bytes: [UInt8]) throws(IOFailure) {
        let code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor.number) }
        guard code == 0 else { throw IOFailure(code: code, during: "write") }
        size += bytes.count
    }

    /// Syncs the file to the disk (fdatasync(2)).
    ///
    /// - Returns: false when the disk failed.
    package func synchronize() -> Bool { fdatasync(descriptor.number) == 0 }

    /// Truncates the file to `count` bytes.
    package func truncate(to count: Int) throws(IOFailure) {
        guard ftruncate(descriptor.number, count) == 0, lseek(descriptor.number, 0, SEEK_END) >= 0 else {
            throw IOFailure(code: errno, during: "ftruncate")
        }
        size = count
    }
}
