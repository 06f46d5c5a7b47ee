// SPDX-License-Identifier: Apache-2.0
/// The reason why a command ends early, for its user.
struct CommandFailure: Error {
    var exitCode: ExitCode
    /// The problem, without a full stop.
    var message: String
    /// The remedy; empty when the message contains it.
    var remedy: String
    /// The command whose usage is shown below the message.
    var usageOf: Command?

    init(_ exitCode: ExitCode, _ message: String, remedy: String = "", usageOf: Command? = nil) {
        self.exitCode = exitCode
        self.message = message
        self.remedy = remedy
        self.usageOf = usageOf
    }
}
