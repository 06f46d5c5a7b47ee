// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

/// Responses of which only parts are stored (RFC 9111 3.3 and 3.4), with the test as the origin.
@Suite("Parts of responses")
struct PartialContentTests {
    typealias Stage = CachingStage

    private static let url = "http://a.example/"
    private static let whole: [UInt8] = Array(0..<20)
    private static let head: Stage.Pairs = [
        ("ETag", "\"a\""), ("Cache-Control", "max-age=60"), ("Content-Type", "x/y"),
    ]

    private let loop: EventLoop
    private let cache: ResponseCache

    init() throws {
        loop = try EventLoop(clock: .byHand)
        loop.setWallClock(Int64(Stage.now) * 1_000_000)
        cache = ResponseCache(
            CacheStore(memory: MemoryStore(capacity: 1 << 20), CacheOptions()),
            patience: .seconds(5)
        )
    }

    private func transaction(
        _ request: Stage.Pairs = [],
        method: HTTPMethod = .get,
        rules: [CacheRule] = [],
        in cache: ResponseCache? = nil
    ) throws -> CacheTransaction {
        CacheTransaction(
            cache ?? self.cache,
            url: try #require(AbsoluteURL(Self.url)),
            try Stage.request(request, method: method),
            rules: rules,
            digest: Stage.digest,
            loop: loop
        )
    }

    private func begin(_ transaction: CacheTransaction) throws -> CacheTransaction.Step {
        var step: CacheTransaction.Step?
        transaction.begin { step = $0 }
        loop.run(until: { step != nil }, atMost: .seconds(100))
        return try #require(step)
    }

    /// The fields that go to the origin.
    private func forwarded(_ transaction: CacheTransaction) throws -> HeaderFields {
        guard case .forward(let fields) = try begin(transaction) else { throw TimedOut("a forward") }
        return fields
    }

    private func servedResponse(_ request: Stage.Pairs) throws -> CacheTransaction.Response? {
        let transaction = try transaction(request)
        guard case .respond(let response) = try begin(transaction) else {
            transaction.cancel()
            return nil
        }
        return response
    }

    private func receive(
        _ transaction: CacheTransaction,
        _ status: Int,
        _ fields: Stage.Pairs,
        length: Int?,
        mayStore: Bool = true
    ) throws -> CacheTransaction.Step {
        var step: CacheTransaction.Step?
        let fields = try Stage.fields(fields)
        transaction.didReceiveHead(status: status, fields, length: length, mayStore: mayStore) { step = $0 }
        loop.run(until: { step != nil }, atMost: .seconds(100))
        return try #require(step)
    }

    private static func contentRange(_ range: Range<Int>, of total: Int = 20) -> (String, String) {
        ("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(total)")
    }

    private static func range(_ range: Range<Int>) -> (String, String) {
        ("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")
    }

    /// A request for a range, which the origin answers with it.
    ///
    /// - Returns: whether Cache-Status says that it is stored.
    @discardableResult
    private func fetch(
        _ range: Range<Int>,
        _ head: Stage.Pairs = head,
        bytes: [UInt8] = whole,
        request: Stage.Pairs = [],
        rules: [CacheRule] = [],
        in cache: ResponseCache? = nil
    ) throws -> Bool {
        let transaction = try transaction([Self.range(range)] + request, rules: rules, in: cache)
        let asked = try forwarded(transaction)
        #expect(asked.contains(.range) && !asked.contains(.ifNoneMatch))
        let fields = head + [Self.contentRange(range, of: bytes.count)]
        guard case .relay(let status) = try receive(transaction, 206, fields, length: range.count) else {
            throw TimedOut("a relayed part")
        }
        transaction.didReceiveBody(bytes[range].span)
        transaction.didEnd(isWhole: true)
        return status.isStored
    }

    private func bytes(_ response: CacheTransaction.Response) -> [UInt8] {
        guard case .memory(let bytes) = response.body else { return [] }
        return Array(bytes.bytes[response.head.body])
    }

    /// The bytes of a range that is served without the origin.
    private func part(_ range: Range<Int>) throws -> [UInt8]? {
        guard let response = try servedResponse([Self.range(range)]) else { return nil }
        #expect(response.head.status == 206 && response.head.contentLength == range.count)
        let fields = response.head.fields
        #expect(fields.first(.contentRange).map { String(copying: fields.value(at: $0)) } == Self.contentRange(range).1)
        return bytes(response)
    }

