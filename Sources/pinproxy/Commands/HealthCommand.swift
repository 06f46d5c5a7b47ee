// SPDX-License-Identifier: Apache-2.0
extension Command {
    static let health = Command(
        name: "health",
        summary: "ask a running proxy whether it is ready, or alive",
        options: [.live, .adminConfig, .admin, .tokenFile, .patience],
        explanation: [
            """
            Asks the admin listener of a running pinproxy for /ready: 0 when it is, 1 when it is not (it is about to \
            end), 69 when no pinproxy answers: other servers are told from it, whatever they say. With --live it asks for /live: 1 when a worker is stuck. For the probes of a container (exec) and for scripts.
            """,
            """
            Where it listens is read from the "admin" of a configuration, or given with --admin; without either from that of \
            \(ConfigurationPath.installed), if there is one, else it is 127.0.0.1:8081. Of the configuration nothing else counts: a proxy that serves is healthy although its \
            files have got an error since.
            """,
        ],
        examples: [
            Example(line: "pinproxy health --config config.json", meaning: "Prints ready, or says why not."),
            Example(line: "pinproxy health --admin /run/pinproxy/admin.sock", meaning: "Over a Unix socket."),
        ]
    ) { arguments throws(CommandFailure) in try checkReadiness(arguments) }

    private static func checkReadiness(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let listener = try AdminListener(arguments, of: .health)
        let patience = try timeout(arguments, of: .health) ?? .seconds(5)
        let response = try listener.request(arguments.has("live") ? "/live" : "/ready", patience: patience)
        let said = TextLayout.printable(response.body.split(separator: "\n").first.map(String.init) ?? "")
        let wanted = arguments.has("live") ? "live" : "ready"
        guard response.status == 200, said == wanted else {
            let reason =
                CacheReport.problem(response.body) ?? (said.isEmpty ? TextLayout.printable(response.statusLine) : said)
            let remedy =
                switch response.status {
                case 503 where wanted == "live": "restart it"
                case 503: "it is about to end, or asked to: wait for the one that follows it"
                default: ""
                }
            throw CommandFailure(.failed, "not \(wanted == "live" ? "alive" : "ready"): \(reason)", remedy: remedy)
        }
        try Output.standard("\(said)\n")
        return .success
    }
}

extension Command.Option {
    fileprivate static let live = Command.Option(name: "live", summary: "ask whether it is alive instead")
}
