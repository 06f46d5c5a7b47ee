// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("The slots of a Cluster")
struct ClusterTableTests {
    private static let asked = RedisAddress(host: "10.0.0.9", port: 7000)

    private static func node(_ host: String?, _ port: Int) -> RedisReply {
        .array([host.map { .bytes(Array($0.utf8)) } ?? .null, .integer(port), .bytes(Array("id".utf8))])
    }

    private static func range(_ first: Int, _ last: Int, _ host: String?, _ port: Int = 7000) -> RedisReply {
        .array([.integer(first), .integer(last), node(host, port), node("10.0.0.200", 1)])
    }

    private static func table(_ ranges: RedisReply...) -> ClusterTable? { ClusterTable(.array(ranges), from: asked) }

    @Test("the checksum is CRC-16 with the polynomial of XModem")
    func checksum() {
        #expect(ClusterSlot.checksum(Array("123456789".utf8)[...]) == 0x31C3)
    }

    @Test(
        "the slot is that of the part in braces",
        arguments: [
            ("foo", 12_182), ("bar", 5061), ("somekey", 11_058), ("foo{hash_tag}", 2515), ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015), ("foo{bar}{zap}", 5061), ("", 0), ("{user1000}.following", 3443), ("a{b", 13_340),
        ]
    )
    func slots(key: String, slot: Int) {
        // The numbers are those of CLUSTER KEYSLOT.
        #expect(ClusterSlot.of(Array(key.utf8)) == slot)
    }

    @Test("each slot has the first server of its range, and others have none")
    func ranges() throws {
        let table = try #require(
            Self.table(
                Self.range(0, 5460, "10.0.0.1"),
                Self.range(5461, 10_922, "10.0.0.2", 7001),
                Self.range(16_383, 16_383, "10.0.0.1")
            )
        )
        #expect(table[0] == RedisAddress(host: "10.0.0.1", port: 7000))
        #expect(table[5460] == table[0] && table[16_383] == table[0])
        #expect(table[5461] == RedisAddress(host: "10.0.0.2", port: 7001) && table[10_922] == table[5461])
        #expect(table[10_923] == nil && table[16_382] == nil)
        #expect(table.nodes.count == 2)
    }

    @Test("a server without a name is the one that was asked", arguments: ["", nil])
    func nameless(name: String?) throws {
        let table = try #require(Self.table(Self.range(0, 16_383, name, 7005)))
        #expect(table[9] == RedisAddress(host: "10.0.0.9", port: 7005))
    }

    @Test("names of servers are in normal form")
    func normalForm() throws {
        let table = try #require(Self.table(Self.range(0, 1, "Redis-1.Example.COM."), Self.range(2, 3, "2001:DB8::1")))
        #expect(table[0]?.host == "redis-1.example.com" && table[2]?.host == "[2001:db8::1]")
    }

    @Test(
        "a table with a wrong range is refused whole",
        arguments: [
            range(-1, 5, "a"), range(5, 4, "a"), range(0, 16_384, "a"), range(0, Int.max, "a"), range(Int.min, 5, "a"),
            range(0, 5, "a", 0), range(0, 5, "a", 65_536), range(0, 5, "a", -1), range(0, 5, "a b"),
            range(0, 5, "a\r\nb"),
            range(0, 5, "a\0"), range(0, 5, "?"), range(0, 5, "127.1"), range(0, 5, "ä"), range(0, 5, "u@a"),
            range(0, 5, String(repeating: "a.", count: 127) + "aaa"), range(100, 200, "overlap"),
            .array([.integer(0), .integer(1)]), .array([.integer(0), .bytes([0x31]), node("a", 1)]), .integer(1), .null,
            .array([.integer(0), .integer(1), .array([.bytes([0x61])])]),
            .array([.integer(0), .integer(1), .array([.integer(5), .integer(6)])]),
        ] as [RedisReply]
    )
    func hostile(wrong: RedisReply) {
        #expect(Self.table(Self.range(150, 160, "good"), wrong) == nil)
        #expect(Self.table(Self.range(150, 160, "good")) != nil)
    }

    @Test("a reply that is no list of ranges is no table")
    func noList() {
        for reply: RedisReply in [.null, .array([]), .integer(3), .error(Array("ERR This instance".utf8))] {
            #expect(ClusterTable(reply, from: Self.asked) == nil)
        }
        let many = (0...ClusterSlot.count).map { Self.range($0 % ClusterSlot.count, $0 % ClusterSlot.count, "a") }
        #expect(ClusterTable(.array(many), from: Self.asked) == nil)
    }

    @Test("a table has at most 1,000 servers, and a moved slot adds none")
    func manyServers() throws {
        let ranges = (0..<1_001).map { Self.range($0, $0, "10.1.\($0 / 250).\($0 % 250)") }
        #expect(ClusterTable(.array(ranges), from: Self.asked) == nil)
        var table = try #require(ClusterTable(.array(Array(ranges.dropLast())), from: Self.asked))
        #expect(table.nodes.count == 1_000)
        let before = table[7]
        table.move(7, to: RedisAddress(host: "other", port: 1))
        #expect(table[7] == before && table.nodes.count == 1_000)
        table.move(7, to: table.nodes[8])
        #expect(table[7] == table.nodes[8])
    }

    @Test("a moved slot alone has another server")
    func moved() throws {
        var table = try #require(Self.table(Self.range(0, 16_383, "10.0.0.1")))
        let other = RedisAddress(host: "10.0.0.2", port: 7001)
        table.move(12_182, to: other)
        #expect(table[12_182] == other && table[12_181]?.host == "10.0.0.1" && table[12_183]?.host == "10.0.0.1")
    }
}
