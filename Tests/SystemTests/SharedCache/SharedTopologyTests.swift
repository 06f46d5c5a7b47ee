// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The shared cache: Sentinels", .earlyOnOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedSentinelTests {
    /// Sentinels and nodes name servers at addresses that are not dialled otherwise.
    static func setAddresses(_ settings: inout ProxySettings) {
        settings.members["access"] = ["denyAddresses": [String]()]
    }

    private static func stage(_ sentinels: RedisSentinels, tls: TestServer? = nil) throws -> SharedStage {
        try SharedStage(sentinels.settings) { _, settings in
            Self.setAddresses(&settings)
            if let tls { settings.pin("127.0.0.1", to: tls.pin) }
            for (name, text) in RedisSentinels.files { settings.files[name] = text }
        }
    }

    /// Asks both machines for new paths until the second has what the first has stored. Each response on the way is right.
    private static func waitForSharing(_ stage: SharedStage, _ name: String) throws {
        try Patience.poll(for: "\(name): shared responses", seconds: 60, every: 0.1) {
            let path = "/\(name)/\(Int.random(in: 0..<1 << 40))"
            try stage[0].get(path)
            try stage[1].get("/\(name)/other/\(Int.random(in: 0..<1 << 40))")
            return try stage[1].get(path).isShared ? true : nil
        }
    }

    @Test("the primary is found by its Sentinels, and another one after its death", arguments: [false, true])
    func failover(isTLS: Bool) throws {
        let server = isTLS ? try Stage.pki.server("127.0.0.1") : nil
        let sentinels = try RedisSentinels(tls: server)
        let stage = try Self.stage(sentinels, tls: server)
        try Self.waitForSharing(stage, "first")
        try stage.store(["/a", "/70000/b"])
        for path in ["/a", "/70000/b"] { #expect(try stage[1].get(path).isShared) }
        try sentinels.primary.kill()
        for number in 0..<20 {
            let begin = Date()
            for machine in stage.machines { try machine.get("/dead/\(number)") }
            #expect(Date().timeIntervalSince(begin) < 10)
        }
        try sentinels.waitForFailover()
        try Self.waitForSharing(stage, "promoted")
        #expect(try !sentinels.replica.client().hashes().isEmpty)
        for proxy in stage.proxies {
            for word in [RedisSentinels.password, RedisSentinels.sentinelPassword] {
                #expect(!proxy.errors.contains(word) && !proxy.output.contains(word))
            }
        }
    }

    @Test("a purge holds across a failover")
    func purge() throws {
        let sentinels = try RedisSentinels()
        let stage = try Self.stage(sentinels)
        let paths = (0..<5).map { "/100/\($0)" }
        try Self.waitForSharing(stage, "first")
        try stage.store(paths)
        stage.origin.change(paths)
        #expect(try stage[0].purge("all"))
        // The replica may not have it yet: the purge is known to the first machine in any case.
        try sentinels.primary.kill()
        try sentinels.waitForFailover()
        for path in paths { #expect(try stage[0].get(path).version == 2) }
        try Self.waitForSharing(stage, "promoted")
        for path in paths { #expect(try stage[1].get(path).version == 2) }
    }

    @Test("one silent and one dead Sentinel keep nobody from the primary")
    func fewerSentinels() throws {
        let sentinels = try RedisSentinels()
        sentinels.sentinels[0].pause()
        defer { sentinels.sentinels[0].resume() }
        try sentinels.sentinels[1].kill()
        let stage = try Self.stage(sentinels)
        for number in 0..<5 { try stage[0].get("/first/\(number)") }
        try Self.waitForSharing(stage, "fewer")
    }
}

@Suite("The shared cache: a cluster", .earlyOnOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedClusterTests {
    private static func stage(_ cluster: RedisCluster, _ addresses: [RedisProcess]? = nil) throws -> SharedStage {
        let redis = SharedStage.redis(addresses ?? Array(cluster.nodes.prefix(2))).merging(["cluster": true]) { $1 }
        return try SharedStage(redis) { SharedSentinelTests.setAddresses(&$1) }
    }

    @Test("responses are on all nodes, and found there")
    func allNodes() throws {
        let cluster = try RedisCluster()
        let stage = try Self.stage(cluster, [cluster.nodes[1]])
        let paths = (0..<40).map { "/\($0 % 4 == 0 ? 300_000 : 100)/\($0)" }
        // The first ones may find a table of slots that is not there yet.
        try Patience.poll(for: "the table of slots", every: 0.05) {
            try stage[0].get("/first/\(Int.random(in: 0..<1 << 40))")
            return try stage[0].storedCount > 0 ? true : nil
        }
        try stage.store(paths)
        for node in cluster.nodes { #expect(try !node.client().hashes().isEmpty) }
        let shared = try paths.filter { try stage[1].get($0).isShared }.count
        // The second machine's table came with its first requests.
        #expect(shared >= paths.count - 3, "\(shared)")
        stage.origin.change(paths)
        #expect(try stage[0].purge("all"))
        for path in paths { #expect(try stage[0].get(path).version == 2) }
    }

    @Test("slots that move under load give no wrong byte and stay in use")
    func moving() async throws {
        let cluster = try RedisCluster()
        let stage = try Self.stage(cluster)
        let (machines, paths) = (stage.machines, (0..<30).map { "/\($0 % 3 == 0 ? 70_000 : 100)/\($0)" })
        for path in paths { try machines[0].get(path) }
        let isOver = Monitor(false)
        let loads = (0..<4).map { number in
            beside {
                var count = 0
                while !isOver.read({ $0 }) {
                    count += 1
                    // One of three is new each time.
                    let path = count % 3 == 0 ? "/100/new/\(number)/\(count)" : paths[count % paths.count]
                    try machines[number % 2].get(path)
                    if count % 50 == 0 {
                        _ = try machines[number % 2].ask("POST", paths[count % paths.count], body: "x")
                    }
                }
                return count
            }
        }
        defer { isOver.with { $0 = true } }
        for source in 0..<3 {
            let target = (source + 1) % 3
            for slot in try cluster.slots(of: source).prefix(10) {
                try cluster.move(slot: slot, from: source, to: target)
            }
        }
        try cluster.waitUntilWhole()
        isOver.with { $0 = true }
        for load in loads { #expect(try await load.value > 0) }
        // All slots are in use, wherever they are now.
        var shared = 0
        for number in 0..<30 {
            let path = "/100/after/\(number)"
            try machines[0].get(path)
            try await Task.sleep(for: .milliseconds(20))
            if try machines[1].get(path).isShared { shared += 1 }
        }
        #expect(shared > 10, "\(shared)")
    }

    @Test("the death of a node costs its part of the cache, and no response")
    func death() throws {
        let cluster = try RedisCluster()
        let stage = try Self.stage(cluster)
        let paths = (0..<20).map { "/100/\($0)" }
        for path in paths { try stage[0].get(path) }
        try cluster.nodes[2].kill()
        for round in 0..<3 {
            for path in paths {
                let begin = Date()
                for machine in stage.machines { try machine.get("\(path)/\(round)") }
                #expect(Date().timeIntervalSince(begin) < 8)
            }
        }
        try cluster.nodes[2].start()
        try cluster.waitUntilWhole()
        try Patience.poll(for: "all nodes in use", seconds: 60, every: 0.1) {
            for number in 0..<20 { try stage[0].get("/100/back/\(number)/\(Int.random(in: 0..<1 << 40))") }
            return try cluster.nodes[2].client().hashes().isEmpty ? nil : true
        }
    }
}
