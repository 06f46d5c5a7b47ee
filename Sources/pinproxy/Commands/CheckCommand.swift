// SPDX-License-Identifier: Apache-2.0
import ProxyCore
import StrictJSON

extension Command {
    static let check: Command = Command(
        name: "check",
        summary: "validate the configuration, print what applies to each host",
        options: [
            .config,
            Command.Option(name: "strict", summary: "end with 78 for warnings, too"),
            Command.Option(name: "load", summary: "end with 78 only for what a start or reload refuses"),
            Command.Option(name: "json", summary: "print one JSON object instead, also of errors"),
        ],
        operands: .optional("FILE"),
        explanation: [
            """
            Reads the configuration and every file that it names, and opens no socket. Every error is reported at \
            once, as FILE: /json/pointer: message (remedy; line and column), and the exit code is 78. The configuration is \
            FILE, with or without --config.
            """,
            """
            A pin set that has ended, so that every request to its host is refused, is an error here. A start or reload \
            takes it, as the other hosts are served, and so does check --load.
            """,
            """
            Without errors it prints the effective policy of each host that the configuration or a pin file names, and \
            warns of pins that will not last: all of one key, an intermediate of a public CA as the only CA (as far as \
            that is known without a chain), a root that leaves the trust store or ends. It also warns of credentials whose file \
            or variable has no value, of placeholders that no request can hold, and of keys in "headers" that should be credentials.
            """,
        ],
        examples: [
            Example(line: "pinproxy check config.json", meaning: "Before every start and reload."),
            Example(line: "pinproxy check --strict config.json", meaning: "Before a change is merged."),
        ]
    ) { arguments throws(CommandFailure) in
        if arguments.has("strict"), arguments.has("load") {
            throw CommandFailure(
                .usage,
                "check: --strict and --load contradict each other",
                remedy: "give one of them",
                usageOf: .check
            )
        }
        let path = try ConfigurationPath.find(arguments, of: .check, operand: arguments.operands.first)
        let findings = CheckFindings(
            try LoadedConfiguration.outcome(path),
            path: path,
            expiredSetsAreErrors: !arguments.has("load")
        )
        if arguments.has("json") {
            try Output.standard(findings.json.text)
        } else {
            Output.error(findings.errors.map { "\($0)\n" }.joined())
            LoadedConfiguration.show(findings.warnings)
            if findings.errors.isEmpty, let snapshot = findings.snapshot {
                try Output.standard(EffectivePolicy(snapshot).description)
            }
        }
        if !findings.errors.isEmpty {
            // A program reads them from the object.
            guard !arguments.has("json") else { return .badConfiguration }
            throw LoadedConfiguration.failure(findings.errors)
        }
        guard arguments.has("strict"), !findings.warnings.isEmpty else { return .success }
        guard !arguments.has("json") else { return .badConfiguration }
        let count = findings.warnings.total
        throw CommandFailure(
            .badConfiguration,
            count == 1 ? "1 warning, and --strict" : "\(count) warnings, and --strict"
        )
    }
}
