// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCaching
import HTTPCore
import SharedCaching
import TestSupport
import Testing

@testable import ProxyAdmin
@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The cache as an operator sees it")
struct CacheAdministrationTests {
    private static func cache() throws -> ResponseCache {
        let options = CacheOptions(isShared: false)
        let store = CacheStore(memory: MemoryStore(capacity: 1 << 20), options)
        for (url, partition) in [("https://a.example/x?token=secret&y=%22", ""), ("https://b.example/", "ann")] {
            var fields = HeaderFields()
            try fields.append(name: "Cache-Control", value: "max-age=60")
            let response = StoredResponse(
                status: 200,
                response: fields,
                to: CacheRequest(method: .get, fields: HeaderFields(), policy: .useProtocolCachePolicy),
                requestTime: 1_800_000_000,
                responseTime: 1_800_000_000,
                digest: PolicyDigest([1]),
                options
            )
            let key = try #require(CacheKey(url: url, partition: Array(partition.utf8)))
            let insertion = store.insertion(
                for: key,
                response,
                epoch: store.epoch(of: key),
                tags: [Array("tag\"1".utf8)]
            )
            insertion?.append([1, 2, 3])
            try #require(insertion?.finish() == true)
        }
        return ResponseCache(store)
    }

    private func json(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    @Test("figures are one JSON object on one line, with the disk's")
    func figures() throws {
        var figures = CacheFigures(try Self.cache())
        figures.counts.hits = 3
        figures.counts.bypassed = 4
        let text = CacheAdministration.document(figures)
        #expect(text.hasSuffix("}\n") && text.filter { $0 == "\n" }.count == 1)
        let object = try json(text)
        #expect(object["shared"] as? Bool == false && object["disk"] == nil)
        #expect(
            object["requests"] as? [String: Int] == ["hit": 3, "stale": 0, "revalidated": 0, "miss": 0, "bypass": 4]
        )
        #expect((object["hosts"] as? [Any])?.isEmpty == true && (object["rules"] as? [Any])?.isEmpty == true)
        let memory = try #require(object["memory"] as? [String: Int])
        #expect(memory["entries"] == 2 && memory["capacity"] == 1 << 20 && memory["evictions"] == 0)
        var statistics = DiskStore.Statistics()
        statistics.offBecause = "it is \"full\""
        figures.disk = CacheFigures.Disk(path: "/var/cache/p", statistics: statistics, capacity: 5)
        let disk = try #require(try json(CacheAdministration.document(figures))["disk"] as? [String: Any])
        #expect(disk["path"] as? String == "/var/cache/p" && disk["offBecause"] as? String == "it is \"full\"")
        #expect(disk["capacity"] as? Int == 5)
    }

    @Test("the shared cache is shown with the state of its servers")
    func shared() throws {
        let figures = CacheFigures(try Self.cache())
        #expect(try json(CacheAdministration.document(figures))["redis"] == nil)
        var shared = SharedCacheStatus()
        (shared.hits, shared.misses, shared.timeouts, shared.failures) = (1, 9, 3, ["busy": 4])
        (shared.stored, shared.purgesPending) = (5, 6)
        shared.servers = ["b.test:6379": "it is \"full\"", "a.test:6379": nil]
        let text = CacheAdministration.document(figures, shared)
        #expect(text.filter { $0 == "\n" }.count == 1)
        let redis = try #require(try json(text)["redis"] as? [String: Any])
        #expect(redis["lookups"] as? [String: Int] == ["hit": 1, "miss": 2, "timeout": 3, "failed": 4])
        #expect(redis["stored"] as? Int == 5 && redis["purgesPending"] as? Int == 6)
        #expect(
            redis["servers"] as? [[String: String]] == [
                ["server": "a.test:6379"], ["server": "b.test:6379", "offBecause": "it is \"full\""],
            ]
        )
    }

    @Test("counts are shown by host and rule")
    func hostsAndRules() throws {
        let cache = try Self.cache()
        let tally = cache.tallies.tally(host: "a.test", entry: "a.test", rules: ["store /\"x", "skip"])
        tally.countRule(0)
        let object = try json(CacheAdministration.document(CacheFigures(cache)))
        let hosts = try #require(object["hosts"] as? [[String: Any]])
        #expect(hosts.map { $0["host"] as? String } == ["a.test"] && hosts[0]["stored"] as? Int == 0)
        #expect((hosts[0]["requests"] as? [String: Int])?["hit"] == 0)
        let rules = try #require(object["rules"] as? [[String: Any]])
        #expect(rules.map { $0["text"] as? String } == ["store /\"x", "skip"])
        #expect(rules.map { $0["matches"] as? Int } == [1, 0] && rules.map { $0["rule"] as? Int } == [0, 1])
        #expect(rules[0]["host"] as? String == "a.test")
    }

    @Test("entries are shown with their facts, masked as in the log")
    func entries() throws {
        let response = Monitor<[CacheListing]?>(nil)
        try Self.cache().store.list(atMost: 9, deliver: { $0() }, { entries in response.with { $0 = entries } })
        let listings = try response.wait(for: "the list") { $0 }.sorted { $0.url < $1.url }
        let text = CacheAdministration.document(listings, masking: TaskLogLine(redacting: ["token"]))
        #expect(!text.contains("secret"))
        let entries = try #require(try json(text)["entries"] as? [[String: Any]])
        #expect(entries.map { $0["url"] as? String } == ["https://a.example/x?token=***&y=%22", "https://b.example/"])
        #expect(entries[0]["user"] == nil && entries[1]["user"] as? String == "ann")
        #expect(entries[0]["status"] as? Int == 200 && entries[0]["bytes"] as? Int == 3)
        #expect(entries[0]["stored"] as? String == "2027-01-15T08:00:00Z")
        #expect(entries[0]["freshUntil"] as? String == "2027-01-15T08:01:00Z")
        #expect(entries[0]["tags"] as? [String] == ["tag\"1"] && entries[0]["varies"] == nil)
        #expect(try json(CacheAdministration.document([], masking: TaskLogLine(redacting: [])))["entries"] != nil)
    }

    @Test("a URL is purged by its host's rules for keys")
    func widened() throws {
        let folder = try ConfigurationFolder([
            "config.json": #"""
            { "version": 1, "cache": {}, "hosts": { "a.test": { "cache": { "rules": [
                { "key": { "ignoreParameters": ["utm_*"], "sortParameters": true, "headers": ["X-Tenant"] } } ] } } } }
            """#
        ])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        let snapshot = try #require(outcome.makeSnapshot(), "\(outcome.issues)")
        func purged(_ url: String) throws -> [String] {
            let key = try #require(CacheKey(url: url))
            return CacheAdministration.widened(.uri(key), under: snapshot).map {
                if case .uri(let key) = $0 { String(decoding: key.url, as: UTF8.self) } else { "something else" }
            }
        }
        #expect(
            try purged("https://a.test/x?utm_a=1&b&a") == [
                "https://a.test:443/x?a&b", "https://a.test:443/x?utm_a=1&b&a",
            ]
        )
        #expect(try purged("https://a.test/x?a") == ["https://a.test:443/x?a"])
        #expect(try purged("https://b.test/x?utm_a") == ["https://b.test:443/x?utm_a"])
        #expect(CacheAdministration.widened(.everything, under: snapshot).count == 1)
    }

    @Test("the cache in use is the latest one")
    func holder() throws {
        let holder = CacheHolder()
        #expect(holder.current == nil)
        let cache = try Self.cache()
        holder.current = cache
        #expect(holder.current === cache)
    }
}
