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

    private static let stored: [(fields: Stage.Pairs, status: Int)] = [
        ([("Cache-Control", "max-age=60"), ("Content-Type", "text/plain"), ("ETag", "\"a\"")], 200),
        ([("Cache-Control", "max-age=60, must-revalidate")], 404), ([("Cache-Control", "max-age=60")], 204),
        ([("Cache-Control", "no-cache, max-age=60")], 200), ([("Cache-Control", "max-age=0")], 200),
        ([("Cache-Control", "max-age=10, stale-while-revalidate=100")], 200), ([], 200),
        ([("Cache-Control", "s-maxage=60"), ("Age", "20")], 301),
        ([("Cache-Control", "max-age=60"), ("Vary", "Accept-Encoding, Accept")], 200),
        ([("Cache-Control", "max-age=60"), ("Vary", "Cookie")], 200),
        ([("Cache-Control", "max-age=60"), ("Vary", "*")], 200),
    ]

    private static let requests: [Stage.Pairs] = [
        [], [("Accept-Encoding", "gzip")], [("Accept-Encoding", "br"), ("Accept", "a/b")], [("Cookie", "c=1")],
    ]

    @Test("it is what the transaction responds with", arguments: stored.indices)
    func sameAsTransaction(place: Int) throws {
        let (fields, status) = Self.stored[place]
        for asked in Self.requests {
            let cache = cache([try entry(try Stage.stored(fields, status: status, to: asked))])
            for request in Self.requests {
                for seconds in [0, 9, 10, 39, 41, 59, 60, 3600] {
                    guard let hit = try hit(cache, request, after: seconds) else { continue }
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

    @Test("another policy, another kind of cache, and long or partial bodies have none")
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
