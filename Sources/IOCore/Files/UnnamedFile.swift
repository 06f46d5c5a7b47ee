import CShims
import Glibc

/// A file that nobody sees before it is published, and that is gone with this object otherwise, even when the process
/// is killed. On file systems that have no files without a name it has a hidden one meanwhile.
///
/// All members wait for the disk: never on a loop, and the last reference is to be let go elsewhere, too.
package final class UnnamedFile {
    private let descriptor: Int32
    /// Where it stands meanwhile, if it has to have a name.
    private var hiddenPath: String?
    package private(set) var size = 0

    /// - Parameters:
    ///   - folder: where it is to be published: a name in another file system cannot be given to it.
    ///   - mode: of the file, less what the umask takes away.
    ///   - isHidden: whether it has a hidden name meanwhile, as where the file system has no files without one.
    package init(in folder: String, mode: UInt32 = 0o600, isHidden: Bool = false) throws(IOFailure) {
        let unnamed = isHidden ? -EOPNOTSUPP : pinproxy_open_unnamed(folder, mode)
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

    /// Takes the name away that it may have had to be given: it will never be published.
    package func forgetName() {
        if let hiddenPath { unlink(hiddenPath) }
        hiddenPath = nil
    }

    package func append(_ bytes: [UInt8]) throws(IOFailure) {
        let code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
        guard code == 0 else { throw IOFailure(code: code, during: "write") }
        size += bytes.count
    }

    /// Up to `count` bytes from there; fewer at the end alone.
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

    /// Waits until the bytes are on the disk, then gives it a name: whoever sees the name sees the whole.
    ///
    /// - Throws: `EEXIST` when something has that name already, which is left alone.
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
