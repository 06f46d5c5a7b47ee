import Glibc
import HTTPCore
import IOCore
import ProxyCore

extension Command {
    static let health = Command(
        name: "health",
        summary: "ask a running proxy whether it is ready, or alive",
        options: [.live, .adminConfig, .admin, .patience],
        explanation: [
            """
            Asks the admin listener of a running pinproxy for /ready: 0 when it is, 1 when it is not (it is about to \
            end), 69 when nothing answers. With --live it asks for /live: 1 when a worker is stuck. For the probes of a container (exec) and for scripts.
            """,
            """
            Where it listens is read from the "admin" of a configuration, or given with --admin; without either it is \
            127.0.0.1:8081. Of the configuration nothing else counts: a proxy that serves is healthy although its \
            files have got an error since.
            """,
        ],
        examples: [
            Example(line: "pinproxy health --config config.json", meaning: "Prints ready, or says why not."),
            Example(line: "pinproxy health --admin /run/pinproxy/admin.sock", meaning: "Over a Unix socket."),
        ]
    ) { arguments throws(CommandFailure) in try askWhetherReady(arguments) }

    private static func askWhetherReady(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let endpoint = try adminEndpoint(arguments)
        let patience = try timeout(arguments, of: .health) ?? .seconds(5)
        let answer: PlainClient.Answer
        do throws(IOFailure) {
            answer = try PlainClient.get(
                arguments.has("live") ? "/live" : "/ready",
                host: endpoint.isUnixSocket ? "localhost" : endpoint.description,
                at: endpoint.socketAddress,
                patience: patience
            )
        } catch {
            throw CommandFailure(
                .unavailable,
                "nothing answers at \(endpoint): \(error.reason)",
                remedy: "start pinproxy with an admin listener there, or name another with --admin"
            )
        }
        let said = TextLayout.printable(answer.body.split(separator: "\n").first.map(String.init) ?? "")
        guard answer.status == 200 else {
            throw CommandFailure(
                .failed,
                "not \(arguments.has("live") ? "alive" : "ready"): \(said.isEmpty ? answer.statusLine : said)"
            )
        }
        try Output.standard("\(said)\n")
        return .success
    }

    /// Where to ask.
    private static func adminEndpoint(_ arguments: Arguments) throws(CommandFailure) -> ListenerConfiguration.Endpoint {
        if let path = arguments.values["config"] {
            guard arguments.values["admin"] == nil else {
                throw CommandFailure(.usage, "health: --config and --admin say the same", usageOf: .health)
            }
            return try configuredEndpoint(path)
        }
        guard let word = arguments.values["admin"] else {
            return .address(AddressAndPort(IPAddress(ipv4: 0x7F00_0001), 8081))
        }
        if word.contains("/") { return .unixSocket(path: word) }
        guard let address = try? AddressAndPort(parsing: word), address.port != 0 else {
            throw CommandFailure(
                .usage,
                "health: --admin takes an address and a port, or a socket's path, not \(Arguments.shown(word))",
                remedy: "as in 127.0.0.1:8081 or /run/pinproxy/admin.sock",
                usageOf: .health
            )
        }
        return .address(address).reachable
    }

    private static func configuredEndpoint(_ path: String) throws(CommandFailure) -> ListenerConfiguration.Endpoint {
        let endpoint: ListenerConfiguration.Endpoint
        do throws(AdminConfiguration.LookupFailure) {
            endpoint = try AdminConfiguration.lookUp(path: path).endpoint
        } catch {
            switch error {
            case .missingFile:
                throw CommandFailure(.inputMissing, "\(Arguments.shown(path)) does not exist")
            case .issues(let issues):
                Output.error(issues.map { "\($0)\n" }.joined())
                throw CommandFailure(.badConfiguration, "the configuration does not tell where the admin listener is")
            case .absent:
                throw CommandFailure(
                    .badConfiguration,
                    "\(Arguments.shown(path)) has no admin listener",
                    remedy: "add \"admin\": { \"address\": \"127.0.0.1:8081\" }"
                )
            }
        }
        if case .address(let address) = endpoint, address.port == 0 {
            throw CommandFailure(
                .badConfiguration,
                "the admin listener of \(Arguments.shown(path)) has a port that is chosen at the start",
                remedy: "give it a fixed one, or name the one of its listening line with --admin"
            )
        }
        return endpoint.reachable
    }
}

extension ListenerConfiguration.Endpoint {
    /// The same for who connects: what listens everywhere is there on loopback too.
    fileprivate var reachable: Self {
        guard case .address(var address) = self, address.address.isUnspecified else { return self }
        address.address = address.address.isIPv4 ? IPAddress(ipv4: 0x7F00_0001) : IPAddress(ipv6High: 0, low: 1)
        return .address(address)
    }
}

extension Command.Option {
    fileprivate static let live = Command.Option(name: "live", summary: "ask whether it is alive instead")
    fileprivate static let adminConfig = Command.Option(
        name: "config",
        value: "FILE",
        summary: "the configuration whose admin listener is asked"
    )
    fileprivate static let admin = Command.Option(
        name: "admin",
        value: "ADDRESS:PORT",
        summary: "the admin listener, or the path of its Unix socket"
    )
    fileprivate static let patience = Command.Option(
        name: "timeout",
        value: "TIME",
        summary: "how long to wait for the answer: 500ms, 5s (the default), 1m"
    )
}
