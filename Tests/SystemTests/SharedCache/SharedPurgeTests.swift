// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The shared cache: purges", .earlyOnOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedPurgeTests {
    private let redis: RedisProcess

    init() throws { redis = try RedisProcess() }

    enum Kind: CaseIterable, CustomTestStringConvertible {
        case url, prefix, host, tag, all
        var testDescription: String { "\(self)" }

        var query: (name: String, value: String?) {
            switch self {
            case .url: ("url", "http://\(Stage.host)/70000/p/x")
            case .prefix: ("prefix", "http://\(Stage.host)/70000/p")
            case .host: ("host", Stage.host)
            case .tag: ("tag", "red")
            case .all: ("all", nil)
            }
        }

        /// Whether it leaves `/kept` alone.
        var sparesOthers: Bool { self == .url || self == .prefix || self == .tag }
    }

    private static func origin() throws -> VersionedOrigin {
        try VersionedOrigin(fields: { request, _ in
            ["Cache-Control: max-age=600"] + (request.target.contains("/p/") ? ["Surrogate-Key: blue red"] : [])
        })
    }

    @Test("after a confirmed purge no machine uses an older response", arguments: Kind.allCases, [false, true])
    func purged(kind: Kind, isSoft: Bool) throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 4, origin: Self.origin())
        let path = "/70000/p/x"
        try stage.store([path, "/kept"])
        for machine in 1...2 {
            #expect(try stage[machine].get(path).isShared)
            #expect(try stage[machine].get("/kept").isShared)
        }
        stage.origin.change(path, "/kept")
        let (name, value) = kind.query
        #expect(try stage[0].purge(name, value, isSoft: isSoft))
        // At once where the older response could only come from Redis.
        #expect(try stage[3].get(path).version == 2)
        #expect(try stage[0].get(path).version == 2)
        // Those who had it in memory learn of the purge with their next look, and look each second. A busy machine takes longer.
        for machine in 1...2 {
            try Patience.poll(for: "machine \(machine) to learn of the purge", seconds: 10, every: 0.05) {
                try stage[machine].get(path).version == 2 ? true : nil
            }
        }
        for _ in 0..<3 {
            for machine in stage.machines { #expect(try machine.get(path).version == 2) }
        }
        for machine in stage.machines.prefix(3) {
            #expect(try machine.get("/kept").version == (kind.sparesOthers ? 1 : 2))
        }
    }

    @Test("a machine that starts after a purge uses no older response")
    func laterMachine() throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 1)
        try stage.store(["/a", "/b"])
        let client = try redis.client()
        let older = try client.hashes().map { ($0, try client.hash($0)) }
        stage.origin.change("/a", "/b")
        #expect(try stage[0].purge("all"))
        // As if the records had survived.
        for (key, fields) in older { try client.set(fields, of: key) }
        let later = try SharedStage(SharedStage.redis([redis]), machines: 1, origin: stage.origin)
        for path in ["/a", "/b"] { #expect(try later[0].get(path).version == 2) }
    }

    @Test("a fetch that began before a purge is not used after it")
    func fetchUnderWay() throws {
        let (asked, gate) = (Monitor(0), Gate())
        // The version is the one of the request's arrival: the response is old when it comes.
        let server = try Stage.pki.server(Stage.host)
        let version = Monitor(1)
        let slow = try ScriptedOrigin(server) { connection in
            while try connection.readRequest() != nil {
                let own = version.read { $0 }
                asked.with { $0 += 1 }
                if own == 1 { try gate.pass() }
                let body = VersionedOrigin.body("/x", own)
                let head =
                    "HTTP/1.1 200 OK\r\nETag: \"/x-\(own)-\"\r\nX-Version: \(own)\r\nCache-Control: max-age=600\r\n"
                try connection.write(Array("\(head)Content-Length: \(body.count)\r\n\r\n".utf8) + body)
            }
        }
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3) { _, settings in
            settings.serve(Stage.host, server, at: slow.port)
        }
        let early = try stage.proxies[0].connect()
        try early.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/x"))
        try asked.wait(for: "the request") { $0 == 1 ? true : nil }
        version.with { $0 = 2 }
        #expect(try stage[1].purge("all"))
        gate.open()
        #expect(try Machine.look(at: early.readResponse(), of: "/x").version == 1)
        #expect(try stage[2].get("/x").version == 2)
        try Patience.poll(for: "the first machine to learn of the purge", seconds: 10, every: 0.05) {
            try stage[0].get("/x").version == 2 ? true : nil
        }
    }

    /// A purge that was confirmed.
    private struct Confirmed {
        let paths: Set<String>
        /// The versions when it was published.
        let versions: [String: Int]
        let time: ContinuousClock.Instant
    }

    @Test("under load, purges and changes leave no machine an older response")
    func load() async throws {
        let paths = (0..<4).map { "/\($0 == 0 ? 70_000 : 100)/p/\($0)" } + (0..<2).map { "/100/q/\($0)" }
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3, origin: Self.origin()) { _, settings in
            settings.members["workers"] = 2
        }
        let (origin, machines) = (stage.origin, stage.machines)
        let purges = Monitor<[Confirmed]>([])
        let isOver = Monitor(false)
        // Two seconds are promised; a busy machine needs some of its own.
        let grace = Duration.seconds(2 + 3)
        try await withThrowingTaskGroup(of: Int.self) { group in
            for (number, machine) in machines.enumerated() {
                for _ in 0..<2 {
                    group.addTask {
                        var generator = SeededGenerator(seed: UInt64(number + 1))
                        var count = 0
                        while !isOver.read({ $0 }) {
                            let path = paths[Int.random(in: 0..<paths.count, using: &generator)]
                            let begin = ContinuousClock.now
                            let known = purges.read { $0 }
                            let seen = try machine.get(path)
                            for purge in known where purge.paths.contains(path) {
                                // Of Redis at once, but for a look-up under way that a request joins; of a machine's own memory later.
                                let bound = seen.isShared ? Duration.milliseconds(500) : grace
                                guard purge.time + bound < begin else { continue }
                                #expect(seen.version >= purge.versions[path] ?? 1, "\(path) of machine \(number)")
                            }
                            count += 1
                        }
                        return count
                    }
                }
            }
            group.addTask {
                defer { isOver.with { $0 = true } }
                for round in 0..<Extent.of(8, whole: 40) {
                    let affected: [String]
                    let query: (String, String?)
                    switch round % 4 {
                    case 0: (affected, query) = ([paths[0]], ("url", "http://\(Stage.host)\(paths[0])"))
                    case 1: (affected, query) = (Array(paths.prefix(4)), ("tag", "red"))
                    case 2: (affected, query) = (Array(paths.suffix(2)), ("prefix", "http://\(Stage.host)/100/q/"))
                    default: (affected, query) = (paths, ("all", nil))
                    }
                    origin.change(affected)
                    let versions = Dictionary(uniqueKeysWithValues: affected.map { ($0, origin.version(of: $0)) })
                    let isShared = try machines[round % machines.count].purge(query.0, query.1)
                    #expect(isShared)
                    if isShared {
                        let purge = Confirmed(paths: Set(affected), versions: versions, time: .now)
                        purges.with { $0.append(purge) }
                    }
                    try await Task.sleep(for: .milliseconds(800))
                }
                return 0
            }
            var total = 0
            for try await count in group { total += count }
            #expect(total > 100)
        }
    }

    @Test("a purge without Redis is not confirmed, and holds when Redis is back")
    func withoutRedis() throws {
        let stage = try SharedStage(SharedStage.redis([redis], timeout: "200ms"), machines: 2)
        try stage.store(["/a", "/b"])
        for path in ["/a", "/b"] { #expect(try stage[1].get(path).isShared) }
        stage.origin.change("/a", "/b")
        redis.pause()
        defer { redis.resume() }
        #expect(try !stage[0].purge("all"))
        // What it has purged it does not use itself, from nowhere.
        #expect(try stage[0].get("/a").version == 2)
        redis.resume()
        for machine in stage.machines {
            try Patience.poll(for: "the purge to be learned", seconds: 60, every: 0.1) {
                try machine.get("/b").version == 2 ? true : nil
            }
        }
        #expect(try stage[0].get("/b").version == 2)
    }
}
