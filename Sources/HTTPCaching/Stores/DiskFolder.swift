// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
package import IOCore

/// The folder of a disk store: `index.sqlite`, `lock`, complete bodies in `bodies/xx`, and bodies that are being
/// written in `partial`. All members block on the disk.
struct DiskFolder: Sendable {
    let path: String

    var index: String { "\(path)/index.sqlite" }
    private var partial: String { "\(path)/partial" }
    private var bodies: String { "\(path)/bodies" }

    private static let hexadecimal = Array("0123456789abcdef".utf8)

    private static func name(_ number: UInt64) -> String {
        let digits = (0..<16).map { hexadecimal[Int(number >> UInt64((15 - $0) * 4) & 15)] }
        return String(decoding: digits, as: UTF8.self)
    }

    /// The path of a complete body.
    func body(_ number: UInt64) -> String {
        let name = Self.name(number)
        return "\(bodies)/\(name.prefix(2))/\(name)"
    }

    func partialBody(_ number: UInt64) -> String { "\(partial)/\(Self.name(number))" }

    /// Makes the folder, and those inside it, where they are missing.
    func prepare() throws(IOFailure) {
        try FileMove.makeFolders(above: path)
        for folder in [path, partial, bodies] {
            if mkdir(folder, 0o700) != 0, errno != EEXIST { throw IOFailure(code: errno, during: "mkdir") }
            try Self.checkOwnership(folder, followsLink: folder == path)
        }
    }

    /// Whether the descriptor holds the lock of the folder that has this path now: it may have been removed or renamed,
    /// and the one in its place may be another process's.
    func isLocked(by descriptor: Int32) -> Bool {
        var (own, current) = (stat(), stat())
        return fstat(descriptor, &own) == 0 && lstat("\(path)/lock", &current) == 0
            && own.st_dev == current.st_dev && own.st_ino == current.st_ino
    }

    /// Locks the folder for this process.
    ///
    /// - Returns: the descriptor that holds the lock.
    func takeLock() throws(IOFailure) -> Int32 {
        let descriptor = Glibc.open("\(path)/lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw IOFailure(code: errno, during: "open") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            close(descriptor)
            throw IOFailure(code: code, during: "flock")
        }
        // Removes the unfinished bodies of an earlier process.
        for name in Self.names(in: partial) { unlink("\(partial)/\(name)") }
        return descriptor
    }

    /// Unlocks the folder, also if a child process that has not begun its program yet has a copy of the descriptor.
    func unlock(_ descriptor: Int32) {
        guard descriptor >= 0 else { return }
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// The owner must be this user: a user with write access could forge the responses of pinned servers.
    private static func checkOwnership(_ folder: String, followsLink: Bool) throws(IOFailure) {
        var status = stat()
        guard (followsLink ? stat(folder, &status) : lstat(folder, &status)) == 0 else {
            throw IOFailure(code: errno, during: "stat")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw IOFailure(code: ENOTDIR, during: "the folder, or one inside it, is none")
        }
        guard status.st_uid == geteuid() else {
            throw IOFailure(code: EPERM, during: "the folder, or one inside it, belongs to another user")
        }
        guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw IOFailure(code: EPERM, during: "others may write to the folder (chmod 700 ends that)")
        }
    }

