// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("RFC 9111 section 4.3: validation")
struct RevalidationTests {
    private typealias Stage = CachingStage

    private let modified = CachingStage.anHourBefore

    private func fields(_ request: Stage.Pairs, _ variants: [StoredResponse], selected: Int? = 0) throws
        -> HeaderFields?
    {
        Revalidation.fields(of: try Stage.request(request), selected: selected, variants: variants)
    }

    private func outcome(
        _ notModified: Stage.Pairs,
        request: Stage.Pairs = [],
        _ variants: [StoredResponse],
        selected: Int? = 0
    ) throws -> Revalidation.Outcome {
        Revalidation.outcome(
            try Stage.fields(notModified),
            to: try Stage.request(request),
            selected: selected,
            variants: variants
        )
    }

    @Test("4.3.1: the entity tags of all variants and the selected one's date are sent")
    func validators() throws {
        let one = try Stage.stored([("ETag", "\"a\""), ("Last-Modified", modified), ("Vary", "A")], to: [("A", "1")])
        let other = try Stage.stored([("ETag", "W/\"b\""), ("Vary", "A")], to: [("A", "2")])
        let sent = try #require(try fields([("A", "1"), ("X", "2")], [one, other]))
        #expect(sent.value(for: "If-None-Match") == "\"a\", W/\"b\"")
        #expect(sent.value(for: "If-Modified-Since") == modified)
        #expect(sent.value(for: "A") == "1" && sent.value(for: "X") == "2")
        let unselected = try #require(try fields([("A", "3")], [one, other], selected: nil))
        #expect(unselected.value(for: "If-None-Match") == "\"a\", W/\"b\"")
        #expect(unselected.value(for: "If-Modified-Since") == nil)
    }

    @Test("4.3.1: each of the client's entity tags is sent once, however many there are")
    func manyTags() throws {
        let stored = try Stage.stored([("ETag", "\"7\"")])
        // A search for each among all before it would take minutes.
        let tags = (1...50_000).map { "\"\($0)\"" }
        let sent = try #require(try fields([("If-None-Match", (tags + tags).joined(separator: ","))], [stored]))
        let list = try #require(sent.value(for: "If-None-Match"))
        #expect(list.utf8.count { $0 == UInt8(ascii: ",") } == tags.count - 1 && list.hasPrefix("\"7\", \"1\", "))
    }

