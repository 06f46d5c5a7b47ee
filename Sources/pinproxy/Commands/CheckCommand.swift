import ProxyCore

extension Command {
    static let check = Command(
        name: "check",
        summary: "validate the configuration, print what applies to each host",
        options: [.config],
        explanation: [
            """
            Reads the configuration and every file that it names, and opens no socket. Every error is reported at \
            once, as FILE: /json/pointer: message (remedy; line and column), and the exit code is 78.
            """,
            "Without errors it prints the effective policy of each host that the configuration or a pin file names.",
        ],
        examples: [Example(line: "pinproxy check --config config.json", meaning: "Before every start and reload.")]
    ) { arguments throws(CommandFailure) in
        let (snapshot, warnings) = try LoadedConfiguration.load(arguments["config"])
        LoadedConfiguration.show(warnings)
        try Output.standard(EffectivePolicy(snapshot).description)
        return .success
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
