// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import ProxyCore
import ServerTrust
import SessionCore

extension Command {
    static let pinsShow: Command = Command(
        name: "pins show",
        summary: "connect to a server, print its chain and the pins in it",
        options: [.anchors, .connect, .timeout, .chainJSON, .pinFile, .pin, .newBackupKey],
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
        ],
        examples: [
            Example(line: "pinproxy pins show api.example.com", meaning: "The chain, for people."),
            Example(
                line: "pinproxy pins show --pin-file api.example.com > pins/api.json",
                meaning: "A pin file to start from: the server's key, and the roots of its CA."
            ),
            Example(
                line: "pinproxy pins show --pin-file --new-backup-key next.key HOST > pins/own.json",
                meaning: "For a server of your own: a new key is the backup."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        // The server may close the connection first.
        signal(SIGPIPE, SIG_IGN)
        let server = try ServerAddress(arguments.operands[0])
        let place = try place(arguments)
        let anchorFile = try arguments.values["anchors"].map { name throws(CommandFailure) in try wholePath(name) }
        let probe = try ServerProbe(
            server,
            at: try connectAddress(arguments, server),
            anchors: try anchors(anchorFile),
            timeout: try timeout(arguments, of: .pinsShow) ?? .seconds(10)
        )
        let anchorSource = anchorFile ?? "the anchors of this system"
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
        if let path = arguments.values["new-backup-key"] { file = try pinFile((try BackupKeyFile.create(path), path)) }
        for warning in probe.warnings { Output.error("pinproxy: warning: \(TextLayout.printable(warning.text))\n") }
        Output.error(file.explanation)
        try Output.standard(file.text)
        return .success
    }

    /// The certificate to pin; nil when no pin file was requested.
    private static func place(_ arguments: Arguments) throws(CommandFailure) -> PinChoice.Place? {
        func wrong(_ message: String) -> CommandFailure {
            CommandFailure(.usage, "pins show: \(message)", usageOf: .pinsShow)
        }
        guard arguments.has("pin-file") else {
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

extension Command.Option {
    fileprivate static let chainJSON = Command.Option(name: "json", summary: "print one JSON object instead")
    fileprivate static let pinFile = Command.Option(
        name: "pin-file",
        summary: "print a pin file for the host instead, made of a valid chain only"
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