    @Test("4.3.1: variants with codings that the client refuses are neither validated nor updated")
    func codings() throws {
        let vary = ("Vary", "Accept-Encoding, A")
        let plain = try Stage.stored([("ETag", "\"a\""), vary], to: [("A", "1")])
        let packed = try Stage.stored(
            [("ETag", "\"a\""), ("Content-Encoding", "gzip"), vary],
            to: [("Accept-Encoding", "gzip"), ("A", "1")]
        )
        let other = try Stage.stored([("ETag", "\"b\""), vary], to: [("Accept-Encoding", "GZIP"), ("A", "2")])
        // Many origins use one tag for all codings, and respond with 304 whatever the client accepts.
        #expect(try fields([("A", "3")], [packed, other], selected: nil) == nil)
        let sent = try #require(try fields([("A", "1")], [plain, packed, other]))
        #expect(sent.value(for: "If-None-Match") == "\"a\"")
        let request = [("Accept-Encoding", "gzip"), ("A", "3")]
        #expect(
            try #require(try fields(request, [packed, other], selected: nil)).value(for: "If-None-Match")
                == "\"a\", \"b\""
        )
        #expect(try outcome([("ETag", "\"a\"")], request: [("A", "1")], [plain, packed]) == .update([0]))
        #expect(try outcome([("ETag", "\"a\"")], request: [("A", "3")], [packed], selected: nil) == .askAgain)
    }

    @Test("4.3.1: without a validator the request goes as it is")
    func none() throws {
        #expect(try fields([], [Stage.stored([])]) == nil)
        #expect(try fields([("If-None-Match", "*")], [Stage.stored([("ETag", "a")])]) == nil)
        #expect(try fields([], [Stage.stored([("Last-Modified", "x")])]) == nil)
    }

    @Test("4.3.2: a client's entity tags go beside the cache's; its date does not")
    func union() throws {
        let stored = try Stage.stored([("ETag", "\"a\""), ("Last-Modified", modified)])
        let request = [("If-None-Match", "\"c\", \"a\""), ("If-Modified-Since", Stage.date), ("Range", "bytes=0-1")]
        let sent = try #require(try fields(request, [stored]))
        #expect(sent.values(for: "If-None-Match") == ["\"a\", \"c\""])
        #expect(sent.values(for: "If-Modified-Since") == [modified])
        #expect(sent.value(for: "Range") == "bytes=0-1")
        let any = try #require(try fields([("If-None-Match", "*")], [stored]))
        #expect(any.value(for: "If-None-Match") == "\"a\"")
    }

    @Test("4.3.1: the cache's own validation has the request's fields without the client's conditions")
    func background() throws {
        let stored = try Stage.stored(
            [("ETag", "\"a\""), ("Last-Modified", modified), ("Vary", "A")],
            to: [("A", "1")]
        )
        let request = try Stage.request([
            ("A", "1"), ("If-None-Match", "\"c\""), ("Range", "bytes=0-1"), ("If-Range", "\"a\""),
            ("Cache-Control", "max-stale"), ("Authorization", "x"),
        ])
        let sent = Revalidation.backgroundFields(of: request, stored: stored)
        #expect(sent.list.map(\.name) == ["A", "Authorization", "If-None-Match", "If-Modified-Since"])
        #expect(sent.value(for: "If-None-Match") == "\"a\"")
    }

    @Test("4.3.4: a 304 updates the responses that its strong entity tag names")
    func strong() throws {
        let one = try Stage.stored([("ETag", "\"a\""), ("Vary", "A")], to: [("A", "1")])
        let other = try Stage.stored([("ETag", "\"b\""), ("Vary", "A")], to: [("A", "2")])
        let same = try Stage.stored([("ETag", "\"a\""), ("Vary", "A"), ("Date", modified)], to: [("A", "3")])
        #expect(try outcome([("ETag", "\"b\"")], [one, other, same]) == .update([1]))
        #expect(try outcome([("ETag", "\"a\"")], [one, other, same], selected: 2) == .update([2, 0]))
        #expect(try outcome([("ETag", "\"c\"")], [one, other, same]) == .askAgain)
        let weak = try Stage.stored([("ETag", "W/\"a\"")])
        #expect(try outcome([("ETag", "\"a\"")], [weak]) == .askAgain)
    }

    @Test("4.3.4: a weak validator updates the selected response if it is its own")
    func weak() throws {
        let stored = try Stage.stored([("ETag", "W/\"a\""), ("Last-Modified", modified)])
        #expect(try outcome([("ETag", "W/\"a\"")], [stored]) == .update([0]))
        #expect(try outcome([("ETag", "W/\"b\"")], [stored]) == .askAgain)
        #expect(try outcome([("Last-Modified", modified)], [stored]) == .update([0]))
        #expect(try outcome([("Last-Modified", Stage.date)], [stored]) == .askAgain)
        #expect(try outcome([("Last-Modified", modified)], [stored], selected: nil) == .askAgain)
    }

    @Test("4.3.4: a 304 without validators updates the only response that was asked about")
    func noValidator() throws {
        let stored = try Stage.stored([("Last-Modified", modified)])
        let other = try Stage.stored([("ETag", "\"b\""), ("Vary", "A")], to: [("A", "2")])
        #expect(try outcome([], [stored]) == .update([0]))
        #expect(try outcome([], [stored, other]) == .askAgain)
        #expect(try outcome([], request: [("If-None-Match", "\"c\"")], [stored]) == .askAgain)
    }

    @Test("4.3.2: a 304 for the client's own entity tag goes to the client")
    func clientsOwn() throws {
        let stored = try Stage.stored([("ETag", "\"a\"")])
        let request = [("If-None-Match", "\"c\"")]
        #expect(try outcome([("ETag", "\"c\"")], request: request, [stored]) == .forClient)
        #expect(try outcome([("ETag", "\"d\"")], request: request, [stored]) == .askAgain)
        #expect(try outcome([("ETag", "\"a\"")], request: request, [stored]) == .update([0]))
        // The client does not have "a": 200 with the stored response.
        let response = CacheResponse(stored, length: 3, to: try Stage.request(request), age: 0)
        #expect(response.status == 200 && response.body == 0..<3)
    }

    private func updated(_ stored: Stage.Pairs, _ notModified: Stage.Pairs) throws -> StoredResponse {
        try Stage.stored(stored).updated(
            by: try Stage.fields(notModified),
            to: try Stage.request(),
            requestTime: Stage.now + 99,
            responseTime: Stage.now + 100,
            Stage.shared
        )
    }

    @Test("3.2: a field of a 304 replaces all of its name; new ones are added")
    func update() throws {
        let stored = [("X-A", "1"), ("X-A", "2"), ("X-B", "3"), ("Cache-Control", "max-age=10"), ("ETag", "\"a\"")]
        let updated = try updated(stored, [("x-a", "4"), ("X-C", "5"), ("Cache-Control", "max-age=50")])
        #expect(updated.fields.values(for: "X-A") == ["4"])
        #expect(updated.fields.value(for: "X-B") == "3" && updated.fields.value(for: "X-C") == "5")
        #expect(updated.freshness(now: Stage.now + 100).lifetime == 50)
    }

    @Test("3.2: fields that describe the stored body are not updated")
    func fixed() throws {
        let stored = [("Content-Encoding", "gzip"), ("ETag", "\"a\""), ("Content-MD5", "x"), ("Content-Type", "a/b")]
        let notModified = [
            ("Content-Encoding", "br"), ("Content-Length", "9"), ("Content-Range", "bytes 0-1/2"), ("Content-MD5", "y"),
            ("Content-Type", "c/d"), ("Connection", "X-Hop"), ("X-Hop", "1"), ("Transfer-Encoding", "chunked"),
            ("Age", "7"),
        ]
        let updated = try updated(stored, notModified)
        #expect(updated.fields.value(for: "Content-Encoding") == "gzip")
        #expect(updated.fields.value(for: "Content-MD5") == "x")
        #expect(updated.fields.value(for: "Content-Type") == "c/d")
        for name in ["Content-Length", "Content-Range", "X-Hop", "Transfer-Encoding", "Connection", "Age"] {
            #expect(updated.fields.value(for: name) == nil, "\(name)")
        }
    }

    @Test("4.2.3: the age of a validated response counts from its validation")
    func ageAfterValidation() throws {
        let date = "Sun, 06 Nov 1994 08:51:17 GMT"
        let updated = try updated([("Cache-Control", "max-age=10")], [("Date", date)])
        #expect(updated.freshness(now: Stage.now + 100).age == 1)
        #expect(updated.freshness(now: Stage.now + 105).isFresh)
    }

    @Test("4.1: a 304 that changes Vary changes which requests the response serves")
    func changedVary() throws {
        let stored = try Stage.stored([("Vary", "A")], to: [("A", "1")])
        let request = try Stage.request([("A", "1"), ("B", "2")])
        let updated = stored.updated(
            by: try HeaderFields("Vary", "A, B"),
            to: request,
            requestTime: Stage.now,
            responseTime: Stage.now,
            Stage.shared
        )
        #expect(updated.matches(request, under: Stage.digest, Stage.shared))
        #expect(!updated.matches(try Stage.request([("A", "1"), ("B", "3")]), under: Stage.digest, Stage.shared))
        let store = MemoryStore(capacity: 1 << 20)
        let entry = CachedEntry(key: try Stage.key("http://a.example/"), response: stored, body: .memory([1]))
        store.insert(entry)
        store.replace(entry, by: updated)
        #expect(store.entries(for: entry.key).count == 1)
    }

    @Test("5.2.2.7: a shared cache ignores private fields of a 304")
    func privateField() throws {
        let updated = try updated([], [("Cache-Control", "private=\"X-User\""), ("X-User", "1")])
        #expect(updated.fields.value(for: "X-User") == nil)
    }
}

