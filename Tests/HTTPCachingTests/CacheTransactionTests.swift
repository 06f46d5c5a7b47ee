// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

/// Complete requests through `CacheTransaction`, with the test as the origin.
@Suite("A request on its way through the cache")
struct CacheTransactionTests {
    typealias Stage = CachingStage

    private let loop: EventLoop
    private let cache: ResponseCache

    init() throws {
        loop = try EventLoop()
        cache = ResponseCache(
            CacheStore(memory: MemoryStore(capacity: 1 << 20), CacheOptions(staleWhenDisconnected: 0)),
            patience: .milliseconds(20)
        )
    }

    private func transaction(
        _ url: String = "http://a.example/",
        _ request: Stage.Pairs = [],
        method: HTTPMethod = .get,
        rules: [CacheRule] = [],
        in cache: ResponseCache? = nil
    ) throws -> CacheTransaction {
        CacheTransaction(
            cache ?? self.cache,
            url: try #require(AbsoluteURL(url)),
            try Stage.request(request, method: method),
            rules: rules,
            digest: Stage.digest,
            loop: loop
        )
    }

    /// Runs the loop until all started work has ended.
    private func result<Result>(_ begin: (@escaping (Result) -> Void) -> Void) throws -> Result {
        var found: Result?
        begin { found = $0 }
        loop.run(until: { found != nil }, atMost: .seconds(100))
        guard let found else { throw TimedOut("the cache") }
        return found
    }

    private func forwarded(_ transaction: CacheTransaction) throws -> HeaderFields {
        guard case .forward(let fields) = try result({ transaction.begin($0) }) else { throw TimedOut("a forward") }
        return fields
    }

    /// A background revalidation whose request is at the origin, and the fields of that.
    private func refreshing(
        _ served: CacheTransaction
    ) throws -> (transaction: CacheTransaction, fields: HeaderFields) {
        let refreshing = try #require(served.refresh())
        return (refreshing, try forwarded(refreshing))
    }

    private func servedResponse(_ transaction: CacheTransaction) throws -> CacheTransaction.Response {
        guard case .respond(let response) = try result({ transaction.begin($0) }) else { throw TimedOut("an answer") }
        return response
    }

    private func origin(
        _ transaction: CacheTransaction,
        _ status: Int = 200,
        _ fields: Stage.Pairs = [("Cache-Control", "max-age=60")],
        mayStore: Bool = true
    ) throws -> CacheTransaction.Step {
        let fields = try Stage.fields(fields)
        return try result {
            transaction.didReceiveHead(status: status, fields, length: nil, mayStore: mayStore, $0)
        }
    }

    private func relayed(_ step: CacheTransaction.Step) throws -> CacheStatus {
        guard case .relay(let status) = step else { throw TimedOut("a relayed answer") }
        return status
    }

    private func bytes(_ response: CacheTransaction.Response) -> [UInt8] {
        switch response.body {
        case .growing: []
        case .memory(let bytes): Array(bytes.bytes[response.head.body])
        case .file(let body): body.read(at: response.head.body.lowerBound, count: response.head.body.count) ?? []
        }
    }

    /// A miss that is stored.
    private func store(
        _ body: [UInt8] = [1, 2, 3],
        _ fields: Stage.Pairs = [("Cache-Control", "max-age=60")],
        request: Stage.Pairs = []
    ) throws {
        let transaction = try transaction("http://a.example/", request)
        _ = try forwarded(transaction)
        let status = try relayed(try origin(transaction, 200, fields))
        #expect(status.isStored)
        transaction.didReceiveBody(body.span)
        transaction.didEnd(isWhole: true)
    }