    /// What a reader of a growing body gets.
    private func read(_ reader: GrowingReader) -> [UInt8]? {
        var taken: [UInt8] = []
        while true {
            switch reader.read(at: taken.count, atMost: 7, wake: {}) {
            case .bytes(let bytes): taken += bytes
            case .end: return taken
            case .wait, .broken, .file: return nil
            }
        }
    }

    private var listing: [String] {
        cache.store.memory.allEntries.map { CacheListing($0) }.map { "\($0.status) \($0.length)" }
    }

    // MARK: Storing and using parts

    @Test("3.3: a part serves the ranges inside it with 206, and no other request")
    func contained() throws {
        #expect(try fetch(4..<10))
        #expect(listing == ["206 6"])
        #expect(try part(4..<10) == Array(4..<10))
        #expect(try part(5..<7) == [5, 6])
        for other in [3..<5, 9..<11, 0..<4, 12..<13] { #expect(try part(other) == nil) }
        #expect(try servedResponse([("Range", "bytes=30-")]) == nil)
        #expect(try servedResponse([("Range", "bytes=4-5,7-8")]) == nil)
        let transaction = try transaction([Self.range(0..<2)])
        _ = try forwarded(transaction)
        #expect(transaction.forwarded.text == "pinproxy; fwd=partial")
        transaction.cancel()
        guard case .forward = try begin(try self.transaction(method: .head)) else { throw TimedOut("a forwarded HEAD") }
    }

    @Test("3.3: a stale part, or one with another If-Range validator, is not used")
    func stale() throws {
        try fetch(4..<10)
        #expect(try servedResponse([Self.range(4..<10), ("If-Range", "\"a\"")]) != nil)
        #expect(try servedResponse([Self.range(4..<10), ("If-Range", "\"b\"")]) == nil)
        #expect(try servedResponse([Self.range(4..<10), ("If-None-Match", "\"a\"")]) == nil)
        #expect(try servedResponse([Self.range(4..<10), ("Cache-Control", "no-cache")]) == nil)
        loop.setWallClock(Int64(Stage.now + 61) * 1_000_000)
        #expect(try part(4..<10) == nil)
        #expect(try servedResponse([Self.range(4..<10), ("Cache-Control", "max-stale")]) == nil)
    }

    @Test(
        "3.3, 3.4: only one range of known length with a strong entity tag is stored",
        arguments: [
            ([("ETag", "\"a\"")], "bytes 4-9/20", true), ([("ETag", "W/\"a\"")], "bytes 4-9/20", false),
            ([("Last-Modified", Stage.anHourBefore)], "bytes 4-9/20", false),
            ([("ETag", "\"a\"")], "bytes 4-9/*", false), ([("ETag", "\"a\"")], "bytes 4-8/20", false),
            ([("ETag", "\"a\"")], "bytes 9-4/20", false), ([("ETag", "\"a\"")], "bytes 4-9/9", false),
            ([("ETag", "\"a\"")], "lines 4-9/20", false), ([("ETag", "\"a\"")], "bytes */20", false),
            ([("ETag", "\"a\""), ("ETag", "\"b\"")], "bytes 4-9/20", false),
            ([("ETag", "\"a\""), ("Cache-Control", "no-store")], "bytes 4-9/20", false),
            ([("ETag", "\"a\""), ("Set-Cookie", "a=b")], "bytes 4-9/20", false),
            ([("ETag", "\"a\""), ("Content-Range", "bytes 4-9/20")], "bytes 4-9/20", false),
            ([("ETag", "\"a\""), ("Content-Type", "multipart/byteranges; boundary=x")], "bytes 4-9/20", false),
        ] as [(Stage.Pairs, String, Bool)]
    )
    func storable(fields: Stage.Pairs, range: String, isStorable: Bool) throws {
        let transaction = try transaction([Self.range(4..<10)])
        _ = try forwarded(transaction)
        let step = try receive(
            transaction,
            206,
            fields + [("Cache-Control", "max-age=60"), ("Content-Range", range)],
            length: 6
        )
        guard case .relay(let status) = step else { throw TimedOut("a relayed part") }
        transaction.didReceiveBody(Self.whole[4..<10].span)
        transaction.didEnd(isWhole: true)
        #expect(status.isStored == isStorable && (status.reason == nil) == isStorable)
        #expect(listing == (isStorable ? ["206 6"] : []))
    }

    @Test("3.3: an unrequested, incomplete or defective part is not stored")
    func notStored() throws {
        let unasked = try transaction()
        _ = try forwarded(unasked)
        _ = try receive(unasked, 206, Self.head + [Self.contentRange(4..<10)], length: 6)
        unasked.didReceiveBody(Self.whole[4..<10].span)
        unasked.didEnd(isWhole: true)
        #expect(try fetch(4..<10, request: [("If-Range", "\"a\"")]) == false)
        let broken = try transaction([Self.range(4..<10)])
        _ = try forwarded(broken)
        _ = try receive(broken, 206, Self.head + [Self.contentRange(4..<10)], length: nil)
        broken.didReceiveBody(Self.whole[4..<9].span)
        broken.didEnd(isWhole: true)
        #expect(listing == [])
    }

    // MARK: Combining

    @Test("3.4: parts with the same strong entity tag are combined, and complete ones become whole")
    func combined() throws {
        try fetch(4..<8)
        try fetch(12..<16)
        #expect(listing == ["206 8"])
        #expect(try part(4..<8) == Array(4..<8) && part(12..<16) == Array(12..<16) && part(6..<13) == nil)
        try fetch(6..<13)
        #expect(try part(4..<16) == Array(4..<16))
        try fetch(16..<20)
        #expect(try part(8..<20) == Array(8..<20))
        try fetch(0..<5)
        #expect(listing == ["200 20"])
        let response = try #require(try servedResponse([]))
        #expect(
            response.head.status == 200 && bytes(response) == Self.whole
                && !response.head.fields.contains(.contentRange)
        )
        #expect(try part(1..<3) == [1, 2])
    }

