// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore

/// The folders that responses are saved to, with their sizes: no response makes a folder exceed the quota of its rule.
///
/// Used on the thread for files alone, because it waits for the disk.
final class DownloadFolders {
    /// Identifies a folder independently of its path.
    private struct Identity: Hashable {
        var device: UInt
        var inode: UInt
    }

    private var folders: [Identity: DownloadFolder] = [:]

    /// The folder at a path.
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

/// One folder: the sizes of its files, counted again when they may have changed, and the space reserved for downloads.
final class DownloadFolder {
    private let path: String
    /// Bytes of the files at the last count, and of files published since.
    private var held = 0
    /// Bytes reserved for downloads: their length if it is known, else their size by now.
    private var promised = 0
    private var counted: (at: UInt64, change: timespec)?

    /// The age after which a count is repeated, because files that other programs extend do not change the folder
    /// itself.
    private static let validity: UInt64 = 10_000_000_000

    init(path: String) {
        self.path = path
    }

    /// Reserves space for a download.
    ///
    /// - Returns: false when the folder would exceed the quota; nothing is reserved then.
    /// - Throws: when the files cannot be counted.
    func reserve(_ bytes: Int, quota: Int) throws(IOFailure) -> Bool {
        if counted.map({ Clock.monotonic &- $0.at > Self.validity }) ?? true { try count() }
        if !hasRoom(bytes, quota), try hasChanged() { try count() }
        guard hasRoom(bytes, quota) else { return false }
        promised += bytes
        return true
    }

    /// A download was given up.
    func release(_ bytes: Int) { promised -= bytes }

    /// A download has become a file of that size.
    func publish(_ size: Int, reserved: Int) {
        promised -= reserved
        held += size
    }

    private func hasRoom(_ bytes: Int, _ quota: Int) -> Bool {
        let (sum, overflows) = (held + promised).addingReportingOverflow(bytes)
        return !overflows && sum <= quota
    }

    /// Whether files were added or removed since the count.
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

    /// Adds up the regular files directly in the folder.
    private func count() throws(IOFailure) {
        // Read first, so that changes during the count are noticed afterwards.
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
            // Another program may remove a file at any time.
            guard isThere, status.st_mode & S_IFMT == S_IFREG else { continue }
            let (next, overflows) = sum.addingReportingOverflow(Int(status.st_size))
            sum = overflows ? Int.max / 2 : min(next, Int.max / 2)
        }
        held = sum
        counted = (Clock.monotonic, change)
    }
}
