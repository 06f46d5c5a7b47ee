// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("A stored response that a plain GET gets at once")
struct CacheHitTests {
    typealias Stage = CachingStage

    private static let url = "http://a.example/page"

    private func cache(_ entries: [CachedEntry], _ options: CacheOptions = Stage.shared) -> ResponseCache {
        let cache = ResponseCache(CacheStore(memory: MemoryStore(capacity: 1 << 20), options))
        for entry in entries { cache.store.memory.insert(entry) }
        return cache
    }

    private func entry(_ response: StoredResponse, _ body: [UInt8] = Array("body".utf8)) throws -> CachedEntry {
        CachedEntry(key: try Stage.key(Self.url), response: response, body: .memory(StoredBytes(body)))
    }

    private func hit(
        _ cache: ResponseCache,
        _ request: Stage.Pairs = [],
        after seconds: Int = 0,
        digest: PolicyDigest = Stage.digest,
        atMost limit: Int = 1000
    ) throws -> CacheHit? {
        cache.hit(
            try Stage.key(Self.url),
            for: try Stage.fields(request),
            under: digest,
            tally: nil,
            now: Stage.now + seconds,
            atMost: limit
        )
    }

    /// What the transaction of the same request responds with at once.
    private func answer(_ cache: ResponseCache, _ request: Stage.Pairs, after seconds: Int) throws -> CacheAnswer? {
        let loop = try EventLoop(clock: .byHand)
        loop.setWallClock(Int64(Stage.now + seconds) * 1_000_000)
        let transaction = CacheTransaction(
            cache,
            url: try #require(AbsoluteURL(Self.url)),
            try Stage.request(request),
            digest: Stage.digest,
            loop: loop
        )
        defer { transaction.cancel() }
        guard case .respond(let answer)? = transaction.begin() else { return nil }
        return answer
    }

    /// Responses, and how many of the pairs of `requests` and of the times below have a hit.
    private static let stored: [(fields: Stage.Pairs, status: Int, hits: Int)] = [
        ([("Cache-Control", "max-age=60"), ("Content-Type", "text/plain"), ("ETag", "\"a\"")], 200, 16 * 6),
        ([("Cache-Control", "max-age=60, must-revalidate")], 404, 16 * 6),
        ([("Cache-Control", "max-age=60")], 204, 16 * 6),
        ([("Cache-Control", "no-cache, max-age=60")], 200, 0), ([("Cache-Control", "max-age=0")], 200, 0),
        ([("Cache-Control", "max-age=10, stale-while-revalidate=100")], 200, 16 * 2), ([], 200, 0),
        ([("Cache-Control", "s-maxage=60"), ("Age", "20")], 301, 16 * 4),
        // A request with a cookie selects what one without fields does.
        ([("Cache-Control", "max-age=60"), ("Vary", "Accept-Encoding, Accept")], 200, 6 * 6),
        ([("Cache-Control", "max-age=60"), ("Vary", "Cookie")], 200, 0),
        ([("Cache-Control", "max-age=60"), ("Vary", "*")], 200, 0),
    ]

    private static let requests: [Stage.Pairs] = [
        [], [("Accept-Encoding", "gzip")], [("Accept-Encoding", "br"), ("Accept", "a/b")], [("Cookie", "c=1")],
    ]

    @Test("a hit is what the transaction responds with", arguments: stored.indices)
    func sameAsTransaction(place: Int) throws {
        let (fields, status, hits) = Self.stored[place]
        var found = 0
        for asked in Self.requests {
            let cache = cache([try entry(try Stage.stored(fields, status: status, to: asked))])
            for request in Self.requests {
                for seconds in [0, 9, 10, 39, 41, 59, 60, 3600] {
                    guard let hit = try hit(cache, request, after: seconds) else { continue }
                    found += 1
                    let answer = try #require(try answer(cache, request, after: seconds))
                    #expect(hit.status == answer.status && !answer.refreshes)
                    #expect(hit.age == answer.head.age && hit.head.status == answer.head.status)
                    #expect(hit.head.fields == answer.head.keptFields)
                    #expect(hit.head.contentLength == answer.head.contentLength)
                    var body: [UInt8] = []
                    hit.withBody { body.append($0) }
                    #expect(body == Array("body".utf8))
                }
            }
        }
        #expect(found == hits)
    }

    @Test("a fresh response is found until its lifetime is over, and counted")
    func lifetime() throws {
        let cache = cache([try entry(try Stage.stored([("Cache-Control", "max-age=60")]))])
        #expect(try hit(cache, after: 59)?.status == CacheStatus(.hit, timeToLive: 1))
        #expect(try hit(cache, after: 60) == nil)
        #expect(cache.counts.hits == 1)
    }

