// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(
    "The shared cache: a server that fails costs nobody a response",
    .onOwnThreads,
    .enabled(if: RedisProcess.isThere)
)
struct SharedFailureTests {
    /// What a request may take beside the look-up, on a busy machine.
    private static let allowance = 3.0

    /// Asks each machine for a path, and holds each response to the time.
    private static func ask(_ stage: SharedStage, _ path: String, _ place: SourceLocation = #_sourceLocation) throws {
        for machine in stage.machines {
            let begin = Date()
            try machine.get(path, place)
            let time = Date().timeIntervalSince(begin)
            #expect(time < allowance, "\(path) took \(time) s", sourceLocation: place)
        }
    }

    /// Stores a new response by one machine until another has it from Redis.
    private static func waitForSharing(_ stage: SharedStage, _ name: String) throws {
        var number = 0
        try Patience.poll(for: "\(name): shared responses", seconds: 60, every: 0.2) {
            number += 1
            let path = "/\(name)/\(number)"
            try stage[0].get(path)
            try stage[1].get("/\(name)/\(number - 1)")
            return try stage[1].get(path).isShared ? true : nil
        }
    }

    @Test("Redis falls silent while requests run: all are served, and it comes back")
    func silent() throws {
        let redis = try RedisProcess()
        let stage = try SharedStage(SharedStage.redis([redis], timeout: "200ms"))
        try stage.store((0..<20).map { "/70000/\($0)" })
        #expect(try stage[1].get("/70000/0").isShared)
        redis.pause()
        defer { redis.resume() }
        for number in 1..<20 { try Self.ask(stage, "/70000/\(number)") }
        // As long as it is open no look-up takes any time.
        try stage[1].waitForServer(redis.address, isUp: false) {
            try Self.ask(stage, "/new/\(Int.random(in: 0..<1 << 30))")
        }
        #expect(try stage[1].lookUps("timeout") > 0)
        try stage.waitForLog(1, redis.address)
        redis.resume()
        for (number, machine) in stage.machines.enumerated() {
            try machine.waitForServer(redis.address, isUp: true) {
                try machine.get("/again/\(number)/\(Int.random(in: 0..<1 << 30))")
            }
        }
        try Self.waitForSharing(stage, "resumed")
    }

    @Test("Redis falls silent under a load of every kind: each response is right")
    func silentUnderLoad() async throws {
        let redis = try RedisProcess()
        let stage = try SharedStage(SharedStage.redis([redis], timeout: "200ms"), machines: 3) { _, settings in
            settings.members["workers"] = 2
        }
        let machines = stage.machines
        let isOver = Monitor(false)
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<6 {
                group.addTask {
                    var generator = SeededGenerator(seed: UInt64(number))
                    var count = 0
                    while !isOver.read({ $0 }) {
                        let path =
                            "/\([0, 100, 70_000, 300_000].randomElement(using: &generator)!)/\(Int.random(in: 0..<30, using: &generator))"
                        let begin = Date()
                        if Int.random(in: 0..<20, using: &generator) == 0 {
                            #expect(try machines[number % 3].ask("POST", path, body: "x").text == "done")
                        } else {
                            try machines[number % 3].get(path)
                        }
                        let time = Date().timeIntervalSince(begin)
                        #expect(time < 8, "\(path) took \(time) s")
                        count += 1
                    }
                    return count
                }
            }
            group.addTask {
                defer { isOver.with { $0 = true } }
                for round in 0..<4 {
                    try await Task.sleep(for: .milliseconds(500))
                    if round % 2 == 0 { redis.pause() } else { try redis.kill() }
                    try await Task.sleep(for: .milliseconds(800))
                    if round % 2 == 0 { redis.resume() } else { try redis.start() }
                }
                return 0
            }
            for try await _ in group {}
        }
        try Self.waitForSharing(stage, "after")
        for proxy in stage.proxies { #expect(try proxy.terminate().exitCode == 0) }
    }

    @Test("Redis is killed, and comes back empty")
    func killed() throws {
        let redis = try RedisProcess()
        let stage = try SharedStage(SharedStage.redis([redis]))
        try stage.store(["/a", "/70000/b"])
        try redis.kill()
        for number in 0..<10 { try Self.ask(stage, "/dead/\(number)") }
        try Self.ask(stage, "/a")
        try stage[0].waitForServer(redis.address, isUp: false) {
            try Self.ask(stage, "/dead/\(Int.random(in: 0..<1 << 30))")
        }
        try redis.start()
        try Self.waitForSharing(stage, "restarted")
        for machine in stage.machines {
            try machine.waitForServer(redis.address, isUp: true) {
                try machine.get("/up/\(Int.random(in: 0..<1 << 30))")
            }
        }
    }

