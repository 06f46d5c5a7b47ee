// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

/// The admin listener of a running proxy, used by commands.
struct AdminListener {
    let endpoint: ListenerConfiguration.Endpoint
    /// The file of the token, from the configuration or `--token-file`; nil without one.
    private let tokenFile: String?

    /// The address from `--config` or `--admin`; without either that of the installed service, or 127.0.0.1:8081.
    init(_ arguments: Arguments, of command: Command) throws(CommandFailure) {
        let configuration = try Self.configuration(arguments, of: command)
        endpoint = configuration.endpoint
        tokenFile = arguments.values["token-file"] ?? configuration.tokenFile
    }

    /// The field with the token. A token that cannot be read is missed only where the listener asks for it.
    private var authorization: [String] {
        guard let tokenFile, let bytes = try? FileContents.read(tokenFile, limit: 4096).get(),
            let token = try? AdminToken.text(bytes)
        else { return [] }
        return ["Authorization: Bearer " + String(decoding: token, as: UTF8.self)]
    }

    private var unauthorized: CommandFailure {
        guard let tokenFile else {
            return CommandFailure(
                .failed,
                "\(endpoint) asks for a token",
                remedy: "name its file with --token-file, or the configuration that names it with --config"
            )
        }
        return CommandFailure(
            .failed,
            authorization.isEmpty
                ? "\(endpoint) asks for a token, and \(Arguments.shown(path: tokenFile)) has none that can be read"
                : "\(endpoint) does not accept the token of \(Arguments.shown(path: tokenFile))",
            remedy: "run this as a user who may read the file that the proxy itself has read"
        )
    }

    /// Sends a request, and accepts only the response of a pinproxy's admin listener.
    ///
    /// - Parameter target: path and query.
    func request(_ target: String, method: String = "GET", patience: Duration) throws(CommandFailure)
        -> PlainClient.Response
    {
        let response: PlainClient.Response
        do throws(IOFailure) {
            response = try PlainClient.send(
                method,
                target,
                host: endpoint.isUnixSocket ? "localhost" : endpoint.description,
                fields: authorization,
                at: endpoint.socketAddress,
                patience: patience
            )
        } catch {
            throw failure(error, patience)
        }
        try recognise(response)
        if response.status == 401 { throw unauthorized }
        return response
    }

    private func failure(_ failure: IOFailure, _ patience: Duration) -> CommandFailure {
        switch failure.code {
        case ECONNRESET, EPIPE: hungUp
        case ETIMEDOUT where "\(failure.call)" == "read":
            CommandFailure(
                .unavailable,
                "no response from \(endpoint) within \(Self.shown(patience))",
                remedy:
                    "an admin listener responds at once: another program listens there, or pinproxy is stuck and needs a restart"
            )
        default:
            CommandFailure(
                .unavailable,
                "nothing listens at \(endpoint): \(failure.reason)",
                remedy: "start pinproxy with an admin listener there, or name another with --admin"
            )
        }
    }

    private static func shown(_ patience: Duration) -> String {
        let milliseconds = Int(patience / .milliseconds(1))
        return milliseconds % 1000 == 0 ? "\(milliseconds / 1000)s" : "\(milliseconds)ms"
    }

    private var hungUp: CommandFailure {
        CommandFailure(
            .unavailable,
            "\(endpoint) closed the connection without a response: it may be a port that speaks TLS, which no admin listener does",
            remedy: Self.otherListener
        )
    }

    private static let otherListener =
        "name the admin listener with --admin; pinproxy tells where it is when it starts (\"listener\":\"admin\")"

    /// Checks the field that identifies an admin listener: any server may respond with 200.
    private func recognise(_ response: PlainClient.Response) throws(CommandFailure) {
        if response.field("Pinproxy-Admin") != nil, response.status > 0 { return }
        // The content type of an alert (RFC 8446, section 5.1).
        if response.statusLine.isEmpty || response.statusLine.utf8.first == 21 { throw hungUp }
        if response.field("Proxy-Status")?.hasPrefix("pinproxy;") == true {
            throw CommandFailure(
                .unavailable,
                "\(endpoint) is a listener of pinproxy for clients, not its admin listener",
                remedy: Self.otherListener
            )
        }
        throw CommandFailure(
            .unavailable,
            "what listens at \(endpoint) is not the admin listener of a pinproxy: it says \(TextLayout.printable(response.statusLine))",
            remedy: Self.otherListener
        )
    }