    @Test(
        "3.4: parts of another or doubtful representation replace what is stored",
        arguments: [
            ([("ETag", "\"b\""), ("Cache-Control", "max-age=60")], 20, 100), (Self.head, 21, 0), (Self.head, 20, 100),
        ] as [(Stage.Pairs, Int, UInt8)]
    )
    func notCombined(head: Stage.Pairs, total: Int, added: UInt8) throws {
        try fetch(4..<10)
        let other = (0..<UInt8(total)).map { $0 + added }
        try fetch(8..<12, head, bytes: other)
        #expect(listing == ["206 4"])
        guard case .respond(let response) = try begin(try transaction([Self.range(8..<12)])) else {
            throw TimedOut("the later part")
        }
        #expect(bytes(response) == Array(other[8..<12]))
        #expect(try part(4..<8) == nil)
    }

    @Test(
        "3.4: parts are combined only under the same tag, policy and kind of cache",
        arguments: [
            ("\"a\"", PolicyDigest([1, 2, 3]), true, true), ("\"b\"", PolicyDigest([1, 2, 3]), true, false),
            ("W/\"a\"", PolicyDigest([1, 2, 3]), true, false), ("\"a\"", PolicyDigest([1, 2, 4]), true, false),
            ("\"a\"", PolicyDigest([1, 2, 3]), false, false),
        ]
    )
    func combinedEntries(tag: String, digest: PolicyDigest, isShared: Bool, isCombined: Bool) throws {
        func entry(_ start: Int, _ tag: String, _ digest: PolicyDigest, _ options: CacheOptions) throws -> CachedEntry {
            let response = StoredResponse(
                status: 206,
                response: try Stage.fields([("ETag", tag), ("Cache-Control", "max-age=60")]),
                to: try Stage.request([]),
                requestTime: Stage.now,
                responseTime: Stage.now,
                digest: digest,
                options
            )
            let bytes = StoredBytes(Array(Self.whole[start..<start + 4]))
            let parts = StoredParts(bytes, at: start, of: 20, isCompletable: true, isInMemoryOnly: false)
            return CachedEntry(key: try Stage.key(Self.url), response: response, body: .parts(parts))
        }
        let older = try entry(0, "\"a\"", PolicyDigest([1, 2, 3]), CacheOptions())
        let later = try entry(4, tag, digest, CacheOptions(isShared: isShared))
        let both = later.combined(with: older, in: cache.store.memory.pool, atMost: 1000)
        #expect(both.parts?.runs.map(\.range) == [isCombined ? 0..<8 : 4..<8])
    }

