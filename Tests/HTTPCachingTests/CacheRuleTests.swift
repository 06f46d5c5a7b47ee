// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

@Suite("Rules of a cache's owner")
struct CacheRuleTests {
    private typealias Stage = CachingStage

    private func verdict(
        _ rules: [CacheRule],
        target: String = "/v1/x?y",
        status: Int = 200,
        _ response: Stage.Pairs
    ) throws -> StoreVerdict {
        StoreVerdict(
            try Stage.request(),
            target: Array(target.utf8).span,
            status: status,
            response: try Stage.fields(response),
            rules: rules,
            Stage.shared
        )
    }

    private func type(_ text: String) throws -> MediaTypePattern { try #require(MediaTypePattern(text)) }

    private func stored(_ verdict: StoreVerdict) -> (HeaderFields, Int?)? {
        guard case .store(let fields, let lifetime, _) = verdict else { return nil }
        return (fields, lifetime)
    }

    private func reason(_ verdict: StoreVerdict) -> Storability.Reason? {
        guard case .skip(let reason) = verdict else { return nil }
        return reason
    }

    @Test("the first rule that fits decides; where none does, RFC 9111")
    func first() throws {
        let rules = [
            CacheRule(contentTypes: [try type("text/event-stream")], action: .skip),
            CacheRule(path: PathPattern("/v1/*"), statuses: [200], action: .store(lifetime: 300)),
            CacheRule(path: PathPattern("/v1/*"), action: .skip),
        ]
        #expect(reason(try verdict(rules, [("Content-Type", "Text/Event-Stream; charset=utf-8")])) == .rule)
        #expect(stored(try verdict(rules, []))?.1 == 300)
        #expect(reason(try verdict(rules, status: 404, [])) == .rule)
        #expect(stored(try verdict(rules, target: "/v2", [])) != nil)
        #expect(reason(try verdict(rules, target: "/v2", status: 500, [])) == .noLifetime)
    }

    @Test(
        "a path with dot segments fits skipping rules for paths, and no storing rule",
        arguments: [
            "/static/../account", "/static/./x", "/static/%2e%2e/account", "/static/%2E./account", "/static/..",
            "/static/.", "/static/..;/account", "/static/..;v=1/account", "/static/..%2faccount",
            "/static/..%5Caccount", "/static/..\\account", "/static%2f..%2faccount", "/static/%2e%2e%3bx/account?a=b",
            "/static/x/%252e%252e/account",
        ]
    )
    func dotSegments(target: String) throws {
        let rules = [CacheRule(path: PathPattern("/static/*"), action: .store(lifetime: 300))]
        #expect(try #require(stored(try verdict(rules, target: target, []))).1 == nil)
        let forAll = [CacheRule(action: .store(lifetime: 300))]
        #expect(try #require(stored(try verdict(forAll, target: target, []))).1 == nil)
        let skips = [CacheRule(path: PathPattern("/account*"), action: .skip)] + rules
        #expect(reason(try verdict(skips, target: target, [("Cache-Control", "max-age=60")])) == .rule)
        // Responses that the origin allows to store are stored when no rule is for paths.
        #expect(stored(try verdict([], target: target, [("Cache-Control", "max-age=60")])) != nil)
    }

    @Test(
        "dots that are no segment of their own change nothing",
        arguments: [
            "/static/a..b", "/static/...", "/static/.well-known", "/static/x?y=/../z", "/static/..a", "/static/x.",
        ]
    )
    func ordinaryDots(target: String) throws {
        let rules = [
            CacheRule(path: PathPattern("/account*"), action: .skip),
            CacheRule(path: PathPattern("/static/*"), action: .store(lifetime: 300)),
        ]
        #expect(stored(try verdict(rules, target: target, []))?.1 == 300)
    }

    @Test("3: a rule's lifetime replaces the response's own, and serves statuses without one")
    func lifetime() throws {
        let rule = CacheRule(statuses: [200, 503], action: .store(lifetime: 300))
        #expect(stored(try verdict([rule], status: 503, []))?.1 == 300)
        let (fields, lifetime) = try #require(stored(try verdict([rule], [("Cache-Control", "max-age=1")])))
        let response = StoredResponse(
            status: 200,
            response: fields,
            to: try Stage.request(),
            requestTime: Stage.now,
            responseTime: Stage.now,
            digest: Stage.digest,
            ruleLifetime: lifetime,
            Stage.shared
        )
        #expect(response.freshness(now: Stage.now).lifetime == 300)
        #expect(response.freshness(now: Stage.now).source == .rule)
        // Errors are stored only where the rule names their status.
        #expect(reason(try verdict([CacheRule(action: .store(lifetime: 300))], status: 503, [])) == .noLifetime)
    }

    @Test("no rule overrides what forbids storing", arguments: ["no-store", "private"])
    func forbidden(control: String) throws {
        #expect(stored(try verdict([CacheRule(action: .store(lifetime: 9))], [("Cache-Control", control)])) == nil)
        #expect(stored(try verdict([CacheRule(action: .store(lifetime: 9))], [("Vary", "*")])) == nil)
    }

    @Test("fields are dropped and set before the response is judged")
    func changedFields() throws {
        let rule = CacheRule(
            action: .store(lifetime: nil),
            removedFields: ["set-cookie"],
            setFields: [("Cache-Control", "max-age=7")]
        )
        let response = [("Set-Cookie", "a=b"), ("Cache-Control", "no-store"), ("X", "1")]
        let (fields, _) = try #require(stored(try verdict([rule], response)))
        #expect(fields.list.map(\.name) == ["X", "Cache-Control"])
        #expect(fields.value(for: "cache-control") == "max-age=7")
    }

    @Test("a body larger than the rule's limit is not stored")
    func size() throws {
        let rule = CacheRule(action: .store(lifetime: nil), maximumBytes: 10)
        #expect(reason(try verdict([rule], [("Content-Length", "11")])) == .tooLarge)
        guard case .store(_, _, let limit) = try verdict([rule], []) else {
            Issue.record("not stored")
            return
        }
        #expect(limit == 10)
    }

    @Test("a rule may be for one method and for types by pattern")
    func methodAndType() throws {
        let rules = [
            CacheRule(contentTypes: [try type("image/*")], method: .get, action: .skip),
            CacheRule(method: .head, action: .skip),
        ]
        #expect(reason(try verdict(rules, [("Content-Type", "image/png")])) == .rule)
        #expect(stored(try verdict(rules, [("Content-Type", "text/plain")])) != nil)
    }

    @Test("a rule's path ignores the query, and an encoded path is the same path")
    func paths() throws {
        let rules = [CacheRule(path: PathPattern("/v1/*"), action: .skip)]
        for target in ["/v1/a", "/%761/a", "/v1/a?b", "/v%31/%61?b"] {
            #expect(reason(try verdict(rules, target: target, [])) == .rule, "\(target)")
        }
        for target in ["/v2/a", "/v2?/v1/a", "/v1"] { #expect(stored(try verdict(rules, target: target, [])) != nil) }
    }

    @Test("a second type neither hides from a skipping rule nor fits a storing one")
    func twoTypes() throws {
        let pairs = [("Content-Type", "text/plain"), ("Content-Type", "text/html")]
        let html = [try type("text/html")]
        #expect(reason(try verdict([CacheRule(contentTypes: html, action: .skip)], pairs)) == .rule)
        let stores = CacheRule(contentTypes: html, action: .store(lifetime: 9))
        #expect(try #require(stored(try verdict([stores], pairs))).1 == nil)
        #expect(try #require(stored(try verdict([stores], [pairs[1]]))).1 == 9)
    }
}