    private static func configuration(
        _ arguments: Arguments,
        of command: Command
    ) throws(CommandFailure) -> AdminConfiguration {
        if let path = arguments.values["config"] {
            guard arguments.values["admin"] == nil else {
                throw CommandFailure(.usage, "\(command.name): --config and --admin say the same", usageOf: command)
            }
            return try configuration(at: path)
        }
        // A user who may not read the service's configuration can ask its admin listener all the same, at the usual address.
        if arguments.values["admin"] == nil,
            var installed = try? AdminConfiguration.lookUp(path: ConfigurationPath.installed)
        {
            if case .address(let address) = installed.endpoint, address.port == 0 {
            } else {
                installed.endpoint = installed.endpoint.reachable
                return installed
            }
        }
        return AdminConfiguration(endpoint: try endpoint(arguments.values["admin"], of: command))
    }

    private static func endpoint(
        _ word: String?,
        of command: Command
    ) throws(CommandFailure) -> ListenerConfiguration.Endpoint {
        guard let word else { return .address(AddressAndPort(IPAddress(ipv4: 0x7F00_0001), 8081)) }
        if word.hasPrefix("unix:") { return .unixSocket(path: String(word.dropFirst(5))) }
        if word.contains("/") { return .unixSocket(path: word) }
        guard let address = try? AddressAndPort(parsing: word), address.port != 0 else {
            throw CommandFailure(
                .usage,
                "\(command.name): --admin takes an address and a port, or a socket's path, not \(Arguments.shown(word))",
                remedy: "as in 127.0.0.1:8081 or /run/pinproxy/admin.sock",
                usageOf: command
            )
        }
        return .address(address).reachable
    }

    private static func configuration(at path: String) throws(CommandFailure) -> AdminConfiguration {
        var configuration: AdminConfiguration
        do throws(AdminConfiguration.LookupFailure) {
            configuration = try AdminConfiguration.lookUp(path: path)
        } catch {
            switch error {
            case .missingFile:
                throw CommandFailure(.inputMissing, "\(Arguments.shown(path: path)) does not exist")
            case .issues(let issues):
                Output.error(issues.map { "\($0)\n" }.joined())
                throw CommandFailure(.badConfiguration, "the configuration does not tell where the admin listener is")
            case .absent:
                throw CommandFailure(
                    .badConfiguration,
                    "\(Arguments.shown(path: path)) has no admin listener",
                    remedy: "add \"admin\": { \"address\": \"127.0.0.1:8081\" }"
                )
            }
        }
        if case .address(let address) = configuration.endpoint, address.port == 0 {
            throw CommandFailure(
                .badConfiguration,
                "the admin listener of \(Arguments.shown(path: path)) has a port that is chosen at the start",
                remedy: "give it a fixed one, or name the one of its listening line with --admin"
            )
        }
        configuration.endpoint = configuration.endpoint.reachable
        return configuration
    }
}

extension ListenerConfiguration.Endpoint {
    /// The address to connect to: a listener at a wildcard address is reached on loopback.
    fileprivate var reachable: Self {
        guard case .address(var address) = self, address.address.isUnspecified else { return self }
        address.address = address.address.isIPv4 ? IPAddress(ipv4: 0x7F00_0001) : IPAddress(ipv6High: 0, low: 1)
        return .address(address)
    }
}

extension Command.Option {
    static let adminConfig = configuration(
        "the configuration whose admin listener is asked (default: \(ConfigurationPath.installed), if it can be read and has one)"
    )
    static let admin = Command.Option(
        name: "admin",
        value: "ADDRESS:PORT",
        summary: "the admin listener, or the path of its Unix socket"
    )
    static let tokenFile = Command.Option(
        name: "token-file",
        value: "FILE",
        summary: "the file of the admin listener's token, if it is not the configuration's"
    )
    static let patience = Command.Option(
        name: "timeout",
        value: "TIME",
        summary: "how long to wait for the response: 500ms, 5s (the default), 1m"
    )
}
