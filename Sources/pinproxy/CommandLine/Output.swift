import CShims
import Glibc

/// Standard output and standard error, each text in one write as far as the system allows.
enum Output {
    /// What was asked for. A reader that has gone (`| head`) is no error; a full disk is.
    static func standard(_ text: String) throws(CommandFailure) {
        let code = write(text, to: STDOUT_FILENO)
        guard code == 0 || code == EPIPE else {
            throw CommandFailure(.failed, "cannot write to the standard output: \(String(cString: strerror(code)))")
        }
    }

    /// What is to be noticed beside it. There is nobody to tell when that fails.
    static func error(_ text: String) {
        _ = write(text, to: STDERR_FILENO)
    }

    /// - Returns: 0, or the `errno` value of the failure.
    private static func write(_ text: String, to descriptor: Int32) -> Int32 {
        var text = text
        return text.withUTF8 { all in
            var rest = all[...]
            while !rest.isEmpty {
                let part = UnsafeBufferPointer(rebasing: rest)
                let written = pinproxy_write_file(descriptor, part.baseAddress, part.count)
                if written == -Int(EAGAIN) {
                    var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    poll(&waiting, 1, -1)
                } else if written <= 0 {
                    return Int32(-written)
                } else {
                    rest = rest.dropFirst(written)
                }
            }
            return 0
        }
    }
}
