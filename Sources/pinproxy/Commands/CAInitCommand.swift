// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust

extension Command {
    static let caInit = Command(
        name: "ca init",
        summary: "makes the local CA that interception needs",
        options: AuthorityFiles.options,
        operands: .any("HOST"),
        explanation: [
            """
            Makes a key (P-256, mode 0600) and a certificate that can sign for the named hosts and what lies below them, \
            and for nothing else. With --config, the hosts whose connect is "intercept" are among them. Files that exist \
            are never overwritten. Nothing is sent anywhere.
            """,
            """
            Whoever has the key can pose as these hosts towards every program that trusts the certificate: it belongs to \
            one machine, and is not to be copied. Install the certificate where it is needed: pinproxy ca show says how.
            """,
        ],
        examples: [
            Example(
                line: "pinproxy ca init --config config.json",
                meaning: "For all hosts that the configuration has intercepted."
            ),
            Example(line: "pinproxy ca init --dir /etc/pinproxy api.example.com", meaning: "For one host."),
        ]
    ) { arguments throws(CommandFailure) in
        let files = try AuthorityFiles(arguments)
        let hosts = try hosts(files.hosts + arguments.operands)
        for path in [files.certificate, files.key] where access(path, F_OK) == 0 {
            throw CommandFailure(
                .failed,
                "\(Arguments.shown(path: path)) exists",
                remedy: "clients may trust it: move it away first if it is to be replaced"
            )
        }
        let now = Clock.seconds
        let authority: Identity
        do throws(OpenSSLError) {
            authority = try LocalAuthority.make(for: hosts, name: name(now), validity: (now - 3600)..<(now + lifetime))
        } catch {
            throw CommandFailure(.internal, "no certificate could be made: \(error)")
        }
        try NewFile.create(files.key, authority.key.privateKeyPEM, as: .secret)
        do throws(CommandFailure) {
            try NewFile.create(files.certificate, authority.certificate.pem, as: .shared)
        } catch {
            unlink(files.key)
            throw error
        }
        try Output.standard(AuthorityReport(certificate: authority.certificate, path: files.certificate).text)
        return .success
    }

    /// Two years.
    private static let lifetime: Int64 = 730 * 86_400

    private static func name(_ now: Int64) -> String {
        let digits = String(UInt32.random(in: 0...UInt32.max), radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }

    private static func hosts(_ names: [String]) throws(CommandFailure) -> [Host] {
        var hosts: [Host] = []
        for name in names {
            let host: Host
            do {
                host = try Host(name.hasPrefix("*.") ? String(name.dropFirst(2)) : name)
            } catch {
                throw CommandFailure(
                    .usage,
                    "\(Arguments.shown(name)) is no host: \(error)",
                    remedy: "name hosts alone"
                )
            }
            if !hosts.contains(host) { hosts.append(host) }
        }
        guard !hosts.isEmpty else {
            throw CommandFailure(
                .usage,
                "there is no host to make it for",
                remedy: "name the hosts to be intercepted, or a configuration that has some"
            )
        }
        return hosts
    }
}