@Suite("RFC 9111 section 4.3.5: HEAD")
struct HeadUpdateTests {
    private typealias Stage = CachingStage

    private func update(_ head: Stage.Pairs, status: Int = 200, stored: Stage.Pairs? = nil) throws -> HeadUpdate? {
        let known = [("ETag", "\"a\""), ("Last-Modified", Stage.anHourBefore), ("Cache-Control", "max-age=10")]
        return HeadUpdate(
            try Stage.fields(head),
            status: status,
            about: try Stage.stored(stored ?? known),
            length: 10,
            to: try Stage.request(method: .head),
            requestTime: Stage.now + 50,
            responseTime: Stage.now + 50,
            Stage.shared
        )
    }

    @Test("4.3.5: a HEAD that agrees in its validators and length updates the stored response")
    func updates() throws {
        for head in [[("ETag", "\"a\"")], [("Content-Length", "10")], [("Last-Modified", Stage.anHourBefore)], []] {
            guard case .update(let updated)? = try update(head + [("X-New", "1")]) else {
                Issue.record("\(head)")
                continue
            }
            #expect(updated.fields.value(for: "X-New") == "1")
            #expect(updated.freshness(now: Stage.now + 55).isFresh)
        }
    }

    @Test("4.3.5: a HEAD that disagrees makes the stored response stale")
    func disagrees() throws {
        for head in [[("ETag", "\"b\"")], [("Content-Length", "11")], [("Last-Modified", Stage.date)]] {
            guard case .stale(let stale)? = try update(head) else {
                Issue.record("\(head)")
                continue
            }
            #expect(!stale.freshness(now: Stage.now).isFresh)
            let patient = try Stage.request([("Cache-Control", "max-stale")])
            #expect(Stage.decide(patient, stale) == .forward(.stale, validates: true))
        }
    }

