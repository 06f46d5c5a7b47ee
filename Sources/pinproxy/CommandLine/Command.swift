/// One command: what it is called, what it takes, what its help says, what it does.
struct Command: Sendable {
    /// A long option. With a `value` (its name in the usage) it takes one: `--config FILE`, `--config=FILE`.
    struct Option: Sendable {
        var name: String
        var value: String?
        var summary: String
        var isRequired = false
        /// One letter that means the same: `-o FILE`, `-oFILE`.
        var letter: Character?
        /// Whether it may be given more than once.
        var repeats = false

        /// As help and messages write it.
        var form: String {
            let long = "--\(name)" + (value.map { " \($0)" } ?? "")
            return letter.map { "-\($0), \(long)" } ?? long
        }
    }

    /// What stands behind the options.
    enum Operands: Sendable {
        case none
        case optional(String)
        case one(String)
        case two(String, String)
        case oneOrMore(String)
        case any(String)
        /// A program and its arguments: nothing behind its name is an option of ours.
        case program(String)
    }

    struct Example: Sendable {
        var line: String
        var meaning: String
    }

    /// One word, or two (`pins show`).
    var name: String
    var summary: String
    var options: [Option] = []
    var operands = Operands.none
    /// Paragraphs of the help.
    var explanation: [String] = []
    var examples: [Example] = []
    var action: @Sendable (Arguments) throws(CommandFailure) -> ExitCode

    /// The order in which the help lists them.
    static let all: [Command] = [
        .run, .check, .exec, .pinsShow, .pinsFrom, .pinsVerify, .pinsDiff, .pinsLearn, .fetch, .caInit, .caShow,
        .health, .cacheStats, .cacheList, .cachePurge, .demo, .version, .help,
    ]
}
