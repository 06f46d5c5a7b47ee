// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// Real clients through the proxy to a pinned origin; `make clients` runs all of them, and writes docs/clients.md.
@Suite("The matrix of real clients", .earlyOnOwnThreads)
struct ClientMatrixTests {
    private static let wrongHost = "wrong.example.com"
    static let innerHost = "inner.example.com"
    private static let absent = MatrixClient.all.compactMap { client in client.absence.map { (client, $0) } }
    private static let present = MatrixClient.all.filter { client in !absent.contains { $0.0.name == client.name } }

    @Test("every client of the matrix is there", .enabled(if: RealPeers.areRequired))
    func complete() {
        for (client, why) in Self.absent where client.isInstallable { Issue.record("\(client.name): \(why)") }
    }

    @Test("docs/clients.md has the table of the clients")
    func table() throws {
        let rows = MatrixClient.all.filter(\.isInstallable).map { client in
            [client.name] + MatrixClient.Action.allCases.map(client.cell)
        }
        let columns = ["client"] + MatrixClient.Action.allCases.map(\.rawValue)
        let (found, expected) = try SeenTable(name: "clients", columns: columns, rows: rows).compare()
        #expect(found == expected)
    }

    @Test("a real client works by every way in, and sees a wrong pin", arguments: present)
    func client(client: MatrixClient) throws {
        let work = try TemporaryFolder()
        let pinproxy = try Programs.built("pinproxy")
        let made = try Programs.run(pinproxy, ["ca", "init", "--dir", work.path, Self.innerHost, Self.wrongHost])
        try #require(made.exitCode == 0, "\(made.errors)")
        let authority = "\(work.path)/pinproxy-ca.pem"
        let trusted = try String(contentsOfFile: authority, encoding: .utf8) + Stage.pki.root.certificate.pem
        let server = try Stage.pki.server(Stage.host, Self.wrongHost, Self.innerHost)
        let origin = try MatrixOrigin(server, withPackages: client.fetchesPackages)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.resolve(Self.wrongHost, to: origin.port)
        settings.pin(Self.wrongHost, to: .unrelated(2))
        settings.serve(Self.innerHost, server, at: origin.port)
        for host in [Self.wrongHost, Self.innerHost] { settings.hosts[host]?["connect"] = "intercept" }
        settings.members["interception"] = ["certificate": authority, "key": "\(work.path)/pinproxy-ca.key"]
        settings.addGateway(to: Stage.host)
        let own = try Stage.pki.server("localhost")
        settings.files["own.pem"] = own.chainPEM
        settings.files["own.key"] = own.privateKeyPEM
        settings.files["users"] = "user:" + (try Programs.passwordHash("password"))
        for member in [
            "tls": ["certificate": "own.pem", "key": "own.key"], "authentication": ["basic": ["file": "users"]],
        ] as KeyValuePairs<String, Any> {
            settings.listeners.append(["address": "127.0.0.1:0", "mode": "forward", member.key: member.value])
        }
        let proxy = try ProxyUnderTest(settings)
        let address = "http://127.0.0.1:\(proxy.port)"
        let ca = try work.write(trusted, as: "ca.pem")
        let finished = try client.run([
            "PROXY": address, "GATEWAY": "http://127.0.0.1:\(proxy.port(of: 1))",
            "TLS_PROXY": "https://localhost:\(proxy.port(of: 2))",
            "AUTH_PROXY": "http://127.0.0.1:\(proxy.port(of: 3))",
            "BASE": "http://\(client.opensTunnels ? Self.innerHost : Stage.host)", "SECURE": "https://\(Stage.host)",
            "WRONG": "http://\(Self.wrongHost)", "INNER": "https://\(Self.innerHost)", "CA": ca,
            "NODE_EXTRA_CA_CERTS": ca, "UPLOAD": try work.write(bytes: origin.large, as: "upload"),
            "PART": try work.write(bytes: Array(origin.large.prefix(1_000_000)), as: "part"), "WORK": work.path,
            "NAME": client.name.replacing(" ", with: "-"), "http_proxy": address, "https_proxy": address,
        ])
        var said: [String: String] = [:]
        for line in finished.output.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 1).map(String.init)
            if words.count == 2 { said[words[0]] = words[1] }
        }
        let digest = try String(Programs.run("sha256sum", ["\(work.path)/upload"]).output.prefix(64))
        for action in MatrixClient.Action.allCases {
            let expected: String? =
                client.lacks[action] != nil
                ? nil : client.expected(action, digest: digest, count: origin.large.count)
            #expect(said[action.word] == expected, "\(action): \(finished.output)\n\(finished.errors)")
        }
        if client.lacks[.keep] == nil {
            let kept = try Patience.poll(for: "both requests in the log") { () -> [LogLine]? in
                let lines = proxy.taskLines.filter { $0.string("url")?.contains("/keep/") == true }
                return lines.count >= 2 ? lines : nil
            }
            #expect(Set(kept.map { $0.string("client") }).count == 1, "the connection was not kept")
        }
        #expect(try proxy.terminate().exitCode == 0)
    }
}