    @Test("a miss is stored, and the next request is a hit")
    func missAndHit() throws {
        let first = try transaction()
        #expect(try forwarded(first).isEmpty)
        #expect(try relayed(try origin(first)).text == "pinproxy; fwd=uri-miss; stored; ttl=60")
        let body: [UInt8] = [1, 2, 3]
        first.didReceiveBody(body.span)
        first.didEnd(isWhole: true)
        let second = try transaction()
        let response = try servedResponse(second)
        #expect(bytes(response) == body && response.head.status == 200 && !response.refreshes)
        #expect(response.status.text == "pinproxy; hit; ttl=60")
        #expect(first.outcome == .miss && second.outcome == .hit)
        #expect(cache.counts == ResponseCache.Counts(hits: 1, misses: 1, stored: 1))
    }

    @Test("a response that is cut short, or from a doubtful server, is not stored")
    func notStored() throws {
        let cut = try transaction()
        _ = try forwarded(cut)
        _ = try origin(cut)
        cut.didReceiveBody([UInt8](repeating: 1, count: 5).span)
        cut.didEnd(isWhole: false)
        let reported = try transaction()
        _ = try forwarded(reported)
        #expect(try relayed(try origin(reported, mayStore: false)).isStored == false)
        reported.didEnd(isWhole: true)
        let secret = try transaction()
        _ = try forwarded(secret)
        let status = try relayed(try origin(secret, 200, [("Cache-Control", "no-store")]))
        #expect(status.text == "pinproxy; fwd=uri-miss; detail=no-store")
        secret.didEnd(isWhole: true)
        #expect(cache.store.memory.statistics.entries == 0 && cache.counts.stored == 0)
    }

