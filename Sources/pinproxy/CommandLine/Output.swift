import Glibc
import IOCore

/// Standard output and standard error, each text in one write as far as the system allows.
enum Output {
    /// What was asked for. A reader that has gone (`| head`) is no error; a full disk is.
    static func standard(_ text: String) throws(CommandFailure) {
        let code = DescriptorOutput.write(text, to: STDOUT_FILENO)
        guard code == 0 || code == EPIPE else {
            throw CommandFailure(.failed, "cannot write to the standard output: \(String(cString: strerror(code)))")
        }
    }

    /// What is to be noticed beside it. There is nobody to tell when that fails.
    static func error(_ text: String) {
        DescriptorOutput.write(text, to: STDERR_FILENO)
    }
}
