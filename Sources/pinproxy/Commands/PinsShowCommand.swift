// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ProxyCore
import ServerTrust
import SessionCore

extension Command {
    static let pinsShow: Command = Command(
        name: "pins show",
        summary: "connect to a server, print its chain and the pins in it",
        options: [.showConfig, .anchors, .connect, .timeout, .chainJSON, .pinFile, .pin, .newBackupKey],
        operands: .one("HOST[:PORT]"),
        explanation: [
            """
            Makes a TLS connection (port 443 unless given), sends no request, and prints the chain as it was validated \
            against the anchors of this system: each certificate's subject, dates, key and pin; what the server sent, \
            where that differs; and what will cause trouble.
            """,
            """
            Exit code 0 for a valid chain, 77 for one that would be refused, 1 when there is no connection. Which root \
            ends a chain depends on the anchors of the machine: with cross-signed roots another may build another chain.
            """,
            """
            A pin file for a server of a public CA has the server's key and the root set of the CA ("authorities"), not \
            the intermediate's key, which CAs change without notice; for another CA it has the root's key as the backup.
            """,
            """
            --pin-file=FILE writes it to FILE (mode 0644), when it is whole; a file that is there is replaced. With --pin-file \
            alone it is printed.
            """,
            """
            With --config the server is reached as the proxy reaches it: by the host's upstream proxy, resolve and tlsServerName, \
            under the rules of access, with the configuration's anchors. Whether the host has pins does not count.
            """,
        ],
        examples: [
            Example(line: "pinproxy pins show api.example.com", meaning: "The chain, for people."),
            Example(
                line: "pinproxy pins show --pin-file=pins/api.json api.example.com",
                meaning: "A pin file to start from: the server's key, and the roots of its CA."
            ),
            Example(
                line: "pinproxy pins show --pin-file=pins/own.json --new-backup-key next.key HOST",
                meaning: "For a server of your own: a new key is the backup."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        // The server may close the connection first.
        signal(SIGPIPE, SIG_IGN)
        let server = try ServerAddress(arguments.operands[0])
        let place = try place(arguments)
        let output = try output(arguments)
        let anchorFile = try arguments.values["anchors"].map { name throws(CommandFailure) in try wholePath(name) }
        let timeout = try timeout(arguments, of: .pinsShow) ?? .seconds(10)
        let probe: ServerProbe
        let anchorSource: String
        if let path = arguments.values["config"] {
            guard anchorFile == nil, arguments.values["connect"] == nil else {
                throw CommandFailure(
                    .usage,
                    "pins show: --anchors and --connect are for a look without --config",
                    remedy: "the configuration says trustAnchors and resolve for its hosts",
                    usageOf: .pinsShow
                )
            }
            probe = try ServerProbe(server, by: ConfiguredWay(path).way(to: server, timeout))
            anchorSource = "the anchors of \(path)"
        } else {
            let place = try connectAddress(arguments, server)
            let anchors = try anchors(anchorFile)
            probe = try ServerProbe(server, by: .direct(to: server, at: place, anchors, timeout))
            anchorSource = anchorFile ?? "the anchors of this system"
        }
        guard let place else {
            let report = ChainReport(
                server: server,
                probe: probe,
                anchorSource: anchorSource,
                style: .standardOutput
            )
            try Output.standard(arguments.has("json") ? report.jsonLine : report.text)
            return probe.evaluation.isAccepted ? .success : .refused
        }
        guard probe.evaluation.isAccepted else {
            throw CommandFailure(
                .refused,
                "\(server): \(probe.evaluation.reason): no pin file is made of a chain that is not valid",
                remedy: "see pinproxy pins show \(server); a private CA's certificate is given with --anchors FILE"
            )
        }
        func pinFile(_ newKey: (PublicKeyPin, String)?) throws(CommandFailure) -> ServerPinFile {
            try ServerPinFile(
                server: server,
                chain: probe.evaluation.chain,
                place: place,
                anchorFile: anchorFile,
                newKey: newKey
            )
        }
        var file = try pinFile(nil)
        // The key is made only when it is certain that there will be a pin file for it.
        let keyPath = arguments.values["new-backup-key"]
        if let keyPath { file = try pinFile((try BackupKeyFile.create(keyPath), keyPath)) }
        for warning in probe.warnings { Output.error("pinproxy: warning: \(TextLayout.printable(warning.text))\n") }
        do throws(IOFailure) {
            try output?.write(Array(file.text.utf8), as: .shared)
        } catch {
            if let keyPath { unlink(keyPath) }
            let path = Arguments.shown(path: output?.path ?? "")
            throw CommandFailure(.failed, "\(path) cannot be written: \(error.reason)")
        }
        // It says what is pinned: of a file that could not be written nothing is.
        Output.error(file.explanation)
        if output == nil { try Output.standard(file.text) }
        return .success
    }

    /// The file for the pin file; nil: the standard output.
    private static func output(_ arguments: Arguments) throws(CommandFailure) -> OutputFile? {
        guard let path = arguments.values["pin-file"], path != "-" else { return nil }
        do throws(IOFailure) {
            return try OutputFile(path)
        } catch {
            throw CommandFailure(.failed, "\(Arguments.shown(path: path)) cannot be written: \(error.reason)")
        }
    }

    /// The certificate to pin; nil when no pin file was requested.
    private static func place(_ arguments: Arguments) throws(CommandFailure) -> PinChoice.Place? {
        func wrong(_ message: String) -> CommandFailure {
            CommandFailure(.usage, "pins show: \(message)", usageOf: .pinsShow)
        }
        guard arguments.has("pin-file") || arguments.values["pin-file"] != nil else {
            for name in ["pin", "new-backup-key"] where arguments.values[name] != nil {
                throw wrong("--\(name) needs --pin-file")
            }
            return nil
        }
        if arguments.has("json") { throw wrong("--pin-file and --json are two things to print: ask for one") }
        guard let word = arguments.values["pin"] else { return .leaf }
        guard let place = PinChoice.Place(rawValue: word) else {
            throw wrong("--pin takes leaf, intermediate or root, not \(Arguments.shown(word))")
        }
        return place
    }
}

extension ServerProbe.Way {
    /// Without a configuration.
    ///
    /// - Parameter address: where to connect to in place of the host.
    fileprivate static func direct(
        to server: ServerAddress,
        at address: ServerAddress?,
        _ anchors: TrustAnchors,
        _ timeout: Duration
    ) -> ServerProbe.Way {
        ServerProbe.Way(
            endpoint: { version, profile in
                Endpoint(
                    scheme: .https,
                    host: server.host,
                    port: server.port,
                    resolve: address.map { ($0.host, $0.port) },
                    httpVersion: version,
                    policy: .unpinned,
                    anchors: anchors,
                    timeouts: TaskTimeouts(connect: timeout),
                    tls: TLSSettings(profile: profile ?? .modern)
                )
            },
            anchors: anchors
        )
    }
}

extension Command.Option {
    fileprivate static let showConfig = configuration(
        "a configuration: its upstream proxies, resolve, anchors and access rules hold"
    )
    fileprivate static let chainJSON = Command.Option(name: "json", summary: "print one JSON object instead")
    fileprivate static let pinFile = Command.Option(
        name: "pin-file",
        value: "FILE",
        summary: "write a pin file for the host to FILE, made of a valid chain only; without =FILE print it",
        mayStandAlone: true
    )
    fileprivate static let pin = Command.Option(
        name: "pin",
        value: "PLACE",
        summary: "whose key the pin file pins: leaf (the default), intermediate or root (of a public CA its root set)"
    )
    fileprivate static let newBackupKey = Command.Option(
        name: "new-backup-key",
        value: "FILE",
        summary: "make a P-256 key, write it to FILE (which must not exist) and pin it as the backup"
    )
}
