// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import TestSupport
import Testing

@testable import SharedCaching

/// Redis on a port of its own, with nothing on the disk.
private final class TopologyRedis: Sendable {
    private let folder: TemporaryFolder
    private let bus: Int32
    private let program: ServerProgram

    /// - Parameter arguments: further ones; they get a free port for the bus of a Cluster.
    init(_ arguments: (_ bus: UInt16) -> [String] = { _ in [] }) throws {
        let folder = try TemporaryFolder()
        let (reserved, busPort) = try TestSocket.reserveRefusingPort()
        self.folder = folder
        bus = reserved
        let more = arguments(busPort)
        do {
            program = try ServerProgram(Programs.redis, folder: folder.path) { port in
                ["--port", "\(port)", "--bind", "127.0.0.1", "--save", "", "--dir", folder.path] + more
            }
        } catch {
            close(reserved)
            throw error
        }
    }

    deinit { close(bus) }

    var address: RedisAddress { RedisAddress(host: "127.0.0.1", port: Int(program.port)) }

    @discardableResult
    func tell(_ words: String...) throws -> String { try Self.tell(program.port, words) }

    static func tell(_ port: UInt16, _ words: [String]) throws -> String {
        try Programs.run("redis-cli", ["-h", "127.0.0.1", "-p", "\(port)"] + words).output
    }
}

@Suite("Real servers", .waitingOnOwnThreads)
struct RealTopologyTests {
    private static let hasRedis = [Programs.redis, "redis-cli"].allSatisfy { (try? Programs.path(of: $0)) != nil }

    @Test("one Redis with a user and a password is written and read", .enabled(if: hasRedis))
    func server() throws {
        let redis = try TopologyRedis()
        try redis.tell("ACL", "SETUSER", "cache", "on", ">secret", "~*", "+@all")
        let login = RedisLogin(user: Array("cache".utf8), password: Array("secret".utf8))
        let stage = try TopologyStage(.server, [redis.address], login: login)
        #expect(try stage.ask("SET", "a", "b") == .ok)
        #expect(try stage.ask("GET", "a") == .bytes("b"))
        #expect(stage.states(of: redis.address) == [.available])
        let wrong = try TopologyStage(
            .server,
            [redis.address],
            login: RedisLogin(user: Array("cache".utf8), password: Array("other".utf8))
        )
        #expect(try wrong.ask("GET", "a") == .failure(.refused("WRONGPASS")))
    }

    @Test("a Redis without memory is told, and read", .enabled(if: hasRedis))
    func memory() throws {
        let redis = try TopologyRedis()
        let stage = try TopologyStage(.server, [redis.address])
        #expect(try stage.ask("SET", "a", "b") == .ok)
        try redis.tell("CONFIG", "SET", "maxmemory", "1")
        #expect(try stage.ask("SET", "a", "c") == .failure(.refused("OOM")))
        #expect(try stage.ask("EVAL", "return redis.call('SET', KEYS[1], 'c')", "1", "a") == .failure(.refused("OOM")))
        #expect(try stage.ask("GET", "a") == .bytes("b"))
        #expect(stage.states(of: redis.address) == [.available, .unavailable(reason: "OOM")])
    }

    @Test("a Cluster of three is used, and a slot that moves is followed", .enabled(if: hasRedis))
    func cluster() throws {
        let servers = try (0..<3).map { _ in
            try TopologyRedis { bus in ["--cluster-enabled", "yes", "--cluster-port", "\(bus)"] }
        }
        let names = servers.map { "\($0.address.host):\($0.address.port)" }
        let made = try Programs.run(
            "redis-cli",
            ["--cluster", "create"] + names + ["--cluster-replicas", "0", "--cluster-yes"]
        )
        try #require(made.exitCode == 0, "\(made.output)")
        let stage = try TopologyStage(.cluster, [servers[0].address])
        // The servers agree some moments later.
        for key in ["foo", "bar", "a"] { try stage.ask("SET", key, "1", key: key, until: { $0 == .ok }) }
        for number in 0..<50 {
            #expect(try stage.ask("SET", "key\(number)", "\(number)", key: "key\(number)") == .ok)
            #expect(try stage.ask("GET", "key\(number)", key: "key\(number)") == .bytes("\(number)"))
        }
        for server in servers { #expect(stage.states(of: server.address).last == .available) }

        // The slot of "foo" goes from the third server to the first, without the key that is not there.
        let identifiers = try servers.map { try $0.tell("CLUSTER", "MYID").trimmed }
        try servers[0].tell("CLUSTER", "SETSLOT", "12182", "IMPORTING", identifiers[2])
        try servers[2].tell("CLUSTER", "SETSLOT", "12182", "MIGRATING", identifiers[0])
        #expect(try stage.ask("SET", "{foo}new", "2", key: "{foo}new") == .ok)
        #expect(try stage.ask("GET", "{foo}new", key: "{foo}new") == .bytes("2"))
        #expect(try stage.ask("GET", "foo", key: "foo") == .bytes("1"))
        try servers[2].tell("DEL", "foo")
        for server in [servers[0], servers[2], servers[1]] {
            try server.tell("CLUSTER", "SETSLOT", "12182", "NODE", identifiers[0])
        }
        #expect(try stage.ask("GET", "{foo}new", key: "{foo}new") == .bytes("2"))
        #expect(try stage.ask("SET", "foo", "3", key: "foo") == .ok)
        #expect(try servers[0].tell("GET", "foo").trimmed == "3")
    }

    @Test("a replica that Sentinel makes the primary is used", .enabled(if: hasRedis))
    func failover() throws {
        let primary = try TopologyRedis()
        // Its port stays reserved to the end: Sentinel would make another server there a replica.
        defer { withExtendedLifetime(primary) {} }
        let old = primary.address
        let replica = try TopologyRedis { _ in ["--replicaof", "127.0.0.1", "\(old.port)"] }
        let folder = try TemporaryFolder()
        let sentinel = try ServerProgram(Programs.redis, folder: folder.path) { port in
            let settings = [
                "port \(port)", "bind 127.0.0.1", "dir \(folder.path)",
                "sentinel monitor shared 127.0.0.1 \(old.port) 1",
                "sentinel down-after-milliseconds shared 500", "sentinel failover-timeout shared 5000",
            ]
            return [try folder.write(settings.joined(separator: "\n") + "\n", as: "sentinel.conf"), "--sentinel"]
        }
        let stage = try TopologyStage(
            .sentinel(name: "shared", login: nil),
            [RedisAddress(host: "127.0.0.1", port: Int(sentinel.port))]
        )
        try stage.ask("SET", "a", "b", until: { $0 == .ok })
        // A failover needs a replica that Sentinel knows and that has all.
        try Patience.poll(for: "Sentinel to know the replica", seconds: 60) {
            let known = try TopologyRedis.tell(sentinel.port, ["SENTINEL", "REPLICAS", "shared"])
            let link = try replica.tell("INFO", "replication")
            let value = try replica.tell("GET", "a").trimmed
            return known.contains("\(replica.address.port)") && link.contains("master_link_status:up") && value == "b"
                ? true : nil
        }
        try primary.tell("SHUTDOWN", "NOSAVE")
        try stage.ask("SET", "a", "c", until: { $0 == .ok })
        #expect(try replica.tell("GET", "a").trimmed == "c")
        #expect(stage.states(of: replica.address).last == .available)
    }
}

extension String {
    fileprivate var trimmed: String { String(reversed().drop(while: \.isWhitespace).reversed()) }
}
