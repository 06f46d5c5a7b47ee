// SPDX-License-Identifier: Apache-2.0
extension Command {
    static let help = Command(
        name: "help",
        summary: "the commands, or what one of them does",
        options: [
            Command.Option(name: "json", summary: "print the tables of all commands as one JSON object, for programs")
        ],
        operands: .optionalCommand("COMMAND"),
        examples: [Example(line: "pinproxy help run", meaning: "The options of pinproxy run.")]
    ) { arguments throws(CommandFailure) in
        if arguments.has("json") {
            try Output.standard(CommandTable.json)
            return .success
        }
        guard !arguments.operands.isEmpty else {
            try Output.standard(Help.overview)
            return .success
        }
        let (command, _) = try Program.find(arguments.operands[...])
        try Output.standard(Help.text(of: command))
        return .success
    }
}
