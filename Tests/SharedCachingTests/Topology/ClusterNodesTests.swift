// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@testable import SharedCaching

@Suite("The servers of a Cluster", .onOwnThreads)
struct ClusterNodesTests {
    /// The slot of "foo" is 12182, that of "bar" 5061.
    private static let foo = 12_182

    private static func server(_ name: String) throws -> TopologyScriptedRedis {
        try TopologyScriptedRedis { _ in TopologyReply.bulk(name) }
    }

    /// Lets a server tell a table, and reply to commands as it did or as a test says.
    private static func tell(
        _ server: TopologyScriptedRedis,
        _ table: String,
        _ script: @escaping TopologyScriptedRedis.Script
    ) {
        server.become { $0[0] == "CLUSTER" ? table : script($0) }
    }

    private static func whole(_ server: TopologyScriptedRedis) -> String {
        TopologyReply.array(TopologyReply.range(0, 16_383, server.address.host, server.address.port))
    }

    @Test("each command goes to the server of its key's slot")
    func slots() throws {
        let low = try Self.server("low")
        let high = try Self.server("high")
        let table = TopologyReply.array(
            TopologyReply.range(0, 8191, "", low.address.port),
            TopologyReply.range(8192, 16_383, high.address.host, high.address.port)
        )
        Self.tell(low, table) { _ in TopologyReply.bulk("low") }
        let stage = try TopologyStage(.cluster, [low.address])
        #expect(try stage.ask("GET", "foo", key: "foo") == .bytes("high"))
        #expect(try stage.ask("GET", "bar", key: "bar") == .bytes("low"))
        #expect(try stage.ask("GET", "x{foo}y", key: "x{foo}y") == .bytes("high"))
        #expect(low.commands == [["CLUSTER", "SLOTS"], ["GET", "bar"]])
        #expect(high.commands == [["GET", "foo"], ["GET", "x{foo}y"]])
    }

    @Test("a slot that has moved is asked for there from then on")
    func moved() throws {
        let old = try Self.server("old")
        let new = try Self.server("new")
        let reply = "-MOVED \(Self.foo) 127.0.0.1:\(new.address.port)\r\n"
        Self.tell(old, Self.whole(old)) { $0[1] == "foo" ? reply : TopologyReply.bulk("old") }
        let stage = try TopologyStage(.cluster, [old.address])
        #expect(try stage.ask("GET", "foo", key: "foo") == .bytes("new"))
        #expect(try stage.ask("GET", "foo", key: "foo") == .bytes("new"))
        #expect(try stage.ask("GET", "bar", key: "bar") == .bytes("old"))
        #expect(old.commands.count { $0 == ["GET", "foo"] } == 1 && new.commands.count == 2)
        // A table is asked for at most once a second.
        #expect(old.count(of: "CLUSTER") <= 1 + stage.secondsPassed)
    }