    @Test(
        "combined parts stay out of files if one of them does",
        arguments: [(false, false), (false, true), (true, false), (true, true)]
    )
    func inMemoryOnly(older: Bool, later: Bool) throws {
        func part(_ start: Int, _ isInMemoryOnly: Bool) -> StoredParts {
            StoredParts([1, 2, 3, 4], at: start, of: 8, isCompletable: true, isInMemoryOnly: isInMemoryOnly)
        }
        let both = part(0, older).adding(part(4, later), in: cache.store.memory.pool, atMost: 1000)
        #expect(try #require(both).isInMemoryOnly == (older || later))
    }

    @Test("3.4: a part without the entity tag removes the stored one")
    func dropped() throws {
        for (status, fields) in [
            (206, [("ETag", "W/\"a\""), Self.contentRange(8..<12)]), (200, [("ETag", "\"b\"")]), (200, []), (404, []),
            (416, [("Content-Range", "bytes */7")]),
        ] as [(Int, Stage.Pairs)] {
            try fetch(4..<10)
            let transaction = try transaction([Self.range(8..<12)])
            _ = try forwarded(transaction)
            _ = try receive(transaction, status, fields + [("Cache-Control", "no-store")], length: nil)
            transaction.didEnd(isWhole: true)
            #expect(listing == [], "\(status)")
        }
        // The same tag, and a length that is another one or unknown.
        for range in ["bytes 8-11/*", "bytes 8-11/21"] {
            try fetch(4..<10)
            let transaction = try transaction([Self.range(8..<12)])
            _ = try forwarded(transaction)
            _ = try receive(transaction, 206, Self.head + [("Content-Range", range)], length: 3)
            transaction.didEnd(isWhole: true)
            #expect(listing == [], "\(range)")
        }
        // A server that was not accepted in full says nothing about the stored part.
        try fetch(4..<10)
        let doubtful = try transaction([Self.range(8..<12)])
        _ = try forwarded(doubtful)
        _ = try receive(doubtful, 200, [("ETag", "\"b\"")], length: nil, mayStore: false)
        doubtful.didEnd(isWhole: true)
        #expect(listing == ["206 6"])
        // HEAD.
        let head = try transaction(method: .head)
        _ = try forwarded(head)
        _ = try receive(head, 200, Self.head + [("Content-Length", "21")], length: nil)
        head.didEnd(isWhole: true)
        #expect(listing == [])
    }

    @Test("3.4: the later response's fields are stored, and missing ones stay")
    func fields() throws {
        try fetch(4..<8, Self.head + [("X-A", "1"), ("X-B", "1")])
        try fetch(8..<10, [("ETag", "\"a\""), ("Cache-Control", "max-age=600"), ("X-A", "2")])
        let stored = try #require(cache.store.memory.allEntries.first?.response)
        let fields = stored.fields.list.map { "\($0.name): \($0.value)" }
        #expect(fields.contains("X-A: 2") && fields.contains("X-B: 1") && fields.contains("Content-Type: x/y"))
        #expect(!fields.contains { $0.hasPrefix("Content-Range") } && stored.freshness(now: Stage.now).lifetime == 600)
        // A part for a request with If-Range has no other fields.
        try fetch(10..<12, [("ETag", "\"a\"")], request: [("If-Range", "\"a\"")])
        #expect(try part(4..<12) == Array(4..<12))
    }

