// SPDX-License-Identifier: Apache-2.0
/// The output of `help`.
enum Help {
    static let width = TextLayout.width

    static var overview: String {
        var text = """
            pinproxy: a local forwarding proxy that enforces certificate pinning

            Usage: pinproxy COMMAND [OPTION…] [ARGUMENT…]


            """
        let column = (Command.all.map(\.name.count).max() ?? 0) + 2
        for command in Command.all {
            text += row(command.name, command.summary, column: column)
        }
        text += """

            pinproxy help COMMAND tells more. To see it at work, offline: pinproxy demo

            """
        return text
    }

    static func usage(of command: Command) -> String {
        var words: [String] = []
        for option in command.options {
            words.append(option.isRequired ? option.long : "[\(option.long)]")
        }
        switch command.operands {
        case .none: break
        case .optional(let name), .optionalCommand(let name): words.append("[\(name)]")
        case .one(let name): words.append(name)
        case .two(let first, let second): words += [first, second]
        case .any(let name): words.append("[\(name)…]")
        case .oneOrMore(let name): words.append("\(name)…")
        case .program(let name): words.append("-- \(name)")
        }
        let start = "Usage: pinproxy \(command.name)"
        return wrap(([start] + words).joined(separator: " "), indent: "", following: "         ")
    }

    static func text(of command: Command) -> String {
        var text = "pinproxy \(command.name): \(command.summary)\n\n\(usage(of: command))\n"
        for paragraph in command.explanation {
            text += "\n" + wrap(paragraph, indent: "") + "\n"
        }
        if !command.options.isEmpty {
            text += "\nOptions:\n"
            let forms = command.options.map(\.form)
            let column = (forms.map(\.count).max() ?? 0) + 2
            for (form, option) in zip(forms, command.options) { text += row(form, option.summary, column: column) }
        }
        if !command.examples.isEmpty {
            text += "\nExamples:\n"
            for example in command.examples {
                text += "  \(example.line)\n" + wrap(example.meaning, indent: "      ") + "\n"
            }
        }
        return text
    }

    /// A name, with its meaning from `column` on.
    static func row(_ name: String, _ meaning: String, column: Int) -> String {
        let margin = String(repeating: " ", count: column + 2)
        let body = wrap(meaning, indent: margin)
        let padding = String(repeating: " ", count: max(1, column - name.count))
        return "  \(name)\(padding)\(body.dropFirst(margin.count))\n"
    }

    /// Lines of at most `width` columns, broken at spaces.
    static func wrap(_ text: String, indent: String, following: String? = nil) -> String {
        var lines: [String] = []
        var line = indent
        var isEmpty = true
        for word in text.split(separator: " ") {
            if !isEmpty, line.count + 1 + word.count > width {
                lines.append(line)
                line = following ?? indent
                isEmpty = true
            }
            line += isEmpty ? String(word) : " \(word)"
            isEmpty = false
        }
        return (lines + [line]).joined(separator: "\n")
    }
}
