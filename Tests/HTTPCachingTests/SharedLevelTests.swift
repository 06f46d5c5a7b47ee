// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

/// Requests through a cache with a level that several machines share: what is asked of it, and what it gets.
@Suite("A cache before a level that machines share")
struct SharedLevelTests {
    typealias Stage = CachingStage

    private let loop: EventLoop
    private let cache: ResponseCache
    private let level = ScriptedLevel()
    private static let url = "http://a.example/"
    private static let fresh: Stage.Pairs = [("Cache-Control", "max-age=60")]

    init() throws {
        loop = try EventLoop(clock: .byHand)
        loop.setWallClock(Int64(Stage.now) * 1_000_000)
        cache = ResponseCache(
            CacheStore(memory: MemoryStore(capacity: 1 << 20), CacheOptions()),
            patience: .seconds(5)
        )
    }

    /// A request, and its latest step.
    private final class Course {
        let transaction: CacheTransaction
        var step: CacheTransaction.Step?

        init(_ transaction: CacheTransaction) { self.transaction = transaction }

        func begin() { take(transaction.begin()) }

        func take(_ next: CacheTransaction.Step?) {
            step = next
            if next == nil { transaction.whenDecided { [self] in step = $0 } }
        }

        /// The fields of the request to the origin, once it goes there.
        var asked: HeaderFields? { if case .forward(let fields)? = step { fields } else { nil } }
        var response: CacheTransaction.Response? { if case .respond(let response)? = step { response } else { nil } }
        var relayed: CacheStatus? { if case .relay(let status)? = step { status } else { nil } }
    }

    private func begin(
        _ fields: Stage.Pairs = [],
        method: HTTPMethod = .get,
        url: String = Self.url
    ) throws -> Course {
        let course = Course(
            CacheTransaction(
                cache,
                url: try #require(AbsoluteURL(url)),
                try Stage.request(fields, method: method),
                digest: Stage.digest,
                level: level,
                loop: loop
            )
        )
        course.begin()
        return course
    }

