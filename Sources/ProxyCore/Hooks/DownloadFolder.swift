import Glibc
import IOCore

/// The folders that answers go to, each with what it holds: no answer makes one hold more than its rule's quota.
///
/// For the thread for files alone: it waits for the disk.
final class DownloadFolders {
    /// The same folder under whatever path.
    private struct Identity: Hashable {
        var device: UInt
        var inode: UInt
    }

    private var folders: [Identity: DownloadFolder] = [:]

    /// The folder at that path.
    func folder(at path: String) throws(IOFailure) -> DownloadFolder {
        var status = stat()
        guard stat(path, &status) == 0 else { throw IOFailure(code: errno, during: "stat") }
        let identity = Identity(device: UInt(status.st_dev), inode: UInt(status.st_ino))
        if let known = folders[identity] { return known }
        let folder = DownloadFolder(path: path)
        folders[identity] = folder
        return folder
    }
}

/// What one folder holds: the files in it, counted when that may have changed, and what is on its way into it.
final class DownloadFolder {
    private let path: String
    /// Bytes of the files that had a name when they were counted, and of those that got one since.
    private var held = 0
    /// Bytes that answers on their way will have, as far as that is known, or have by now.
    private var promised = 0
    private var counted: (at: UInt64, change: timespec)?

    /// Files that others let grow change nothing of the folder itself.
    private static let validity: UInt64 = 10_000_000_000

    init(path: String) {
        self.path = path
    }

    /// Sets room apart for an answer.
    ///
    /// - Returns: false when the folder would hold more than the quota; then nothing is set apart.
    /// - Throws: when what is there cannot be counted.
    func reserve(_ bytes: Int, quota: Int) throws(IOFailure) -> Bool {
        if counted.map({ Clock.monotonic &- $0.at > Self.validity }) ?? true { try count() }
        if !hasRoom(bytes, quota), try hasChanged() { try count() }
        guard hasRoom(bytes, quota) else { return false }
        promised += bytes
        return true
    }

    /// An answer on its way comes to nothing.
    func release(_ bytes: Int) { promised -= bytes }

    /// An answer on its way has become a file of that size.
    func publish(_ size: Int, reserved: Int) {
        promised -= reserved
        held += size
    }

    private func hasRoom(_ bytes: Int, _ quota: Int) -> Bool {
        let (sum, overflows) = (held + promised).addingReportingOverflow(bytes)
        return !overflows && sum <= quota
    }

    /// Whether a file has come or gone since the count.
    private func hasChanged() throws(IOFailure) -> Bool {
        guard let change = counted?.change else { return true }
        let now = try lastChange()
        return now.tv_sec != change.tv_sec || now.tv_nsec != change.tv_nsec
    }

    private func lastChange() throws(IOFailure) -> timespec {
        var status = stat()
        guard stat(path, &status) == 0 else { throw IOFailure(code: errno, during: "stat") }
        return status.st_mtim
    }

    /// Adds up the regular files that stand in the folder itself.
    private func count() throws(IOFailure) {
        // First: what comes while it is counted is seen as a change afterwards.
        let change = try lastChange()
        guard let stream = opendir(path) else { throw IOFailure(code: errno, during: "opendir") }
        defer { closedir(stream) }
        var sum = 0
        while let entry = readdir(stream) {
            var status = stat()
            let isThere = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) {
                    fstatat(dirfd(stream), $0, &status, AT_SYMLINK_NOFOLLOW) == 0
                }
            }
            // Another program may take a file away at any time.
            guard isThere, status.st_mode & S_IFMT == S_IFREG else { continue }
            let (next, overflows) = sum.addingReportingOverflow(Int(status.st_size))
            sum = overflows ? Int.max / 2 : min(next, Int.max / 2)
        }
        held = sum
        counted = (Clock.monotonic, change)
    }
}
