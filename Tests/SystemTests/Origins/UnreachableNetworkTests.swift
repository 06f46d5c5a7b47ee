// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

/// A task can be over before its loop has waited for the first time: nothing would wake the loop then.
@Suite("Commands in a network that refuses every connection", .onOwnThreads)
struct UnreachableNetworkTests {
    /// Runs the binary where there is loopback and nothing else: 192.0.2.1 is unreachable without a packet.
    private func run(_ words: [String]) throws -> Programs.Finished {
        try Programs.run(
            "unshare",
            [
                "--user", "--map-root-user", "--net", "/bin/sh", "-c", #"ip link set lo up && exec "$0" "$@""#,
                try Programs.built("pinproxy"),
            ] + words,
            seconds: 20
        )
    }

    @Test(
        "pins show and fetch say so, and end",
        arguments: [
            (["pins", "show", "--timeout", "3s", "192.0.2.1"], Int32(1)),
            (["fetch", "https://192.0.2.1/"], Int32(69)),
            (["health", "--admin", "192.0.2.1:8081"], Int32(69)),
        ]
    )
    func connection(words: [String], exitCode: Int32) throws {
        let finished = try run(words)
        #expect(finished.exitCode == exitCode, "\(finished.errors)")
        #expect(finished.errors.contains("192.0.2.1"), "\(finished.errors)")
    }

    @Test("pins verify says so of each host, and ends")
    func verify() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: Stage.pki)
        for name in ["one.test", "two.test"] {
            settings.pin(name, to: .unrelated(8))
            settings.hosts[name] = ["resolve": "192.0.2.1:443"]
        }
        let path = try settings.write(to: folder)
        let finished = try run(["pins", "verify", "--config", path, "--json"])
        #expect(finished.exitCode == 1, "\(finished.errors)")
        let lines = finished.output.split(separator: "\n").compactMap { LogLine(String($0)) }
        #expect(lines.map { $0.string("code") } == ["connect_failed", "connect_failed"], "\(finished.output)")
    }
}
