// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The shared cache: reloads", .onOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedReloadTests {
    private let redis: RedisProcess

    init() throws { redis = try RedisProcess() }

    @Test("another prefix is another cache; the former one is there again with its own")
    func prefix() throws {
        let stage = try SharedStage(SharedStage.redis([redis]))
        try stage.store(["/a", "/b", "/c"])
        #expect(try stage[1].get("/a").isShared)
        try stage.reload(1) { SharedStage.setRedis(["prefix": "other:"], in: &$0) }
        stage.origin.change("/b")
        #expect(try stage[1].get("/b").version == 2)
        try Patience.poll(for: "a response under the new prefix", every: 0.05) {
            try redis.client().hashes("other:").isEmpty ? nil : true
        }
        try stage.reload(1) { _ in }
        #expect(try stage[1].get("/c").isShared)
    }

    @Test("another time, and another limit of bodies, hold from the next request on")
    func timeout() throws {
        let stage = try SharedStage(SharedStage.redis([redis]))
        try stage.store(["/a", "/70000/b"])
        try stage.reload(1) { SharedStage.setRedis(["timeout": "900ms", "maximumBody": "2MB"], in: &$0) }
        for path in ["/a", "/70000/b"] { #expect(try stage[1].get(path).isShared) }
        try stage.reload(0) { SharedStage.setRedis(["maximumBody": "2MB"], in: &$0) }
        let before = try stage[0].storedCount
        try stage[0].get("/1500000/c")
        try Patience.poll(for: "the larger response in Redis", every: 0.02) {
            try stage[0].storedCount != before ? true : nil
        }
        #expect(try stage[1].get("/1500000/c").isShared)
    }

    @Test("a configuration without Redis asks it no more, until it is there again")
    func removed() throws {
        let stage = try SharedStage(SharedStage.redis([redis]))
        try stage.store(["/a", "/b", "/c"])
        for machine in 0...1 { try stage.reload(machine) { $0.members["cache"] = [String: Any]() } }
        let client = try redis.client()
        func calls() throws -> [Int] { try ["get", "hmget", "set", "evalsha", "eval"].map { try client.calls($0) } }
        // What was on its way.
        var former = try calls()
        try Patience.poll(for: "the last command", every: 1.2) {
            let now = try calls()
            defer { former = now }
            return now == former ? true : nil
        }
        #expect(try !stage[1].get("/b").isShared)
        #expect(try calls() == former)
        #expect(try !stage[1].purge("all"))
        for machine in 0...1 { try stage.reload(machine) { _ in } }
        #expect(try stage[1].get("/c").isShared)
    }

    @Test("another server is asked after a reload, the former one no more")
    func otherServer() throws {
        let second = try RedisProcess()
        let stage = try SharedStage(SharedStage.redis([redis]))
        try stage.store(["/a", "/b"])
        for machine in 0...1 {
            try stage.reload(machine) { SharedStage.setRedis(["url": "redis://\(second.address)"], in: &$0) }
        }
        #expect(try !stage[1].get("/a").isShared)
        try Patience.poll(for: "a response in the second server", every: 0.05) {
            try second.client().hashes().isEmpty ? nil : true
        }
        #expect(try stage[0].metric("pinproxy_shared_cache_server_up{server=\"\(redis.address)\"}") != 1)
    }

    @Test("reloads under load disturb no request, and leave no descriptor")
    func underLoad() async throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 2)
        let machines = stage.machines
        let isOver = Monitor(false)
        func warm() throws { for number in 0..<10 { try machines[0].get("/100/\(number)") } }
        try warm()
        let before = try stage.proxies[0].descriptorCount()
        let loads = (0..<4).map { number in
            beside {
                var count = 0
                while !isOver.read({ $0 }) {
                    try machines[number % 2].get("/\(number % 2 == 0 ? 100 : 70_000)/\(count % 50)")
                    count += 1
                }
                return count
            }
        }
        for round in 0..<Extent.of(8, whole: 40) {
            try stage.reload(0) { settings in
                switch round % 4 {
                case 0: SharedStage.setRedis(["prefix": "p\(round):"], in: &settings)
                case 1: settings.members["cache"] = [String: Any]()
                case 2: SharedStage.setRedis(["timeout": "\(100 + round)ms"], in: &settings)
                default:
                    settings.files["shared.key"] = Data(patternBytes(32, seed: UInt64(round))).base64EncodedString()
                }
            }
            try warm()
        }
        isOver.with { $0 = true }
        for load in loads { #expect(try await load.value > 0) }
        try stage.reload(0) { _ in }
        try Patience.poll(for: "the descriptors", every: 0.1) {
            try stage.proxies[0].descriptorCount() <= before + 6 ? true : nil
        }
        for proxy in stage.proxies { #expect(try proxy.terminate().exitCode == 0) }
    }
}
