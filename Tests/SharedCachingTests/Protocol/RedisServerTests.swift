// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@testable import SharedCaching

@Suite(
    "A connection to Redis",
    .enabled(if: (try? Programs.path(of: Programs.redis)) != nil, "redis-server is not installed"),
    .onOwnThreads
)
struct RedisServerTests {
    private static func server(_ options: String...) throws -> ServerProgram {
        try ServerProgram(Programs.redis) { port in
            ["--port", "\(port)", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"] + options
        }
    }

    private static func command(_ words: String...) -> RedisCommand { RedisCommand(words.map { Array($0.utf8) }) }

    @Test("each kind of reply comes from it")
    func replies() throws {
        let server = try Self.server()
        let bench = try ConnectionBench(port: server.port)
        let all = (0...255).map { UInt8($0) }
        let chunk = [UInt8](repeating: 13, count: 256 << 10)
        bench.send(RedisCommand("SET", all, chunk))
        bench.send(RedisCommand("GET", all))
        bench.send(Self.command("HSET", "h", "a", "1", "b", ""))
        bench.send(Self.command("HMGET", "h", "a", "x", "b"))
        bench.send(Self.command("GET", "h"))
        bench.send(Self.command("EVAL", "return {1,{2,{3,{4}}},false}", "0"))
        bench.send(Self.command("NONSENSE"))
        #expect(try bench.result(of: 1) == .success(.bytes(chunk)))
        #expect(bench.results[0] == .success(.status(Array("OK".utf8))))
        let deep = RedisReply.array([.integer(2), .array([.integer(3), .array([.integer(4)])])])
        #expect(try bench.result(of: 5) == .success(.array([.integer(1), deep, .null])))
        #expect(bench.results[2] == .success(.integer(2)))
        #expect(bench.results[3] == .success(.array([.bytes([UInt8(ascii: "1")]), .null, .bytes([])])))
        #expect(try bench.results[4]?.get().errorWord == "WRONGTYPE")
        #expect(try bench.result(of: 6).get().errorWord == "ERR")
        #expect(bench.connection.isOpen)
    }

    @Test("a reply beyond the bounds ends the connection, not the server")
    func tooLarge() throws {
        let server = try Self.server()
        for script in [
            "return {1,{2,{3,{4,{5}}}}}", "return string.rep('x', 1048577)",
            "local t = {} for i = 1, 1025 do t[i] = i end return t",
        ] {
            let bench = try ConnectionBench(port: server.port)
            bench.send(Self.command("EVAL", script, "0"))
            guard case .malformed = try bench.ending() else {
                Issue.record("\(script): \(bench.endings)")
                continue
            }
        }
        let bench = try ConnectionBench(port: server.port)
        #expect(try bench.result(of: bench.send(Self.command("PING"))) == .success(.status(Array("PONG".utf8))))
    }

    @Test("its login is used, refused and wanted")
    func logins() throws {
        let server = try Self.server("--requirepass", "secret", "--user", "cache", "on", ">hush", "~*", "+get")
        let get = Self.command("GET", "k")
        func bench(_ user: String?, _ password: String?) throws -> ConnectionBench {
            let login = password.map { RedisLogin(user: user.map { Array($0.utf8) }, password: Array($0.utf8)) }
            return try ConnectionBench(port: server.port, login: login)
        }
        for (user, password) in [(nil, "secret"), ("default", "secret"), ("cache", "hush")] as [(String?, String)] {
            let bench = try bench(user, password)
            #expect(try bench.result(of: bench.send(get)) == .success(.null))
        }
        for (user, password) in [(nil, "hush"), ("cache", "secret"), ("nobody", "secret")] as [(String?, String)] {
            let bench = try bench(user, password)
            #expect(try bench.result(of: bench.send(get)) == .failure(.refused("WRONGPASS")))
        }
        let none = try bench(nil, nil)
        #expect(try none.result(of: none.send(get)).get().errorWord == "NOAUTH")
        let limited = try bench("cache", "hush")
        #expect(try limited.result(of: limited.send(Self.command("SET", "k", "v"))).get().errorWord == "NOPERM")
        #expect(limited.connection.isOpen)
    }

    @Test("slots of a cluster, which are arrays four deep, are within the bounds")
    func clusterSlots() throws {
        let folder = try TemporaryFolder()
        let (held, port) = try TestSocket.reserveRefusingPort()
        defer { close(held) }
        let server = try Self.server("--cluster-enabled", "yes", "--cluster-port", "\(port)", "--dir", folder.path)
        let bench = try ConnectionBench(port: server.port)
        bench.send(Self.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383"))
        let slots = bench.send(Self.command("CLUSTER", "SLOTS"))
        guard case .success(.array(let ranges)) = try bench.result(of: slots) else {
            Issue.record("\(bench.results)")
            return
        }
        #expect(ranges.count == 1)
    }

    @Test("an end of the server ends the connection")
    func serverEnds() throws {
        let server = try Self.server()
        let bench = try ConnectionBench(port: server.port)
        _ = try bench.result(of: bench.send(Self.command("PING")))
        bench.send(Self.command("SHUTDOWN", "NOSAVE"))
        guard case .connection = try bench.ending() else {
            Issue.record("\(bench.endings)")
            return
        }
        #expect(bench.results[1] == .failure(bench.endings[0]))
    }
}