    @Test("of variants the latest one that fits is taken")
    func variants() throws {
        let vary = [("Cache-Control", "max-age=60"), ("Vary", "Accept-Encoding")]
        let cache = cache([
            try entry(try Stage.stored(vary, to: [("Accept-Encoding", "gzip")]), Array("gzip".utf8)),
            try entry(try Stage.stored(vary, to: [("Accept-Encoding", "br")]), Array("brotli".utf8)),
        ])
        var body: [UInt8] = []
        try #require(try hit(cache, [("Accept-Encoding", "br")])).withBody { body.append($0) }
        #expect(body == Array("brotli".utf8))
        #expect(try hit(cache, [("Accept-Encoding", "deflate")]) == nil)
    }

    @Test("a field that may change on the way decides in a transaction")
    func otherFields() throws {
        let vary = [("Cache-Control", "max-age=60"), ("Vary", "X-Tenant")]
        let cache = cache([try entry(try Stage.stored(vary, to: [("X-Tenant", "a")]))])
        #expect(try hit(cache, [("X-Tenant", "a")]) == nil)
        #expect(try answer(cache, [("X-Tenant", "a")], after: 0) != nil)
    }

    @Test("stored parts have none, and newer ones hide no complete response")
    func parts() throws {
        let gzip = [("Accept-Encoding", "gzip")]
        // Parts have a place beside a complete response only if Vary tells them apart.
        let older = try Stage.stored(
            [("Cache-Control", "max-age=7200"), ("Date", Stage.anHourBefore), ("Vary", "Accept-Encoding")],
            to: gzip
        )
        let newer = try Stage.stored([("Cache-Control", "max-age=7200"), ("ETag", "\"a\"")])
        let parts = StoredParts([1, 2], at: 0, of: 4, isCompletable: true, isInMemoryOnly: false)
        let part = CachedEntry(key: try Stage.key(Self.url), response: newer, body: .parts(parts))
        let whole = try entry(older)
        #expect(try hit(cache([part]), gzip) == nil)
        for entries in [[part, whole], [whole, part]] {
            let cache = cache(entries)
            #expect(try cache.store.memory.entries(for: Stage.key(Self.url)).count == 2)
            let hit = try #require(try hit(cache, gzip))
            var body: [UInt8] = []
            hit.withBody { body.append($0) }
            #expect(body == Array("body".utf8) && hit.age == 3600)
            let answer = try #require(try answer(cache, gzip, after: 0))
            #expect(answer.status == hit.status && answer.head.age == hit.age)
        }
    }

    @Test("a body in a file has none, and hides an older one in memory")
    func files() throws {
        let older = try entry(try Stage.stored([("Cache-Control", "max-age=7200"), ("Date", Stage.anHourBefore)]))
        let file = CachedEntry(
            key: try Stage.key(Self.url),
            response: try Stage.stored([("Cache-Control", "max-age=7200")]),
            body: .file(StoredFile(number: 1, length: 4, checksum: 0))
        )
        let fields = try Stage.fields([])
        for (entries, isFound) in [([older], true), ([file], false), ([older, file], false), ([file, older], false)] {
            let hit = CacheHit(
                among: entries,
                for: fields,
                under: Stage.digest,
                now: Stage.now,
                atMost: 1000,
                Stage.shared
            )
            #expect((hit != nil) == isFound)
        }
    }

    @Test("a divided body in a pool has none, an undivided one its bytes")
    func pooled() throws {
        let cache = cache([])
        let pool = cache.store.memory.pool
        // Each leaves 24 KB of its chunk: what needs 29 KB is divided among the two.
        let others = (0..<2).map { _ in StoredBytes([UInt8](repeating: 0, count: 40 << 10)).packed(in: pool) }
        let body = patternBytes(29 << 10)
        let divided = StoredBytes(body).packed(in: pool)
        #expect(divided.isPooled && divided.contiguous(0..<body.count).upperBound == 24 << 10)
        // By now so much is free in a new chunk only.
        let together = StoredBytes(body).packed(in: pool)
        #expect(together.isPooled && together.contiguous(0..<body.count).upperBound == body.count)
        let response = try Stage.stored([("Cache-Control", "max-age=60")])
        for (bytes, isFound) in [(divided, false), (together, true)] {
            let entry = CachedEntry(key: try Stage.key(Self.url), response: response, body: .memory(bytes))
            #expect(cache.store.memory.insert(entry))
            var found: [UInt8] = []
            let hit = try hit(cache, atMost: 30 << 10)
            hit?.withBody { found.append($0) }
            #expect((hit != nil) == isFound)
            #expect(firstDifference(found, isFound ? body : []) == nil)
            #expect(try answer(cache, [], after: 0) != nil)
        }
        #expect(others.allSatisfy { $0.isPooled })
    }

    @Test("another policy, another kind of cache, and long bodies have none")
    func others() throws {
        let response = try Stage.stored([("Cache-Control", "max-age=60"), ("ETag", "\"a\"")])
        let cache = cache([try entry(response)])
        #expect(try hit(cache, digest: PolicyDigest([4])) == nil)
        #expect(try hit(cache, atMost: 3) == nil)
        #expect(try hit(cache, atMost: 4) != nil)
        let ofOne = try Stage.stored([("Cache-Control", "max-age=60")], options: Stage.ofOne)
        #expect(try hit(self.cache([try entry(ofOne)])) == nil)
    }
}
