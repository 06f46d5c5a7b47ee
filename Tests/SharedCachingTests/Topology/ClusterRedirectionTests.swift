// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("Replies that send a command to another server of a Cluster")
struct ClusterRedirectionTests {
    private static func parse(_ text: String, slot: Int = 3999) -> ClusterRedirection? {
        ClusterRedirection(
            .error(Array(text.utf8)),
            slot: slot,
            from: RedisAddress(host: "10.0.0.9", port: 7000)
        )
    }

    @Test("a slot has moved, or one command goes elsewhere")
    func kinds() {
        let other = RedisAddress(host: "127.0.0.1", port: 6381)
        #expect(Self.parse("MOVED 3999 127.0.0.1:6381") == .moved(other))
        #expect(Self.parse("ASK 3999 127.0.0.1:6381") == .ask(other))
        #expect(Self.parse("MOVED 3999 ::1:6381") == .moved(RedisAddress(host: "[::1]", port: 6381)))
        #expect(Self.parse("MOVED 3999 Node.Example:6381") == .moved(RedisAddress(host: "node.example", port: 6381)))
    }

    @Test("an address without a name is that of the server that was asked")
    func nameless() {
        #expect(Self.parse("MOVED 3999 :6381") == .moved(RedisAddress(host: "10.0.0.9", port: 6381)))
    }

    @Test(
        "other replies are not redirections",
        arguments: ["ERR MOVED", "MOVEDX 3999 a:1", "ASKING", "moved 3999 a:1", ""]
    )
    func others(text: String) {
        #expect(Self.parse(text) == nil)
        #expect(
            ClusterRedirection(
                .status(Array("MOVED 3999 a:1".utf8)),
                slot: 3999,
                from: RedisAddress(host: "a", port: 1)
            ) == nil
        )
    }

    @Test(
        "a wrong redirection is refused",
        arguments: [
            "MOVED 4000 127.0.0.1:6381", "MOVED 3999", "MOVED 3999 127.0.0.1", "MOVED 3999 127.0.0.1:0",
            "MOVED 3999 127.0.0.1:65536",
            "MOVED 3999 127.0.0.1:6381 more", "MOVED  3999 a:1", "MOVED 3999 ?:6381", "MOVED 3999 a\r\nb:6381",
            "ASK -1 a:1",
            "ASK 3999 a:+1", "ASK 3999 a: 1", "ASK 99999999999999999999 a:1",
            "MOVED 3999 \(String(repeating: "a", count: 400)):1",
        ]
    )
    func malformed(text: String) {
        #expect(Self.parse(text) == .malformed)
    }
}
