// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("The search of a primary")
struct SentinelSearchTests {
    private static func server(_ number: Int) -> RedisAddress { RedisAddress(host: "10.0.0.\(number)", port: 26_379) }

    private static let sentinels = [server(1), server(2), server(3)]
    private static let second: UInt64 = 1_000_000_000

    /// A search that has found a primary with the second Sentinel, at time 0.
    private static func found(_ primary: RedisAddress) -> SentinelSearch {
        var search = SentinelSearch(sentinels)
        #expect(search.begin(now: 0) == .ask(server(1)))
        #expect(search.named(nil) == .ask(server(2)))
        #expect(search.named(primary) == .check(primary))
        #expect(search.primary == nil)
        #expect(search.checked(true) == .use(primary))
        return search
    }

    @Test("Sentinels are asked in turn, the next time first the one that replied")
    func order() {
        var search = Self.found(Self.server(9))
        #expect(search.primary == Self.server(9))
        #expect(search.begin(now: 10 * Self.second) == .ask(Self.server(2)))
        #expect(search.named(nil) == .ask(Self.server(1)))
        #expect(search.named(nil) == .ask(Self.server(3)))
        #expect(search.named(nil) == .giveUp)
    }

    @Test("the next Sentinel is asked when the server is no primary")
    func replica() {
        var search = SentinelSearch(Self.sentinels)
        _ = search.begin(now: 0)
        #expect(search.named(Self.server(9)) == .check(Self.server(9)))
        #expect(search.checked(false) == .ask(Self.server(2)))
        #expect(search.named(Self.server(9)) == .check(Self.server(9)))
        #expect(search.checked(nil) == .ask(Self.server(3)))
        #expect(search.named(Self.server(8)) == .check(Self.server(8)))
        #expect(search.checked(true) == .use(Self.server(8)))
        #expect(search.primary == Self.server(8))
    }

    @Test("a primary is searched again after 10 seconds, and stays in use meanwhile")
    func interval() {
        var search = Self.found(Self.server(9))
        #expect(!search.isDue(now: 9 * Self.second) && search.isDue(now: 10 * Self.second))
        #expect(search.begin(now: 10 * Self.second) != nil)
        #expect(search.primary == Self.server(9))
        #expect(search.named(Self.server(9)) == .check(Self.server(9)))
        #expect(search.checked(true) == .use(Self.server(9)))
        #expect(!search.isDue(now: 11 * Self.second))
    }

    @Test("a primary that works stays in use when no Sentinel replies")
    func silentSentinels() {
        var search = Self.found(Self.server(9))
        _ = search.begin(now: 10 * Self.second)
        #expect(search.named(nil) == .ask(Self.server(1)))
        #expect(search.named(Self.server(8)) == .check(Self.server(8)))
        #expect(search.checked(nil) == .ask(Self.server(3)))
        #expect(search.named(nil) == .giveUp)
        #expect(search.primary == Self.server(9))
    }

    @Test("a primary that has become a replica is not used any more")
    func demoted() {
        var search = Self.found(Self.server(9))
        _ = search.begin(now: 10 * Self.second)
        _ = search.named(Self.server(9))
        #expect(search.checked(false) == .ask(Self.server(1)))
        #expect(search.primary == nil)
    }

    @Test("a doubt about the primary ends its use until the next search")
    func doubt() {
        var search = Self.found(Self.server(9))
        search.doubt(Self.server(8))
        #expect(search.primary == Self.server(9))
        search.doubt(Self.server(9))
        #expect(search.primary == nil && search.isDue(now: 1))
        #expect(search.begin(now: Self.second / 2 - 1) == nil)
        #expect(search.begin(now: Self.second / 2) == .ask(Self.server(2)))
        // One search at a time.
        #expect(search.begin(now: 9 * Self.second) == nil)
    }

    @Test("commands wait for a search unless the last one was in vain")
    func promising() {
        var search = SentinelSearch([Self.server(1)])
        #expect(!search.isPromising)
        _ = search.begin(now: 0)
        #expect(search.isPromising)
        #expect(search.named(nil) == .giveUp)
        _ = search.begin(now: Self.second)
        #expect(!search.isPromising)
        _ = search.named(Self.server(9))
        _ = search.checked(true)
        search.doubt(Self.server(9))
        _ = search.begin(now: 2 * Self.second)
        #expect(search.isPromising)
    }

    @Test("a search that was reset begins at once")
    func reset() {
        var search = Self.found(Self.server(9))
        search.reset()
        #expect(search.primary == nil)
        #expect(search.begin(now: 1) == .ask(Self.server(2)))
    }

    @Test("at most 16 servers are asked in one round, each once")
    func longRound() {
        var round = SearchRound(pause: 1)
        let many = (0..<20).map(Self.server)
        var asked = [round.begin(many + many, now: 0)]
        while let next = round.next() { asked.append(next) }
        #expect(asked == many.prefix(16).map { $0 })
    }

    @Test("an address of a Sentinel is a name and a port")
    func addresses() {
        func address(_ parts: String...) -> RedisAddress? {
            SentinelReply.address(.array(parts.map { .bytes(Array($0.utf8)) }))
        }
        #expect(address("10.0.0.1", "6379") == RedisAddress(host: "10.0.0.1", port: 6379))
        #expect(address("::1", "1")?.host == "[::1]" && address("A.example", "65535")?.host == "a.example")
        for name in [
            "", " ", "a b", "a\n", "a\0", "http://a", "a/b", "u@a", "[::1", "fe80::1%eth0", "0x7f.1",
            String(repeating: "a", count: 256),
        ] {
            #expect(address(name, "6379") == nil)
        }
        for port in ["", "0", "65536", "-1", "+1", " 1", "1 ", "1.0", "0x1", "000001", "99999999999999999999"] {
            #expect(address("a", port) == nil)
        }
        #expect(address("a") == nil && address("a", "1", "2") == nil)
        #expect(SentinelReply.address(.null) == nil)
        #expect(SentinelReply.address(.array([.bytes([0x61]), .integer(6379)])) == nil)
    }

    @Test("a primary says so in the first word of its role")
    func roles() {
        func role(_ word: String) -> RedisReply { .array([.bytes(Array(word.utf8)), .integer(0)]) }
        #expect(SentinelReply.isPrimary(role("master")))
        #expect(!SentinelReply.isPrimary(role("slave")) && !SentinelReply.isPrimary(role("sentinel")))
        #expect(
            !SentinelReply.isPrimary(role("")) && !SentinelReply.isPrimary(.array([]))
                && !SentinelReply.isPrimary(.null)
        )
        #expect(!SentinelReply.isPrimary(.status(Array("master".utf8))))
    }
}
