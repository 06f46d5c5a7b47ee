// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The shared cache: responses of other machines", .onOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedResponseTests {
    private let redis: RedisProcess

    init() throws { redis = try RedisProcess() }

    @Test("a second machine has the first one's responses without the origin")
    func otherMachine() throws {
        let stage = try SharedStage(SharedStage.redis([redis]))
        let paths = [0, 1, 1024, 65_535, 65_536, 65_537, 262_144, 262_145, 1 << 20].map { "/\($0)/x" }
        try stage.store(paths)
        for path in paths {
            let seen = try stage[1].get(path)
            #expect(seen.isShared && seen.response["Age"] != nil, "\(path): \(seen.response.fields)")
            #expect(try stage[1].get(path).status.contains("hit"))
        }
        #expect(stage.origin.count == paths.count)
        #expect(try stage[1].lookUps("hit") == paths.count)
        #expect(try stage[0].lookUps("miss") == paths.count)
        #expect(try stage[1].metric("pinproxy_shared_cache_server_up{server=\"\(redis.address)\"}") == 1)
        let lines = try stage.proxies[1].waitForTaskLines(paths.count)
        #expect(lines.allSatisfy { $0.string("cache") == "hit" && $0.transactions.isEmpty })
    }

    @Test("a machine that starts later has responses, too")
    func laterMachine() throws {
        let first = try SharedStage(SharedStage.redis([redis]), machines: 1)
        try first.store(["/a", "/b"])
        #expect(try first.proxies[0].terminate().exitCode == 0)
        let second = try SharedStage(SharedStage.redis([redis]), machines: 1, origin: first.origin)
        for path in ["/a", "/b"] { #expect(try second[0].get(path).isShared) }
        #expect(first.origin.count == 2)
    }

    @Test("a body above the limit is not shared", arguments: [nil, "64KB"])
    func largeBody(limit: String?) throws {
        let stage = try SharedStage(SharedStage.redis([redis])) { _, settings in
            if let limit { SharedStage.setRedis(["maximumBody": limit], in: &settings) }
        }
        let large = limit == nil ? "/1048577/x" : "/65537/x"
        try stage[0].get(large)
        try stage.store(["/100/x"])
        let client = try redis.client()
        // That of the other one has its generation alone.
        #expect(try client.hashes().map { try client.hash($0).count }.sorted() == [1, 2])
        #expect(try !stage[1].get(large).isShared)
        #expect(try stage[1].get("/100/x").isShared)
        #expect(stage.origin.count(large) == 2)
    }

    @Test("no clear text of a response is in Redis")
    func sealed() throws {
        let origin = try VersionedOrigin(fields: { _, _ in ["Cache-Control: max-age=600", "X-Plain: word-in-the-head"] }
        )
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 1, origin: origin)
        let paths = ["/1000/word-in-the-path", "/300000/word-in-the-path"]
        try stage.store(paths)
        let client = try redis.client()
        let words =
            [Stage.host, "word-in"].map { Array($0.utf8) } + paths.map { Array(VersionedOrigin.body($0, 1)[100..<116]) }
        for key in try client.hashes() {
            let fields = try client.hash(key)
            #expect(fields.count >= 1)
            for bytes in [key] + Array(fields.keys) + Array(fields.values) {
                for word in words { #expect(Data(bytes).range(of: Data(word)) == nil) }
            }
            // Each goes by itself.
            guard case .integer(let lifetime) = try client.command([Array("PTTL".utf8), key]) else { continue }
            #expect((1...86_400_000).contains(lifetime))
        }
    }

    @Test("responses are selected by what Vary names")
    func vary() throws {
        let origin = try VersionedOrigin(fields: { request, _ in
            ["Cache-Control: max-age=600", "Vary: Accept-Language", "X-For: \(request["Accept-Language"] ?? "-")"]
        })
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3, origin: origin)
        let languages = ["de", "en", "de, en;q=0.5"]
        for (number, language) in languages.enumerated() {
            try stage[0].get("/70000/v", fields: ["Accept-Language: \(language)"])
            try stage[0].waitForStored(number + 1)
        }
        for machine in 1...2 {
            for language in languages.reversed() {
                let seen = try stage[machine].get("/70000/v", fields: ["Accept-Language: \(language)"])
                #expect(seen.isShared && seen.response["X-For"] == language, "\(seen.response.fields)")
            }
        }
        #expect(origin.count == languages.count)
        for fields in [[], ["Accept-Language: fr"]] {
            let seen = try stage[1].get("/70000/v", fields: fields)
            #expect(!seen.isShared && seen.response["X-For"] == (fields.isEmpty ? "-" : "fr"))
        }
        #expect(origin.count == languages.count + 2)
    }

    @Test("a validation by one machine makes the response fresh for another")
    func validated() throws {
        // Stale at once, fresh after a validation.
        let origin = try VersionedOrigin(fields: { request, _ in
            ["Cache-Control: max-age=600"] + (request["If-None-Match"] == nil ? ["Age: 600"] : [])
        })
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3, origin: origin)
        let path = "/70000/v"
        try stage.store([path])
        let validated = try stage[1].get(path)
        #expect(validated.version == 1 && validated.status.contains("fwd-status=304"), "\(validated.response.fields)")
        try stage[1].waitForStored(1)
        #expect(try stage[2].get(path).isShared)
        #expect(origin.count == 2)
        // The first machine's own is stale: whichever it uses, it is the origin's.
        #expect(try stage[0].get(path).version == 1)
    }

    @Test("a stale response of Redis is used while it is refreshed")
    func staleWhileRevalidate() throws {
        let origin = try VersionedOrigin(fields: { _, version in
            ["Cache-Control: max-age=600, stale-while-revalidate=600"] + (version == 1 ? ["Age: 600"] : [])
        })
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3, origin: origin)
        try stage.store(["/s"])
        origin.change("/s")
        let stale = try stage[1].get("/s")
        #expect(stale.version == 1 && stale.isShared, "\(stale.response.fields)")
        try Patience.poll(for: "the refreshed response", every: 0.02) {
            try stage[1].get("/s").version == 2 ? true : nil
        }
        try stage[1].waitForStored(1)
        let refreshed = try stage[2].get("/s")
        #expect(refreshed.version == 2 && refreshed.isShared)
        #expect(origin.count == 2)
    }

    @Test("ranges and conditions are served from a response of Redis")
    func parts() throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3)
        let path = "/70000/p"
        try stage.store([path])
        let body = VersionedOrigin.body(path, 1)
        let part = try stage[1].ask("GET", path, fields: ["Range: bytes=65000-66000"])
        #expect(part.status == 206 && firstDifference(part.body, Array(body[65_000...66_000])) == nil)
        let unchanged = try stage[2].ask("GET", path, fields: ["If-None-Match: \"\(path)-1-\""])
        #expect(unchanged.status == 304 && unchanged.body.isEmpty)
        #expect(stage.origin.count == 1)
    }

    @Test("an unsafe method on one machine removes the response for others")
    func unsafe() throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 5)
        for (number, method) in ["POST", "PUT", "DELETE"].enumerated() {
            let path = "/70000/\(method)"
            try stage.store([path])
            #expect(try stage[1].ask(method, path, body: "x").text == "done")
            // Neither this machine nor one that had nothing uses the older one.
            #expect(try stage[1].get(path).version == 2, "\(method)")
            try stage[1].waitForStored(number + 1)
            let other = try stage[2].get(path)
            #expect(other.version == 2 && other.isShared, "\(method) \(other.response.fields)")
            #expect(stage.origin.count(path) == 3)
        }
        // Without a look at Redis in between.
        try stage.store(["/y"])
        #expect(try stage[3].ask("POST", "/y", body: "x").text == "done")
        #expect(try stage[4].get("/y").version == 2)
    }
}