    /// Makes the index readable for this user only, whatever the folder's mode. SQLite follows links, and would wait for
    /// the writer of a FIFO.
    func secureIndex() throws(IOFailure) {
        for name in [index] + Self.companions.map({ index + $0 }) {
            var status = stat()
            guard lstat(name, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
                throw IOFailure(code: EINVAL, during: "the index, or a file beside it, is none")
            }
        }
        let descriptor = Glibc.open(index, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw IOFailure(code: errno, during: "open") }
        defer { close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else { throw IOFailure(code: errno, during: "fchmod") }
    }

    /// Gives a complete body its final name.
    func publish(_ number: UInt64) throws(IOFailure) {
        let target = body(number)
        if rename(partialBody(number), target) == 0 { return }
        guard errno == ENOENT else { throw IOFailure(code: errno, during: "rename") }
        mkdir("\(bodies)/\(Self.name(number).prefix(2))", 0o700)
        guard rename(partialBody(number), target) == 0 else { throw IOFailure(code: errno, during: "rename") }
    }

    func remove(_ number: UInt64) { unlink(body(number)) }

    /// The existing bodies, one of the 256 folders at a time.
    func bodies(inFolder folder: Int) -> [UInt64] {
        let high = String(decoding: [Self.hexadecimal[folder >> 4], Self.hexadecimal[folder & 15]], as: UTF8.self)
        return Self.names(in: "\(bodies)/\(high)").compactMap { UInt64($0, radix: 16) }
    }

    /// Removes the index, so that a new one is made; the sweep removes bodies without an entry later.
    func removeIndex() {
        for suffix in [""] + Self.companions { unlink(index + suffix) }
    }

    /// The suffixes of files that SQLite makes beside the index.
    private static let companions = ["-wal", "-shm", "-journal"]

    private static func names(in folder: String) -> [String] {
        guard let stream = opendir(folder) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}

/// A body that is being written, under a temporary name, with its checksum. For one thread; all members block on the
/// disk.
final class BodyFileWriter {
    let number: UInt64
    let path: String
    /// nil at the end.
    private var file: SharedFile?
    private var hash = XXH64()
    private(set) var length = 0

    init(_ number: UInt64, in folder: DiskFolder) throws(IOFailure) {
        self.number = number
        path = folder.partialBody(number)
        file = try SharedFile(path, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
    }

    /// Removes an unfinished file.
    deinit { abandon() }

    func append(_ bytes: [UInt8]) throws(IOFailure) {
        let descriptor = file?.descriptor ?? -1
        let code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
        guard code == 0 else { throw IOFailure(code: code, during: "write") }
        hash.update(bytes.span)
        length += bytes.count
    }

    /// Finishes the body, which keeps its temporary name until it is committed.
    func finish() -> StoredFile {
        file = nil
        return StoredFile(number: number, length: length, checksum: hash.value)
    }

    func abandon() {
        guard file != nil else { return }
        file = nil
        unlink(path)
    }
}

/// A complete body, open for reading; all its readers share it. Its descriptor can also be used with `sendfile` at an
/// offset: the file never changes, and stays readable while it is open, even after its removal.
public final class StoredBody: BodyFile, Sendable {
    private let file: SharedFile
    /// Closed with the object. Its position is not used: the readers share it.
    public let descriptor: Int32
    /// The length in bytes.
    public let length: Int
    let status: FileStatus

    /// The identity of a file, to recognise a file that was verified before.
    struct FileStatus: Hashable, Sendable {
        let inode: UInt64
        let changed: Int
        let changedNanoseconds: Int

        fileprivate init(_ status: stat) {
            inode = UInt64(status.st_ino)
            changed = status.st_ctim.tv_sec
            changedNanoseconds = status.st_ctim.tv_nsec
        }
    }

    /// Throws when the file cannot be opened, and when it has another length.
    init(_ stored: StoredFile, in folder: DiskFolder) throws(IOFailure) {
        file = try SharedFile(folder.body(stored.number), O_RDONLY)
        descriptor = file.descriptor
        length = stored.length
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw IOFailure(code: errno, during: "fstat") }
        guard status.st_mode & S_IFMT == S_IFREG, Int(status.st_size) == stored.length else {
            throw IOFailure(code: EINVAL, during: "fstat")
        }
        self.status = FileStatus(status)
    }

    /// Whether the folder still has this file, unchanged, under the stored one's name.
    func isCurrent(_ stored: StoredFile, in folder: DiskFolder) -> Bool {
        var status = stat()
        return lstat(folder.body(stored.number), &status) == 0 && FileStatus(status) == self.status
            && stored.length == length
    }

    /// Reads the whole file; the page cache then serves the next reads.
    func has(_ checksum: UInt64) -> Bool {
        var hash = XXH64()
        var offset = 0
        while offset < length {
            guard let piece = read(at: offset, count: 1 << 18) else { return false }
            hash.update(piece.span)
            offset += piece.count
        }
        return hash.value == checksum
    }

    package func bytes(_ range: Range<Int>) -> FileBytes { FileBytes(descriptor, range.clamped(to: 0..<length)) }

    package func read(at offset: Int, count: Int) -> [UInt8]? {
        let wanted = max(0, min(count, length - offset))
        guard wanted > 0 else { return [] }
        return DescriptorInput.read(descriptor, at: offset, count: wanted)
    }
}

/// The bodies that are open, by their files: a body that is wanted again while it is open takes no other
/// descriptor. They are closed with their last readers.
struct OpenBodies {
    private struct Entry {
        weak var body: StoredBody?
    }

    private var entries: [StoredFile: Entry] = [:]
    /// The number of entries at which those of closed bodies are removed.
    private var limit = 64

    subscript(file: StoredFile) -> StoredBody? { entries[file]?.body }

    mutating func insert(_ body: StoredBody, _ file: StoredFile) {
        if entries.count >= limit {
            entries = entries.filter { $0.value.body != nil }
            limit = max(64, 2 * entries.count)
        }
        entries[file] = Entry(body: body)
    }
}
