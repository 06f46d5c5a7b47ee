// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("RFC 9111 section 4: reuse")
struct ReuseDecisionTests {
    private typealias Stage = CachingStage

    private func response(_ control: String, _ more: Stage.Pairs = [], options: CacheOptions = Stage.shared) throws
        -> StoredResponse
    {
        try Stage.stored([("Cache-Control", control), ("ETag", "\"a\"")] + more, options: options)
    }

    private func decide(
        _ control: String,
        request: String? = nil,
        after seconds: Int = 0,
        options: CacheOptions = Stage.shared
    ) throws -> CacheUse {
        let fields = request.map { [("Cache-Control", $0)] } ?? []
        return Stage.decide(
            try Stage.request(fields),
            try response(control, options: options),
            after: seconds,
            options: options
        )
    }

    @Test("4: a fresh response is used, a stale one validated")
    func freshAndStale() throws {
        #expect(try decide("max-age=10", after: 9).isFreshResponse)
        #expect(try decide("max-age=10", after: 10) == .forward(.stale, validates: true))
        let none = try Stage.stored([("Cache-Control", "max-age=10")])
        #expect(Stage.decide(try Stage.request(), none, after: 10) == .forward(.stale, validates: false))
        #expect(Stage.decide(try Stage.request(), nil) == .forward(.uriMiss, validates: false))
        #expect(Stage.decide(try Stage.request(), nil, hasVariants: true) == .forward(.varyMiss, validates: true))
    }

    @Test("4: GET and HEAD are served, no other method is")
    func methods() throws {
        let stored = try response("max-age=10")
        #expect(Stage.decide(try Stage.request(method: .head), stored).isFreshResponse)
        for method in [HTTPMethod.post, .put, .delete, .patch, .options, .other([65])] {
            #expect(Stage.decide(try Stage.request(method: method), stored) == .forward(.method, validates: false))
        }
    }

    @Test("4: a request that is unsafe or has content is written through")
    func writtenThrough() throws {
        let stored = try response("max-age=10")
        let body = CacheRequest(method: .get, fields: HeaderFields(), hasBody: true)
        #expect(Stage.decide(body, stored) == .forward(.bypass, validates: false))
        #expect(Stage.decide(try Stage.request(method: .post, policy: .returnCacheDataDontLoad), stored).reuse == nil)
    }

    @Test("4: Age is written anew with the current age, replacing any other")
    func age() throws {
        let stored = try response("max-age=100", [("Age", "5")])
        let request = try Stage.request()
        let reuse = try #require(Stage.decide(request, stored, after: 7).reuse)
        #expect(reuse.freshness.age == 12 && reuse.timeToLive == 88)
        let response = CacheResponse(stored, length: 3, to: request, age: reuse.freshness.age)
        #expect(response.fields.values(for: "Age") == ["12"])
    }

    @Test("5.2.1.1: max-age of a request is the greatest age that it takes")
    func requestMaxAge() throws {
        #expect(try decide("max-age=100", request: "max-age=10", after: 10).isFreshResponse)
        #expect(try decide("max-age=100", request: "max-age=10", after: 11) == .forward(.request, validates: true))
        #expect(try decide("max-age=100", request: "max-age=0", after: 1) == .forward(.request, validates: true))
        // No stale response without max-stale.
        #expect(try decide("max-age=10", request: "max-age=100", after: 11) == .forward(.stale, validates: true))
        #expect(try decide("max-age=10", request: "max-age=100, max-stale", after: 11).isStaleResponse)
        #expect(try decide("max-age=10", request: "max-age=10, max-stale", after: 11).reuse == nil)
    }

    @Test("5.2.1.2: max-stale of a request takes a stale response, so many seconds old")
    func maxStale() throws {
        #expect(try decide("max-age=10", request: "max-stale", after: 10_000).isStaleResponse)
        #expect(try decide("max-age=10", request: "max-stale=5", after: 15).isStaleResponse)
        #expect(try decide("max-age=10", request: "max-stale=5", after: 16).reuse == nil)
    }

    @Test("5.2.1.3: min-fresh of a request wants a response that stays fresh so long")
    func minFresh() throws {
        #expect(try decide("max-age=10", request: "min-fresh=5", after: 5).isFreshResponse)
        #expect(try decide("max-age=10", request: "min-fresh=5", after: 6) == .forward(.request, validates: true))
        #expect(try decide("max-age=10", request: "min-fresh=5, max-stale", after: 16).reuse == nil)
    }

    @Test("5.2.1.4: no-cache of a request has every response validated")
    func requestNoCache() throws {
        #expect(try decide("max-age=10", request: "no-cache") == .forward(.request, validates: true))
    }

