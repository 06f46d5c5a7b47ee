import Glibc

/// A file of this user's alone that grows at its end. All members wait for the disk: never on a loop.
package final class GrowingFile {
    package let path: String
    private let descriptor: Int32
    package private(set) var size: Int

    /// Makes a new file; what stands under that name already is left alone.
    package init(creating path: String) throws(IOFailure) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        size = 0
        guard descriptor >= 0 else { throw IOFailure(code: errno, during: "open") }
        // Nobody has it yet: no wait, and only a file system without locks refuses.
        flock(descriptor, LOCK_EX | LOCK_NB)
    }

    /// Opens a file that an earlier process of this user has left: a regular one, under no second name, that nobody
    /// else has open through this type.
    package init(reopening path: String) throws(IOFailure) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            size = 0
            throw IOFailure(code: errno, during: "open")
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
            status.st_nlink == 1, flock(descriptor, LOCK_EX | LOCK_NB) == 0, lseek(descriptor, 0, SEEK_END) >= 0
        else {
            close(descriptor)
            size = 0
            throw IOFailure(code: EPERM, during: "open")
        }
        size = Int(status.st_size)
    }

    deinit { close(descriptor) }

    package func append(_ bytes: [UInt8]) throws(IOFailure) {
        let code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
        guard code == 0 else { throw IOFailure(code: code, during: "write") }
        size += bytes.count
    }

    /// Waits until the bytes are on the disk.
    ///
    /// - Returns: false when the disk failed.
    package func synchronize() -> Bool { fdatasync(descriptor) == 0 }

    /// Drops what is behind the first `count` bytes.
    package func truncate(to count: Int) throws(IOFailure) {
        guard ftruncate(descriptor, count) == 0, lseek(descriptor, 0, SEEK_END) >= 0 else {
            throw IOFailure(code: errno, during: "ftruncate")
        }
        size = count
    }
}

/// What is done with whole files. All of it waits for the disk.
package enum FileMove {
    /// Moves a file so that nobody ever sees a part of it under the new name, to another file system too.
    ///
    /// - Parameter replacing: whether a file of that name may be replaced; otherwise one is left alone, and `EEXIST` is
    ///   thrown, also when it appears at this moment.
    package static func move(_ source: String, to target: String, replacing: Bool) throws(IOFailure) {
        if replacing {
            if rename(source, target) == 0 { return }
            guard errno == EXDEV else { throw IOFailure(code: errno, during: "rename") }
        } else {
            if link(source, target) == 0 {
                unlink(source)
                return
            }
            // Another file system, or one that knows no second names.
            guard [EXDEV, EPERM, EOPNOTSUPP].contains(errno) else { throw IOFailure(code: errno, during: "link") }
            var status = stat()
            if lstat(target, &status) == 0 { throw IOFailure(code: EEXIST, during: "link") }
        }
        let beside = "\(target).\(String(UInt64.random(in: 0 ... .max), radix: 36)).part"
        do throws(IOFailure) {
            try copy(source, to: beside)
            guard (replacing ? rename(beside, target) : renameToNew(beside, target)) == 0 else {
                throw IOFailure(code: errno, during: "rename")
            }
        } catch {
            unlink(beside)
            throw error
        }
        unlink(source)
    }

    private static func renameToNew(_ source: String, _ target: String) -> Int32 {
        if link(source, target) == 0 { return unlink(source) }
        guard errno == EPERM || errno == EOPNOTSUPP else { return -1 }
        // Without second names the name is taken by an empty file first, which is then replaced.
        let taken = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard taken >= 0 else { return -1 }
        close(taken)
        return rename(source, target)
    }

    private static func copy(_ source: String, to target: String) throws(IOFailure) {
        let input = open(source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard input >= 0 else { throw IOFailure(code: errno, during: "open") }
        defer { close(input) }
        let output = try GrowingFile(creating: target)
        var piece = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(input, &piece, piece.count)
            if count == 0 { return }
            if count > 0 {
                try output.append(count == piece.count ? piece : Array(piece[..<count]))
            } else if errno != EINTR {
                throw IOFailure(code: errno, during: "read")
            }
        }
    }

    package static func remove(_ path: String) { unlink(path) }

    /// Makes the folders above a path that are not there.
    package static func makeFolders(above path: String) throws(IOFailure) {
        var end = path.startIndex
        while let slash = path[end...].firstIndex(of: "/") {
            end = path.index(after: slash)
            let folder = String(path[..<slash])
            guard !folder.isEmpty, mkdir(folder, 0o755) != 0, errno != EEXIST else { continue }
            throw IOFailure(code: errno, during: "mkdir")
        }
    }
}
