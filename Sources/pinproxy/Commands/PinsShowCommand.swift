import Glibc
import ServerTrust

extension Command {
    static let pinsShow = Command(
        name: "pins show",
        summary: "connect to a server, print its chain and the pins in it",
        options: [.pinFile, .anchors],
        operands: .one("HOST[:PORT]"),
        explanation: [
            """
            Makes a TLS connection (port 443 unless given), sends no request, and prints the chain as it was validated \
            against the anchors of this system: each certificate's subject, dates, key and pin.
            """,
            """
            Exit code 0 for a valid chain, 77 for one that would be refused, 1 when there is no connection. Which root \
            ends a chain depends on the anchors of the machine: with cross-signed roots another may build another chain.
            """,
        ],
        examples: [
            Example(line: "pinproxy pins show api.example.com", meaning: "The chain, for people."),
            Example(
                line: "pinproxy pins show --pin-file api.example.com > pins/api.json",
                meaning: "A pin file to start from."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        // The server may close the connection first.
        signal(SIGPIPE, SIG_IGN)
        let server = try ServerAddress(arguments.operands[0])
        let anchorFile = try arguments.values["anchors"].map { name throws(CommandFailure) in try wholePath(name) }
        let probe = try ServerProbe(server, anchors: try anchors(anchorFile))
        guard arguments.has("pin-file") else {
            try Output.standard(ChainReport(server: server, probe: probe, style: .standardOutput).text)
            return probe.evaluation.isAccepted ? .success : .refused
        }
        guard probe.evaluation.isAccepted else {
            throw CommandFailure(
                .refused,
                "\(server): \(probe.evaluation.reason): no pin file is made of a chain that is not valid",
                remedy: "see pinproxy pins show \(server); a private CA's certificate is given with --anchors FILE"
            )
        }
        let file = PinFileText(server: server, chain: probe.evaluation.chain, anchorFile: anchorFile)
        Output.error(file.explanation)
        try Output.standard(file.text)
        return .success
    }

    private static func wholePath(_ name: String) throws(CommandFailure) -> String {
        guard let path = realpath(name, nil) else {
            throw CommandFailure(
                .inputMissing,
                "\(Arguments.shown(name)) cannot be read: \(String(cString: strerror(errno)))",
                remedy: "name a file of certificates"
            )
        }
        defer { free(path) }
        return String(cString: path)
    }

    private static func anchors(_ file: String?) throws(CommandFailure) -> TrustAnchors {
        do throws(CertificateFault) {
            return try TrustAnchorLibrary().anchors(system: file == nil, files: file.map { [$0] } ?? [])
        } catch {
            throw CommandFailure(.failed, error.message, remedy: error.remedy)
        }
    }
}

extension Command.Option {
    fileprivate static let pinFile = Command.Option(
        name: "pin-file",
        summary: "print a pin file for the host instead, made of a valid chain only"
    )
    fileprivate static let anchors = Command.Option(
        name: "anchors",
        value: "FILE",
        summary: "certificates (PEM or DER) that a chain may end in, in place of the anchors of this system"
    )
}
