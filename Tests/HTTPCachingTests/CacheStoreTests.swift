// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("Memory and disk together")
struct CacheStoreTests {
    private typealias Stage = CachingStage

    private let disk: DiskStoreStage
    private let store: CacheStore

    init() throws {
        disk = try DiskStoreStage()
        store = CacheStore(memory: MemoryStore(capacity: 1 << 20), disk: disk.store, Stage.shared)
    }

    private func find(
        _ url: String,
        _ request: Stage.Pairs = [],
        under digest: PolicyDigest = Stage.digest,
        in store: CacheStore? = nil
    ) throws -> (found: CacheStore.Found, isFromDisk: Bool) {
        let response = Monitor<CacheStore.Found?>(nil)
        let lookup = (store ?? self.store).find(
            try Stage.key(url),
            for: try Stage.request(request),
            under: digest,
            deliver: { $0() },
            { found in response.with { $0 = found } }
        )
        if case .found(let found) = lookup { return (found, false) }
        return (try response.wait(for: "the disk") { $0 }, true)
    }

    @discardableResult
    private func insert(
        _ url: String,
        _ body: [UInt8],
        _ response: Stage.Pairs = [],
        epoch: UInt64? = nil,
        length: Int? = nil,
        maximumBytes: Int? = nil
    ) throws -> Bool {
        let key = try Stage.key(url)
        let insertion = store.insertion(
            for: key,
            try Stage.stored(response),
            epoch: epoch ?? store.epoch(of: key),
            length: length,
            maximumBytes: maximumBytes
        )
        for start in stride(from: 0, to: body.count, by: 20_000) {
            insertion?.append(body.span.extracting(start..<min(start + 20_000, body.count)))
        }
        return insertion?.finish() ?? false
    }

    @Test("a stored response is found at once, and fills memory again after a restart")
    func levels() throws {
        let body = DiskStoreStage.bytes(5000)
        try #require(try insert("http://a.example/", body))
        let first = try find("http://a.example/")
        #expect(!first.isFromDisk && first.found.entry?.body.count == 5000)
        try disk.settle()
        let restarted = CacheStore(memory: MemoryStore(capacity: 1 << 20), disk: disk.store, Stage.shared)
        let second = try find("http://a.example/", in: restarted)
        #expect(second.isFromDisk && second.found.entry?.body.count == 5000)
        #expect(try !find("http://a.example/", in: restarted).isFromDisk)
        #expect(try find("http://b.example/").found.entry == nil)
    }

    @Test("a validation updates a response that was found on disk in memory, too", arguments: [3, 5000])
    func updatedAfterDisk(count: Int) throws {
        try #require(try insert("http://a.example/", DiskStoreStage.bytes(count)))
        try disk.settle()
        let restarted = CacheStore(memory: MemoryStore(capacity: 1 << 20), disk: disk.store, Stage.shared)
        let found = try find("http://a.example/", in: restarted)
        let entry = try #require(found.found.entry)
        #expect(found.isFromDisk)
        restarted.update(entry, by: try Stage.stored([("ETag", "\"new\"")]))
        let again = try find("http://a.example/", in: restarted)
        #expect(!again.isFromDisk)
        let fields = try #require(again.found.entry?.response.fields.list)
        #expect(fields.contains { $0.name == "ETag" && $0.value == "\"new\"" })
    }

    @Test("a body too large for memory is on disk alone; its predecessor is gone")
    func large() throws {
        try insert("http://a.example/", [1])
        let body = DiskStoreStage.bytes(300_000)
        try #require(try insert("http://a.example/", body))
        try disk.settle()
        let found = try find("http://a.example/")
        #expect(found.isFromDisk)
        let entry = try #require(found.found.entry)
        #expect(try firstDifference(disk.body(of: entry), body) == nil)
        #expect(store.memory.statistics.entries == 0)
    }

    @Test("an entry is not found under another policy")
    func digest() throws {
        try insert("http://a.example/", [1])
        try disk.settle()
        let other = try find("http://a.example/", under: PolicyDigest([9]))
        #expect(other.found.entries.isEmpty && other.found.entry == nil)
        #expect(try find("http://a.example/").found.entry != nil)
    }

