// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// A file that is written for the user of a command, at the path that this user gave.
///
/// A regular file is replaced in one step, so that it is never incomplete; a symbolic link stays, and the file that it leads to is
/// replaced. Everything else (a device, a FIFO, a file that is this process's own output) is opened and written to. All members block
/// on the disk, and opening a FIFO waits for its reader: never on a loop.
package struct OutputFile: Sendable {
    /// The users who may read the contents.
    package enum Contents: Sendable {
        /// Whoever the umask lets: mode 0666 without its bits.
        case ordinary
        /// Every user, because a service reads the file under a user of its own: mode 0644, whatever the umask.
        case shared
        /// The owner alone: mode 0600, also where the file that is replaced had another one.
        case secret

        fileprivate var mode: mode_t {
            switch self {
            case .ordinary: 0o666 & ~Self.umask
            case .shared: 0o644
            case .secret: 0o600
            }
        }

        /// The mask of this process, which can only be read by setting it (umask(2)).
        private static let umask: mode_t = {
            let mask = Glibc.umask(0o077)
            _ = Glibc.umask(mask)
            return mask
        }()
    }

    /// The path as it was given.
    package let path: String
    /// The path of the regular file, or of the file that does not exist yet, without symbolic links at its end; nil where
    /// the path is opened and written to.
    package let target: String?
    /// The regular file that is replaced.
    private var replaced: stat?
    /// The descriptor of this process that has the file already.
    private var ownOutput: Int32?

    /// Follows the links of a path, and looks at what it leads to. Nothing is made yet.
    ///
    /// - Throws: `EISDIR` for a folder; `EACCES` for a link that another user may have put there (see `checkOwner`);
    ///   the code of stat(2) where the path cannot be followed.
    package init(_ path: String) throws(IOFailure) {
        self.path = path
        var status = stat()
        guard !path.isEmpty, !path.utf8.contains(0) else { throw IOFailure(code: ENOENT, during: "open") }
        guard stat(path, &status) == 0 else {
            guard errno == ENOENT else { throw IOFailure(code: errno, during: "stat") }
            guard !path.hasSuffix("/") else { throw IOFailure(code: EISDIR, during: "open") }
            target = try Self.resolve(path)
            return
        }
        guard !Self.isKind(status, S_IFDIR) else { throw IOFailure(code: EISDIR, during: "open") }
        ownOutput = [STDOUT_FILENO, STDERR_FILENO].first { Self.isSame($0, status) }
        guard Self.isKind(status, S_IFREG), ownOutput == nil else {
            target = nil
            return
        }
        let end = try Self.resolve(path)
        var found = stat()
        // A link of /proc may lead to a file that has no path any more.
        guard lstat(end, &found) == 0, found.st_dev == status.st_dev, found.st_ino == status.st_ino else {
            target = nil
            return
        }
        replaced = found
        target = end
    }

    /// A file of the program's own beside another one: a link in its place is replaced, and nothing else than files and links is.
    ///
    /// - Throws: `EEXIST` for a device, a FIFO, a socket or a folder.
    package init(notFollowing path: String) throws(IOFailure) {
        self.path = path
        var status = stat()
        if lstat(path, &status) == 0 {
            guard FileMove.isReplaceable(status) else { throw IOFailure(code: EEXIST, during: "open") }
            if Self.isKind(status, S_IFREG) { replaced = status }
        }
        target = path
    }

    // MARK: Writing

    /// Replaces the file when all bytes are on the disk, or writes the bytes to what is no regular file.
    package func write(_ bytes: [UInt8], as contents: Contents) throws(IOFailure) {
        guard let target else {
            let descriptor = try open()
            var code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
            if close(descriptor) != 0, code == 0 { code = errno }
            guard code == 0 else { throw IOFailure(code: code, during: "write") }
            return
        }
        let draft = Self.draft(beside: target)
        do throws(IOFailure) {
            try Self.fill(draft, bytes)
            prepare(draft, as: contents)
            guard rename(draft, target) == 0 else { throw IOFailure(code: errno, during: "rename") }
        } catch {
            unlink(draft)
            throw error
        }
        try FileMove.synchronizeFolder(of: target)
    }

    /// Makes a file that does not exist yet, under its name when all bytes are on the disk.
    ///
    /// - Throws: `EEXIST` for any existing file or link, which is not changed.
    package static func create(_ path: String, _ bytes: [UInt8], as contents: Contents) throws(IOFailure) {
        var status = stat()
        guard lstat(path, &status) != 0 else { throw IOFailure(code: EEXIST, during: "open") }
        let draft = draft(beside: path)
        do throws(IOFailure) {
            try fill(draft, bytes)
            chmod(draft, contents.mode)
            try FileMove.move(draft, to: path, replacing: false)
        } catch {
            unlink(draft)
            throw error
        }
        try FileMove.synchronizeFolder(of: path)
    }

    /// Opens what is no regular file, for writing. Nothing is made, and a FIFO without a reader is waited for.
    ///
    /// - Returns: a descriptor, which the caller closes.
    package func open() throws(IOFailure) -> Int32 {
        let descriptor =
            ownOutput.map { fcntl($0, F_DUPFD_CLOEXEC, 3) }
            ?? Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_TRUNC)
        guard descriptor >= 0 else { throw IOFailure(code: errno, during: "open") }
        return descriptor
    }

    /// Gives a whole file that will take the place of `target` its mode; where it replaces a file that one's mode and, if this user
    /// may, owner and group.
    package func prepare(_ draft: String, as contents: Contents) {
        guard let replaced else {
            chmod(draft, contents.mode)
            return
        }
        // A failure leaves it to this user, with a mode that lets in nobody who was not let in before.
        if replaced.st_uid != geteuid() || replaced.st_gid != getegid() {
            _ = lchown(draft, replaced.st_uid, replaced.st_gid)
        }
        var mode = contents.mode
        if case .secret = contents {} else { mode = replaced.st_mode & 0o777 }
        chmod(draft, mode)
    }

    private static func fill(_ draft: String, _ bytes: [UInt8]) throws(IOFailure) {
        let file = try GrowingFile(creating: draft)
        try file.append(bytes)
        guard file.synchronize() else { throw IOFailure(code: EIO, during: "fdatasync") }
    }

    /// Hidden, so that no reader of the folder takes it for a file of its own.
    private static func draft(beside path: String) -> String {
        let random = (0..<2).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()
        return "\(folder(of: path))/.pinproxy-\(random).part"
    }

    // MARK: Paths

    /// The folder of a path: `.` for a name alone.
    package static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func isKind(_ status: stat, _ kind: mode_t) -> Bool { status.st_mode & S_IFMT == kind }

    private static func isSame(_ descriptor: Int32, _ status: stat) -> Bool {
        var own = stat()
        return fstat(descriptor, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino
    }

    /// As many links are followed as in Linux (path_resolution(7)).
    private static let linksAtMost = 40

    /// The path behind the symbolic links at the end of a path, whether there is a file or not.
    private static func resolve(_ path: String) throws(IOFailure) -> String {
        var path = path
        for _ in 0...linksAtMost {
            var status = stat()
            guard lstat(path, &status) == 0 else {
                guard errno == ENOENT else { throw IOFailure(code: errno, during: "lstat") }
                return path
            }
            guard isKind(status, S_IFLNK) else { return path }
            try checkOwner(of: path, status)
            var target = [CChar](repeating: 0, count: Int(PATH_MAX))
            let count = readlink(path, &target, target.count)
            guard count > 0, count < target.count else {
                throw IOFailure(code: count < 0 ? errno : ENAMETOOLONG, during: "readlink")
            }
            let bytes = target[..<count].map { UInt8(bitPattern: $0) }
            let text = String(decoding: bytes, as: UTF8.self)
            guard text.utf8.elementsEqual(bytes) else { throw IOFailure(code: EILSEQ, during: "readlink") }
            path = text.hasPrefix("/") ? text : "\(folder(of: path))/\(text)"
        }
        throw IOFailure(code: ELOOP, during: "open")
    }

    /// Follows no link that another user has put into a folder like /tmp: the rule of the kernel for open(2) (protected_symlinks,
    /// proc(5)), which does not see that this link is followed.
    private static func checkOwner(of link: String, _ status: stat) throws(IOFailure) {
        var parent = stat()
        let sticky = S_ISVTX | S_IWOTH
        guard stat(folder(of: link), &parent) == 0, parent.st_mode & sticky == sticky else { return }
        guard status.st_uid == geteuid() || status.st_uid == parent.st_uid else {
            throw IOFailure(code: EACCES, during: "readlink")
        }
    }
}