    @Test("9530 2: a digest of one message's content is not sent with another part")
    func digests() throws {
        let digest: Stage.Pairs = [
            ("Content-Digest", "sha-256=:AA==:"), ("Content-MD5", "AA=="), ("Repr-Digest", "x=:AA==:"),
        ]
        func hasDigests(_ response: CacheTransaction.Response?) throws -> [Bool] {
            let fields = try #require(response).head.fields
            return digest.map { fields.first(named: Array($0.0.utf8).span) != nil }
        }
        try fetch(0..<10, Self.head + digest)
        #expect(try hasDigests(servedResponse([Self.range(2..<4)])) == [false, false, true])
        try fetch(10..<20, Self.head + digest)
        #expect(listing == ["200 20"])
        #expect(try hasDigests(servedResponse([])) == [false, false, true])
        cache.store.invalidate(try Stage.key(Self.url))
        let whole = try transaction()
        _ = try forwarded(whole)
        _ = try receive(whole, 200, Self.head + digest, length: 20)
        whole.didReceiveBody(Self.whole.span)
        whole.didEnd(isWhole: true)
        #expect(try hasDigests(servedResponse([])) == [true, true, true])
        #expect(try hasDigests(servedResponse([Self.range(2..<4)])) == [false, false, true])
    }

    @Test("a part does not replace a complete response, but a complete response replaces parts")
    func beside() throws {
        let late = try transaction([Self.range(4..<10)])
        _ = try forwarded(late)
        _ = try receive(late, 206, Self.head + [Self.contentRange(4..<10)], length: 6)
        try fetch(0..<4)
        let whole = try transaction([("Cache-Control", "no-store")])
        _ = try forwarded(whole)
        whole.cancel()
        let full = try transaction([("Range", "bytes=0-1,3-4")])
        _ = try forwarded(full)
        _ = try receive(full, 200, Self.head, length: 20)
        full.didReceiveBody(Self.whole.span)
        full.didEnd(isWhole: true)
        #expect(listing == ["200 20"])
        late.didReceiveBody(Self.whole[4..<10].span)
        late.didEnd(isWhole: true)
        #expect(listing == ["200 20"])
    }

    @Test("4.4: a purge or unsafe method removes parts, also those on their way")
    func removed() throws {
        for removal in 0..<4 {
            try fetch(4..<10)
            let late = try transaction([Self.range(10..<12)])
            _ = try forwarded(late)
            _ = try receive(late, 206, Self.head + [Self.contentRange(10..<12)], length: 2)
            let key = try Stage.key(Self.url)
            switch removal {
            case 0: cache.store.invalidate(key)
            case 1: cache.store.remove(.everything, deliver: { $0() }, { _ in })
            case 2: cache.store.remove(.host("a.example"), deliver: { $0() }, { _ in })
            default: cache.store.remove(.uri(key), deliver: { $0() }, { _ in })
            }
            late.didReceiveBody(Self.whole[10..<12].span)
            late.didEnd(isWhole: true)
            #expect(listing == [])
        }
    }

    @Test("parts are bounded in bytes and number, and the latest stays")
    func bounds() throws {
        let small = ResponseCache(
            CacheStore(memory: MemoryStore(capacity: 1 << 20, largestBody: 10), CacheOptions())
        )
        func list() -> [Int] { small.store.memory.allEntries.map { $0.parts?.count ?? -1 } }
        #expect(try fetch(0..<11, in: small) == false)
        #expect(try fetch(0..<6, in: small))
        try fetch(6..<10, in: small)
        #expect(list() == [10])
        try fetch(10..<12, in: small)
        #expect(list() == [2])
        let long = Array(0..<UInt8(200))
        for number in 0..<StoredParts.runsAtMost { try fetch(number * 4..<number * 4 + 1, bytes: long) }
        #expect(listing == ["206 \(StoredParts.runsAtMost)"])
        try fetch(100..<101, bytes: long)
        #expect(listing == ["206 1"])
        #expect(cache.store.memory.statistics.bytes == cache.store.memory.allEntries.reduce(0) { $0 + $1.cost })
    }

    @Test("an owner's rule treats a part as a part of a 200")
    func rules() throws {
        let skip = [CacheRule(statuses: [200], action: .skip)]
        #expect(try fetch(4..<10, rules: skip) == false)
        var limited = CacheRule(statuses: [200], action: .store(lifetime: 300))
        limited.maximumBytes = 19
        #expect(try fetch(4..<10, rules: [limited]) == false)
        limited.maximumBytes = 20
        #expect(try fetch(4..<10, rules: [limited]))
        let stored = try #require(cache.store.memory.allEntries.first?.response)
        #expect(stored.freshness(now: Stage.now).lifetime == 300)
        // A rule that came later forbids what is stored.
        try fetch(10..<12, rules: skip)
        #expect(listing == [])
    }

    // MARK: Completing

