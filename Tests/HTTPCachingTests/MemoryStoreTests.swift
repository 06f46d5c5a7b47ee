// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("The memory store")
struct MemoryStoreTests {
    typealias Stage = CachingStage

    static func entry(
        _ url: String,
        body: Int,
        _ response: Stage.Pairs = [],
        to request: Stage.Pairs = [],
        tags: [String] = [],
        partition: [UInt8] = []
    ) throws -> CachedEntry {
        CachedEntry(
            key: try #require(CacheKey(url: url, partition: partition)),
            response: try Stage.stored(response, to: request),
            body: .memory(StoredBytes([UInt8](repeating: 7, count: body))),
            tags: tags.map { Array($0.utf8) }
        )
    }

    private func bodies(_ store: MemoryStore, _ url: String) throws -> [Int] {
        store.entries(for: try Stage.key(url)).map(\.body.count)
    }

    @Test("4.3.3: all variants are found under their key, and a later one replaces an earlier")
    func variants() throws {
        let store = MemoryStore(capacity: 1 << 20)
        let vary = [("Vary", "A")]
        store.insert(try Self.entry("http://a.example/", body: 1, vary, to: [("A", "1")]))
        store.insert(try Self.entry("http://a.example/", body: 2, vary, to: [("A", "2")]))
        store.insert(try Self.entry("http://b.example/", body: 3))
        #expect(try bodies(store, "http://a.example/") == [1, 2])
        store.insert(try Self.entry("http://a.example/", body: 4, vary, to: [("A", "1")]))
        #expect(try bodies(store, "http://a.example/") == [2, 4])
        #expect(try bodies(store, "http://c.example/") == [])
        #expect(store.statistics.entries == 3)
    }

    @Test("the store keeps no more bytes than its limit, whatever comes")
    func bound() throws {
        let store = MemoryStore(capacity: 100_000)
        var generator = SeededGenerator(seed: 4)
        for _ in 0..<5000 {
            let number = Int.random(in: 0..<400, using: &generator)
            let url = "http://a.example/\(number)"
            if let entry = store.entries(for: try Stage.key(url)).first {
                entry.markUsed()
            } else {
                store.insert(try Self.entry(url, body: Int.random(in: 0..<14_000, using: &generator)))
            }
            #expect(store.statistics.bytes <= 100_000)
        }
        let all = store.allEntries
        #expect(all.reduce(0) { $0 + $1.cost } == store.statistics.bytes)
        #expect(all.count == store.statistics.entries && all.count > 5)
        #expect(all.allSatisfy { $0.body.count <= store.largestBody })
    }

    @Test("bodies in transit count: stored responses make room for them")
    func transitCounts() throws {
        let memory = MemoryStore(capacity: 4 << 20)
        let store = CacheStore(memory: memory, CacheOptions())
        for number in 0..<40 { memory.insert(try Self.entry("http://a.example/\(number)", body: 100_000)) }
        let before = memory.statistics
        #expect(before.bytes > 3 << 20)
        let key = try Stage.key("http://b.example/")
        var open: [CacheInsertion] = []
        for _ in 0..<4 {
            let insertion = store.insertion(
                for: key,
                try Stage.stored([]),
                epoch: store.epoch(of: key),
                length: 500_000
            )
            let known = try #require(insertion)
            known.append([UInt8](repeating: 1, count: 499_999))
            open.append(known)
            #expect(memory.statistics.bytes + open.count * 500_000 <= memory.capacity)
        }
        let full = memory.statistics
        #expect(full.entries < before.entries && full.evictions > before.evictions)
        open.removeAll()
        for number in 40..<80 { memory.insert(try Self.entry("http://a.example/\(number)", body: 100_000)) }
        #expect(memory.statistics.bytes > 3 << 20)
    }

