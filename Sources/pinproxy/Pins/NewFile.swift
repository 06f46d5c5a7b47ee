// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore

/// A file that is created, and never overwritten.
enum NewFile {
    /// - Parameter mode: the permissions of the file.
    static func create(_ path: String, _ text: String, mode: mode_t) throws(CommandFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)
        guard descriptor >= 0 else {
            let code = errno
            throw CommandFailure(
                .failed,
                "\(Arguments.shown(path)) cannot be made: \(String(cString: strerror(code)))",
                remedy: code == EEXIST ? "nothing is ever overwritten: name a file that does not exist" : ""
            )
        }
        // The data must be on the disk before the pin is used: a pin without its key is no backup.
        var code = DescriptorOutput.write(text, to: descriptor)
        if code == 0, fsync(descriptor) != 0 { code = errno }
        if close(descriptor) != 0, code == 0 { code = errno }
        guard code == 0 else {
            unlink(path)
            throw CommandFailure(
                .failed,
                "\(Arguments.shown(path)) cannot be written: \(String(cString: strerror(code)))"
            )
        }
    }
}