    @Test("after the count of purges is lost, older responses stay unused")
    func countLost() throws {
        let redis = try RedisProcess()
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3)
        let paths = (0..<6).map { "/\($0)/x" } + ["/70000/x"]
        try stage.store(paths)
        let client = try redis.client()
        let older = try client.hashes().map { ($0, try client.hash($0)) }
        stage.origin.change(paths)
        #expect(try stage[0].purge("all"))
        #expect(try stage[1].get(paths[0]).version == 2)
        try client.command("FLUSHALL")
        // The records of before the purge are there again, and nothing of the purge is.
        func restore() throws { for (key, fields) in older { try client.set(fields, of: key) } }
        try restore()
        for path in paths.prefix(3) {
            #expect(try stage[0].get(path).version == 2, "\(path)")
            #expect(try stage[1].get(path).version == 2, "\(path)")
        }
        // Somebody who knew it has raised the count; from then on it holds for those who did not.
        try Patience.poll(for: "the count to be raised", every: 0.05) {
            try client.command("GET", "\(SharedStage.prefix){purges}:n").string.flatMap { Int($0) } ?? 0 > 1
                ? true : nil
        }
        try restore()
        for path in paths { #expect(try stage[2].get(path).version == 2, "\(path)") }
    }

    @Test("Redis that evicts all the time gives no wrong byte")
    func evicting() throws {
        let redis = try RedisProcess(["--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"])
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3)
        var shared = 0
        for number in 0..<Extent.of(60, whole: 400) {
            let path = "/\([100, 70_000, 300_000, 1_000_000][number % 4])/\(number)"
            try stage[0].get(path)
            for machine in 1...2 where try stage[machine].get(path).isShared { shared += 1 }
            if number % 10 == 9 { for old in max(0, number - 9)...number { try stage[2].get("/100/\(old)") } }
        }
        #expect(shared > 0)
    }

    @Test("Redis without room stores nothing, and says so once")
    func withoutRoom() throws {
        let redis = try RedisProcess(["--maxmemory", "1kb", "--maxmemory-policy", "noeviction"])
        let stage = try SharedStage(SharedStage.redis([redis]))
        for number in 0..<20 { try Self.ask(stage, "/100/\(number)") }
        try stage.waitForLog(0, "OOM")
        #expect(try redis.client().hashes().isEmpty)
    }

    @Test("a replica that takes no writes is of no use; a warning says so")
    func readOnly() throws {
        let primary = try RedisProcess()
        let replica = try RedisProcess(["--replicaof", "127.0.0.1", "\(primary.port)"])
        try Patience.poll(for: "the replica", every: 0.05) {
            try replica.client().command("INFO", "replication").string?.contains("master_link_status:up") == true
                ? true : nil
        }
        let stage = try SharedStage(SharedStage.redis([replica]))
        for number in 0..<10 { try Self.ask(stage, "/100/\(number)") }
        try stage.waitForLog(0, "READONLY")
        for machine in stage.machines {
            for number in 0..<10 { #expect(try !machine.get("/other/\(number)").isShared) }
        }
        #expect(try primary.client().hashes().isEmpty)
    }

    @Test("a port without a listener and a slow way are misses")
    func unreachable() throws {
        let (reserved, port) = try TestSocket.reserveRefusingPort()
        defer { close(reserved) }
        let refused = try SharedStage(SharedStage.redis("127.0.0.1:\(port)"))
        for number in 0..<10 { try Self.ask(refused, "/\(number)/x") }
        try refused[0].waitForServer("127.0.0.1:\(port)", isUp: false) {
            try Self.ask(refused, "/x/\(Int.random(in: 0..<1 << 30))")
        }

        let redis = try RedisProcess()
        let relay = try SlowRelay(to: redis.port, seconds: 0.5)
        let slow = try SharedStage(SharedStage.redis(relay.address, timeout: "20ms"))
        for number in 0..<10 { try Self.ask(slow, "/70000/\(number)") }
        #expect(try slow[0].lookUps("hit") == 0)
        relay.setDelay(seconds: 0)
        try Self.waitForSharing(slow, "faster")
    }
}

