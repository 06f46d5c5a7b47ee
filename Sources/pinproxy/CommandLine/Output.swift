import Glibc
import IOCore

/// Standard output and standard error, each text in one write as far as the system allows.
enum Output {
    /// Writes the result of a command. A closed reader (`| head`) is no error; a full disk is one.
    static func standard(_ text: String) throws(CommandFailure) {
        let code = DescriptorOutput.write(text, to: STDOUT_FILENO)
        guard code == 0 || code == EPIPE else {
            throw CommandFailure(.failed, "cannot write to the standard output: \(String(cString: strerror(code)))")
        }
    }

    /// Writes a message beside the result. A failure has no place where it could be reported.
    static func error(_ text: String) {
        DescriptorOutput.write(text, to: STDERR_FILENO)
    }
}
