// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import StrictJSON

extension Command {
    static let checkCredential: Command = Command(
        name: "check credential",
        summary: "whether a credential has a value, and until when",
        options: [.config, Option(name: "json", summary: "print one JSON object")],
        operands: .one("NAME"),
        explanation: [
            """
            Runs the source of a credential once, as the proxy would: reads the file, runs the command, or asks the token server, \
            whose pins have to hold. Says whether it gave a value, and when that ends; the value is never shown.
            """,
            "Exit code 0 when there is a value, 1 when there is none.",
        ],
        examples: [
            Example(
                line: "pinproxy check credential --config config.json llm",
                meaning: "Before a rule names it, and when requests fail with credential_unavailable."
            )
        ]
    ) { arguments throws(CommandFailure) in
        let (snapshot, _) = try LoadedConfiguration.load(ConfigurationPath.find(arguments, of: .checkCredential))
        let name = arguments.operands[0]
        guard let definition = snapshot.configuration.credentials.first(where: { $0.name == name }) else {
            throw unknown(name, snapshot.configuration.credentials)
        }
        let outcome = CredentialTrial.run(
            definition,
            under: snapshot,
            lists: RevocationListFetcher.forCommand(snapshot)
        )
        try Output.standard(
            arguments.has("json")
                ? json(definition, outcome).text : text(definition, outcome, now: Clock.seconds)
        )
        if case .failure = outcome { return .failed }
        return .success
    }

    private static func unknown(_ name: String, _ credentials: [CredentialDefinition]) -> CommandFailure {
        let known = credentials.map(\.name).joined(separator: ", ")
        return CommandFailure(
            .usage,
            "there is no credential \(Arguments.shown(name))",
            remedy: known.isEmpty ? "the configuration has no \"credentials\"" : "name one of: \(known)",
            usageOf: Command.checkCredential
        )
    }

    private static func text(
        _ definition: CredentialDefinition,
        _ outcome: Result<Int64?, CredentialFault>,
        now: Int64
    ) -> String {
        switch outcome {
        case .failure(let fault): return "\(definition.name): no value: \(fault.message)\n"
        case .success(nil): return "\(definition.name): works; no end is named\n"
        case .success(let end?):
            let left = end.subtractingSaturated(now)
            return "\(definition.name): works; the value ends at \(Timestamp.text(unixSeconds: end)), in \(left) s\n"
        }
    }

    private static func json(_ definition: CredentialDefinition, _ outcome: Result<Int64?, CredentialFault>) -> JSONLine
    {
        var line = JSONLine()
        line.add("credential", definition.name)
        line.add("source", definition.source.kind)
        switch outcome {
        case .success(let end):
            line.add("works", true)
            if let end { line.add("expires", Timestamp.text(unixSeconds: end)) }
        case .failure(let fault):
            line.add("works", false)
            line.add("code", fault.code.rawValue)
            line.add("message", fault.message)
        }
        return line
    }
}