    @Test("5.2.1.5: no-store of a request still uses a stored response")
    func requestNoStore() throws {
        #expect(try decide("max-age=10", request: "no-store").isFreshResponse)
    }

    @Test("5.2.1.7: only-if-cached gets what is stored, or 504")
    func onlyIfCached() throws {
        #expect(try decide("max-age=10", request: "only-if-cached").isFreshResponse)
        #expect(try decide("max-age=10", request: "only-if-cached", after: 10) == .gatewayTimeout)
        #expect(try decide("max-age=10", request: "only-if-cached, max-stale", after: 10).isStaleResponse)
        #expect(try decide("max-age=10", request: "only-if-cached, no-cache") == .gatewayTimeout)
        #expect(
            try decide("max-age=10, stale-while-revalidate=9", request: "only-if-cached", after: 10) == .gatewayTimeout
        )
        #expect(Stage.decide(try Stage.request([("Cache-Control", "only-if-cached")]), nil) == .gatewayTimeout)
    }

    @Test("5.4: Pragma: no-cache counts where there is no Cache-Control")
    func pragma() throws {
        let stored = try response("max-age=10")
        #expect(
            Stage.decide(try Stage.request([("Pragma", "no-cache")]), stored) == .forward(.request, validates: true)
        )
        let both = [("Pragma", "no-cache"), ("Cache-Control", "max-age=5")]
        #expect(Stage.decide(try Stage.request(both), stored).isFreshResponse)
    }

    @Test("a request whose Cache-Control cannot be read has every response validated")
    func malformedRequest() throws {
        #expect(try decide("max-age=10", request: "a b") == .forward(.request, validates: true))
    }

    @Test("5.2.2.4: no-cache of a response has it validated before every use")
    func responseNoCache() throws {
        #expect(try decide("max-age=10, no-cache") == .forward(.stale, validates: true))
        #expect(try decide("max-age=10, no-cache", request: "max-stale", after: 20).reuse == nil)
    }

    @Test("5.2.2.2: must-revalidate forbids every use of a stale response")
    func mustRevalidate() throws {
        #expect(try decide("max-age=10, must-revalidate").isFreshResponse)
        for request in [nil, "max-stale", "max-stale=100"] {
            #expect(
                try decide("max-age=10, must-revalidate, stale-while-revalidate=99", request: request, after: 11).reuse
                    == nil
            )
        }
    }

    @Test("5.2.2.8: proxy-revalidate does the same in a shared cache alone")
    func proxyRevalidate() throws {
        #expect(try decide("max-age=10, proxy-revalidate", request: "max-stale", after: 11).reuse == nil)
        #expect(
            try decide("max-age=10, proxy-revalidate", request: "max-stale", after: 11, options: Stage.ofOne)
                .isStaleResponse
        )
    }

    @Test("5.2.2.10: s-maxage in a shared cache forces validation of stale responses")
    func sharedMaxAge() throws {
        #expect(try decide("max-age=99, s-maxage=10", after: 9).isFreshResponse)
        #expect(try decide("max-age=99, s-maxage=10", request: "max-stale", after: 11).reuse == nil)
        #expect(try decide("max-age=99, s-maxage=10", after: 11, options: Stage.ofOne).isFreshResponse)
        // The same origin's stale-while-revalidate is an extension that overrides the implication of s-maxage.
        #expect(try decide("s-maxage=10, stale-while-revalidate=5", after: 11).isStaleResponse)
    }

    @Test("5861 3: stale-while-revalidate serves a stale response and revalidates in the background")
    func staleWhileRevalidate() throws {
        let use = try decide("max-age=10, stale-while-revalidate=5", after: 15)
        #expect(use.reuse?.revalidates == true && use.isStaleResponse)
        #expect(use.reuse?.timeToLive == -5)
        #expect(try decide("max-age=10, stale-while-revalidate=5", after: 16).reuse == nil)
        for request in ["max-age=100", "no-cache", "min-fresh=1"] {
            #expect(try decide("max-age=10, stale-while-revalidate=5", request: request, after: 12).reuse == nil)
        }
    }

    @Test("8246: a fresh immutable response is not validated for a reload, but for no-cache")
    func immutable() throws {
        #expect(try decide("max-age=100, immutable", request: "max-age=0", after: 9).isFreshResponse)
        #expect(try decide("max-age=100, immutable", request: "no-cache", after: 9).reuse == nil)
        #expect(try decide("max-age=100, immutable", request: "max-age=0", after: 101).reuse == nil)
    }

    @Test(
        "4.3.2: a request with If-Match or If-Unmodified-Since is left to the origin",
        arguments: ["If-Match", "If-Unmodified-Since"]
    )
    func originConditions(name: String) throws {
        let request = try Stage.request([(name, name == "If-Match" ? "\"a\"" : Stage.date)])
        #expect(Stage.decide(request, try response("max-age=10")) == .forward(.bypass, validates: false))
    }

    @Test("request policies: reload asks the origin, the others take stored responses of any age")
    func policies() throws {
        let stored = try response("max-age=10")
        func decide(_ policy: RequestPolicy, _ stored: StoredResponse?, after: Int = 99) throws -> CacheUse {
            Stage.decide(try Stage.request(policy: policy), stored, after: after)
        }
        #expect(try decide(.reloadIgnoringLocalCacheData, stored, after: 0) == .forward(.bypass, validates: false))
        #expect(try decide(.returnCacheDataElseLoad, stored).isStaleResponse)
        #expect(try decide(.returnCacheDataElseLoad, nil) == .forward(.uriMiss, validates: false))
        #expect(try decide(.returnCacheDataDontLoad, stored).isStaleResponse)
        #expect(try decide(.returnCacheDataDontLoad, nil) == .gatewayTimeout)
        // A prohibition by the origin stays in force.
        for control in ["max-age=10, must-revalidate", "max-age=10, no-cache"] {
            #expect(try decide(.returnCacheDataElseLoad, response(control)).reuse == nil)
            #expect(try decide(.returnCacheDataDontLoad, response(control)) == .gatewayTimeout)
        }
    }
}

