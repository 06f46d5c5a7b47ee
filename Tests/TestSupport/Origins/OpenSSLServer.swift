// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// `openssl s_server` as an origin: a different TLS server than nginx, which can print its input.
package final class OpenSSLServer: Sendable {
    package enum Mode: String {
        /// Serves files that contain complete responses: `-HTTP`.
        case files = "-HTTP"
        /// Responds with a page about the connection: `-www`.
        case status = "-www"
        /// Prints its input and never responds.
        case printing
    }

    package let port: UInt16
    private let folder: TemporaryFolder
    private let process: ChildProcess

    /// - Parameters:
    ///   - responses: files with a complete response each, by name.
    ///   - staple: an OCSP response (DER) for clients that request one.
    ///   - arguments: further ones of `s_server`.
    package init(
        _ server: TestServer,
        mode: Mode,
        responses: [String: String] = [:],
        staple: [UInt8]? = nil,
        arguments: [String] = []
    ) throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        let identity = try server.write(to: folder, name: "server")
        try folder.write(server.chain.dropFirst().map(\.pem).joined(), as: "chain.pem")
        for (name, response) in responses { try folder.write(response, as: name) }
        let stapling = try staple.map { ["-status_file", try folder.write(bytes: $0, as: "staple.der")] } ?? []
        let process = try ChildProcess(
            try Programs.path(of: "openssl"),
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", identity.certificate, "-key", identity.key,
                "-cert_chain", "\(folder.path)/chain.pem",
            ] + (mode == .printing ? [] : [mode.rawValue]) + stapling + arguments,
            folder: folder.path
        )
        self.process = process
        port = try process.waitForOutput("a line ACCEPT") { output in
            output.split(separator: "\n").first { $0.hasPrefix("ACCEPT") }?
                .split(separator: ":").last.flatMap { UInt16($0) }
        }
    }

    /// Its whole output.
    package var output: String { process.output }

    /// Waits until it has printed the error of a failed handshake; the connection has ended then.
    package func waitForFailedHandshake() throws {
        _ = try process.waitForErrors("a failed handshake") { $0.contains("ERROR\n") ? true : nil }
    }
}