    @Test("4.4: a response on its way while its URI is invalidated is not stored")
    func overtaken() throws {
        let key = try Stage.key("http://a.example/")
        let epoch = store.epoch(of: key)
        try insert("http://a.example/", [1])
        store.invalidate(key)
        #expect(try find("http://a.example/").found.entry == nil)
        #expect(try !insert("http://a.example/", [2], epoch: epoch))
        #expect(try find("http://a.example/").found.entry == nil)
        #expect(try insert("http://a.example/", [3]))
        #expect(try find("http://a.example/").found.entry != nil)
    }

    @Test("a body that is cut short or exceeds a limit is in neither store")
    func truncated() throws {
        #expect(try !insert("http://a.example/", [1, 2], length: 3))
        #expect(try !insert("http://a.example/", [1, 2, 3, 4], length: 3))
        #expect(try !insert("http://a.example/", [1, 2, 3, 4], maximumBytes: 3))
        #expect(try !insert("http://a.example/", [], length: 4, maximumBytes: 3))
        try disk.settle()
        #expect(try find("http://a.example/").found.entry == nil)
    }

    @Test("a validation changes both stores, and a purge empties both")
    func updateAndPurge() throws {
        try insert("http://a.example/", [1], [("ETag", "\"a\"")])
        let entry = try #require(try find("http://a.example/").found.entry)
        let fresh = entry.response.updated(
            by: try HeaderFields("X-New", "1"),
            to: try Stage.request(),
            requestTime: Stage.now,
            responseTime: Stage.now,
            Stage.shared
        )
        #expect(store.update(entry, by: fresh).response.fields.value(for: "X-New") == "1")
        #expect(try find("http://a.example/").found.entry?.response.fields.value(for: "X-New") == "1")
        #expect(try disk.entries("http://a.example/").first?.response.fields.value(for: "X-New") == "1")
        let count = Monitor<Int?>(nil)
        store.remove(.host("a.example"), deliver: { $0() }, { number in count.with { $0 = number } })
        #expect(try count.wait(for: "the purge") { $0 } == 1)
        #expect(try find("http://a.example/").found.entry == nil)
    }

    private func purge(_ purge: Purge, softlyAt now: Int? = nil) throws -> Int {
        let count = Monitor<Int?>(nil)
        let finish: @Sendable (Int) -> Void = { number in count.with { $0 = number } }
        if let now {
            store.expire(purge, now: now, deliver: { $0() }, finish)
        } else {
            store.remove(purge, deliver: { $0() }, finish)
        }
        return try count.wait(for: "the purge") { $0 }
    }

    @Test("a purge by prefix takes all URLs that begin so, and no others")
    func prefix() throws {
        let urls = [
            "http://a.example/v1/", "http://a.example/v1/x?y", "http://a.example/v1", "http://a.example/v10",
            "https://a.example/v1/", "http://a.example:81/v1/", "http://b.example/v1/", "http://a.example/",
        ]
        for inMemory in [true, false] {
            for url in urls { try insert(url, [1]) }
            try disk.settle()
            if !inMemory { store.memory.remove(.everything) }
            #expect(try purge(.prefix(Stage.key("http://a.example/v1/"))) == 2)
            for (index, url) in urls.enumerated() {
                #expect(try (find(url).found.entry == nil) == (index < 2), "\(url)")
            }
            #expect(try purge(.prefix(Stage.key("http://a.example/v1"))) == 2)
        }
        #expect(store.purgedCounts.removed == 8)
    }