@Suite("RFC 9111 section 4.2.4 and RFC 5861: stale responses")
struct StaleResponseTests {
    private typealias Stage = CachingStage

    private func decide(
        _ control: String,
        _ failure: OriginFailure,
        request: String? = nil,
        after seconds: Int,
        options: CacheOptions = Stage.shared
    ) throws -> CacheUse? {
        ReuseDecision.decide(
            afterFailure: failure,
            try Stage.request(request.map { [("Cache-Control", $0)] } ?? []),
            stored: try Stage.stored([("Cache-Control", control)], options: options),
            now: Stage.now + seconds,
            options
        )
    }

    @Test("4.2.4: no stale response is used unless origin, client or owner allows it")
    func nothing() throws {
        #expect(try decide("max-age=10", .unreachable, after: 11) == nil)
        #expect(try decide("max-age=10", .serverError(503), after: 11) == nil)
    }

    @Test("5861 4 and 4.3.3: stale-if-error replaces an error for so many seconds", arguments: [500, 502, 503, 504])
    func staleIfError(status: Int) throws {
        for failure in [OriginFailure.unreachable, .serverError(status)] {
            #expect(try decide("max-age=10, stale-if-error=5", failure, after: 15)?.isStaleResponse == true)
            #expect(try decide("max-age=10, stale-if-error=5", failure, after: 16) == nil)
            #expect(try decide("max-age=10", failure, request: "stale-if-error=5", after: 15)?.isStaleResponse == true)
        }
        #expect(try decide("max-age=10, stale-if-error=5", .serverError(501), after: 11) == nil)
        #expect(try decide("max-age=10, stale-if-error=5", .serverError(status), request: "no-cache", after: 11) == nil)
    }

    @Test("5.2.2.2: a disconnected cache sends 504 where must-revalidate demands validation")
    func mustRevalidate() throws {
        #expect(
            try decide("max-age=10, must-revalidate, stale-if-error=99", .unreachable, after: 11) == .gatewayTimeout
        )
        #expect(try decide("max-age=10, must-revalidate, stale-if-error=99", .serverError(503), after: 11) == nil)
        #expect(
            try decide("max-age=10, proxy-revalidate, stale-if-error=99", .unreachable, after: 11) == .gatewayTimeout
        )
        #expect(try decide("max-age=10, no-cache, stale-if-error=99", .unreachable, after: 1) == .gatewayTimeout)
    }

    @Test("4.2.4: an owner's limit lets a disconnected cache respond, but not against s-maxage")
    func disconnected() throws {
        let options = CacheOptions(staleWhenDisconnected: 60)
        #expect(try decide("max-age=10", .unreachable, after: 70, options: options)?.isStaleResponse == true)
        #expect(try decide("max-age=10", .unreachable, after: 71, options: options) == nil)
        #expect(try decide("max-age=10", .serverError(503), after: 11, options: options) == nil)
        #expect(try decide("s-maxage=10", .unreachable, after: 11, options: options) == nil)
    }

    @Test("5861 4: no stale response replaces one of a server that failed its pins")
    func untrusted() throws {
        let options = CacheOptions(staleWhenDisconnected: 1000)
        #expect(
            try decide("max-age=10, stale-if-error=1000", .untrusted, request: "max-stale", after: 11, options: options)
                == nil
        )
        #expect(try decide("max-age=10, stale-if-error=1000", .untrusted, after: 5, options: options) == nil)
    }
}