    @Test("4.3.5: a HEAD whose Cache-Control forbids storing updates nothing")
    func restricted() throws {
        guard case .stale(let stale)? = try update([("ETag", "\"a\""), ("Cache-Control", "no-store"), ("X", "1")])
        else {
            Issue.record("not stale")
            return
        }
        #expect(stale.fields.value(for: "X") == nil)
    }

    @Test("4.3.5: only a 200 to HEAD counts")
    func statuses() throws {
        #expect(try update([("ETag", "\"b\"")], status: 404) == nil)
    }
}

@Suite("RFC 9111 section 4.4: invalidation")
struct InvalidationTests {
    private typealias Stage = CachingStage

    private func keys(
        _ method: HTTPMethod,
        status: Int = 200,
        _ response: Stage.Pairs = []
    ) throws -> [String] {
        let target = try #require(AbsoluteURL("https://a.example/x/y?z"))
        return Invalidation.keys(
            after: method,
            of: target,
            status: status,
            response: try Stage.fields(response),
            CacheKeyRules()
        )
        .map { String(decoding: $0.url, as: UTF8.self) }
    }

    private let own = "https://a.example:443/x/y?z"

    @Test("4.4: an unsafe method that succeeded invalidates its target, methods of unknown safety too")
    func unsafe() throws {
        for method in [HTTPMethod.post, .put, .delete, .patch, .other(Array("FROB".utf8))] {
            for status in [200, 204, 303, 304] { #expect(try keys(method, status: status) == [own]) }
        }
    }

    @Test("4.4: safe methods and errors invalidate nothing")
    func safe() throws {
        for method in [HTTPMethod.get, .head, .options] { #expect(try keys(method) == []) }
        for status in [400, 404, 500, 503, 100] { #expect(try keys(.post, status: status) == []) }
    }

    @Test("4.4: Location and Content-Location are invalidated too, if they have the same origin")
    func locations() throws {
        #expect(
            try keys(.post, [("Location", "../new"), ("Content-Location", "/c")]) == [
                own, "https://a.example:443/new", "https://a.example:443/c",
            ]
        )
        #expect(try keys(.post, [("Location", "https://A.example:443/x/y?z#part")]) == [own])
        for foreign in [
            "https://b.example/", "http://a.example/", "https://a.example:444/", "//b.example/", "mailto:a",
        ] {
            #expect(try keys(.post, [("Location", foreign), ("Content-Location", foreign)]) == [own])
        }
    }
}