@Suite("The shared cache: one fetch for many machines", .onOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedFetchTests {
    private let redis: RedisProcess
    private let gate = Gate()

    init() throws { redis = try RedisProcess() }

    private func origin(_ control: String) throws -> VersionedOrigin {
        let gate = gate
        return try VersionedOrigin(fields: { _, _ in ["Cache-Control: \(control)"] }) { request in
            if request.target.hasSuffix("/slow") { try gate.pass() }
        }
    }

    /// Waits until other machines have looked for a response that one of them fetches: each look is an HMGET.
    private func waitForLooks(_ count: Int) throws {
        let client = try redis.client()
        try Patience.poll(for: "\(count) looks", every: 0.005) { try client.calls("hmget") >= count ? true : nil }
    }

    /// Sends the same request so many times to each machine at once.
    private static func ask(_ stage: SharedStage, _ path: String, each count: Int) throws -> [TestClient] {
        try stage.proxies.flatMap { proxy in
            try (0..<count).map { _ in
                let client = try proxy.connect()
                try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)\(path)"))
                return client
            }
        }
    }

    @Test("ten requests at once on each of four machines cause one")
    func collapsed() throws {
        let origin = try origin("max-age=600")
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 4, origin: origin)
        let begin = Date()
        let clients = try Self.ask(stage, "/70000/slow", each: 10)
        // Three machines have looked twice or more when the first one's response comes.
        try waitForLooks(10)
        gate.open()
        for client in clients { try Machine.look(at: client.readResponse(), of: "/70000/slow") }
        // On a machine so busy that the patience was over, each machine asks for itself.
        let isInTime = Date().timeIntervalSince(begin) < 4
        #expect(isInTime ? origin.count == 1 : (1...4).contains(origin.count), "\(origin.count)")
        let waits = try stage.machines.map { machine in
            try ["served", "vain"].reduce(0) {
                try $0 + (machine.metric("pinproxy_shared_cache_waits_total{result=\"\($1)\"}") ?? 0)
            }
        }
        #expect(waits.filter { $0 > 0 }.count >= 1, "\(waits)")
    }

    @Test("machines wait only a moment for a response that is not for others", arguments: ["private", "no-store"])
    func notForOthers(control: String) throws {
        let origin = try origin("\(control), max-age=60")
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 4, origin: origin)
        let clients = try Self.ask(stage, "/slow", each: 1)
        try waitForLooks(10)
        let begin = Date()
        gate.open()
        for client in clients { try Machine.look(at: client.readResponse(), of: "/slow") }
        // Known to all that it is not for others: nobody waits at all.
        for machine in stage.machines { try machine.get("/slow") }
        #expect(Date().timeIntervalSince(begin) < 4)
        #expect(origin.count == 8)
    }

    @Test("the death of the fetching machine costs others a bounded wait")
    func death() throws {
        let asked = Monitor(0)
        let gate = gate
        let origin = try VersionedOrigin(before: { _ in
            let isFirst = asked.with { count in
                count += 1
                return count == 1
            }
            if isFirst { try gate.pass() }
        })
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3, origin: origin)
        let first = try stage.proxies[0].connect()
        try first.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/x"))
        try asked.wait(for: "the first request") { $0 == 1 ? true : nil }
        let others = try stage.proxies.dropFirst().map { proxy in
            let client = try proxy.connect()
            try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/x"))
            return client
        }
        stage.proxies[0].signal(SIGKILL)
        let begin = Date()
        for client in others { try Machine.look(at: client.readResponse(), of: "/x") }
        #expect(Date().timeIntervalSince(begin) < 12)
        #expect((2...3).contains(origin.count))
        gate.open()
    }

    @Test("a client that leaves gives the fetch to another machine")
    func leaving() throws {
        let asked = Monitor(0)
        let gate = gate
        let origin = try VersionedOrigin(before: { _ in
            let isFirst = asked.with { count in
                count += 1
                return count == 1
            }
            if isFirst { try gate.pass() }
        })
        let stage = try SharedStage(SharedStage.redis([redis]), origin: origin)
        let first = try stage.proxies[0].connect()
        try first.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/x"))
        try asked.wait(for: "the first request") { $0 == 1 ? true : nil }
        let other = try stage.proxies[1].connect()
        try other.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/x"))
        try waitForLooks(3)
        first.reset()
        let begin = Date()
        try Machine.look(at: other.readResponse(), of: "/x")
        #expect(Date().timeIntervalSince(begin) < 12)
        gate.open()
    }
}
