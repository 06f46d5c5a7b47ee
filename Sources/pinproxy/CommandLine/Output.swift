// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import StrictJSON

/// Standard output and standard error, each text in one write as far as the system allows. Outside texts in them are made
/// legible where they are put in; of what would be forgotten there, no character reaches a terminal that steers it without ESC.
enum Output {
    /// Writes the result of a command. A closed reader (`| head`) is no error; a full disk is one.
    static func standard(_ text: String) throws(CommandFailure) {
        let code = DescriptorOutput.write(text.safeForTerminal, to: STDOUT_FILENO)
        guard code == 0 || code == EPIPE else {
            throw CommandFailure(.failed, "cannot write to the standard output: \(String(cString: strerror(code)))")
        }
    }

    /// Writes a message beside the result. A failure has no place where it could be reported.
    static func error(_ text: String) {
        DescriptorOutput.write(text.safeForTerminal, to: STDERR_FILENO)
    }
}
