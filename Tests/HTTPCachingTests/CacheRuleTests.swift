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

    private func stored(_ verdict: StoreVerdict) -> (HTTPFields, Int?)? {
        guard case .store(let fields, let lifetime, _) = verdict else { return nil }
        return (fields, lifetime)
    }

    private func reason(_ verdict: StoreVerdict) -> Storability.Reason? {
        guard case .skip(let reason) = verdict else { return nil }
        return reason
    }

    @Test(
        "a star stands for any run of bytes",
        arguments: [
            ("/v1/*", "/v1/", true), ("/v1/*", "/v1/a/b?c", true), ("/v1/*", "/v1", false), ("*", "", true),
            ("/a*c*e", "/abcde", true), ("/a*c*e", "/ace", true), ("/a*c*e", "/aec", false), ("/a", "/a", true),
            ("/a", "/ab", false), ("*.png", "/x.png", true), ("/aa*aa", "/aaa", false),
        ]
    )
    func patterns(pattern: String, text: String, fits: Bool) {
        #expect(PathPattern(pattern).matches(Array(text.utf8).span) == fits)
    }

    @Test("the first rule that fits decides; where none does, RFC 9111")
    func first() throws {
        let rules = [
            CacheRule(contentType: "text/event-stream", action: .skip),
            CacheRule(path: "/v1/*", statuses: [200], action: .store(lifetime: 300)),
            CacheRule(path: "/v1/*", action: .skip),
        ]
        #expect(reason(try verdict(rules, [("Content-Type", "Text/Event-Stream; charset=utf-8")])) == .rule)
        #expect(stored(try verdict(rules, []))?.1 == 300)
        #expect(reason(try verdict(rules, status: 404, [])) == .rule)
        #expect(stored(try verdict(rules, target: "/v2", [])) != nil)
        #expect(reason(try verdict(rules, target: "/v2", status: 500, [])) == .noLifetime)
    }

    @Test("a rule gives a lifetime in place of the response's own, and to statuses that have none")
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
            CacheRule(contentType: "image/*", method: .get, action: .skip), CacheRule(method: .head, action: .skip),
        ]
        #expect(reason(try verdict(rules, [("Content-Type", "image/png")])) == .rule)
        #expect(stored(try verdict(rules, [("Content-Type", "text/plain")])) != nil)
    }
}