    @Test("after a soft purge a response is stale until a validation, after restarts too")
    func softPurge() throws {
        let url = "http://a.example/"
        let fields = [("Cache-Control", "max-age=1000, stale-while-revalidate=60"), ("ETag", "\"a\"")]
        try insert(url, [1], fields)
        try insert("http://a.example/other", [1], fields)
        try disk.settle()
        let purgedAt = Stage.now + 100
        #expect(try purge(.uri(Stage.key(url)), softlyAt: purgedAt) == 1)
        #expect(store.purgedCounts.expired == 1)
        for isRestarted in [false, true] {
            if isRestarted { store.memory.remove(.everything) }
            let entry = try #require(try find(url).found.entry)
            func use(after seconds: Int) throws -> CacheUse {
                Stage.decide(try Stage.request(), entry.response, after: 100 + seconds)
            }
            guard case .reuse(let reuse) = try use(after: 0) else { throw Unexpected() }
            #expect(!reuse.freshness.isFresh && reuse.revalidates && reuse.timeToLive == 0)
            guard case .reuse = try use(after: 60) else { throw Unexpected() }
            #expect(try use(after: 61) == .forward(.stale, validates: true))
            #expect(try find("http://a.example/other").found.entry?.response.freshness(now: purgedAt).isFresh == true)
            // A second one counts from the first.
            if !isRestarted { #expect(try purge(.everything, softlyAt: purgedAt + 30) == 2) }
        }
        let entry = try #require(try find(url).found.entry)
        let validated = entry.response.updated(
            by: try Stage.fields([("Date", Stage.date)]),
            to: try Stage.request(),
            requestTime: Stage.now,
            responseTime: Stage.now,
            Stage.shared
        )
        store.update(entry, by: validated)
        #expect(try find(url).found.entry?.response.freshness(now: purgedAt).isFresh == true)
    }

    @Test("a response on its way during a soft purge is not stored as fresh")
    func softPurgeOvertakes() throws {
        let url = "http://a.example/"
        let fields = [("Cache-Control", "max-age=1000"), ("ETag", "\"a\"")]
        try insert(url, [1], fields)
        try disk.settle()
        let key = try Stage.key(url)
        let before = try #require(try find(url).found.entry)
        let epoch = store.epoch(of: key)
        #expect(try purge(.host("a.example"), softlyAt: Stage.now + 1) == 1)
        #expect(try !insert(url, [2], fields, epoch: epoch))
        let late = before.response.updated(
            by: HeaderFields(),
            to: try Stage.request(),
            requestTime: Stage.now,
            responseTime: Stage.now,
            Stage.shared
        )
        store.update(before, by: late)
        try disk.settle()
        for _ in 0..<2 {
            let entry = try #require(try find(url).found.entry)
            #expect(!entry.response.freshness(now: Stage.now + 1).isFresh)
            store.memory.remove(.everything)
        }
    }

    @Test("after the clock was set back, a soft purge leaves no grace")
    func softPurgeAndClock() throws {
        var response = try Stage.stored([("Cache-Control", "max-age=1000, stale-while-revalidate=60")])
        response.expire(now: Stage.now - 100)
        let use = Stage.decide(try Stage.request(), response, after: 61)
        #expect(use == .forward(.stale, validates: false))
    }

    private struct Unexpected: Error {}

    @Test("without a disk, memory alone serves")
    func memoryAlone() throws {
        let alone = CacheStore(memory: MemoryStore(capacity: 1 << 20), Stage.shared)
        let key = try Stage.key("http://a.example/")
        let insertion = alone.insertion(for: key, try Stage.stored([]), epoch: alone.epoch(of: key))
        let body: [UInt8] = [1, 2]
        insertion?.append(body.span)
        #expect(insertion?.finish() == true)
        #expect(try find("http://a.example/", in: alone).found.entry?.body.count == 2)
        let large = alone.insertion(for: key, try Stage.stored([]), epoch: alone.epoch(of: key), length: 1 << 20)
        #expect(large == nil)
    }

    private func list(host: String? = nil, atMost limit: Int = 100) throws -> [CacheListing] {
        let response = Monitor<[CacheListing]?>(nil)
        store.list(host: host, atMost: limit, deliver: { $0() }, { entries in response.with { $0 = entries } })
        return try response.wait(for: "the list") { $0 }
    }

    private func insert(_ url: String, _ body: [UInt8], _ response: StoredResponse, tags: [String] = []) throws {
        let key = try Stage.key(url)
        let insertion = store.insertion(
            for: key,
            response,
            epoch: store.epoch(of: key),
            tags: tags.map { Array($0.utf8) }
        )
        insertion?.append(body)
        try #require(insertion?.finish() == true)
    }

    @Test("the list of stored responses has each once, the latest first, from both stores")
    func listing() throws {
        #expect(try list() == [])
        try insert(
            "https://b.example/x?y",
            [1, 2, 3],
            Stage.stored([("Cache-Control", "max-age=60"), ("Vary", "Accept")], receivedAt: Stage.now),
            tags: ["t", "u"]
        )
        try insert("http://a.example:443/", DiskStoreStage.bytes(300_000), Stage.stored([], receivedAt: Stage.now + 9))
        try insert("http://a.example/", [], Stage.stored([], status: 404, receivedAt: Stage.now + 5))
        try disk.settle()
        #expect(store.memory.statistics.entries == 2)
        let all = try list()
        #expect(all.map(\.url) == ["http://a.example:443/", "http://a.example/", "https://b.example/x?y"])
        #expect(all.map(\.status) == [200, 404, 200] && all.map(\.length) == [300_000, 0, 3])
        #expect(all[2].storedAt == Stage.now && all[2].freshUntil == Stage.now + 60)
        #expect(all[2].tags == ["t", "u"] && all[2].varies == ["accept"] && all[2].partition == "")
        #expect(try list(host: "b.example") == [all[2]])
        #expect(try list(atMost: 2) == Array(all[..<2]))
        #expect(try list(host: "a.example", atMost: 1) == [all[0]])
        #expect(try list(host: "c.example") == [])
        // Entries that were evicted from memory are on the disk.
        store.memory.remove(.everything)
        #expect(try list() == all)
    }

    @Test("stored responses of one second are listed by their URLs")
    func listingOfOneSecond() throws {
        let urls = (10..<40).map { "http://a.example/\($0)" }
        for url in urls.shuffled() {
            try insert(url, [1], Stage.stored([("Cache-Control", "max-age=60")], receivedAt: Stage.now))
        }
        #expect(try list().map(\.url) == urls)
        #expect(try list(atMost: 7).map(\.url) == Array(urls.prefix(7)))
    }

    @Test(
        "a body on its way to the disk is not stored after its removal",
        arguments: [false, true]
    )
    func overtakenRemoval(isPurge: Bool) throws {
        let url = "http://a.example/large"
        let key = try Stage.key(url)
        // Too large for memory: only the disk has it.
        let body = DiskStoreStage.bytes(2_000_000)
        // The disk is busy: an insertion that finishes now is committed after the request for removal.
        let gate = Latch(count: 1)
        for _ in 0..<2 { disk.store.someBodyThread().submit { gate.wait() } }
        #expect(try insert(url, body))
        if isPurge {
            store.remove(.everything, deliver: { $0() }, { _ in })
        } else {
            store.invalidate(key)
        }
        gate.countDown()
        try disk.settle()
        #expect(try disk.entries(url).isEmpty)
        #expect(disk.files().isEmpty && disk.files("partial").isEmpty)
        // The same without a removal.
        #expect(try insert(url, body))
        try disk.settle()
        #expect(try disk.body(url) == body)
    }

    /// Requests that began before a reload end after it.
    @Test("a removal at a replaced store reaches its successor", arguments: [true, false])
    func succession(isLate: Bool) throws {
        let urls = (0..<4).map { "http://a.example/\($0)" }
        let next = CacheStore(memory: MemoryStore(capacity: 1 << 20), Stage.shared)
        for (index, url) in urls.enumerated() {
            let key = try Stage.key(url)
            let insertion = next.insertion(
                for: key,
                try Stage.stored([("Cache-Control", "max-age=60")]),
                epoch: next.epoch(of: key),
                tags: index == 2 ? [Array("t".utf8)] : []
            )
            #expect(try #require(insertion).finish())
        }
        let counts = Monitor<[Int]>([])
        func removeAll() throws {
            store.invalidate(try Stage.key(urls[0]))
            _ = store.invalidate([try Stage.key(urls[1])], deliver: { $0() }, {})
            let note: @Sendable (Int) -> Void = { count in counts.with { $0.append(count) } }
            store.remove(.tag("t"), deliver: { $0() }, note)
            store.expire(.uri(try Stage.key(urls[3])), now: Stage.now, deliver: { $0() }, note)
        }
        store.close()
        if isLate { next.succeed(store) }
        try removeAll()
        if !isLate { next.succeed(store) }
        for url in urls[..<3] { #expect(try find(url, in: next).found.entry == nil) }
        #expect(try find(urls[3], in: next).found.entry?.response.expiredAge != nil)
        #expect(counts.read { $0 } == (isLate ? [1, 1] : [0, 0]))
    }

    @Test("a successor of which too much was removed before it came is empty")
    func manyMissed() throws {
        let next = CacheStore(memory: MemoryStore(capacity: 1 << 20), Stage.shared)
        let key = try Stage.key("http://a.example/kept")
        let insertion = next.insertion(for: key, try Stage.stored([]), epoch: next.epoch(of: key))
        #expect(try #require(insertion).finish())
        store.close()
        for number in 0..<1001 { store.invalidate(try Stage.key("http://a.example/\(number)")) }
        next.succeed(store)
        #expect(next.memory.entries(for: key).isEmpty)
    }
}
