// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// A file that is invisible until it is published. Otherwise it is removed with this object, even when the process is
/// killed. On file systems without unnamed files it has a hidden name meanwhile.
///
/// All members block on the disk: never on a loop. The last reference must be released elsewhere, too.
package final class UnnamedFile {
    private let descriptor: Int32
    /// The hidden path, if the file needs a name.
    private var hiddenPath: String?
    package private(set) var size = 0

    /// - Parameters:
    ///   - folder: the folder for publication: it cannot get a name in another file system.
    ///   - mode: the mode of the file, before the umask is applied.
    ///   - isHidden: whether to use a hidden name, as on file systems without unnamed files.
    package init(in folder: String, mode: UInt32 = 0o600, isHidden: Bool = false) throws(IOFailure) {
        // An unnamed file gets its name by way of /proc (`pinproxy_link_unnamed`).
        let needsName = isHidden || access("/proc/self/fd", X_OK) != 0
        let unnamed = needsName ? -EOPNOTSUPP : pinproxy_open_unnamed(folder, mode)
        if unnamed >= 0 {
            descriptor = unnamed
            return
        }
        guard [EOPNOTSUPP, EISDIR, EINVAL].contains(-unnamed) else {
            throw IOFailure(code: -unnamed, during: "open")
        }
        let random = (0..<2).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()
        let path = "\(folder)/.pinproxy-\(random).part"
        descriptor = pinproxy_open_new(path, mode)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "open") }
        hiddenPath = path
    }

    deinit {
        if let hiddenPath { unlink(hiddenPath) }
        close(descriptor)
    }

    /// Removes the hidden name, if there is one: the file will never be published.
    package func forgetName() {
        if let hiddenPath { unlink(hiddenPath) }
        hiddenPath = nil
    }

    package func append(_ bytes: [UInt8]) throws(IOFailure) {
        let code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
        guard code == 0 else { throw IOFailure(code: code, during: "write") }
        size += bytes.count
    }

    /// Reads up to `count` bytes at an offset; fewer only at the end.
    package func read(at offset: Int, count: Int) throws(IOFailure) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var got = 0
        while got < count {
            let result = bytes.withUnsafeMutableBytes { room in
                pread(descriptor, room.baseAddress! + got, count - got, offset + got)
            }
            if result < 0 {
                if errno == EINTR { continue }
                throw IOFailure(code: errno, during: "pread")
            }
            if result == 0 { break }
            got += result
        }
        bytes.removeLast(count - got)
        return bytes
    }

    /// Syncs the file to the disk, then gives it a name, so that only the complete file is ever visible.
    ///
    /// - Throws: `EEXIST` when the name exists already; that file is not touched.
    package func publish(as path: String) throws(IOFailure) {
        guard fdatasync(descriptor) == 0 else { throw IOFailure(code: errno, during: "fdatasync") }
        if let hiddenPath {
            try FileMove.move(hiddenPath, to: path, replacing: false)
            self.hiddenPath = nil
            return
        }
        let result = pinproxy_link_unnamed(descriptor, path)
        guard result == 0 else { throw IOFailure(code: -result, during: "linkat") }
    }
}
