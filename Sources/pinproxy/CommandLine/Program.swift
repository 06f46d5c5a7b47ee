// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON

/// From the words of the command line to an exit code.
enum Program {
    static func run(_ words: [String]) -> ExitCode {
        do throws(CommandFailure) {
            return try dispatch(words[...])
        } catch {
            report(error)
            return error.exitCode
        }
    }

    private static func dispatch(_ words: ArraySlice<String>) throws(CommandFailure) -> ExitCode {
        guard let first = words.first else {
            Output.error(Help.overview)
            return .usage
        }
        switch first {
        case "--help", "-h":
            return try dispatch((["help"] + words.dropFirst())[...])
        case "--version", "-V":
            return try dispatch((["version"] + words.dropFirst())[...])
        default:
            break
        }
        let (command, rest) = try find(words)
        let arguments = try Arguments(rest, of: command)
        if arguments.wantsHelp {
            try Output.standard(Help.text(of: command))
            return .success
        }
        return try command.action(arguments)
    }

    /// The command that the first word or the first two name, and the words behind them.
    static func find(_ words: ArraySlice<String>) throws(CommandFailure) -> (Command, ArraySlice<String>) {
        for count in [2, 1] where words.count >= count {
            let name = words.prefix(count).joined(separator: " ")
            if let command = Command.all.first(where: { $0.name == name }) { return (command, words.dropFirst(count)) }
        }
        let name = words.first ?? ""
        let family = Command.all.filter { $0.name.hasPrefix(name + " ") }
        if !family.isEmpty, !name.isEmpty {
            let names = family.map { "pinproxy \($0.name)" }.joined(separator: ", ")
            let second = words.dropFirst().first
            if second == "--help" || second == "-h" {
                throw CommandFailure(.usage, "\(name) is a family of commands", remedy: "ask for the help of \(names)")
            }
            let near = second.flatMap { Spelling.nearest(to: "\(name) \($0)", among: family.map(\.name)) }
            throw CommandFailure(
                .usage,
                second.map { "unknown command \(Arguments.shown("\(name) \($0)"))" } ?? "\(name) needs a second word",
                remedy: near.map { "did you mean pinproxy \($0)?" } ?? "there is \(names)"
            )
        }
        let near = Spelling.nearest(to: name, among: Command.all.map(\.name))
        throw CommandFailure(
            .usage,
            "unknown command \(Arguments.shown(name))",
            remedy: near.map { "did you mean pinproxy \($0)?" } ?? "pinproxy help lists the commands"
        )
    }

    /// Prints the reason why a command has failed.
    static func report(_ failure: CommandFailure) {
        if !failure.message.isEmpty {
            let remedy = failure.remedy.isEmpty ? "" : " (\(failure.remedy))"
            // Servers and files may have written parts of it.
            Output.error("pinproxy: \(failure.message)\(remedy)\n".legibleLines)
        }
        if let command = failure.usageOf {
            Output.error("\(Help.usage(of: command))\nMore: pinproxy help \(command.name)\n")
        }
    }
}
