// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

/// What the owner's rules about requests change: bypass, directives that are not obeyed, grace.
@Suite("The owner's terms for requests")
struct OwnersTermsTests {
    private typealias Stage = CachingStage

    private func request(_ pairs: Stage.Pairs = [], _ change: (inout CacheRequest) -> Void) throws -> CacheRequest {
        var request = try Stage.request(pairs)
        change(&request)
        return request
    }

    // MARK: Bypass

    @Test("a request with one of the fields, or with a matching cookie, bypasses")
    func bypasses() throws {
        let bypass = CacheBypass(
            fields: ["X-Preview"],
            cookies: ["session", "wp_*"].compactMap { WildcardPattern($0) }
        )
        for pairs in [
            [("x-preview", "1")], [("X-Preview", "")], [("Cookie", "session=1")], [("Cookie", "a=b; session=")],
            [("Cookie", "a=b"), ("Cookie", "wp_x=1")], [("Cookie", "a=b;session")], [("Cookie", "a=b, session=1")],
            [("Cookie", "a=\"b; session=1\"")], [("Cookie", "a;  session =1")],
        ] as [Stage.Pairs] { #expect(bypass.applies(to: try Stage.fields(pairs)), "\(pairs)") }
        for pairs in [
            [], [("X-Previews", "1")], [("Cookie", "a=session")], [("Cookie", "sessions=1")], [("Cookie", "Session=1")],
            [("X-Cookie", "session=1")], [("Cookie", "awp_=1")], [("Cookie", ";;,=")],
        ] as [Stage.Pairs] { #expect(!bypass.applies(to: try Stage.fields(pairs)), "\(pairs)") }
    }

    @Test("a bypassing request gets no stored response, and its own is not stored")
    func bypassed() throws {
        let fresh = try Stage.stored([("Cache-Control", "max-age=60, stale-if-error=600")])
        let plain = try request { _ in }
        let bypassing = try request { $0.bypasses = true }
        #expect(Stage.decide(plain, fresh).isFreshResponse)
        #expect(Stage.decide(bypassing, fresh) == .forward(.bypass, validates: false))
        let response = try Stage.fields([("Cache-Control", "max-age=60")])
        func storing(_ request: CacheRequest) -> Storability {
            Storability.evaluate(request, status: 200, response: response, Stage.shared)
        }
        #expect(storing(plain) == .storable && storing(bypassing) == .notStorable(.rule))
        // Nor does a stored one replace an error.
        for (request, isReused) in [(plain, true), (bypassing, false)] {
            let use = ReuseDecision.decide(
                afterFailure: .unreachable,
                request,
                stored: fresh,
                now: Stage.now + 100,
                Stage.shared
            )
            #expect((use?.reuse != nil) == isReused)
        }
        // A request that must not go to the origin does not.
        let offline = try request([("Cache-Control", "only-if-cached")]) { $0.bypasses = true }
        #expect(Stage.decide(offline, fresh) == .gatewayTimeout)
    }

    // MARK: Directives

    @Test(
        "a request's directive is ignored only if it is named",
        arguments: [
            ("no-cache", IgnoredDirectives.noCache), ("max-age=0", .maxAge), ("min-fresh=100", .minFresh),
        ]
    )
    func directives(text: String, directive: IgnoredDirectives) throws {
        let fresh = try Stage.stored([("Cache-Control", "max-age=60"), ("ETag", "\"a\"")])
        let all: IgnoredDirectives = [.noCache, .maxAge, .minFresh, .noStore, .pragma]
        for (ignored, isReused) in [
            ([], false), (directive, true), (all.subtracting(directive), false), (all, true),
        ] as [(IgnoredDirectives, Bool)] {
            let request = try request([("Cache-Control", text)]) { $0.ignore(ignored) }
            #expect(Stage.decide(request, fresh, after: 10).isFreshResponse == isReused, "\(text) \(ignored.rawValue)")
        }
        // The origin's word counts as before.
        let validated = try Stage.stored([("Cache-Control", "no-cache"), ("ETag", "\"a\"")])
        let request = try request([("Cache-Control", text)]) { $0.ignore(all) }
        #expect(Stage.decide(request, validated) == .forward(.stale, validates: true))
    }

    @Test("Pragma is ignored only if it is named; an unreadable one still forbids")
    func pragma() throws {
        let fresh = try Stage.stored([("Cache-Control", "max-age=60")])
        for (ignored, isReused) in [(IgnoredDirectives.noCache, false), (.pragma, true)] {
            let request = try request([("Pragma", "no-cache")]) { $0.ignore(ignored) }
            #expect(Stage.decide(request, fresh).isFreshResponse == isReused)
        }
        let malformed = try request([("Cache-Control", "no-cache, =1")]) { $0.ignore([.noCache, .pragma]) }
        #expect(!Stage.decide(malformed, fresh).isFreshResponse)
    }

    @Test("a request's no-store stores nothing unless it is named")
    func noStore() throws {
        let response = try Stage.fields([("Cache-Control", "max-age=60")])
        for (ignored, expected) in [
            (IgnoredDirectives.noCache, Storability.notStorable(.requestNoStore)), (.noStore, .storable),
        ] {
            let request = try request([("Cache-Control", "no-store")]) { $0.ignore(ignored) }
            #expect(Storability.evaluate(request, status: 200, response: response, Stage.shared) == expected)
        }
    }

    // MARK: Grace

    private func isReused(_ response: StoredResponse, after seconds: Int, _ pairs: Stage.Pairs = []) throws -> Bool {
        let request = try request(pairs) { $0.grace.whileRevalidating = 30 }
        let reuse = Stage.decide(request, response, after: seconds).reuse
        if let reuse { #expect(reuse.revalidates == !reuse.freshness.isFresh) }
        return reuse != nil
    }

    private func isReused(
        _ response: StoredResponse,
        after failure: OriginFailure,
        at seconds: Int,
        isDoubted: Bool = false
    ) throws -> Bool {
        let use = ReuseDecision.decide(
            afterFailure: failure,
            try request { $0.grace.onErrors = 30 },
            stored: response,
            now: Stage.now + seconds,
            isDoubted: isDoubted,
            Stage.shared
        )
        return use?.reuse != nil
    }

    @Test("grace extends a lifetime up to its limit, during revalidation or after an error")
    func grace() throws {
        for field in [("Cache-Control", "max-age=60"), ("Expires", "Sun, 06 Nov 1994 08:50:37 GMT")] {
            let response = try Stage.stored([field])
            #expect(
                try isReused(response, after: 59) && isReused(response, after: 90) && !isReused(response, after: 91)
            )
            for failure in [OriginFailure.unreachable, .serverError(500), .serverError(503)] {
                #expect(try isReused(response, after: failure, at: 90))
                #expect(try !isReused(response, after: failure, at: 91))
            }
            #expect(try !isReused(response, after: .serverError(501), at: 70))
            // A client that asks for something fresh gets it.
            for text in ["no-cache", "max-age=65", "min-fresh=1"] {
                #expect(try !isReused(response, after: 70, [("Cache-Control", text)]), "\(text)")
            }
        }
        let plain = try Stage.request()
        #expect(Stage.decide(plain, try Stage.stored([("Cache-Control", "max-age=60")]), after: 61).reuse == nil)
    }

    @Test("a refused server gives no grace until an accepted one has responded")
    func refused() throws {
        let response = try Stage.stored([("Cache-Control", "max-age=60")])
        #expect(try !isReused(response, after: .untrusted, at: 61))
        #expect(try !isReused(response, after: .other, at: 61))
        #expect(try isReused(response, after: .unreachable, at: 61))
        #expect(try !isReused(response, after: .unreachable, at: 61, isDoubted: true))
        let request = try request { $0.grace.whileRevalidating = 30 }
        for isDoubted in [false, true] {
            let use = ReuseDecision.decide(
                request,
                stored: response,
                hasVariants: true,
                now: Stage.now + 61,
                isDoubted: isDoubted,
                Stage.shared
            )
            #expect((use.reuse == nil) == isDoubted)
        }
    }

    @Test(
        "the origin's directives come before grace",
        arguments: [
            "max-age=60, must-revalidate", "max-age=60, proxy-revalidate", "s-maxage=60", "max-age=60, no-cache",
            "max-age=60, stale-while-revalidate=0, stale-if-error=0", "max-age=0", "max-age=60, =1",
        ]
    )
    func originForbids(control: String) throws {
        let response = try Stage.stored([("Cache-Control", control), ("ETag", "\"a\"")])
        #expect(try !isReused(response, after: 61))
        #expect(try !isReused(response, after: .unreachable, at: 61))
        #expect(try !isReused(response, after: .serverError(503), at: 61))
    }

    @Test("the origin's own limits replace the owner's; errors have no grace")
    func limits() throws {
        let own = try Stage.stored([("Cache-Control", "max-age=60, stale-while-revalidate=5, stale-if-error=90")])
        #expect(try isReused(own, after: 65) && !isReused(own, after: 66))
        #expect(try isReused(own, after: .unreachable, at: 150) && !isReused(own, after: .unreachable, at: 151))
        let error = try Stage.stored([("Cache-Control", "max-age=60")], status: 503)
        #expect(try isReused(error, after: 59) && !isReused(error, after: 61))
        #expect(try !isReused(error, after: .unreachable, at: 61))
        let without = try Stage.stored([("ETag", "\"a\"")])
        #expect(try !isReused(without, after: 1) && !isReused(without, after: .unreachable, at: 1))
    }

    /// The first action after the lookup of a stale response.
    private func isAsked(
        _ control: String = "max-age=60",
        sinceFailure: Int?,
        isDoubted: Bool = false,
        _ change: (inout CacheRequest) -> Void = { _ in }
    ) throws -> Bool {
        var flow = try flow { request in
            request.grace = CacheGrace(onErrors: 600, retryAfter: 5)
            change(&request)
        }
        let moment = CacheFlow.Moment(now: Stage.now + 100, isDoubted: isDoubted, sinceFailure: sinceFailure)
        _ = flow.handle(.request, moment)
        let entry = CachedEntry(
            key: try Stage.key("http://a.example/"),
            response: try Stage.stored([("Cache-Control", control)]),
            body: .memory([1])
        )
        switch flow.handle(.found(CacheStore.Found(entries: [entry], selected: 0)), moment) {
        case .give(.respond(let response)):
            #expect(response.status.text == "pinproxy; hit; ttl=-40" && !response.refreshes)
            #expect(flow.takeEffects().counts == .stale)
            return false
        case .give(.forward), .join: return true
        default:
            Issue.record("something else follows")
            return false
        }
    }

    private func flow(_ change: (inout CacheRequest) -> Void) throws -> CacheFlow {
        var request = try Stage.request()
        change(&request)
        return CacheFlow(
            CacheFlow.Question(
                url: try #require(AbsoluteURL("http://a.example/")),
                request: request,
                rules: [],
                keyRules: CacheKeyRules(),
                digest: Stage.digest,
                options: Stage.shared,
                key: try Stage.key("http://a.example/")
            )
        )
    }

    @Test("after a failed connection no other is tried while a stale response serves")
    func retryAfter() throws {
        for (seconds, expected) in [(nil, true), (0, false), (4, false), (5, true)] as [(Int?, Bool)] {
            #expect(try isAsked(sinceFailure: seconds) == expected)
        }
        #expect(try isAsked(sinceFailure: 0) { $0.grace.retryAfter = 0 })
        // Where none will do, the origin is asked: no grace, the origin's prohibition, a refused server.
        #expect(try isAsked(sinceFailure: 0) { $0.grace.onErrors = 0 })
        #expect(try isAsked("max-age=60, must-revalidate", sinceFailure: 0))
        #expect(try isAsked(sinceFailure: 0, isDoubted: true))
    }

    @Test("only failed connections are remembered, and only until the origin responds")
    func failures() throws {
        for failure in [OriginFailure.noConnection, .unreachable, .untrusted, .other] {
            for retryAfter in [0, 5] {
                var flow = try flow { $0.grace.retryAfter = retryAfter }
                let moment = CacheFlow.Moment(now: Stage.now, isDoubted: false)
                _ = flow.handle(.request, moment)
                _ = flow.handle(.found(CacheStore.Found()), moment)
                _ = flow.handle(.joined(.goAlone, isLate: false), moment)
                _ = flow.handle(.failed(failure), moment)
                #expect(flow.takeEffects().notesFailure == (failure == .noConnection && retryAfter > 0))
            }
        }
        let failures = OriginFailures()
        let origins = try ["http://a.example/", "https://a.example/"].map { try #require(AbsoluteURL($0)).origin }
        #expect(failures.seconds(since: origins[0], now: 0) == nil)
        failures.note(origins[0], now: 1_000_000_000)
        #expect(failures.seconds(since: origins[0], now: 2_999_999_999) == 1)
        #expect(failures.seconds(since: origins[0], now: 0) == 0 && failures.seconds(since: origins[1], now: 0) == nil)
        failures.forget(origins[1])
        failures.note(origins[1], now: 0)
        failures.forget(origins[0])
        #expect(failures.seconds(since: origins[0], now: 0) == nil && failures.seconds(since: origins[1], now: 0) == 0)
    }

    @Test("negative caching: a rule's lifetime makes errors storable if they concern all requests")
    func negative() throws {
        let statuses = StatusCodes([404...404, 410...410, 500...599, 429...429])
        let rule = CacheRule(statuses: statuses, action: .store(lifetime: 10))
        func verdict(_ status: Int, _ pairs: Stage.Pairs = []) throws -> StoreVerdict {
            let target = Array("/x".utf8)
            return StoreVerdict(
                try Stage.request(),
                target: target.span,
                status: status,
                response: try Stage.fields(pairs),
                rules: [rule],
                Stage.shared
            )
        }
        for status in [404, 410, 500, 503] {
            guard case .store(_, let lifetime, _) = try verdict(status) else {
                Issue.record("\(status) is not stored")
                continue
            }
            #expect(lifetime == 10)
            guard case .skip(.responseNoStore) = try verdict(status, [("Cache-Control", "no-store")]) else {
                Issue.record("\(status) is stored against no-store")
                continue
            }
        }
        guard case .skip(.status) = try verdict(429) else {
            Issue.record("429 is stored")
            return
        }
    }

    @Test("after a soft purge grace counts from the purge")
    func softPurge() throws {
        var response = try Stage.stored([("Cache-Control", "max-age=600")])
        response.expire(now: Stage.now + 100)
        #expect(try isReused(response, after: 130) && !isReused(response, after: 131))
    }
}
