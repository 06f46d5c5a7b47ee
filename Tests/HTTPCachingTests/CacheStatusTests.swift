// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("RFC 9211: Cache-Status")
struct CacheStatusTests {
    @Test("9211 2: a hit says its time to live, a stale hit a negative one")
    func hits() {
        #expect(CacheStatus(.hit, timeToLive: 30).text == "pinproxy; hit; ttl=30")
        #expect(CacheStatus(.hit, timeToLive: -5).text == "pinproxy; hit; ttl=-5")
    }

    @Test("9211 2: the field says why a request was forwarded, and what became of it")
    func forwarded() {
        var status = CacheStatus(.forward(.stale), timeToLive: 60)
        status.forwardStatus = 304
        status.isStored = true
        #expect(status.text == "pinproxy; fwd=stale; fwd-status=304; stored; ttl=60")
        status = CacheStatus(.forward(.uriMiss))
        status.isCollapsed = true
        status.reason = .isPrivate
        #expect(status.text == "pinproxy; fwd=uri-miss; collapsed; detail=private")
        let reasons: [(ForwardReason, String)] = [
            (.bypass, "bypass"), (.method, "method"), (.uriMiss, "uri-miss"), (.varyMiss, "vary-miss"), (.miss, "miss"),
            (.request, "request"), (.stale, "stale"), (.partial, "partial"),
        ]
        for (reason, text) in reasons { #expect(CacheStatus(.forward(reason)).text == "pinproxy; fwd=\(text)") }
    }

    @Test("9211 2: entries of caches nearer to the origin are kept, and a validation replaces them")
    func nearer() throws {
        let fields = [("Cache-Status", "Edge; hit; ttl=9"), ("Cache-Status", "CDN; fwd=stale"), ("ETag", "\"a\"")]
        let stored = try CachingStage.stored(fields)
        func members(_ response: StoredResponse, to request: CachingStage.Pairs = []) throws -> [String] {
            let response = CacheResponse(response, length: 1, to: try CachingStage.request(request), age: 1)
            return (0..<response.fields.count).filter { response.fields.id(at: $0) == .cacheStatus }
                .map { String(copying: response.fields.value(at: $0)) }
        }
        #expect(try members(stored) == ["Edge; hit; ttl=9", "CDN; fwd=stale"])
        #expect(try members(stored, to: [("If-None-Match", "\"a\"")]) == ["Edge; hit; ttl=9", "CDN; fwd=stale"])
        let validated = stored.updated(
            by: try CachingStage.fields([("Cache-Status", "Edge; fwd=stale; fwd-status=304")]),
            to: try CachingStage.request(),
            requestTime: CachingStage.now,
            responseTime: CachingStage.now,
            CachingStage.shared
        )
        #expect(try members(validated) == ["Edge; fwd=stale; fwd-status=304"])
    }
}

@Suite("Surrogate keys")
struct SurrogateKeyTests {
    @Test("spaces separate tags in Surrogate-Key, commas in Cache-Tag; each counts once")
    func tags() throws {
        let fields = try CachingStage.fields([
            ("Surrogate-Key", "a  b a"), ("cache-tag", "c d , a,,e"), ("Cache-Tag", "f"),
        ])
        #expect(
            SurrogateKeys.tags(of: fields).map { String(decoding: $0, as: UTF8.self) } == ["a", "b", "c d", "e", "f"]
        )
        #expect(SurrogateKeys.tags(of: HeaderFields()) == [])
    }

    @Test("tags that are too long, and those after the 128th, are left out")
    func limits() throws {
        let many = (0..<200).map { "t\($0)" }.joined(separator: " ")
        #expect(SurrogateKeys.tags(of: try HeaderFields("Surrogate-Key", many)).count == 128)
        #expect(SurrogateKeys.tags(of: try HeaderFields("Cache-Tag", String(repeating: "x", count: 1025))) == [])
    }
}