@Suite("The shared cache: passwords and TLS", .onOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedLoginTests {
    private static let secret = "correct-horse-battery"
    private static let wrong = "wrong-horse-battery"
    private static let host = "redis.example.com"

    private static func setPassword(_ password: String, user: String? = nil, in settings: inout ProxySettings) {
        settings.files["redis.password"] = password + "\n"
        SharedStage.setRedis(["passwordFile": "redis.password"], in: &settings)
        if let user { SharedStage.setRedis(["username": user], in: &settings) }
    }

    /// Directs the name of Redis to its port for TLS, and pins it.
    private static func setTLS(_ redis: RedisProcess, _ pin: String, in settings: inout ProxySettings) {
        SharedStage.setRedis(["url": "rediss://\(host):6379"], in: &settings)
        settings.resolve(host, to: redis.tlsPort ?? 0)
        settings.pinnedDomains[host] = ["pinningMode": "publicKey", "pins": [pin, PublicKeyPinText.another]]
    }

    private static func expectNoSecret(_ stage: SharedStage, _ place: SourceLocation = #_sourceLocation) throws {
        for proxy in stage.proxies {
            let status = try Machine(port: proxy.port, admin: proxy.port(of: proxy.listening.count - 1)).ownersPages()
            for text in [proxy.output, proxy.errors, status] {
                for word in [secret, wrong, SharedStage.key.prefix(20).description] {
                    #expect(!text.contains(word), sourceLocation: place)
                }
            }
        }
    }

    @Test("the right password lets in, with a user or without", arguments: [nil, "proxy"])
    func password(user: String?) throws {
        let redis = try RedisProcess(password: Self.secret)
        if let user {
            try redis.client().command(
                "ACL",
                "SETUSER",
                user,
                "on",
                ">\(Self.secret)",
                "~\(SharedStage.prefix)*",
                "+@all"
            )
        }
        let stage = try SharedStage(SharedStage.redis([redis])) { Self.setPassword(Self.secret, user: user, in: &$1) }
        try stage.store(["/a", "/70000/b"])
        for path in ["/a", "/70000/b"] { #expect(try stage[1].get(path).isShared) }
        try Self.expectNoSecret(stage)
    }

    /// What the pages say to type for the user of Redis, for the prefix of the tests, with further rules behind it.
    private static func makeUser(in redis: RedisProcess, _ more: String...) throws {
        let page = try String(
            contentsOf: Repository.folder.appendingPathComponent("docs/shared-cache.md"),
            encoding: .utf8
        )
        let line = try #require(page.split(separator: "\n").first { $0.contains("ACL SETUSER pinproxy ") })
        let words = line.split(separator: " ").map { word in
            switch word {
            case ">PASSWORD": ">\(secret)"
            case "~pinproxy:*": "~\(SharedStage.prefix)*"
            default: String(word)
            }
        }
        try redis.client().command((words + more).map { Array($0.utf8) })
    }

    @Test("the user of the pages may do all that is needed")
    func userOfThePages() throws {
        let redis = try RedisProcess(password: Self.secret)
        try Self.makeUser(in: redis)
        let stage = try SharedStage(SharedStage.redis([redis])) {
            Self.setPassword(Self.secret, user: "pinproxy", in: &$1)
        }
        try stage.store(["/a", "/70000/b"])
        for path in ["/a", "/70000/b"] { #expect(try stage[1].get(path).isShared) }
        #expect(try stage[0].ask("POST", "/a", body: "x").status == 200)
        #expect(try stage[1].purge("all"))
        #expect(try !stage[0].get("/70000/b").isShared)
        #expect(try redis.client().command("ACL", "LOG").elements.isEmpty)
    }

    @Test("without the right to run scripts a warning comes, and reads go on")
    func missingRight() throws {
        let redis = try RedisProcess(password: Self.secret)
        try Self.makeUser(in: redis, "-eval")
        let stage = try SharedStage(SharedStage.redis([redis])) { machine, settings in
            Self.setPassword(Self.secret, user: machine == 0 ? "pinproxy" : "default", in: &settings)
        }
        try stage.store(["/a"], by: 1)
        for number in 0..<20 { try stage[0].get("/\(number)/x") }
        try stage.waitForLog(0, "NOPERM")
        #expect(try stage[0].get("/a").isShared)
        try Self.expectNoSecret(stage)
    }

    @Test("a wrong or missing password is a warning without the password", arguments: [nil, wrong])
    func wrongPassword(given: String?) throws {
        let redis = try RedisProcess(password: Self.secret)
        let stage = try SharedStage(SharedStage.redis([redis])) { if let given { Self.setPassword(given, in: &$1) } }
        for number in 0..<10 {
            for machine in stage.machines { #expect(try !machine.get("/\(number)/x").isShared) }
        }
        try stage.waitForLog(0, given == nil ? "NOAUTH" : "WRONGPASS")
        #expect(try redis.client().hashes().isEmpty)
        try Self.expectNoSecret(stage)
    }

    @Test("a password is changed by a reload")
    func changedPassword() throws {
        let redis = try RedisProcess(password: Self.secret)
        let stage = try SharedStage(SharedStage.redis([redis])) { machine, settings in
            Self.setPassword(machine == 0 ? Self.secret : Self.wrong, in: &settings)
        }
        try stage.store(["/a", "/b"])
        #expect(try !stage[1].get("/a").isShared)
        try stage.reload(1) { Self.setPassword(Self.secret, in: &$0) }
        try Patience.poll(for: "a shared response", every: 0.2) {
            try stage[1].get("/b/\(Int.random(in: 0..<1 << 30))")
            return try stage[1].metric("pinproxy_shared_cache_server_up{server=\"\(redis.address)\"}") == 1 ? true : nil
        }
        #expect(try stage[1].get("/b").isShared)
        try Self.expectNoSecret(stage)
    }

    @Test("Redis over TLS under the right pin is used")
    func rightPin() throws {
        let server = try Stage.pki.server(Self.host)
        let redis = try RedisProcess(tls: server, password: Self.secret)
        let stage = try SharedStage(SharedStage.redis([redis])) { _, settings in
            Self.setPassword(Self.secret, in: &settings)
            Self.setTLS(redis, "\(server.pin)", in: &settings)
        }
        let paths = ["/a", "/70000/b", "/1000000/c"]
        try stage.store(paths)
        for path in paths { #expect(try stage[1].get(path).isShared) }
        #expect(try redis.client().calls("hmget") > 0)
    }

    enum Refusal: CaseIterable {
        case anotherKey, anotherName, unknownAuthority
    }

    @Test("a server of Redis that is refused gets no byte", arguments: Refusal.allCases)
    func wrongServer(refusal: Refusal) throws {
        let pinned = try Stage.pki.server(Self.host)
        let offered =
            switch refusal {
            case .anotherKey: try Stage.pki.server(Self.host)
            case .anotherName: try Stage.pki.server("other.example.com")
            case .unknownAuthority: try TestPKI("unknown").server(Self.host)
            }
        let origin = try ScriptedOrigin(offered) { $0.readToEnd() }
        let stage = try SharedStage(SharedStage.redis("x:1")) { _, settings in
            Self.setPassword(Self.secret, in: &settings)
            SharedStage.setRedis(["url": "rediss://\(Self.host):6379"], in: &settings)
            settings.resolve(Self.host, to: origin.port)
            let pin = refusal == .anotherKey ? pinned.pin : offered.pin
            settings.pinnedDomains[Self.host] = [
                "pinningMode": "publicKey", "pins": ["\(pin)", PublicKeyPinText.another],
            ]
        }
        for number in 0..<10 {
            for machine in stage.machines { #expect(try !machine.get("/\(number)/x").isShared) }
        }
        try Patience.poll(for: "a connection to Redis", every: 0.05) {
            try stage[0].get("/x/\(Int.random(in: 0..<1 << 30))")
            return origin.connections.isEmpty ? nil : true
        }
        #expect(origin.applicationBytes == 0)
        try Self.expectNoSecret(stage)
        for proxy in stage.proxies { #expect(try proxy.terminate().exitCode == 0) }
        #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("pins that a reload changes end the use of Redis")
    func changedPins() throws {
        let server = try Stage.pki.server(Self.host)
        let redis = try RedisProcess(tls: server)
        let stage = try SharedStage(SharedStage.redis([redis])) { Self.setTLS(redis, "\(server.pin)", in: &$1) }
        let paths = (0..<4).map { "/100/\($0)" }
        try stage.store(paths)
        #expect(try stage[1].get(paths[0]).isShared)
        for machine in 0...1 {
            try stage.reload(machine) {
                Self.setTLS(redis, "sha256/" + Data(patternBytes(32, seed: 8)).base64EncodedString(), in: &$0)
            }
        }
        let client = try redis.client()
        // What was on its way when the pins changed.
        var former = try client.calls("get")
        try Patience.poll(for: "the last command", every: 1.2) {
            let now = try client.calls("get")
            defer { former = now }
            return now == former ? true : nil
        }
        let calls = try ["get", "hmget", "set", "evalsha", "eval", "mget"].map { try client.calls($0) }
        for path in paths.dropFirst() { #expect(try !stage[1].get(path).isShared) }
        #expect(try ["get", "hmget", "set", "evalsha", "eval", "mget"].map { try client.calls($0) } == calls)
        // The right ones again.
        try stage.reload(1) { Self.setTLS(redis, "\(server.pin)", in: &$0) }
        try stage.reload(0) { Self.setTLS(redis, "\(server.pin)", in: &$0) }
        try Patience.poll(for: "a shared response", every: 0.2) {
            let path = "/100/\(Int.random(in: 0..<1 << 30))"
            try stage[0].get(path)
            try stage[1].get("/101/x")
            return try stage[1].get(path).isShared ? true : nil
        }
    }
}

extension Machine {
    /// What the owner is shown, for a search of secrets.
    func ownersPages() throws -> String {
        try ["/metrics", "/cache", "/status", "/live"].map { path in
            let client = try TestClient(port: admin)
            try client.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return try client.readResponse().text
        }.joined()
    }
}
