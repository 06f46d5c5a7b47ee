// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Operations on whole files. All of them block on the disk.
package enum FileMove {
    /// Moves a file, also to another file system. An incomplete file is never visible under the new name.
    ///
    /// - Parameter replacing: whether an existing regular file or symbolic link may be replaced; otherwise it is not touched, and
    ///   `EEXIST` is thrown, even if it was created at the same moment. What is neither is never replaced.
    package static func move(_ source: String, to target: String, replacing: Bool) throws(IOFailure) {
        if replacing {
            // A device, a FIFO or a socket is no file that could be replaced: other programs use it.
            var status = stat()
            guard lstat(target, &status) != 0 || isReplaceable(status) else {
                throw IOFailure(code: status.st_mode & S_IFMT == S_IFDIR ? EISDIR : EEXIST, during: "rename")
            }
            if rename(source, target) == 0 { return }
            guard errno == EXDEV else { throw IOFailure(code: errno, during: "rename") }
        } else {
            if link(source, target) == 0 {
                unlink(source)
                return
            }
            // Another file system, or one without hard links.
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

    /// Whether a rename may take the place of what has this status: of a regular file or a symbolic link.
    static func isReplaceable(_ status: stat) -> Bool { [S_IFREG, S_IFLNK].contains(status.st_mode & S_IFMT) }

    /// Waits until the new name of a moved file is on the disk. Before, a crash of the machine can bring the old file back.
    package static func synchronizeFolder(of path: String) throws(IOFailure) {
        let end = path.lastIndex(of: "/")
        let folder = end.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        // A folder that this user may write, but not read.
        if descriptor < 0, errno == EACCES { return }
        guard descriptor >= 0 else { throw IOFailure(code: errno, during: "open") }
        defer { close(descriptor) }
        // Some file systems cannot.
        guard fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP else {
            throw IOFailure(code: errno, during: "fsync")
        }
    }

    private static func renameToNew(_ source: String, _ target: String) -> Int32 {
        if link(source, target) == 0 { return unlink(source) }
        guard errno == EPERM || errno == EOPNOTSUPP else { return -1 }
        // Without hard links an empty file reserves the name first, and is then replaced.
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

    /// Creates the missing parent folders of a path.
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