    @Test("a key on its way is asked for with ASKING")
    func ask() throws {
        let old = try Self.server("old")
        let new = try TopologyScriptedRedis { $0[0] == "ASKING" ? TopologyReply.ok : TopologyReply.bulk("new") }
        let reply = "-ASK \(Self.foo) 127.0.0.1:\(new.address.port)\r\n"
        Self.tell(old, Self.whole(old)) { _ in reply }
        let stage = try TopologyStage(.cluster, [old.address])
        for _ in 0..<2 { #expect(try stage.ask("GET", "foo", key: "foo") == .bytes("new")) }
        #expect(new.commands == [["ASKING"], ["GET", "foo"], ["ASKING"], ["GET", "foo"]])
        #expect(old.count(of: "GET") == 2)
    }

    @Test("a command is sent to at most five servers")
    func endlessRedirections() throws {
        let one = try Self.server("")
        let other = try Self.server("")
        let toOther = "-MOVED \(Self.foo) 127.0.0.1:\(other.address.port)\r\n"
        let toOne = "-MOVED \(Self.foo) 127.0.0.1:\(one.address.port)\r\n"
        Self.tell(one, Self.whole(one)) { _ in toOther }
        other.become { _ in toOne }
        let stage = try TopologyStage(.cluster, [one.address])
        #expect(try stage.ask("GET", "foo", key: "foo") == .failure(.malformed("too many redirections")))
        #expect(one.count(of: "GET") + other.count(of: "GET") == 5)
    }

    @Test("a redirection of another slot is a failure")
    func wrongSlot() throws {
        let server = try Self.server("")
        Self.tell(server, Self.whole(server)) { _ in "-MOVED 1 127.0.0.1:1\r\n" }
        let stage = try TopologyStage(.cluster, [server.address])
        #expect(try stage.ask("GET", "foo", key: "foo") == .failure(.malformed("a redirection without an address")))
    }

    @Test("a redirection after the deadline is not followed")
    func lateRedirection() throws {
        let server = try Self.server("")
        Self.tell(server, Self.whole(server)) { $0[1] == "foo" ? "" : TopologyReply.bulk("here") }
        let stage = try TopologyStage(.cluster, [server.address])
        #expect(try stage.ask("GET", "bar", key: "bar") == .bytes("here"))
        #expect(try stage.ask(["GET", "foo"], key: "foo", within: .milliseconds(5)) == .failure(.timeout))
    }

    @Test("keys on their way, and a Cluster that is down, are failures", arguments: ["TRYAGAIN", "CLUSTERDOWN"])
    func failures(word: String) throws {
        let server = try Self.server("")
        Self.tell(server, Self.whole(server)) { _ in "-\(word) some words\r\n" }
        let stage = try TopologyStage(.cluster, [server.address])
        #expect(try stage.ask("GET", "foo", key: "foo") == .failure(.refused(word)))
    }

    @Test("a slot without a server is a failure")
    func uncovered() throws {
        let server = try Self.server("")
        Self.tell(server, TopologyReply.array(TopologyReply.range(0, 100, "", server.address.port))) { _ in nil }
        let stage = try TopologyStage(.cluster, [server.address])
        #expect(try stage.ask("GET", "foo", key: "foo") == .failure(.refused("CLUSTERDOWN")))
        #expect(server.count(of: "GET") == 0)
    }

    @Test("a hostile table is refused whole, and that of the next server is used")
    func hostileTable() throws {
        let hostile = try Self.server("hostile")
        let good = try Self.server("good")
        let overlapping = TopologyReply.array(
            TopologyReply.range(0, 16_383, "", hostile.address.port),
            TopologyReply.range(5, 6, "", hostile.address.port)
        )
        Self.tell(hostile, overlapping) { _ in TopologyReply.bulk("hostile") }
        Self.tell(good, Self.whole(good)) { _ in TopologyReply.bulk("good") }
        let stage = try TopologyStage(.cluster, [hostile.address, good.address])
        #expect(try stage.ask("GET", "foo", key: "foo") == .bytes("good"))
        #expect(stage.states(of: hostile.address) == [.unavailable(reason: "no cluster")])
    }

    @Test("without a table commands fail at once, until a server tells one")
    func noTable() throws {
        let server = try TopologyScriptedRedis { _ in "-ERR This instance has cluster support disabled\r\n" }
        let stage = try TopologyStage(.cluster, [server.address])
        let unknown = RedisResult.failure(.connection("no server of the Cluster has told its table"))
        #expect(try stage.ask("GET", "foo", key: "foo") == unknown)
        #expect(try stage.ask("GET", "foo", key: "foo") == unknown)
        #expect(server.commands.count <= 1 + stage.secondsPassed)
        Self.tell(server, Self.whole(server)) { _ in TopologyReply.bulk("here") }
        try stage.ask("GET", "foo", key: "foo", until: { $0 == .bytes("here") })
        #expect(stage.states(of: server.address) == [.unavailable(reason: "no cluster"), .available])
    }

    @Test("a server that is gone leads to a new table")
    func gone() throws {
        let old = try TopologyScriptedRedis { _ in nil }
        let new = try Self.server("new")
        let before = Self.whole(old)
        Self.tell(new, before) { _ in TopologyReply.bulk("new") }
        let stage = try TopologyStage(.cluster, [new.address])
        guard case .failure(.connection) = try stage.ask("GET", "foo", key: "foo") else {
            Issue.record("the end of the connection was no failure")
            return
        }
        Self.tell(new, Self.whole(new)) { _ in TopologyReply.bulk("new") }
        try stage.ask("GET", "foo", key: "foo", until: { $0 == .bytes("new") })
    }

    @Test("a server that left the Cluster is told anew when it returns")
    func left() throws {
        let guest = try Self.server("guest")
        let host = try Self.server("host")
        let toGuest = Self.whole(guest)
        Self.tell(host, toGuest) { _ in nil }
        let stage = try TopologyStage(.cluster, [host.address])
        var gone: [RedisAddress] = []
        stage.nodes.whenGone = { gone.append($0) }
        #expect(try stage.ask("GET", "foo", key: "foo") == .bytes("guest"))
        #expect(stage.states(of: guest.address) == [.available] && gone.isEmpty)
        let toHost = " 127.0.0.1:\(host.address.port)\r\n"
        Self.tell(host, Self.whole(host)) { _ in TopologyReply.bulk("host") }
        guest.become { "-MOVED \(ClusterSlot.of(Array($0[1].utf8)))" + toHost }
        // Each key of another slot leads to a question for the table, of which there is one a second.
        var number = 0
        try Patience.poll(for: "the new table", every: 0.05) { () throws -> Bool? in
            number += 1
            let result = try stage.ask(["GET", "\(number)"], key: "\(number)")
            #expect(result == .bytes("host"))
            return gone.isEmpty ? nil : true
        }
        #expect(gone == [guest.address])
        let back = "-MOVED \(Self.foo) 127.0.0.1:\(guest.address.port)\r\n"
        Self.tell(host, toGuest) { _ in back }
        guest.become { _ in TopologyReply.bulk("guest") }
        try stage.ask("GET", "foo", key: "foo", until: { $0 == .bytes("guest") })
        #expect(stage.states(of: guest.address) == [.available, .available] && gone.count == 1)
    }

    @Test("the link that was not used for the longest time makes room")
    func quietLinks() throws {
        let stage = try TopologyStage(.cluster, [], clock: .byHand)
        let pool = try #require((stage.nodes as? LinkedNodes)?.servers)
        for port in 1...LinkPool.connectionsAtMost {
            #expect(pool.link(to: RedisAddress(host: "a", port: port)) != nil)
        }
        #expect(pool.link(to: RedisAddress(host: "a", port: 200)) != nil)
        #expect(pool.count == LinkPool.connectionsAtMost)
        pool.removeIdle(except: [RedisAddress(host: "a", port: 200)])
        #expect(pool.count == 1)
    }

    @Test("links in use stay, and there are no more than 128")
    func busyLinks() throws {
        let silent = try TopologyScriptedRedis { _ in "" }
        let stage = try TopologyStage(.cluster, [], dialling: silent.address)
        let pool = try #require((stage.nodes as? LinkedNodes)?.servers)
        let deadline = stage.loop.now + 20_000_000_000
        for port in 1...LinkPool.connectionsAtMost {
            let link = pool.link(to: RedisAddress(host: "a", port: port))
            #expect(link?.take(RedisCommand("PING"), by: deadline) { _ in } == true)
        }
        #expect(pool.link(to: RedisAddress(host: "a", port: 200)) == nil)
        #expect(pool.link(to: RedisAddress(host: "a", port: 1))?.isIdle == false)
        pool.removeIdle(except: [])
        #expect(pool.count == LinkPool.connectionsAtMost)
    }
}
