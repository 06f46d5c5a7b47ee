// SPDX-License-Identifier: Apache-2.0
import Glibc
package import StrictJSON

/// Whole files of configuration, read with a bound. Blocking disk I/O: at start, on reload and in commands, never on a
/// loop.
package enum FileContents {
    /// The reason why a file could not be read.
    package struct Fault: Error, Hashable, Sendable {
        package var message: String
        package var remedy: String
        /// `errno`; 0 where the file itself is not what it should be.
        package var code: Int32

        package init(message: String, remedy: String, code: Int32 = 0) {
            self.message = message
            self.remedy = remedy
            self.code = code
        }

        package func issue(file: String) -> DocumentIssue {
            DocumentIssue(file: file, message: message, remedy: remedy)
        }
    }

    /// There is no such file.
    static let missing = fault(ENOENT)

    /// Set while a load is recorded.
    @TaskLocal static var recorder: FileRecorder?

    /// Reads a regular file of at most `limit` bytes.
    package static func read(_ path: String, limit: Int) -> Result<[UInt8], Fault> {
        let contents = contents(path, limit: limit)
        recorder?.note(path, limit: limit, contents)
        return contents
    }

    private static func contents(_ path: String, limit: Int) -> Result<[UInt8], Fault> {
        guard !path.isEmpty, !path.utf8.contains(0) else {
            return .failure(Fault(message: "is not a path", remedy: "name a file"))
        }
        // Non-blocking, so that a named pipe in the folder cannot block the start before it is recognised.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return .failure(fault(errno)) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return .failure(fault(errno)) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            return .failure(Fault(message: "is not a regular file", remedy: "name a file"))
        }
        // The reported size plus one byte, which shows the end: most files need a single read.
        var room = max(0, min(status.st_size, limit)) + 1
        var bytes: [UInt8] = []
        while true {
            var code: Int32 = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: room) { chunk, count in
                repeat {
                    let read = Glibc.read(descriptor, chunk.baseAddress! + count, room - count)
                    if read < 0 { code = errno == EINTR ? 0 : errno }
                    if read == 0 { break }
                    if read > 0 { count += read }
                } while code == 0 && count < room
            }
            guard code == 0 else { return .failure(fault(code)) }
            if bytes.isEmpty { bytes = chunk } else { bytes += chunk }
            if bytes.count > limit {
                return .failure(Fault(message: "is longer than \(limit >> 10) KB", remedy: "name the right file"))
            }
            if chunk.count < room { return .success(bytes) }
            // The file has grown, or does not report its size.
            room = 64 << 10
        }
    }

    /// The names in a folder, sorted; hidden ones (a ConfigMap's `..data` among them) are left out.
    package static func names(inFolder path: String) -> Result<[String], Fault> {
        let names = listing(path)
        recorder?.note(path, names: names)
        return names
    }

    private static func listing(_ path: String) -> Result<[String], Fault> {
        guard let folder = opendir(path) else { return .failure(fault(errno)) }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = Glibc.readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return .success(names.sorted())
    }

    /// Whether nothing exists at that path.
    package static func isMissing(_ path: String) -> Bool {
        access(path, F_OK) != 0 && errno == ENOENT
    }

    package static func isFolder(_ path: String) -> Bool {
        var status = stat()
        let isFolder = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
        recorder?.note(path, isFolder: isFolder)
        return isFolder
    }

    /// Whether the file's mode lets every user read it.
    package static func isReadableByEveryone(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IROTH != 0
    }

    /// The users who may write to a file, or create files in a folder, besides its owner and group. (The owner decides
    /// about the members of the group.)
    package enum Openness {
        case closed
        /// A folder with the sticky bit: every user can create files, and can remove only their own.
        case sticky
        /// Every user.
        case open
    }

    /// Nothing can be written to a read-only mount: Kubernetes mounts the folder of a ConfigMap this way, with mode
    /// 0777.
    package static func openness(_ path: String) -> Openness {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IWOTH != 0 else { return .closed }
        var system = statvfs()
        // ST_RDONLY, statvfs(3).
        if statvfs(path, &system) == 0, system.f_flag & 1 != 0 { return .closed }
        return status.st_mode & S_IFMT == S_IFDIR && status.st_mode & S_ISVTX != 0 ? .sticky : .open
    }

    /// `path` taken relative to the folder of `file`.
    package static func resolve(_ path: String, relativeTo file: String) -> String {
        if path.hasPrefix("/") { return path }
        guard let slash = file.utf8.lastIndex(of: UInt8(ascii: "/")) else { return path }
        return String(file[...slash]) + path
    }

    private static func fault(_ code: Int32) -> Fault {
        let reason = String(cString: strerror(code))
        let remedy =
            switch code {
            case ENOENT: "name a file that exists"
            case EACCES: "let the user of this process read it"
            default: "make it readable"
            }
        return Fault(message: "cannot be read: \(reason)", remedy: remedy, code: code)
    }
}
