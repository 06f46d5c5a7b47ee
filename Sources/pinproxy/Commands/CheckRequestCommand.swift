// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyCore
import StrictJSON

extension Command {
    static let checkRequest: Command = Command(
        name: "check request",
        summary: "which rule of \"requests\" decides about a request, and why",
        options: [
            .config,
            Option(name: "user", value: "NAME", summary: "the user who asks, by the name in the log"),
            Option(
                name: "header",
                value: "FIELD",
                summary: "a field of the request, as in \"Upgrade: websocket\"; may be given more than once",
                letter: "H",
                repeats: true
            ),
            Option(
                name: "log",
                value: "LOG",
                summary: "judge the requests of a task log instead; - is the standard input",
                repeats: true
            ),
            Option(name: "json", summary: "print one JSON object"),
        ],
        operands: .any("METHOD URL"),
        explanation: [
            """
            Judges a request as the proxy would: by access rules, by connect for a CONNECT (whose URL is HOST:PORT), and by \
            the rules of "requests". Each rule about the host, up to the one that decides, says which of its conditions does \
            not hold. An offer of another protocol, UPGRADE in rules, is GET with --header "Upgrade: websocket".
            """,
            """
            With --log it judges every request of the log by this configuration, and says what would change: which would be \
            denied that were sent, and which would be sent that were denied.
            """,
            "Exit code 0 when the request is allowed (with --log, when nothing more would be denied), 77 when it is denied.",
        ],
        examples: [
            Example(
                line: "pinproxy check request --config config.json POST https://api.example.com/v1/messages",
                meaning: "One request."
            ),
            Example(
                line: "pinproxy check request --config next.json --log tasks.log",
                meaning: "What a new configuration would change."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        let (snapshot, _) = try LoadedConfiguration.load(ConfigurationPath.find(arguments, of: .checkRequest))
        if let logs = arguments.lists["log"] {
            guard arguments.operands.isEmpty else {
                throw wrong("METHOD and URL do not go with --log")
            }
            return try check(logs, under: snapshot, arguments)
        }
        guard arguments.operands.count == 2 else {
            throw wrong("METHOD and URL are needed, or --log LOG")
        }
        var fields: [(name: String, value: String)] = []
        for field in arguments.lists["header"] ?? [] {
            let parts = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !field.utf8.contains(where: { $0 < 0x20 }) else {
                throw wrong(
                    "\(Arguments.shown(field)) is no field",
                    "write name and value, as in \"Upgrade: websocket\""
                )
            }
            fields.append((String(parts[0]), String(parts[1].drop { $0 == " " })))
        }
        for word in arguments.operands where word.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) {
            throw wrong("\(Arguments.shown(word)) has a space or control character")
        }
        let check = RequestCheck(
            arguments.operands[0],
            arguments.operands[1],
            fields: fields,
            user: arguments.values["user"],
            under: snapshot
        )
        let report = RequestCheckReport(check: check, user: arguments.values["user"])
        try Output.standard(arguments.has("json") ? report.json.text : report.text)
        return check.isAllowed ? .success : .refused
    }

    private static func wrong(_ message: String, _ remedy: String = "") -> CommandFailure {
        CommandFailure(.usage, message, remedy: remedy, usageOf: Command.checkRequest)
    }

    private static func check(
        _ logs: [String],
        under snapshot: PolicySnapshot,
        _ arguments: Arguments
    ) throws(CommandFailure) -> ExitCode {
        var changes = RequestChanges(under: snapshot)
        var lines = LogLines()
        for log in logs { try lines.read(log) { changes.add($0) } }
        try Output.standard(arguments.has("json") ? changes.json.text : changes.text(lines))
        return changes.denied.isEmpty ? .success : .refused
    }
}