    /// Asks for the whole.
    ///
    /// - Returns: the transaction, and the part that goes to the origin.
    private func complete(_ request: Stage.Pairs = []) throws -> (CacheTransaction, asked: String?) {
        let transaction = try transaction(request)
        let fields = try forwarded(transaction)
        guard let range = fields.first(.range), let condition = fields.first(.ifRange) else {
            return (transaction, nil)
        }
        #expect(String(copying: fields.value(at: condition)) == "\"a\"")
        return (transaction, String(copying: fields.value(at: range)))
    }

    @Test(
        "3.4, 15.3.7.3: a request for the whole fetches the missing part, and gets all",
        arguments: [
            ([0..<4], 4..<20), ([16..<20], 0..<16), ([0..<4, 16..<20], 4..<16),
            ([0..<2, 8..<10, 18..<20], 2..<18),
        ]
    )
    func completed(stored: [Range<Int>], missing: Range<Int>) throws {
        for range in stored { try fetch(range) }
        let (transaction, asked) = try complete()
        #expect(asked == "bytes=\(missing.lowerBound)-\(missing.upperBound - 1)")
        // An origin sends few fields after If-Range.
        let fields: Stage.Pairs = [("ETag", "\"a\""), ("Cache-Control", "max-age=90"), Self.contentRange(missing)]
        guard
            case .respondWhileReceiving(let response) = try receive(transaction, 206, fields, length: missing.count),
            case .growing(let reader) = response.body
        else { throw TimedOut("the whole") }
        #expect(response.head.status == 200 && response.head.contentLength == 20 && response.head.body == 0..<20)
        #expect(!response.head.fields.contains(.contentRange) && response.head.fields.contains(.contentType))
        #expect(response.status.text == "pinproxy; fwd=partial; fwd-status=206; stored; ttl=90")
        // Another request reads along.
        let follower = try #require(try servedResponse([]))
        guard case .growing(let other) = follower.body else { throw TimedOut("a growing body") }
        transaction.didReceiveBody(Self.whole[missing].span)
        transaction.didEnd(isWhole: true)
        #expect(read(reader) == Self.whole && read(other) == Self.whole)
        #expect(listing == ["200 20"])
        #expect(try servedResponse([]).map { bytes($0) } == Self.whole)
    }

    @Test("3.4: a stale part is completed too, since If-Range validates it")
    func completedStale() throws {
        try fetch(0..<4)
        loop.setWallClock(Int64(Stage.now + 61) * 1_000_000)
        let (transaction, asked) = try complete()
        #expect(asked == "bytes=4-19")
        let fields: Stage.Pairs = [("ETag", "\"a\""), ("Cache-Control", "max-age=90"), Self.contentRange(4..<20)]
        guard case .respondWhileReceiving(let response) = try receive(transaction, 206, fields, length: 16) else {
            throw TimedOut("the whole")
        }
        #expect(response.head.age == 0 && response.status.timeToLive == 90)
        transaction.cancel()
    }

    @Test(
        "3.4: whatever the origin sends for missing bytes, the client gets one representation",
        arguments: [
            [("ETag", "\"b\""), contentRange(4..<20)], [("ETag", "W/\"a\""), contentRange(4..<20)],
            [contentRange(4..<20)], [("ETag", "\"a\""), contentRange(5..<20)],
            [("ETag", "\"a\""), contentRange(4..<19)],
            [("ETag", "\"a\""), contentRange(4..<20, of: 21)], [("ETag", "\"a\"")],
            [("ETag", "\"a\""), contentRange(4..<20), ("Cache-Control", "no-store")],
            [("ETag", "\"a\""), contentRange(4..<20), ("Content-Type", "multipart/byteranges")],
        ] as [Stage.Pairs]
    )
    func doubt(fields: Stage.Pairs) throws {
        try fetch(0..<4)
        let (transaction, asked) = try complete()
        #expect(asked == "bytes=4-19")
        let head = [("Cache-Control", "max-age=60")] + fields
        guard case .forward(let again) = try receive(transaction, 206, head, length: 16) else {
            throw TimedOut("another request")
        }
        #expect(again.isEmpty && listing == [])
        guard case .relay(let status) = try receive(transaction, 200, Self.head, length: 20) else {
            throw TimedOut("the whole")
        }
        #expect(status.isStored)
        transaction.didReceiveBody(Self.whole.span)
        transaction.didEnd(isWhole: true)
        #expect(listing == ["200 20"])
    }

