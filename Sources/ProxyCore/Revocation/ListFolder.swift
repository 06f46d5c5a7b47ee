// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ServerTrust

/// The folder of fetched revocation lists, for the next start: one file in DER a list, `KEY.crl`. What is read from it is verified
/// like what was fetched. All members block on the disk.
struct ListFolder: Sendable {
    let path: String

    private static let suffix = ".crl"
    private static let newSuffix = ".new"

    /// Makes the folder where it is missing, and makes sure that it is this user's alone to write.
    func prepare() throws(IOFailure) {
        try FileMove.makeFolders(above: path)
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw IOFailure(code: errno, during: "mkdir") }
        var status = stat()
        guard stat(path, &status) == 0 else { throw IOFailure(code: errno, during: "stat") }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw IOFailure(code: ENOTDIR, during: "the folder is none") }
        guard status.st_uid == geteuid() else {
            throw IOFailure(code: EPERM, during: "the folder belongs to another user")
        }
        guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw IOFailure(code: EPERM, during: "others may write to the folder (chmod 700 ends that)")
        }
        for name in names(Self.newSuffix) { unlink("\(path)/\(name)") }
    }

    private func file(_ key: RevocationListNeed.Key) -> String { "\(path)/\(key.hexadecimal)\(Self.suffix)" }

    /// The bytes of a list; nil without a readable file of that length.
    func read(_ key: RevocationListNeed.Key, limit: Int) -> [UInt8]? {
        try? FileContents.read(file(key), limit: limit).get()
    }

    /// Writes a list: its file has the old content or the new one, whatever happens.
    func write(_ bytes: [UInt8], for key: RevocationListNeed.Key) throws(IOFailure) {
        let draft = "\(path)/\(key.hexadecimal)\(Self.newSuffix)"
        unlink(draft)
        do throws(IOFailure) {
            let output = try GrowingFile(creating: draft)
            try output.append(bytes)
            guard output.synchronize() else { throw IOFailure(code: EIO, during: "fdatasync") }
            try FileMove.move(draft, to: file(key), replacing: true)
        } catch {
            unlink(draft)
            throw error
        }
    }

    func remove(_ key: RevocationListNeed.Key) { unlink(file(key)) }

    /// Removes the files that have not been written for the longest time until the others are within the limits.
    func trim(to limits: RevocationListStore.Limits) {
        var files: [(name: String, size: Int, time: Int)] = names(Self.suffix).compactMap { name in
            var status = stat()
            guard lstat("\(path)/\(name)", &status) == 0 else { return nil }
            return (name, Int(status.st_size), status.st_mtim.tv_sec)
        }
        files.sort { ($0.time, $0.name) > ($1.time, $1.name) }
        var bytes = files.reduce(0) { $0 + $1.size }
        while files.count > limits.lists || bytes > limits.bytes, let oldest = files.popLast() {
            bytes -= oldest.size
            unlink("\(path)/\(oldest.name)")
        }
    }

    private func names(_ suffix: String) -> [String] {
        ((try? FileContents.names(inFolder: path).get()) ?? []).filter { name in
            name.hasSuffix(suffix) && name.utf8.count == 64 + suffix.utf8.count
        }
    }
}
