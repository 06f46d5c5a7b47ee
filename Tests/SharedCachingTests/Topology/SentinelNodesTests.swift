// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@testable import SharedCaching

@Suite("A primary behind Sentinels", .onOwnThreads)
struct SentinelNodesTests {
    private static func primary(_ name: String) throws -> TopologyScriptedRedis {
        try TopologyScriptedRedis { $0[0] == "ROLE" ? TopologyReply.primary : TopologyReply.bulk(name) }
    }

    private static func sentinel(_ address: RedisAddress) throws -> TopologyScriptedRedis {
        let reply = TopologyReply.named(address)
        return try TopologyScriptedRedis {
            $0 == ["SENTINEL", "get-master-addr-by-name", "shared"] ? reply : "*-1\r\n"
        }
    }

    private static func stage(_ sentinels: [TopologyScriptedRedis], name: String = "shared") throws -> TopologyStage {
        try TopologyStage(.sentinel(name: name, login: nil), sentinels.map(\.address))
    }

    @Test("the first command waits until the primary is found and checked")
    func first() throws {
        let server = try Self.primary("primary")
        let sentinel = try Self.sentinel(server.address)
        let stage = try Self.stage([sentinel])
        #expect(try stage.ask("GET", "a") == .bytes("primary"))
        #expect(try stage.ask("GET", "a") == .bytes("primary"))
        #expect(server.commands.map { $0[0] } == ["ROLE", "GET", "GET"])
        #expect(sentinel.commands.count == 1)
        #expect(stage.states(of: server.address) == [.available] && stage.states(of: sentinel.address) == [.available])
    }

    @Test("Sentinels that are silent or do not know the name are passed over")
    func nextSentinel() throws {
        let server = try Self.primary("primary")
        let unknowing = try TopologyScriptedRedis { _ in "*-1\r\n" }
        let silent = try TopologyScriptedRedis { _ in "" }
        let knowing = try Self.sentinel(server.address)
        let stage = try Self.stage([unknowing, silent, knowing])
        #expect(try stage.ask("GET", "a") == .bytes("primary"))
        #expect(unknowing.commands.count == 1 && silent.commands.count == 1)
        #expect(stage.states(of: unknowing.address) == [.unavailable(reason: "unknown name")])
    }

    @Test("a server that is a replica gets no command")
    func replica() throws {
        let server = try TopologyScriptedRedis {
            $0[0] == "ROLE" ? TopologyReply.replica : TopologyReply.bulk("replica")
        }
        let sentinel = try Self.sentinel(server.address)
        let stage = try Self.stage([sentinel])
        #expect(try stage.ask("GET", "a") == .failure(.connection("no Sentinel has named a primary")))
        #expect(server.commands.map { $0[0] } == ["ROLE"])
        #expect(stage.states(of: server.address) == [.unavailable(reason: "replica")])
        // The next ones do not wait.
        #expect(try stage.ask("GET", "a") == .failure(.connection("no Sentinel has named a primary")))
        server.become { $0[0] == "ROLE" ? TopologyReply.primary : TopologyReply.bulk("primary") }
        try stage.ask("GET", "a", until: { $0 == .bytes("primary") })
        #expect(stage.states(of: server.address) == [.unavailable(reason: "replica"), .available])
        withExtendedLifetime(sentinel) {}
    }

    @Test("a command waits no longer than its deadline")
    func deadline() throws {
        let silent = try TopologyScriptedRedis { _ in "" }
        let stage = try Self.stage([silent])
        #expect(try stage.ask(["GET", "a"], key: "a", within: .milliseconds(5)) == .failure(.timeout))
    }