    @Test("3.4: an unsuitable rest repeats the request; another response is relayed")
    func otherResponses() throws {
        for (status, length, mayStore) in [
            (206, 15, true), (206, nil, true), (206, 16, false), (304, nil, true), (416, 0, true), (400, 0, true),
        ] as [(Int, Int?, Bool)] {
            try fetch(0..<4)
            let (transaction, asked) = try complete()
            #expect(asked == "bytes=4-19")
            let fields = Self.head + (status == 206 ? [Self.contentRange(4..<20)] : [])
            guard case .forward = try receive(transaction, status, fields, length: length, mayStore: mayStore) else {
                throw TimedOut("another request after \(status)")
            }
            transaction.cancel()
            #expect(listing == (mayStore ? [] : ["206 4"]))
            cache.store.invalidate(try Stage.key(Self.url))
        }
        for status in [200, 404, 503] {
            try fetch(0..<4)
            let (transaction, _) = try complete()
            guard case .relay = try receive(transaction, status, [], length: nil) else {
                throw TimedOut("\(status)")
            }
            transaction.didEnd(isWhole: true)
            #expect(listing.contains("206 4") == (status == 503))
            cache.store.invalidate(try Stage.key(Self.url))
        }
    }

    @Test("3.3: a rest that breaks off is not stored, and is never complete")
    func brokenRest() throws {
        try fetch(0..<4)
        let (transaction, _) = try complete()
        let fields = Self.head + [Self.contentRange(4..<20)]
        guard case .respondWhileReceiving(let response) = try receive(transaction, 206, fields, length: 16),
            case .growing(let reader) = response.body
        else { throw TimedOut("the whole") }
        transaction.didReceiveBody(Self.whole[4..<10].span)
        transaction.didEnd(isWhole: false)
        #expect(read(reader) == nil)
        #expect(listing == ["206 4"])
    }

    @Test("a part that was purged after the lookup is not stored again")
    func purgedMeanwhile() throws {
        try fetch(0..<4)
        let (transaction, _) = try complete()
        cache.store.remove(.everything, deliver: { $0() }, { _ in })
        let fields = Self.head + [Self.contentRange(4..<20)]
        _ = try receive(transaction, 206, fields, length: 16)
        transaction.didReceiveBody(Self.whole[4..<20].span)
        transaction.didEnd(isWhole: true)
        #expect(listing == [])
        // Nor if the request waited between the lookup and the origin.
        try fetch(0..<4)
        let leader = try self.transaction([("Accept", "x")])
        _ = try forwarded(leader)
        let waiting = try self.transaction()
        var step: CacheTransaction.Step?
        waiting.begin { step = $0 }
        #expect(step == nil && cache.waitingCount == 1)
        cache.store.remove(.everything, deliver: { $0() }, { _ in })
        leader.cancel()
        loop.run(until: { step != nil }, atMost: .seconds(100))
        _ = try receive(waiting, 206, fields, length: 16)
        waiting.didReceiveBody(Self.whole[4..<20].span)
        waiting.didEnd(isWhole: true)
        #expect(listing == [])
    }

    @Test("conditional requests, HEAD and no-store go to the origin for the whole")
    func notCompleted() throws {
        try fetch(0..<4)
        for request in [
            [("If-None-Match", "\"x\"")], [("If-Modified-Since", Stage.date)], [("Cache-Control", "no-store")],
            [("If-Match", "\"a\"")],
        ] as [Stage.Pairs] {
            let (transaction, asked) = try complete(request)
            #expect(asked == nil)
            transaction.cancel()
        }
        // Nothing would be saved.
        cache.store.invalidate(try Stage.key(Self.url))
        try fetch(4..<8)
        let (between, asked) = try complete()
        #expect(asked == nil)
        between.cancel()
        let huge = ResponseCache(CacheStore(memory: MemoryStore(capacity: 1 << 20, largestBody: 10), CacheOptions()))
        try fetch(0..<4, in: huge)
        let transaction = try transaction(in: huge)
        #expect(try !forwarded(transaction).contains(.range))
    }
}