    @Test("a stale response is validated: 304 reuses it, 200 replaces it")
    func validation() throws {
        try store([1, 2, 3], [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")])
        let first = try transaction()
        #expect(try forwarded(first).value(for: "If-None-Match") == "\"a\"")
        let step = try origin(first, 304, [("ETag", "\"a\""), ("Cache-Control", "max-age=0"), ("X-New", "1")])
        guard case .respond(let response) = step else { throw TimedOut("an answer") }
        #expect(bytes(response) == [1, 2, 3] && response.head.fields.value(for: "X-New") == "1")
        #expect(response.status.text == "pinproxy; fwd=stale; fwd-status=304; ttl=0")
        #expect(first.outcome == .revalidated)
        let second = try transaction()
        _ = try forwarded(second)
        _ = try origin(second, 200, [("Cache-Control", "max-age=60"), ("ETag", "\"b\"")])
        second.didReceiveBody([UInt8](repeating: 9, count: 1).span)
        second.didEnd(isWhole: true)
        #expect(bytes(try servedResponse(try transaction())) == [9])
    }

    @Test(
        "5.2.2.7: a 304 that forbids storing serves its client, and nothing stays stored",
        arguments: ["no-store", "private"]
    )
    func forbiddingUpdate(control: String) throws {
        try store([5], [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")])
        let first = try transaction()
        _ = try forwarded(first)
        guard case .respond(let response) = try origin(first, 304, [("ETag", "\"a\""), ("Cache-Control", control)])
        else {
            throw TimedOut("an answer")
        }
        #expect(bytes(response) == [5])
        #expect(cache.store.memory.statistics.entries == 0)
    }

    @Test("7.3: a cookie of a 304 goes to the client that asked alone")
    func cookieOfUpdate() throws {
        try store([5], [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")])
        let first = try transaction()
        _ = try forwarded(first)
        let update = [("ETag", "\"a\""), ("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")]
        guard case .respond(let response) = try origin(first, 304, update) else { throw TimedOut("an answer") }
        #expect(response.head.fields.value(for: "Set-Cookie") == "a=b")
        #expect(try servedResponse(try transaction()).head.fields.value(for: "Set-Cookie") == nil)
    }

    @Test("a request with credentials validates for itself and updates nothing for others")
    func credentialsOfUpdate() throws {
        try store([5], [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")])
        let first = try transaction("http://a.example/", [("Authorization", "x")])
        _ = try forwarded(first)
        let update = [("ETag", "\"a\""), ("Cache-Control", "max-age=60"), ("X-User", "1")]
        guard case .respond(let response) = try origin(first, 304, update) else { throw TimedOut("an answer") }
        #expect(response.head.fields.value(for: "X-User") == "1")
        let second = try transaction()
        #expect(try forwarded(second).contains(.ifNoneMatch))
        second.cancel()
    }

    @Test("after a 304 that matches nothing stored, the whole response is requested")
    func askAgain() throws {
        try store([1], [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")])
        let transaction = try transaction("http://a.example/", [("X", "1")])
        _ = try forwarded(transaction)
        guard case .forward(let fields) = try origin(transaction, 304, [("ETag", "\"z\"")]) else {
            throw TimedOut("another request")
        }
        #expect(fields.list.map(\.name) == ["X"])
        #expect(try relayed(try origin(transaction)).isStored)
        transaction.didEnd(isWhole: true)
    }

    @Test("a client's condition is evaluated by the cache, after a validation too")
    func clientCondition() throws {
        try store([1], [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")])
        #expect(
            try servedResponse(try transaction("http://a.example/", [("If-None-Match", "\"a\"")])).head.status == 304
        )
        try cache.store.invalidate(Stage.key("http://a.example/"))
        try store([1], [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")])
        let stale = try transaction("http://a.example/", [("If-None-Match", "\"a\"")])
        _ = try forwarded(stale)
        guard case .respond(let response) = try origin(stale, 304, [("ETag", "\"a\"")]) else {
            throw TimedOut("an answer")
        }
        #expect(response.head.status == 304)
    }

    @Test("an unsafe method removes what is stored or on its way for its target")
    func invalidation() throws {
        try store()
        let under = try transaction("http://a.example/other")
        _ = try forwarded(under)
        _ = try origin(under)
        let post = try transaction(method: .post)
        _ = try forwarded(post)
        #expect(post.outcome == .bypass)
        let status = try relayed(try origin(post, 201, [("Location", "/other")]))
        #expect(status.text == "pinproxy; fwd=method")
        under.didEnd(isWhole: true)
        #expect(cache.store.memory.statistics.entries == 0)
    }

    @Test("an unsafe method that failed removes nothing")
    func failedInvalidation() throws {
        try store()
        let post = try transaction(method: .post)
        _ = try forwarded(post)
        _ = try origin(post, 500, [])
        #expect(cache.store.memory.statistics.entries == 1)
    }

    @Test("a HEAD is served from the cache; from the origin it updates the entry")
    func head() throws {
        try store([1, 2, 3], [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")])
        let response = try servedResponse(try transaction(method: .head))
        #expect(response.head.contentLength == 3 && response.head.body.isEmpty)
        let reload = [("Cache-Control", "no-cache")]
        let changed = try transaction("http://a.example/", reload, method: .head)
        _ = try forwarded(changed)
        _ = try origin(changed, 200, [("ETag", "\"b\"")])
        let next = try transaction()
        #expect(try forwarded(next).value(for: "If-None-Match") == "\"a\"")
        next.cancel()
    }

    @Test("stale-if-error covers a failed origin, but never a failed pin")
    func failures() throws {
        try store([7], [("Cache-Control", "max-age=0, stale-if-error=60")])
        let broken = try transaction()
        _ = try forwarded(broken)
        guard case .respond(let response) = try origin(broken, 503, []) else { throw TimedOut("an answer") }
        #expect(bytes(response) == [7] && broken.outcome == .stale)
        #expect(response.status.forwardStatus == 503)
        for failure in [OriginFailure.unreachable, .untrusted] {
            let transaction = try transaction()
            _ = try forwarded(transaction)
            let step: DiskStoreStage.Box<Bool> = try result { done in
                transaction.originDidFail(failure) { step in
                    if case .respond? = step { done(.init(true)) } else { done(.init(false)) }
                }
            }
            #expect(step.value == (failure == .unreachable))
        }
    }

    private func fail(_ transaction: CacheTransaction, _ failure: OriginFailure) throws -> Bool {
        let step: DiskStoreStage.Box<Bool> = try result { done in
            transaction.originDidFail(failure) { step in
                if case .respond? = step { done(.init(true)) } else { done(.init(false)) }
            }
        }
        return step.value
    }

    @Test("after a failed pin no stale response is used until a trusted server responds")
    func doubtedOrigin() throws {
        let terms = ("Cache-Control", "max-age=0, stale-while-revalidate=60, stale-if-error=60")
        let urls = ["http://a.example/1", "http://a.example/2"]
        for url in urls {
            for language in ["de", "fr"] {
                let miss = try transaction(url, [("Accept-Language", language)])
                _ = try forwarded(miss)
                _ = try origin(miss, 200, [terms, ("ETag", "\"a\""), ("Vary", "Accept-Language")])
                miss.didEnd(isWhole: true)
            }
        }
        let served = try transaction(urls[0], [("Accept-Language", "de")])
        #expect(try servedResponse(served).refreshes)
        let refreshing = try refreshing(served).transaction
        #expect(try !fail(refreshing, .untrusted))
        refreshing.cancel()
        // Requests for other URLs and variants go to the origin, too, and no stale response replaces it.
        for (url, language) in [(urls[0], "de"), (urls[0], "fr"), (urls[1], "de"), (urls[1], "fr")] {
            let doubted = try transaction(url, [("Accept-Language", language), ("Cache-Control", "max-stale")])
            #expect(try forwarded(doubted).value(for: "If-None-Match") == "\"a\"")
            #expect(try !fail(doubted, .unreachable))
            doubted.cancel()
        }
        let offline = try transaction(
            urls[1],
            [("Accept-Language", "fr"), ("Cache-Control", "only-if-cached, max-stale")]
        )
        guard case .gatewayTimeout = try result({ offline.begin($0) }) else { throw TimedOut("504") }
        // A server that passed only because its failed pin is reported does not end the doubt.
        let reported = try transaction("http://a.example/3")
        _ = try forwarded(reported)
        _ = try origin(reported, 200, [], mayStore: false)
        reported.didEnd(isWhole: true)
        _ = try forwarded(try transaction(urls[1], [("Accept-Language", "fr")]))
        // A server that passes does, whatever its response.
        let trusted = try transaction("http://a.example/3")
        _ = try forwarded(trusted)
        _ = try origin(trusted, 404, [])
        trusted.didEnd(isWhole: true)
        #expect(try servedResponse(try transaction(urls[1], [("Accept-Language", "fr")])).refreshes)
    }

    @Test("a cache that replaces another one knows the origins in doubt")
    func doubtsPassedOn() throws {
        let failed = try transaction("http://a.example/1")
        _ = try forwarded(failed)
        #expect(try !fail(failed, .untrusted))
        let origin = try #require(AbsoluteURL("http://a.example/")).origin
        let next = ResponseCache(CacheStore(memory: MemoryStore(capacity: 1 << 20), disk: nil, CacheOptions()))
        #expect(!next.doubts(origin))
        next.succeed(cache)
        #expect(next.doubts(origin))
        next.trust(origin)
        #expect(!next.doubts(origin))
        // By a request that began before.
        cache.doubt(origin)
        #expect(next.doubts(origin))
    }

    @Test("a failure unrelated to the server causes no stale response and no doubt")
    func undoubtedOrigin() throws {
        try store([7], [("Cache-Control", "max-age=0, stale-while-revalidate=60, stale-if-error=60")])
        let served = try transaction()
        _ = try servedResponse(served)
        let refreshing = try refreshing(served).transaction
        #expect(try !fail(refreshing, .other))
        refreshing.cancel()
        #expect(try servedResponse(try transaction()).refreshes)
    }

    @Test("the response to an unsafe method waits until the disk has dropped invalidated ones")
    func invalidationOnDisk() throws {
        let disk = try DiskStoreStage()
        let cache = ResponseCache(CacheStore(memory: MemoryStore(capacity: 1 << 20), disk: disk.store, Stage.shared))
        let first = try transaction(in: cache)
        _ = try forwarded(first)
        _ = try origin(first)
        first.didReceiveBody([UInt8]([1, 2, 3]).span)
        first.didEnd(isWhole: true)
        try disk.settle()
        let post = try transaction(method: .post, in: cache)
        _ = try forwarded(post)
        // The disk is busy.
        let gate = Latch(count: 1)
        disk.store.entries(
            for: try Stage.key("http://b.example/"),
            deliver: { done in
                gate.wait(); done()
            },
            { _ in }
        )
        var isRelayed = false
        post.didReceiveHead(status: 201, HeaderFields(), length: nil, mayStore: true) { step in
            if case .relay = step { isRelayed = true }
        }
        loop.run(atMost: .milliseconds(3))
        #expect(!isRelayed)
        gate.countDown()
        loop.run(until: { isRelayed }, atMost: .seconds(100))
        #expect(isRelayed)
        #expect(disk.store.statistics.entries == 0)
        // Without a stored response there is no wait.
        let again = try transaction(method: .post, in: cache)
        _ = try forwarded(again)
        var isRelayedAtOnce = false
        again.didReceiveHead(status: 201, HeaderFields(), length: nil, mayStore: true) { _ in isRelayedAtOnce = true }
        #expect(isRelayedAtOnce)
    }

    @Test("a response without lifetime and validator is not kept in a shared cache")
    func worthless() throws {
        for fields: Stage.Pairs in [[], [("Cache-Control", "max-age=0")], [("Cache-Control", "no-cache")]] {
            let transaction = try transaction()
            _ = try forwarded(transaction)
            let status = try relayed(try origin(transaction, 200, fields))
            #expect(!status.isStored && status.reason == .noLifetime)
            transaction.cancel()
        }
        try store([7], [("ETag", "\"a\"")])
    }

    @Test("must-revalidate and a lost origin give 504; only-if-cached gives 504 without asking")
    func gatewayTimeout() throws {
        try store([7], [("Cache-Control", "max-age=0, must-revalidate"), ("ETag", "\"a\"")])
        let transaction = try transaction()
        _ = try forwarded(transaction)
        let isTimeout: Bool = try result { done in
            transaction.originDidFail(.unreachable) { step in
                if case .gatewayTimeout? = step { done(true) } else { done(false) }
            }
        }
        #expect(isTimeout)
        let impatient = try self.transaction("http://b.example/", [("Cache-Control", "only-if-cached")])
        guard case .gatewayTimeout = try result({ impatient.begin($0) }) else { throw TimedOut("504") }
    }

    @Test("stale-while-revalidate responds at once, and one request revalidates in the background")
    func background() throws {
        try store([7], [("Cache-Control", "max-age=0, stale-while-revalidate=60"), ("ETag", "\"a\""), ("X", "1")])
        let transaction = try transaction("http://a.example/", [("Range", "bytes=0-0"), ("Y", "2")])
        // Its age is a second at least, since max-age=0 is stale at once.
        let response = try servedResponse(transaction)
        #expect(response.refreshes && transaction.outcome == .stale && response.head.status == 206)
        let (refreshing, fields) = try refreshing(transaction)
        #expect(fields.list.map(\.name) == ["Y", "If-None-Match"])
        #expect(transaction.refresh() == nil)
        // No client waits for a response: none is made.
        guard case .relay = try origin(refreshing, 304, [("ETag", "\"a\""), ("Cache-Control", "max-age=60")]) else {
            throw TimedOut("no answer")
        }
        #expect(refreshing.outcome == .revalidated && !refreshing.isStoring)
        let fresh = try self.transaction()
        #expect(try servedResponse(fresh).status.text == "pinproxy; hit; ttl=60")
        #expect(fresh.refresh() != nil)
    }

    @Test("of 500 requests for one cold URI one asks the origin for all")
    func collapse() throws {
        let cache = ResponseCache(cache.store, patience: .seconds(600))
        let leader = try transaction(in: cache)
        _ = try forwarded(leader)
        let followers = try (1..<500).map { _ in try transaction(in: cache) }
        var responses: [String] = []
        for follower in followers {
            follower.begin { step in
                if case .respond(let response) = step { responses.append(response.status.text) }
            }
        }
        #expect(responses.isEmpty && cache.waitingCount == 499)
        _ = try origin(leader)
        leader.didReceiveBody([UInt8](repeating: 1, count: 9).span)
        leader.didEnd(isWhole: true)
        loop.run(until: { responses.count == 499 }, atMost: .seconds(10))
        #expect(responses.count == 499)
        #expect(responses.allSatisfy { $0.hasPrefix("pinproxy; fwd=uri-miss; collapsed; ttl=") })
        #expect(cache.counts.collapsed == 499 && cache.waitingCount == 0)
    }

    @Test("a request takes the response that was stored while its lookup ran")
    func overtakenLookup() throws {
        let disk = try DiskStoreStage()
        let store = CacheStore(memory: MemoryStore(capacity: 100_000), disk: disk.store, Stage.shared)
        let cache = ResponseCache(store, patience: .seconds(600))
        let vary: Stage.Pairs = [("Vary", "A"), ("Cache-Control", "max-age=60")]
        // The key is known, so that a lookup for another variant asks the disk and is answered on a later turn.
        let first = try transaction("http://a.example/", [("A", "1")], in: cache)
        _ = try forwarded(first)
        _ = try origin(first, 200, vary)
        first.didEnd(isWhole: true)
        try disk.settle()

        let leader = try transaction("http://a.example/", [("A", "2")], in: cache)
        _ = try forwarded(leader)
        let late = try transaction("http://a.example/", [("A", "2")], in: cache)
        var steps: [CacheTransaction.Step] = []
        late.begin { steps.append($0) }
        try disk.settle()
        // The disk has found nothing; before the loop is notified, the leader's response is stored and its flight ends.
        #expect(steps.isEmpty)
        _ = try origin(leader, 200, vary)
        leader.didReceiveBody([7].span)
        leader.didEnd(isWhole: true)
        for _ in 0..<100 where steps.isEmpty { loop.turn(waitingAtMost: .milliseconds(100)) }
        guard case .respond(let response)? = steps.first else {
            Issue.record("the origin is asked a second time")
            return
        }
        #expect(bytes(response) == [7] && late.outcome == .hit && response.status.text == "pinproxy; hit; ttl=60")
        // It has no followers: the next cold request for that key becomes the leader.
        try disk.settle()
        let other = try transaction("http://a.example/", [("A", "3")], in: cache)
        _ = try forwarded(other)
        #expect(cache.leads(try transaction("http://a.example/", [("A", "3")], in: cache)) == false)
    }

    @Test("a refresh that another request has overtaken is not made")
    func overtakenRefresh() throws {
        try store([7], [("Cache-Control", "max-age=0, stale-while-revalidate=60"), ("ETag", "\"a\"")])
        let quick = try transaction()
        let late = try transaction()
        #expect(try servedResponse(quick).refreshes && servedResponse(late).refreshes)
        let refreshing = try refreshing(quick).transaction
        _ = try origin(refreshing, 304, [("ETag", "\"a\""), ("Cache-Control", "max-age=60")])
        #expect(late.refresh() == nil)
        // It has no followers either.
        #expect(cache.leads(try transaction()))
    }

    @Test("one request refreshes a stale response, also where requests are not collapsed")
    func refreshWhileSeparate() throws {
        let first = try transaction()
        _ = try forwarded(first)
        _ = try origin(first, 200, [("Cache-Control", "private")])
        first.didEnd(isWhole: true)
        try store([7], [("Cache-Control", "max-age=0, stale-while-revalidate=60"), ("ETag", "\"a\"")])
        let transaction = try transaction()
        #expect(try servedResponse(transaction).refreshes)
        let refreshing = try refreshing(transaction).transaction
        #expect(transaction.refresh() == nil)
        _ = try origin(refreshing, 304, [("ETag", "\"a\""), ("Cache-Control", "max-age=60")])
        #expect(try servedResponse(try self.transaction()).status.text == "pinproxy; hit; ttl=60")
    }

    @Test("a private response reaches no other request: the waiting ones go to the origin")
    func privateResponse() throws {
        let leader = try transaction()
        _ = try forwarded(leader)
        let followers = try (0..<3).map { _ in try transaction() }
        var forwards = 0
        for follower in followers {
            follower.begin { step in
                if case .forward = step { forwards += 1 }
            }
        }
        _ = try origin(leader, 200, [("Cache-Control", "private")])
        loop.run(until: { forwards == 3 }, atMost: .seconds(10))
        #expect(forwards == 3)
        // For a while no request waits for that URI.
        _ = try forwarded(try transaction())
    }

    @Test("when the leader's client goes, the next one leads; impatient requests go alone")
    func leaderGone() throws {
        let leader = try transaction()
        _ = try forwarded(leader)
        let second = try transaction()
        var isForwarded = false
        second.begin { step in
            if case .forward = step { isForwarded = true }
        }
        leader.cancel()
        loop.run(until: { isForwarded }, atMost: .seconds(10))
        #expect(isForwarded)
        // `second` leads now and does not end, but the timeout does.
        _ = try forwarded(try transaction())
        let gone = try transaction()
        gone.begin { _ in Issue.record("its client has gone") }
        gone.cancel()
        #expect(cache.waitingCount == 0)
        loop.run(atMost: .milliseconds(1))
    }

    @Test("requests that differ in Vary do not get each other's response, collapsed or not")
    func vary() throws {
        let leader = try transaction("http://a.example/", [("A", "1")])
        _ = try forwarded(leader)
        let follower = try transaction("http://a.example/", [("A", "2")])
        var isForwarded = false
        follower.begin { step in
            if case .forward = step { isForwarded = true }
        }
        _ = try origin(leader, 200, [("Vary", "A"), ("Cache-Control", "max-age=60")])
        leader.didEnd(isWhole: true)
        loop.run(until: { isForwarded }, atMost: .seconds(10))
        #expect(isForwarded)
    }

    @Test("a rule gives a lifetime and drops fields before storing")
    func rules() throws {
        let rules = [CacheRule(path: PathPattern("/"), action: .store(lifetime: 300), removedFields: ["Set-Cookie"])]
        let transaction = try transaction(rules: rules)
        _ = try forwarded(transaction)
        let status = try relayed(try origin(transaction, 200, [("Set-Cookie", "a=b")]))
        #expect(status.text == "pinproxy; fwd=uri-miss; stored; ttl=300")
        transaction.didEnd(isWhole: true)
        #expect(try servedResponse(try self.transaction()).head.fields.contains(.setCookie) == false)
    }

    @Test("a body in a file is served; without the file the origin is asked")
    func files() throws {
        let disk = try DiskStoreStage()
        let store = CacheStore(memory: MemoryStore(capacity: 10_000), disk: disk.store, Stage.shared)
        let cache = ResponseCache(store)
        let body = DiskStoreStage.bytes(100_000)
        let first = try transaction(in: cache)
        _ = try forwarded(first)
        _ = try origin(first)
        first.didReceiveBody(body.span)
        first.didEnd(isWhole: true)
        try disk.settle()
        let response = try servedResponse(
            try transaction("http://a.example/", [("Range", "bytes=50000-59999")], in: cache)
        )
        #expect(response.head.status == 206 && bytes(response) == Array(body[50_000..<60_000]))
        for file in disk.files() { try #require(unlink(file) == 0) }
        _ = try forwarded(try transaction(in: cache))
    }
}