    private func drain() { while loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0)) {} }

    /// The origin's head.
    private func respond(_ course: Course, _ status: Int = 200, _ fields: Stage.Pairs, length: Int? = nil) throws {
        course.take(
            course.transaction.didReceiveHead(status: status, try Stage.fields(fields), length: length, mayStore: true)
        )
    }

    private func end(_ course: Course, _ body: [UInt8] = [1, 2, 3]) {
        course.transaction.didReceiveBody(body.span)
        course.transaction.didEnd(isWhole: true)
        drain()
    }

    private func entry(
        _ fields: Stage.Pairs = Self.fresh,
        receivedAt: Int = Stage.now,
        request: Stage.Pairs = []
    ) throws -> CachedEntry {
        CachedEntry(
            key: try Stage.key(Self.url),
            response: try Stage.stored(fields, to: request, receivedAt: receivedAt),
            body: .memory([7, 8])
        )
    }

    private var latest: ScriptedLevel.LookUp { get throws { try #require(level.lookUps.last) } }

    /// A ticket, with which the latest look-up finds nothing.
    @discardableResult
    private func foundNothing() throws -> ScriptedLevel.Ticket {
        let ticket = ScriptedLevel.Ticket()
        try latest.reply(.nothing(ticket))
        return ticket
    }

    private func find(_ entry: CachedEntry) throws -> ScriptedLevel.Ticket {
        let ticket = ScriptedLevel.Ticket()
        try latest.reply(.found(entry, ticket))
        return ticket
    }

    private func expectReturned(_ ticket: ScriptedLevel.Ticket, isForOthers: Bool) {
        #expect(level.returned.count == 1 && level.stored.isEmpty)
        #expect(level.returned.first?.ticket === ticket && level.returned.first?.isForOthers == isForOthers)
    }

    private func expectStored(_ ticket: ScriptedLevel.Ticket) throws -> CachedEntry {
        #expect(level.stored.count == 1 && level.returned.isEmpty)
        let stored = try #require(level.stored.first)
        #expect(stored.ticket === ticket)
        return stored.entry
    }

    // MARK: Asking

    @Test("the level gets the response to a miss once, with its body")
    func miss() throws {
        let course = try begin()
        #expect(course.step == nil && level.lookUps.count == 1)
        #expect(try latest.question.waits)
        let ticket = try foundNothing()
        #expect(course.asked?.isEmpty == true)
        try respond(course, 200, Self.fresh)
        #expect(course.relayed?.isStored == true && level.stored.isEmpty)
        end(course)
        course.transaction.cancel()
        let entry = try expectStored(ticket)
        #expect(entry.body.count == 3 && entry.key == course.transaction.key)
    }

    @Test("a fresh response of the level is a hit, and goes into memory")
    func hit() throws {
        let course = try begin()
        let ticket = try find(entry())
        #expect(course.response?.status.text == "pinproxy; hit; ttl=60; detail=shared")
        #expect(course.transaction.outcome == .hit)
        expectReturned(ticket, isForOthers: true)
        let next = try begin()
        #expect(next.response?.status.text == "pinproxy; hit; ttl=60" && level.lookUps.count == 1)
        #expect(cache.counts == ResponseCache.Counts(hits: 2))
    }

    @Test("a stale response of the level is validated, and stored there anew")
    func validation() throws {
        let course = try begin()
        let stale = try entry(
            [("Cache-Control", "max-age=0, s-maxage=60"), ("ETag", "\"a\"")],
            receivedAt: Stage.now - 90
        )
        let ticket = try find(stale)
        #expect(course.asked?.value(for: "If-None-Match") == "\"a\"")
        try respond(course, 304, [("ETag", "\"a\""), ("Cache-Control", "s-maxage=60")])
        #expect(course.response?.status.forwardStatus == 304)
        let stored = try expectStored(ticket)
        #expect(stored.response.responseTime == Stage.now && stored.body.count == 2)
        #expect(try begin().response != nil)
    }

    @Test("only requests whose response others could use ask the level")
    func others() throws {
        let requests: [(Stage.Pairs, HTTPMethod)] = [
            ([("Cache-Control", "no-cache")], .get), ([("Cache-Control", "no-store")], .get),
            ([("Authorization", "x")], .get), ([("If-Match", "\"a\"")], .get), ([], .head), ([], .post),
        ]
        for (fields, method) in requests { #expect(try begin(fields, method: method).asked != nil) }
        #expect(level.lookUps.isEmpty)
        // One for a part, or with conditions, does not let other machines wait.
        for fields in [("Range", "bytes=0-1"), ("If-None-Match", "\"b\"")] {
            _ = try begin([fields])
            #expect(try !latest.question.waits)
        }
    }

    @Test("the level is asked once for a request, whatever it finds")
    func once() throws {
        let course = try begin([("Cache-Control", "min-fresh=600")])
        let ticket = try find(entry())
        #expect(course.asked != nil && level.lookUps.count == 1)
        course.take(course.transaction.originDidFail(.unreachable))
        expectReturned(ticket, isForOthers: true)
    }

    @Test("a response for another key or of other selecting fields is not used")
    func foreign() throws {
        let other = CachedEntry(
            key: try Stage.key("http://b.example/"),
            response: try Stage.stored(Self.fresh),
            body: .memory([1])
        )
        let varied = try entry(Self.fresh + [("Vary", "Accept")], request: [("Accept", "b")])
        let inFile = CachedEntry(
            key: try Stage.key(Self.url),
            response: try Stage.stored(Self.fresh),
            body: .file(StoredFile(number: 1, length: 3, checksum: 0))
        )
        for entry in [other, varied, inFile] {
            let course = try begin([("Accept", "a")])
            _ = try find(entry)
            #expect(course.asked != nil)
            course.transaction.cancel()
        }
        #expect(cache.store.memory.statistics.entries == 0)
    }

    @Test("a response that is not later than the stored one does not replace it")
    func known() throws {
        let fields: Stage.Pairs = [("Cache-Control", "s-maxage=60"), ("ETag", "\"a\"")]
        cache.store.memory.insert(try entry(fields))
        cache.store.expire(.everything, now: Stage.now, deliver: { $0() }, { _ in })
        let course = try begin()
        _ = try find(entry(fields))
        // It was made stale here.
        #expect(course.asked?.value(for: "If-None-Match") == "\"a\"")
    }

    @Test("a response that was found before a removal is not used after it")
    func removed() throws {
        let course = try begin()
        cache.store.invalidate(course.transaction.key)
        _ = try find(entry())
        #expect(course.asked != nil && cache.store.memory.statistics.entries == 0)
    }

    // MARK: Beside other requests

    @Test("requests that wait here get the response of the level, too")
    func followers() throws {
        let leader = try begin()
        let follower = try begin()
        #expect(level.lookUps.count == 1 && cache.waitingCount == 1)
        _ = try find(entry())
        drain()
        #expect(leader.response != nil && follower.response != nil)
        #expect(cache.counts.collapsed == 1 && cache.waitingCount == 0)
    }

    @Test("a request that is given up ends its look-up, and the next one asks")
    func cancelled() throws {
        let leader = try begin()
        let follower = try begin()
        let first = try latest
        leader.transaction.cancel()
        drain()
        #expect(first.isCancelled && level.lookUps.count == 2 && level.returned.isEmpty)
        let ticket = try foundNothing()
        #expect(follower.asked != nil)
        follower.transaction.cancel()
        expectReturned(ticket, isForOthers: true)
    }

    // MARK: The end of a ticket

    @Test("the head of a response that is not for others ends their wait")
    func notForOthers() throws {
        for fields in [[("Cache-Control", "no-store")], [("Cache-Control", "no-cache"), ("ETag", "\"a\"")]] {
            let count = level.returned.count
            let course = try begin(url: "http://a.example/\(count)")
            try foundNothing()
            try respond(course, 200, fields)
            #expect(level.returned.count == count + 1 && level.returned.last?.isForOthers == false)
            end(course)
        }
        #expect(level.stored.isEmpty)
        // One that has to be validated each time, and whose end is sure, is worth storing.
        let course = try begin(url: "http://a.example/9")
        let ticket = try foundNothing()
        try respond(course, 200, [("Cache-Control", "no-cache"), ("ETag", "\"a\"")], length: 3)
        end(course)
        #expect(level.stored.first?.ticket === ticket && level.returned.count == 2)
    }

    @Test("a response of which the level gets nothing is not waited for")
    func withheld() throws {
        level.largestBody = 2
        let large = try begin()
        try foundNothing()
        try respond(large, 200, Self.fresh, length: 3)
        #expect(level.returned.last?.isForOthers == false)
        end(large)
        let secret = try begin([("Cookie", "a")], url: "http://a.example/2")
        try foundNothing()
        try respond(secret, 200, Self.fresh + [("Vary", "Cookie")], length: 1)
        end(secret, [1])
        let ofHook = try begin(url: "http://a.example/3")
        ofHook.transaction.willStore = { _, fields in .store(fields, inMemoryOnly: true) }
        try foundNothing()
        try respond(ofHook, 200, Self.fresh, length: 1)
        end(ofHook, [1])
        #expect(cache.counts.stored == 3 && level.stored.isEmpty)
        #expect(level.returned.map(\.isForOthers) == [false, false, false])
    }

    @Test("nobody waits any longer for a body that outgrows the level")
    func outgrown() throws {
        level.largestBody = 4
        let course = try begin()
        let ticket = try foundNothing()
        try respond(course, 200, Self.fresh)
        course.transaction.didReceiveBody([UInt8](repeating: 1, count: 4).span)
        #expect(level.returned.isEmpty)
        course.transaction.didReceiveBody([UInt8](repeating: 1, count: 1).span)
        expectReturned(ticket, isForOthers: false)
        end(course)
        expectReturned(ticket, isForOthers: false)
        #expect(cache.counts.stored == 1)
    }

    @Test("the ticket of a response that is not stored goes back")
    func failures() throws {
        let failed = try begin()
        try foundNothing()
        failed.take(failed.transaction.originDidFail(.unreachable))
        #expect(level.returned.count == 1)
        let cut = try begin()
        try foundNothing()
        try respond(cut, 200, Self.fresh, length: 3)
        cut.transaction.didReceiveBody([UInt8](repeating: 1, count: 1).span)
        cut.transaction.didEnd(isWhole: false)
        #expect(level.returned.count == 2)
        let removed = try begin()
        try foundNothing()
        try respond(removed, 200, Self.fresh, length: 3)
        cache.store.invalidate(removed.transaction.key)
        end(removed)
        #expect(level.returned.map(\.isForOthers) == [true, true, true] && level.stored.isEmpty)
    }

    // MARK: Removals

    @Test("the response to an unsafe method waits for the removal from the level")
    func unsafeMethods() throws {
        let course = try begin(method: .post)
        try respond(course, 204, [])
        let key = try Stage.key(Self.url)
        #expect(course.step == nil && level.removals.first?.keys == [key])
        level.removals.first?.completion()
        #expect(course.relayed != nil)
        let patient = try begin(method: .delete)
        try respond(patient, 204, [])
        loop.advance(by: .seconds(3))
        drain()
        #expect(patient.relayed != nil)
        level.removals.last?.completion()
    }

    @Test("a validation whose response must not be stored removes it from the level")
    func forbidden() throws {
        let course = try begin()
        let ticket = try find(entry([("Cache-Control", "max-age=0"), ("ETag", "\"a\"")], receivedAt: Stage.now - 90))
        try respond(course, 304, [("ETag", "\"a\""), ("Cache-Control", "no-store")])
        #expect(course.response != nil && level.removals.count == 1)
        expectReturned(ticket, isForOthers: false)
    }

    // MARK: Background revalidations

    @Test("a background revalidation takes a response that another machine has refreshed")
    func refreshed() throws {
        let refreshing = try refreshing()
        #expect(refreshing.step == nil && level.lookUps.count == 2)
        #expect(try !latest.question.waits)
        _ = try find(entry(Self.fresh))
        guard case .pass? = refreshing.step else { throw TimedOut("the end of the revalidation") }
        #expect(level.returned.count == 2)
        #expect(try begin().response?.status.text == "pinproxy; hit; ttl=60")
    }

    @Test("a background revalidation asks the origin otherwise, and the level gets its result")
    func refreshes() throws {
        let refreshing = try refreshing()
        let ticket = try foundNothing()
        #expect(refreshing.asked?.value(for: "If-None-Match") == "\"a\"")
        try respond(refreshing, 304, [("ETag", "\"a\"")])
        refreshing.transaction.didEnd(isWhole: true)
        #expect(level.stored.count == 1 && level.stored.first?.ticket === ticket)
        #expect(level.stored.first?.entry.response.responseTime == Stage.now)
    }

    /// A background revalidation after a stale response of the level was served.
    private func refreshing() throws -> Course {
        let course = try begin()
        let stale = try Stage.stored(
            [
                ("Cache-Control", "max-age=60, stale-while-revalidate=600"), ("ETag", "\"a\""),
                ("Date", "Sun, 06 Nov 1994 08:48:07 GMT"),
            ],
            receivedAt: Stage.now - 90
        )
        _ = try find(CachedEntry(key: try Stage.key(Self.url), response: stale, body: .memory([7, 8])))
        #expect(course.response?.refreshes == true)
        let refreshing = Course(try #require(course.transaction.refresh()))
        refreshing.begin()
        return refreshing
    }
}