    @Test("more than 1,024 commands do not wait")
    func manyWait() throws {
        let silent = try TopologyScriptedRedis { _ in "" }
        let stage = try Self.stage([silent])
        var failures: [RedisFailure: Int] = [:]
        let deadline = stage.loop.freshNow + 100_000_000
        for _ in 0..<1_030 {
            stage.nodes.send(RedisCommand("GET", [0x61]), key: [0x61], by: deadline) {
                if case .failure(let failure) = $0 { failures[failure, default: 0] += 1 }
            }
        }
        try stage.run(until: "all commands to fail") { failures.values.reduce(0, +) == 1_030 }
        #expect(failures == [.busy: 6, .timeout: 1_024])
    }

    @Test("a write that a replica refuses leads to the new primary")
    func readOnly() throws {
        let old = try Self.primary("old")
        let new = try Self.primary("new")
        let sentinel = try Self.sentinel(old.address)
        let stage = try Self.stage([sentinel])
        #expect(try stage.ask("SET", "a", "b") == .bytes("old"))
        let reply = TopologyReply.named(new.address)
        sentinel.become { _ in reply }
        old.become {
            $0[0] == "ROLE" ? TopologyReply.replica : "-READONLY You can't write against a read only replica.\r\n"
        }
        #expect(try stage.ask("SET", "a", "b") == .failure(.refused("READONLY")))
        try stage.ask("SET", "a", "b", until: { $0 == .bytes("new") })
        #expect(new.commands.first == ["ROLE"])
    }

    @Test("the primary is checked again after its connection has ended")
    func ended() throws {
        let server = try TopologyScriptedRedis { words in
            switch words[0] {
            case "ROLE": TopologyReply.primary
            case "END": nil
            default: TopologyReply.bulk("primary")
            }
        }
        let sentinel = try Self.sentinel(server.address)
        let stage = try Self.stage([sentinel])
        #expect(try stage.ask("GET", "a") == .bytes("primary"))
        guard case .failure(.connection) = try stage.ask("END") else {
            Issue.record("the end of the connection was no failure")
            return
        }
        try stage.ask("GET", "a", until: { $0 == .bytes("primary") })
        #expect(server.commands.map { $0[0] } == ["ROLE", "GET", "END", "ROLE", "GET"])
        #expect(sentinel.commands.count == 2)
    }

    @Test("an address that is none is not dialled")
    func hostileAddress() throws {
        let sentinel = try TopologyScriptedRedis { _ in
            TopologyReply.array(TopologyReply.bulk("127.0.0.1 x"), TopologyReply.bulk("6379"))
        }
        let stage = try Self.stage([sentinel])
        #expect(try stage.ask("GET", "a") == .failure(.connection("no Sentinel has named a primary")))
        #expect(stage.states.map(\.address) == [sentinel.address])
    }

    @Test("Sentinels have a login of their own")
    func logins() throws {
        let server = try TopologyScriptedRedis { words in
            switch words[0] {
            case "AUTH": TopologyReply.ok
            case "ROLE": TopologyReply.primary
            default: TopologyReply.bulk("primary")
            }
        }
        let named = TopologyReply.named(server.address)
        let sentinel = try TopologyScriptedRedis { $0[0] == "AUTH" ? TopologyReply.ok : named }
        let stage = try TopologyStage(
            .sentinel(name: "shared", login: RedisLogin(user: nil, password: Array("s".utf8))),
            [sentinel.address],
            login: RedisLogin(user: Array("u".utf8), password: Array("p".utf8))
        )
        #expect(try stage.ask("GET", "a") == .bytes("primary"))
        #expect(sentinel.commands.first == ["AUTH", "s"] && server.commands.first == ["AUTH", "u", "p"])
    }

    @Test("a new dial searches the primary again")
    func redial() throws {
        let server = try Self.primary("primary")
        let sentinel = try Self.sentinel(server.address)
        let stage = try Self.stage([sentinel])
        #expect(try stage.ask("GET", "a") == .bytes("primary"))
        stage.redial()
        #expect(try stage.ask("GET", "a") == .bytes("primary"))
        #expect(sentinel.connectionCount == 2 && server.connectionCount == 2)
        #expect(server.commands.map { $0[0] } == ["ROLE", "GET", "ROLE", "GET"])
    }
}
