// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON

/// The words behind a command's name, sorted into options and operands.
struct Arguments: Sendable {
    /// The options with a value; of a repeated option, the last value.
    private(set) var values: [String: String] = [:]
    /// All values of each option, in their order.
    private(set) var lists: [String: [String]] = [:]
    private(set) var flags: Set<String> = []
    private(set) var operands: [String] = []
    /// Whether help was requested: `--help` or `-h` before the operands of a program.
    private(set) var wantsHelp = false

    /// The value of a required option.
    subscript(_ name: String) -> String { values[name] ?? "" }

    func has(_ flag: String) -> Bool { flags.contains(flag) }

    init(_ words: ArraySlice<String>, of command: Command) throws(CommandFailure) {
        func wrong(_ message: String, _ remedy: String = "") -> CommandFailure {
            CommandFailure(.usage, "\(command.name): \(message)", remedy: remedy, usageOf: command)
        }
        var rest = words
        reading: while let word = rest.first {
            rest = rest.dropFirst()
            switch word {
            case "--":
                operands += rest
                rest = []
            case "--help", "-h":
                wantsHelp = true
                return
            case _ where word.hasPrefix("-") && word != "-":
                let (name, attached) = Arguments.split(word)
                guard let option = command.options.first(where: { $0.isNamed(by: name) }) else {
                    throw wrong("unknown option \(Arguments.shown(name))", Arguments.suggestion(name, command))
                }
                guard option.repeats || values[option.name] == nil, !flags.contains(option.name) else {
                    throw wrong("\(name) is given twice")
                }
                guard let wanted = option.value else {
                    guard attached == nil else { throw wrong("\(name) takes no value") }
                    flags.insert(option.name)
                    continue reading
                }
                if option.mayStandAlone, attached == nil {
                    flags.insert(option.name)
                    continue reading
                }
                guard let value = attached ?? rest.popFirst(), !value.isEmpty else {
                    throw wrong("\(name) needs a value: \(name) \(wanted)")
                }
                values[option.name] = value
                lists[option.name, default: []].append(value)
            default:
                operands.append(word)
                if case .program = command.operands {
                    operands += rest
                    rest = []
                }
            }
        }
        try check(command, wrong)
    }

    private func check(
        _ command: Command,
        _ wrong: (String, String) -> CommandFailure
    ) throws(CommandFailure) {
        for option in command.options where option.isRequired && values[option.name] == nil {
            throw wrong("--\(option.name) \(option.value ?? "") is missing", "")
        }
        let limits: (ClosedRange<Int>, String) =
            switch command.operands {
            case .none: (0...0, "")
            case .optional(let name): (0...1, name)
            case .optionalCommand(let name): (0...2, name)
            case .one(let name): (1...1, name)
            case .two(let first, let second): (2...2, operands.isEmpty ? first : second)
            case .any(let name): (0...Int.max, name)
            case .oneOrMore(let name), .program(let name): (1...Int.max, name)
            }
        if operands.count < limits.0.lowerBound { throw wrong("\(limits.1) is missing", "") }
        if operands.count > limits.0.upperBound {
            throw wrong("\(Arguments.shown(operands[limits.0.upperBound])) is one argument too many", "")
        }
    }

    /// Splits `--config=FILE` or `-oFILE` into name and value.
    private static func split(_ word: String) -> (name: String, value: String?) {
        guard word.hasPrefix("--") else {
            return (String(word.prefix(2)), word.count > 2 ? String(word.dropFirst(2)) : nil)
        }
        guard let sign = word.firstIndex(of: "=") else { return (word, nil) }
        return (String(word[..<sign]), String(word[word.index(after: sign)...]))
    }

    private static func suggestion(_ name: String, _ command: Command) -> String {
        let known = command.options.map { "--" + $0.name } + ["--help"]
        return Spelling.nearest(to: name, among: known).map { "did you mean \($0)?" } ?? ""
    }

    /// A word in the form for messages. It may be anything, and be secret: what is long is cut.
    static func shown(_ word: String) -> String { shown(word, upTo: 64) }

    /// A file's path in the form for messages: whole, unless it is absurd.
    static func shown(path: String) -> String { shown(path, upTo: 256) }

    private static func shown(_ word: String, upTo limit: Int) -> String {
        let safe = TextLayout.printable(word)
        return "\"\(safe.prefix(limit))\(safe.count > limit ? "…" : "")\""
    }
}

extension Command.Option {
    /// - Parameter word: `--output` or `-o`.
    fileprivate func isNamed(by word: String) -> Bool {
        word == "--\(name)" || letter.map { word == "-\($0)" } ?? false
    }
}
