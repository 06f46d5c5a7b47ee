// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

/// The common options of commands that connect to one server.
extension Command {
    /// The address to connect to instead; nil when none was given.
    static func connectAddress(
        _ arguments: Arguments,
        _ server: ServerAddress
    ) throws(CommandFailure) -> ServerAddress? {
        guard let word = arguments.values["connect"] else { return nil }
        var address = try ServerAddress(word)
        if !address.hasPort { address.port = server.port }
        return address
    }

    /// - Returns: nil when none was given.
    static func timeout(_ arguments: Arguments, of command: Command) throws(CommandFailure) -> Duration? {
        guard let word = arguments.values["timeout"] else { return nil }
        guard let span = Milliseconds(parsing: word) else {
            throw CommandFailure(
                .usage,
                "--timeout takes a time, not \(Arguments.shown(word))",
                remedy: "as in 500ms, 10s or 1m",
                usageOf: command
            )
        }
        return .milliseconds(span.count)
    }

    /// The absolute path of an existing file.
    static func wholePath(_ name: String) throws(CommandFailure) -> String {
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

    /// - Parameter file: nil for the anchors of this system.
    static func anchors(_ file: String?) throws(CommandFailure) -> TrustAnchors {
        do throws(CertificateFault) {
            return try TrustAnchorLibrary().anchors(system: file == nil, files: file.map { [$0] } ?? [])
        } catch {
            throw CommandFailure(.failed, error.message, remedy: error.remedy)
        }
    }
}

extension Command.Option {
    static let anchors = Command.Option(
        name: "anchors",
        value: "FILE",
        summary: "certificates (PEM or DER) that a chain may end in, in place of the anchors of this system"
    )
    static let connect = Command.Option(
        name: "connect",
        value: "HOST[:PORT]",
        summary: "connect there instead; the name that the server has to prove stays the same"
    )
    static let timeout = Command.Option(
        name: "timeout",
        value: "TIME",
        summary: "for name lookup, connection and TLS together: 500ms, 10s (the default), 1m"
    )
}
