// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import TestSupport
import Testing

@testable import SharedCaching

@Suite("One server", .onOwnThreads)
struct SingleServerTests {
    @Test("a command gets its reply, and the server is told as available once")
    func reply() throws {
        let server = try TopologyScriptedRedis { TopologyReply.bulk($0.joined(separator: " ")) }
        let stage = try TopologyStage(.server, [server.address])
        #expect(try stage.ask("GET", "a") == .bytes("GET a"))
        #expect(try stage.ask("GET", "b") == .bytes("GET b"))
        #expect(stage.states(of: server.address) == [.available])
        #expect(server.connectionCount == 1)
    }

    @Test("the second address takes the place of the first one, and gives it back")
    func fallback() throws {
        let (reserved, port) = try TestSocket.reserveRefusingPort()
        defer { close(reserved) }
        let second = try TopologyScriptedRedis { _ in TopologyReply.bulk("second") }
        let dead = RedisAddress(host: "127.0.0.1", port: Int(port))
        let stage = try TopologyStage(.server, [dead, second.address])
        try stage.ask("GET", "a", until: { $0 == .bytes("second") })
        guard case .unavailable? = stage.states(of: dead).last else {
            Issue.record("the dead server was told as \(stage.states(of: dead))")
            return
        }
        let first = try TopologyScriptedRedis { _ in TopologyReply.bulk("first") }
        let other = try TopologyStage(.server, [first.address, second.address])
        #expect(try other.ask("GET", "a") == .bytes("first"))
    }

    @Test("a server that is loading is told, and asked less after five failures")
    func loading() throws {
        let server = try TopologyScriptedRedis { _ in "-LOADING Redis is loading the dataset in memory\r\n" }
        let stage = try TopologyStage(.server, [server.address])
        for _ in 0..<5 { #expect(try stage.ask("GET", "a") == .failure(.refused("LOADING"))) }
        #expect(stage.states(of: server.address) == [.unavailable(reason: "LOADING")])
        #expect(try stage.ask("GET", "a") == .failure(.busy))
        #expect(server.commands.count == 5)
        server.become { _ in TopologyReply.bulk("here") }
        try stage.ask("GET", "a", until: { $0 == .bytes("here") })
        #expect(stage.states(of: server.address) == [.unavailable(reason: "LOADING"), .available])
    }

    @Test("a server without memory for writes is still read")
    func noMemory() throws {
        let server = try TopologyScriptedRedis {
            $0[0] == "SET" ? "-OOM command not allowed when used memory > 'maxmemory'.\r\n" : TopologyReply.bulk("read")
        }
        let stage = try TopologyStage(.server, [server.address])
        for _ in 0..<10 { #expect(try stage.ask("SET", "a", "b") == .failure(.refused("OOM"))) }
        #expect(try stage.ask("GET", "a") == .bytes("read"))
        #expect(stage.states(of: server.address) == [.unavailable(reason: "OOM")])
    }

    @Test("a wrong password is tried once a second")
    func wrongPassword() throws {
        let server = try TopologyScriptedRedis { words in
            words[0] == "AUTH" ? "-WRONGPASS invalid username-password pair or user is disabled.\r\n" : TopologyReply.ok
        }
        let login = RedisLogin(user: Array("u".utf8), password: Array("p".utf8))
        let stage = try TopologyStage(.server, [server.address], login: login)
        #expect(try stage.ask("GET", "a") == .failure(.refused("WRONGPASS")))
        for _ in 0..<5 { _ = try stage.ask("GET", "a") }
        #expect(server.count(of: "AUTH") <= 1 + stage.secondsPassed && server.count(of: "GET") == 0)
        #expect(stage.states(of: server.address) == [.unavailable(reason: "WRONGPASS")])
    }

    @Test("a connection that the server ends is made anew")
    func ended() throws {
        let server = try TopologyScriptedRedis { $0[1] == "end" ? nil : TopologyReply.bulk("here") }
        let stage = try TopologyStage(.server, [server.address])
        #expect(try stage.ask("GET", "a") == .bytes("here"))
        guard case .failure(.connection) = try stage.ask("GET", "end") else {
            Issue.record("the end of the connection was no failure")
            return
        }
        try stage.ask("GET", "a", until: { $0 == .bytes("here") })
        #expect(server.connectionCount == 2)
        #expect(stage.states(of: server.address) == [.available])
    }

    @Test("a new dial closes the old connection, and a closed object sends nothing")
    func redial() throws {
        let server = try TopologyScriptedRedis { $0[1] == "never" ? "" : TopologyReply.bulk("here") }
        let stage = try TopologyStage(.server, [server.address])
        #expect(try stage.ask("GET", "a") == .bytes("here"))
        var result: RedisResult?
        stage.nodes.send(RedisCommand("GET", Array("never".utf8)), key: [], by: stage.loop.now + 20_000_000_000) {
            result = $0
        }
        stage.redial()
        try stage.run(until: "the old command to fail") { result != nil }
        #expect(result == .failure(.closed))
        #expect(try stage.ask("GET", "a") == .bytes("here"))
        #expect(server.connectionCount == 2)
        #expect(stage.states(of: server.address) == [.available])
        stage.nodes.close()
        #expect(try stage.ask("GET", "a") == .failure(.closed))
    }
}
