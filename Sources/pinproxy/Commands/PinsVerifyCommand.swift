// SPDX-License-Identifier: Apache-2.0
import Glibc

extension Command {
    static let pinsVerify: Command = Command(
        name: "pins verify",
        summary: "connect to the pinned hosts, tell whether their pins hold",
        options: [
            .config,
            Option(name: "json", summary: "print one JSON object a line instead"),
        ],
        operands: .any("HOST[:PORT]"),
        explanation: [
            """
            Makes a TLS connection to every domain of the configuration's pin files, or to the hosts named, just as the \
            proxy would: the same policy, anchors, resolve addresses, timeouts and rules on addresses. No request is \
            sent. A domain with includeSubdomains is tried by its own name; one with ports on each of them.
            """,
            """
            Prints the verdict, the pin that matched, and the days until the first certificate and the pin set expire; \
            or what is wrong, and what to do.
            """,
            """
            Exit code 0 when all pass, 1 when one does not: refused, not reached, pins that would not match but are \
            only reported, a pin set that has expired.
            """,
        ],
        examples: [
            Example(line: "pinproxy pins verify --config config.json", meaning: "Every day, from a timer."),
            Example(
                line: "pinproxy pins verify --config config.json --json api.example.com",
                meaning: "One host, for a program."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        // A server may close the connection first.
        signal(SIGPIPE, SIG_IGN)
        let (snapshot, warnings) = try LoadedConfiguration.load(ConfigurationPath.find(arguments, of: .pinsVerify))
        var servers: [PinnedServer] = []
        if arguments.operands.isEmpty {
            servers = PinnedServer.all(of: snapshot)
            guard !servers.isEmpty else {
                throw CommandFailure(
                    .badConfiguration,
                    "the configuration pins no host: there is nothing to verify",
                    remedy: "name its pin files with \"pins\""
                )
            }
        }
        var seen: Set<String> = []
        for word in arguments.operands {
            servers += try PinnedServer.named(word, in: snapshot).filter { seen.insert("\($0.address)").inserted }
        }
        LoadedConfiguration.show(
            arguments.operands.isEmpty
                ? warnings : WarningScope(hosts: servers.map(\.address.host), snapshot).warnings(warnings)
        )
        let progress = ProgressLine(total: servers.count, minimum: 10)
        let checks = try PinVerification(snapshot: snapshot).check(servers) { progress.show($0) }
        progress.clear()
        let report = VerificationReport(checks: checks, style: .standardOutput)
        try Output.standard(arguments.has("json") ? report.jsonLines : report.text)
        return checks.allSatisfy(\.isGood) ? .success : .failed
    }
}
