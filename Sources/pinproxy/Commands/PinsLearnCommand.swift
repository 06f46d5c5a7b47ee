// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration
import ProxyCore
import ServerTrust

extension Command {
    static let pinsLearn: Command = Command(
        name: "pins learn",
        summary: "propose a pin file for unpinned hosts, from the task log",
        options: [
            .config,
            Option(name: "json", summary: "print the evidence, one JSON object a host, instead of a pin file"),
        ],
        operands: .any("LOG"),
        explanation: [
            """
            Reads the task log (the file that log.tasks names, or those given; - is the standard input) and prints a \
            pin file for the hosts that no pin file names and that were really reached over TLS: their keys, with the \
            root sets of public CAs, or as backups the keys of the other authorities that signed them. The evidence goes to the standard error: keys, how \
            often, since when.
            """,
            """
            Only connections whose chain and host were found valid count. Nothing is written into the folder of pin \
            files, and nothing is pinned: that is for a person to do who has compared the keys with what the servers' \
            operators say.
            """,
            "Exit code 0 with a proposal, 1 when there is nothing to propose, 66 when a log is missing.",
        ],
        examples: [
            Example(
                line: "pinproxy pins learn --config config.json > learned.json",
                meaning: "What the proxy has seen so far."
            ),
            Example(
                line: "journalctl -u pinproxy -o cat | pinproxy pins learn --config config.json -",
                meaning: "With the task log on the standard output of a service."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        let (snapshot, warnings) = try LoadedConfiguration.load(ConfigurationPath.find(arguments, of: .pinsLearn))
        LoadedConfiguration.show(WarningScope.general(warnings))
        var seen = SeenServers(besides: snapshot.pinnedDomains)
        var lines = LogLines()
        for log in try logs(arguments, snapshot.configuration.log) {
            try lines.read(log) { seen.add($0) }
        }
        let report = LearningReport(seen: seen, lines: lines, style: .standardError)
        let proposal = PinProposal(servers: seen.servers)
        if arguments.has("json") {
            Output.error(report.summary)
            try Output.standard(report.jsonLines)
        } else {
            Output.error(report.text)
        }
        guard !proposal.proposed.isEmpty else {
            throw CommandFailure(
                .failed,
                "there is nothing to propose",
                remedy: "the log shows no new TLS connection to a host without pins whose chain and host were valid"
            )
        }
        if !arguments.has("json") {
            let text = try proposal.text
            Output.error("\n" + report.advice)
            try Output.standard(text)
        }
        return .success
    }

    private static func logs(_ arguments: Arguments, _ log: LogConfiguration) throws(CommandFailure) -> [String] {
        guard arguments.operands.isEmpty else { return arguments.operands }
        if case .file(let path) = log.tasks { return [path] }
        throw CommandFailure(
            .usage,
            "log.tasks of the configuration names no file",
            remedy: "name the file in which the log was kept, or - for the standard input"
        )
    }
}
