// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A temporary folder of one test, removed with this object.
package final class TemporaryFolder: Sendable {
    package let path: String

    package init() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("pinproxy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Writes a file (mode 0600) and creates its parent folders.
    ///
    /// - Returns: its path.
    @discardableResult
    package func write(_ text: String, as name: String) throws -> String {
        try write(bytes: Array(text.utf8), as: name)
    }

    /// Writes a file that can be run. Another program writes it: a descriptor of this process would be in the children that other
    /// tests start at this moment, and a file that somebody may write to cannot be run (ETXTBSY, execve(2)).
    ///
    /// - Returns: its path.
    package func writeProgram(_ text: String, as name: String, mode: UInt32 = 0o700) throws -> String {
        let source = try write(text, as: ".source-\(name)")
        let target = "\(path)/\(name)"
        let octal = String(mode, radix: 8)
        let made = try Programs.run("install", ["-m", octal, "--", source, target])
        guard made.exitCode == 0 else { throw TimedOut("install: \(made.errors)") }
        return target
    }

    @discardableResult
    package func write(bytes: [UInt8], as name: String) throws -> String {
        let file = URL(fileURLWithPath: path).appendingPathComponent(name)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try Data(bytes).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        return file.path
    }

    /// Asks the kernel to forget the contents of all files, so that they are read from the disk the next time. A
    /// filesystem in memory keeps them.
    ///
    /// - Returns: the number of files.
    package func dropFromPageCache() throws -> Int {
        var count = 0
        for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
            let descriptor = open("\(path)/\(name)", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { continue }
            defer { close(descriptor) }
            // Only what is written can be dropped.
            guard fsync(descriptor) == 0, posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0 else { continue }
            count += 1
        }
        return count
    }
}
