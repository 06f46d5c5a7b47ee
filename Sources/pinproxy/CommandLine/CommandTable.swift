// SPDX-License-Identifier: Apache-2.0
import StrictJSON

/// The tables of the commands as one JSON object: manual pages and completions of shells are made of it.
enum CommandTable {
    static var json: String {
        var line = JSONLine()
        line.add("version", ProgramVersion.current)
        line.add("commands", array: Command.all.map { object(of: $0).object })
        line.add("exitCodes", array: ExitCode.meanings.map { object($0.code, $0.meaning).object })
        return line.text
    }

    private static func object(of command: Command) -> JSONLine {
        var line = JSONLine()
        line.add("name", command.name)
        line.add("summary", command.summary)
        line.add("options", array: command.options.map { object(of: $0).object })
        line.add("operands", object(of: command.operands))
        line.add("explanation", strings: command.explanation)
        line.add("examples", array: command.examples.map { object(of: $0).object })
        return line
    }

    private static func object(of option: Command.Option) -> JSONLine {
        var line = JSONLine()
        line.add("name", option.name)
        if let letter = option.letter { line.add("letter", String(letter)) }
        if let value = option.value { line.add("value", value) }
        line.add("required", option.isRequired)
        line.add("repeats", option.repeats)
        if option.mayStandAlone { line.add("mayStandAlone", true) }
        line.add("summary", option.summary)
        return line
    }

    private static func object(of operands: Command.Operands) -> JSONLine {
        let (names, minimum, repeats): ([String], Int, Bool) =
            switch operands {
            case .none: ([], 0, false)
            case .optional(let name), .optionalCommand(let name): ([name], 0, false)
            case .one(let name): ([name], 1, false)
            case .two(let first, let second): ([first, second], 2, false)
            case .any(let name): ([name], 0, true)
            case .oneOrMore(let name): ([name], 1, true)
            case .program(let name): ([name], 1, false)
            }
        var line = JSONLine()
        line.add("names", strings: names)
        line.add("minimum", minimum)
        line.add("repeats", repeats)
        if case .program = operands { line.add("program", true) }
        return line
    }

    private static func object(of example: Command.Example) -> JSONLine {
        var line = JSONLine()
        line.add("line", example.line)
        line.add("meaning", example.meaning)
        return line
    }

    private static func object(_ code: ExitCode, _ meaning: String) -> JSONLine {
        var line = JSONLine()
        line.add("code", code.rawValue)
        line.add("meaning", meaning)
        return line
    }
}
