// SPDX-License-Identifier: Apache-2.0
/// A command: its name, options, help text and function.
struct Command: Sendable {
    /// A long option. With `value` (its name in the usage) it takes one: `--config FILE`, `--config=FILE`.
    struct Option: Sendable {
        var name: String
        var value: String?
        var summary: String
        var isRequired = false
        /// One letter with the same meaning: `-o FILE`, `-oFILE`.
        var letter: Character?
        /// Whether the option may be given more than once.
        var repeats = false
        /// Whether the option stands without its value, too: `--pin-file`, `--pin-file=FILE`. The next word is never its value.
        var mayStandAlone = false

        /// The long form for usages: `--config FILE`.
        var long: String { "--\(name)" + (value.map { mayStandAlone ? "[=\($0)]" : " \($0)" } ?? "") }

        /// The option in the form for help and messages.
        var form: String { letter.map { "-\($0), \(long)" } ?? long }
    }

    /// The words behind the options.
    enum Operands: Sendable {
        case none
        case optional(String)
        /// A command's name, of up to two words.
        case optionalCommand(String)
        case one(String)
        case two(String, String)
        case oneOrMore(String)
        case any(String)
        /// A program and its arguments: the words behind the program's name are never options of pinproxy.
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

    /// The commands in the order of the help.
    static let all: [Command] = [
        .run, .check, .checkRequest, .checkCredential, .exec, .pinsShow, .pinsFrom, .pinsVerify, .pinsDiff, .pinsLearn,
        .pinsAuthorities,
        .requestsLearn, .fetch,
        .caInit, .caShow,
        .health, .cacheStats, .cacheList, .cachePurge, .redirect, .demo, .version, .help,
    ]
}