    // A sanitizer keeps freed memory, and shadows all of it.
    @Test(
        "the process uses at most 1.15 times the store's capacity, and gives it back",
        .enabled(if: !Programs.isSanitized)
    )
    func resident() throws {
        let program = try Programs.built("CacheWriter")
        // Bodies of 4 KB at most make 6,000 entries of 16 MB, so that it is full, and turned over, after twice as many.
        for (largest, turnover) in [(2 << 20, 10), (64 << 10, 5), (4 << 10, 2)] {
            let child = try ChildProcess(program, ["--memory", "\(16 << 20)", "\(largest)", "\(turnover)"])
            _ = try child.waitForExit()
            let text = try child.waitForOutput("the end") { $0.contains("after a purge") ? $0 : nil }
            func percent(_ name: String) throws -> Int {
                let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name) })
                return try #require(Int(line.split(separator: " ").dropLast(4).last ?? ""))
            }
            #expect(try percent("highest") <= 115, "\(text)")
            #expect(try percent("after a purge") <= 30, "\(text)")
        }
    }

    @Test("a body that is too large is not stored, and its predecessor goes")
    func tooLarge() throws {
        let store = MemoryStore(capacity: 10_000, largestBody: 1000)
        #expect(store.insert(try Self.entry("http://a.example/", body: 1000)))
        #expect(!store.insert(try Self.entry("http://a.example/", body: 1001)))
        #expect(try bodies(store, "http://a.example/") == [])
        #expect(store.statistics.bytes == 0)
    }

    @Test("a purge takes all partitions of a URI, and a host or tag exactly")
    func purging() throws {
        let store = MemoryStore(capacity: 1 << 20)
        for partition in [[], [1]] as [[UInt8]] {
            store.insert(try Self.entry("http://a.example/", body: 1, tags: ["x"], partition: partition))
        }
        store.insert(try Self.entry("http://a.example/2", body: 1, tags: ["x", "y"]))
        store.insert(try Self.entry("https://b.example:8443/", body: 1, tags: ["y"]))
        #expect(store.remove(.uri(try Stage.key("http://a.example/"))) == 2)
        #expect(store.remove(.tag("x")) == 1)
        #expect(store.remove(.tag("x")) == 0)
        #expect(store.remove(.host("a.example")) == 0)
        #expect(store.remove(.host("b.example")) == 1)
        store.insert(try Self.entry("http://a.example/", body: 1))
        #expect(store.remove(.everything) == 1)
        #expect(store.statistics.bytes == 0 && store.statistics.entries == 0)
    }

    @Test("4.3.4: a validated response replaces a present one and restores no removed one")
    func replacing() throws {
        let store = MemoryStore(capacity: 1 << 20)
        let entry = try Self.entry("http://a.example/", body: 5)
        let response = try Stage.stored([("X-New", "1")])
        store.insert(entry)
        #expect(store.replace(entry, by: response).body.count == 5)
        let found = try #require(store.entries(for: entry.key).first)
        #expect(found.response.fields.value(for: "X-New") == "1")
        store.remove(.everything)
        store.replace(found, by: response)
        #expect(store.statistics.entries == 0)
    }

    @Test(
        "a purge finds a response by tags that a validation has brought, too",
        arguments: ["a", "b", "c"]
    )
    func tagsOfValidations(tag: String) throws {
        let store = MemoryStore(capacity: 1 << 20)
        let entry = try Self.entry("http://a.example/", body: 5, tags: ["a"])
        store.insert(entry)
        let second = store.replace(entry, by: try Stage.stored([("Surrogate-Key", "b a")]))
        #expect(second.tags == [Array("b".utf8), Array("a".utf8)])
        store.replace(second, by: try Stage.stored([("Cache-Tag", "c")]))
        #expect(store.remove(.tag(tag)) == 1 && store.remove(.everything) == 0)
    }

    @Test("many keys are found again after others beside them were removed")
    func table() throws {
        let store = MemoryStore(capacity: 1 << 26)
        for number in 0..<3000 { store.insert(try Self.entry("http://a.example/\(number)", body: number % 7)) }
        for number in stride(from: 0, to: 3000, by: 3) {
            #expect(store.remove(.uri(try Stage.key("http://a.example/\(number)"))) == 1)
        }
        for number in 0..<3000 {
            #expect(try bodies(store, "http://a.example/\(number)") == (number % 3 == 0 ? [] : [number % 7]))
        }
    }

    @Test("at most 32 variants of one key are kept")
    func manyVariants() throws {
        let store = MemoryStore(capacity: 1 << 20)
        for number in 0..<40 {
            store.insert(try Self.entry("http://a.example/", body: number, [("Vary", "A")], to: [("A", "\(number)")]))
        }
        #expect(try bodies(store, "http://a.example/") == Array(8..<40))
    }

    @Test("scans leave what is in use in place: many more hits than with LRU")
    func scanResistance() throws {
        let capacity = 200
        let cost = try Self.entry("http://a.example/100", body: 1000).cost
        let store = MemoryStore(capacity: capacity * cost)
        var recent = RecentlyUsed(capacity: capacity)
        var generator = SeededGenerator(seed: 11)
        var hits = (store: 0, recent: 0, of: 0)
        var scanned = 1_000_000
        for round in 0..<30_000 {
            // A working set that fits, requested by popularity, with long scans of unique keys in between.
            let isScan = round % 1000 >= 600
            let number: Int
            if isScan {
                scanned += 1
                number = scanned
            } else {
                number = 100 + Int(Double(180) * pow(Double.random(in: 0..<1, using: &generator), 2))
            }
            let key = try Stage.key("http://a.example/\(number)")
            let isHit = recent.use(number)
            if let entry = store.entries(for: key).first {
                entry.markUsed()
                if !isScan { hits.store += 1 }
            } else {
                store.insert(try Self.entry("http://a.example/\(number)", body: 1000))
            }
            if !isScan {
                hits.of += 1
                if isHit { hits.recent += 1 }
            }
        }
        let (ours, lru) = (Double(hits.store) / Double(hits.of), Double(hits.recent) / Double(hits.of))
        #expect(ours > 0.9, "\(ours)")
        #expect(ours > lru + 0.1, "\(ours) against \(lru) of LRU")
    }

    /// A simple LRU for comparison.
    private struct RecentlyUsed {
        let capacity: Int
        var clock = 0
        var times: [Int: Int] = [:]

        init(capacity: Int) { self.capacity = capacity }

        mutating func use(_ number: Int) -> Bool {
            clock += 1
            let isKnown = times[number] != nil
            times[number] = clock
            if times.count > capacity, let oldest = times.min(by: { $0.value < $1.value }) {
                times[oldest.key] = nil
            }
            return isKnown
        }
    }

    @Test("threads may store, find and purge at the same time")
    func threads() async throws {
        let store = MemoryStore(capacity: 200_000)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    var generator = SeededGenerator(seed: UInt64(thread))
                    for _ in 0..<2000 {
                        let number = Int.random(in: 0..<300, using: &generator)
                        let url = "http://a.example/\(number)"
                        switch Int.random(in: 0..<20, using: &generator) {
                        case 0: store.remove(.uri(try Stage.key(url)))
                        case 1..<8: store.insert(try Self.entry(url, body: number))
                        default:
                            for entry in store.entries(for: try Stage.key(url)) {
                                #expect(entry.body.count == number)
                                entry.markUsed()
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(store.statistics.bytes <= 200_000)
        #expect(store.allEntries.reduce(0) { $0 + $1.cost } == store.statistics.bytes)
    }
}
