/// Why a command ends early, for the person who typed it.
struct CommandFailure: Error {
    var exitCode: ExitCode
    /// What is wrong, without a full stop.
    var message: String
    /// What to do about it; empty where the message says it.
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
