// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// Real clients without a key through the proxy that has it; `make clients` runs all of them, and writes docs/clients.md.
@Suite("The matrix of real clients without a key", .earlyOnOwnThreads)
struct CredentialMatrixTests {
    static let tokenHost = "login.example.com"
    private static let absent = KeylessClient.all.compactMap { client in client.absence.map { (client, $0) } }
    private static let present = KeylessClient.all.filter { client in !absent.contains { $0.0.name == client.name } }

    enum Way: CaseIterable {
        case rightPin, wrongPin, noCredential
    }

    @Test("every client without a key is there", .enabled(if: RealPeers.areRequired))
    func complete() {
        for (client, why) in Self.absent { Issue.record("\(client.name): \(why)") }
    }

    @Test("docs/clients.md has the table of the clients without a key")
    func table() throws {
        let rows = KeylessClient.all.map { client in
            [client.name, client.words.server, client.words.source, client.words.client, "✓", "502"]
        }
        let columns = ["client", "server", "pinproxy has", "the client has", "right pin", "wrong pin"]
        let (found, expected) = try SeenTable(name: "keyless", columns: columns, rows: rows).compare()
        #expect(found == expected)
    }

    @Test(
        "a client without the key is served under the right pin alone",
        arguments: present,
        Way.allCases
    )
    func client(client: KeylessClient, way: Way) throws {
        let server = try Stage.pki.server(Stage.host, Self.tokenHost)
        let site = try TemporaryFolder()
        let running = try client.start(in: site)
        let seen = Monitor<[UInt8]>([])
        let front = try ScriptedOrigin(server) { connection in
            let behind = try TestSocket.connect(port: running.port)
            defer { close(behind) }
            connection.relay(with: behind, seen: seen)
        }
        var settings = ProxySettings(trusting: Stage.pki)
        for host in [Stage.host, Self.tokenHost] {
            settings.serve(host, server, at: front.port)
            if way == .wrongPin { settings.pin(host, to: .unrelated(7)) }
        }
        let secrets = try TemporaryFolder()
        settings.files["secret"] = client.secret + "\n"
        try secrets.write(client.secret + "\n", as: "secret")
        var rule: [String: Any] = ["id": "key", "host": Stage.host, "then": "allow"]
        rule.merge(client.rule) { $1 }
        if way != .noCredential {
            rule["credential"] = "key"
            settings.members["credentials"] = ["key": try client.definition(in: secrets.path)]
        }
        settings.members["requests"] = ["rules": [rule]]
        let proxy = try ProxyUnderTest(settings)
        let work = try TemporaryFolder()
        let finished = try client.run(through: proxy, in: work)
        let lines = finished.output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
        switch way {
        case .rightPin:
            #expect(lines == client.hears, "\(finished) \(proxy.output) \(proxy.errors)")
        case .wrongPin:
            #expect(!lines.isEmpty && lines.allSatisfy { $0 == "refused 502" }, "\(finished) \(proxy.output)")
            #expect(front.applicationBytes == 0 && !front.connections.isEmpty && seen.with { $0.isEmpty })
        case .noCredential:
            // The server asks for the key, and the client has none.
            #expect(!lines.isEmpty && lines.allSatisfy { $0 == "refused \(client.server.refusal)" }, "\(finished)")
        }
        #expect(try proxy.terminate().exitCode == 0)
        for text in [finished.output, finished.errors, proxy.output, proxy.errors] {
            #expect(!text.contains(KeylessClient.key), "\(text)")
        }
        withExtendedLifetime(running) {}
    }
}
