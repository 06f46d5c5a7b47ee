// SPDX-License-Identifier: Apache-2.0
import ProxyCore
import StrictJSON

extension Command {
    static let check = Command(
        name: "check",
        summary: "validate the configuration, print what applies to each host",
        options: [.config, Command.Option(name: "json", summary: "print one JSON object instead, also of errors")],
        explanation: [
            """
            Reads the configuration and every file that it names, and opens no socket. Every error is reported at \
            once, as FILE: /json/pointer: message (remedy; line and column), and the exit code is 78.
            """,
            """
            Without errors it prints the effective policy of each host that the configuration or a pin file names, and \
            warns of pins that will not last: all of one key, an intermediate of a public CA as the only CA (as far as \
            that is known without a chain), a root that leaves the trust store or ends. It also warns of credentials whose file \
            or variable has no value, and of keys in "headers" that should be credentials.
            """,
        ],
        examples: [Example(line: "pinproxy check --config config.json", meaning: "Before every start and reload.")]
    ) { arguments throws(CommandFailure) in
        if arguments.has("json") { return try checkForPrograms(arguments["config"]) }
        let (snapshot, warnings) = try LoadedConfiguration.load(arguments["config"])
        LoadedConfiguration.show(warnings + Self.advice(snapshot, arguments["config"]))
        try Output.standard(EffectivePolicy(snapshot).description)
        return .success
    }

    private static func advice(_ snapshot: PolicySnapshot, _ path: String) -> [DocumentIssue] {
        PolicyAdvice.warnings(snapshot) + CredentialAdvice.warnings(snapshot, file: path)
    }

    private static func checkForPrograms(_ path: String) throws(CommandFailure) -> ExitCode {
        let outcome = try LoadedConfiguration.outcome(path)
        var line = JSONLine()
        let snapshot = outcome.makeSnapshot()
        line.add("valid", snapshot != nil)
        line.add("errors", array: outcome.issues.map { JSONLine($0).object })
        let advice = snapshot.map { Self.advice($0, path) } ?? []
        line.add(
            "warnings",
            array: (outcome.warnings + advice).map { warning in
                var line = JSONLine(warning)
                if let code = warning.code { line.add("code", code) }
                return line.object
            }
        )
        if let snapshot {
            line.add("policy", array: EffectivePolicy(snapshot).sections.map(\.json.object))
        }
        try Output.standard(line.text)
        return snapshot == nil ? .badConfiguration : .success
    }
}

extension Command.Option {
    static let config = Command.Option(
        name: "config",
        value: "FILE",
        summary: "the configuration; paths in it are relative to its folder",
        isRequired: true
    )
}
