// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import Testing

@testable import ProxyCore

@Suite("Decisions about an origin's redirects")
struct RedirectHookTests {
    /// The hook's decision in short: `deliver`, `follow GET https://…`, or the details of a refusal.
    private func decide(
        _ stage: HookFixture,
        _ location: String?,
        status: Int = 302,
        from url: String = "https://api.example.com/start",
        method: HTTPMethod = .get,
        body: RedirectHook.Body = .none
    ) throws -> String {
        let from = try #require(AbsoluteURL(url))
        var hook = RedirectHook(try stage.hooks(), url: from, method: method)
        return try Self.decide(&hook, stage, location, status: status, from: from, method: method, body: body)
    }

    private static func decide(
        _ hook: inout RedirectHook,
        _ stage: HookFixture,
        _ location: String?,
        status: Int = 302,
        from: AbsoluteURL,
        method: HTTPMethod = .get,
        body: RedirectHook.Body = .none
    ) throws -> String {
        let head = try HookFixture.head(status, location.map { ["Location: \($0)"] } ?? [])
        switch hook.decide(head, url: from, method: method, body: body, router: stage.router) {
        case .deliver: return "deliver"
        case .follow(let plan):
            return "follow \(plan.hop.method) \(plan.hop.url.text)" + (plan.hop.keepsBody ? "" : " without the body")
        case .refuse(let problem):
            #expect(problem.code == .redirectDenied && problem.status == 403)
            return problem.details
        }
    }

    private func stage(_ redirects: String, pinned: [String: String] = [:], members: String = "") throws -> HookFixture
    {
        try HookFixture(
            hosts: #""api.example.com": { "redirects": { \#(redirects) } }, "up.example.com": { "upgrade": true }"#,
            members: members,
            pinned: pinned
        )
    }

    private let other = "https://other.example.com/x"

    @Test("a host without rules for redirects has no hook")
    func none() throws {
        let stage = try HookFixture(hosts: #""api.example.com": { "redirects": { "policy": "return", "rules": [] } }"#)
        #expect(stage.router.snapshot.policy(for: try Host("api.example.com")).hooks == nil)
        #expect(stage.router.snapshot.defaults.hooks == nil)
    }

    @Test("the policy decides where no rule does")
    func policies() throws {
        #expect(try decide(stage(#""policy": "follow""#), other) == "follow GET \(other)")
        #expect(
            try decide(stage(#""policy": "return", "max": 3, "rules": [{ "to": "x.test", "then": "deny" }]"#), other)
                == "deliver"
        )
        let denied = try decide(stage(#""policy": "deny""#), other)
        #expect(denied.contains("hosts/api.example.com/redirects/policy"), "\(denied)")
    }

    @Test("a response that is no redirect goes to the client", arguments: [200, 300, 304, 305, 306, 399, 404])
    func noRedirect(status: Int) throws {
        #expect(try decide(stage(#""policy": "deny""#), other, status: status) == "deliver")
        #expect(try decide(stage(#""policy": "deny""#), nil, status: 302) == "deliver")
    }

    @Test("the first rule that matches decides: by status, host, scheme and path")
    func rules() throws {
        let stage = try stage(
            #"""
            "policy": "deny", "rules": [
              { "status": 308, "then": "return" },
              { "status": [301, 307], "to": "other.example.com", "then": "deny" },
              { "to": ["*.below.example", "other.example.com"], "path": "/x*", "then": "follow" },
              { "scheme": "http", "to": "*", "path": "/plain/*", "then": "return" },
              { "path": "*.zip", "then": "follow" } ]
            """#
        )
        #expect(try decide(stage, other, status: 308) == "deliver")
        #expect(try decide(stage, other, status: 301).contains("redirects/rules/1"))
        #expect(try decide(stage, other) == "follow GET \(other)")
        #expect(try decide(stage, "https://a.below.example/x").hasPrefix("follow"))
        #expect(try decide(stage, "https://below.example/x").contains("redirects/policy"))
        #expect(try decide(stage, "https://other.example.com/y").contains("redirects/policy"))
        #expect(try decide(stage, "http://c.test/plain/a?b") == "deliver")
        #expect(try decide(stage, "https://c.test/plain/a").contains("redirects/policy"))
        #expect(try decide(stage, "https://c.test/a/b.zip?c") == "follow GET https://c.test/a/b.zip?c")
    }

    @Test("a rule's scheme is the spoken one: https for an upgraded host")
    func upgradedScheme() throws {
        let stage = try stage(#""policy": "follow", "rules": [{ "scheme": "http", "then": "deny" }]"#)
        #expect(try decide(stage, "http://up.example.com/a") == "follow GET https://up.example.com/a")
        #expect(try decide(stage, "http://up.example.com:8080/a") == "follow GET https://up.example.com:8080/a")
        #expect(try decide(stage, "http://down.example.com/a").contains("redirects/rules/0"))
    }

    @Test("method and body follow the status (RFC 9110, section 15.4)")
    func methods() throws {
        let stage = try stage(#""policy": "follow""#)
        for status in [301, 302, 303] {
            #expect(
                try decide(stage, other, status: status, method: .post, body: .kept)
                    == "follow GET \(other) without the body"
            )
            #expect(try decide(stage, other, status: status, method: .head).hasPrefix("follow HEAD"))
        }
        #expect(try decide(stage, other, status: 301, method: .put, body: .kept) == "follow PUT \(other)")
        #expect(
            try decide(stage, other, status: 303, method: .put, body: .lost) == "follow GET \(other) without the body"
        )
        for status in [307, 308] {
            #expect(try decide(stage, other, status: status, method: .post, body: .kept) == "follow POST \(other)")
        }
    }

    @Test("a body that is no longer kept leaves the redirect to the client")
    func lostBody() throws {
        let stage = try stage(#""policy": "follow""#)
        #expect(try decide(stage, other, status: 307, method: .post, body: .lost) == "deliver")
        #expect(try decide(stage, other, status: 302, method: .put, body: .lost) == "deliver")
        #expect(try decide(stage, other, status: 302, method: .post, body: .lost).hasPrefix("follow GET"))
    }

    @Test("a redirect away from TLS is denied, unless a rule allows http")
    func losesTLS() throws {
        let plain = "http://plain.example.com/x"
        #expect(try decide(stage(#""policy": "follow""#), plain).contains("goes without TLS"))
        let named = try stage(#""policy": "follow", "rules": [{ "to": "plain.example.com", "then": "follow" }]"#)
        #expect(try decide(named, plain).contains("goes without TLS"))
        let waived = try stage(#""policy": "return", "rules": [{ "scheme": "http", "then": "follow" }]"#)
        #expect(try decide(waived, plain) == "follow GET \(plain)")
        #expect(
            try decide(stage(#""policy": "follow""#), plain, from: "http://api.example.com/start")
                == "follow GET \(plain)"
        )
        let rewritten = try stage(#""policy": "follow", "rules": [{ "then": "rewrite", "scheme": "https" }]"#)
        #expect(try decide(rewritten, plain) == "follow GET https://plain.example.com/x")
        let lowered = try stage(#""policy": "follow", "rules": [{ "then": "rewrite", "scheme": "http" }]"#)
        #expect(try decide(lowered, other) == "follow GET http://other.example.com/x")
    }

    @Test("a redirect from pins to no pins is denied, unless a rule names it")
    func leavesPins() throws {
        let pinned = ["api.example.com": ""]
        #expect(try decide(stage(#""policy": "follow""#, pinned: pinned), other).contains("held to no pins"))
        let any = try stage(
            #""policy": "follow", "rules": [{ "to": ["*", "x.test"], "then": "follow" }]"#,
            pinned: pinned
        )
        #expect(try decide(any, other).contains("held to no pins"))
        for pattern in ["other.example.com", "*.example.com"] {
            let named = try stage(
                #""policy": "deny", "rules": [{ "to": "\#(pattern)", "then": "follow" }]"#,
                pinned: pinned
            )
            #expect(try decide(named, other) == "follow GET \(other)")
        }
        let both = ["api.example.com": "", "other.example.com": ""]
        #expect(try decide(stage(#""policy": "follow""#, pinned: both), other) == "follow GET \(other)")
        // Within the host itself nothing is left.
        #expect(try decide(stage(#""policy": "follow""#, pinned: pinned), "/next").hasPrefix("follow"))
        let rewritten = try stage(
            #""policy": "follow", "rules": [{ "then": "rewrite", "host": "new.example.com" }]"#,
            pinned: pinned
        )
        #expect(try decide(rewritten, other) == "follow GET https://new.example.com/x")
    }

    @Test("report-only pins make no pinned host")
    func reportOnly() throws {
        let stage = try stage(
            #""policy": "follow""#,
            pinned: ["api.example.com": "", "other.example.com": #""enforcePinning": false,"#]
        )
        #expect(try decide(stage, other).contains("held to no pins"))
    }

    @Test("expired pins hold no host where the domain is unpinned then")
    func expired() throws {
        for (members, isHeld) in [
            (#""expiration": "2020-01-31", "onExpiration": "unpinned","#, false),
            (#""expiration": "2098-12-31", "onExpiration": "unpinned","#, true),
            (#""expiration": "2020-01-31","#, true),
            (#""expiration": "2020-01-31", "enforcePinning": false,"#, false),
            (#""ports": [444],"#, false), (#""ports": [443],"#, true),
        ] {
            let stage = try stage(
                #""policy": "follow""#,
                pinned: ["api.example.com": "", "other.example.com": members]
            )
            let decision = try decide(stage, other)
            #expect(decision.contains("held to no pins") == !isHeld, "\(members) \(decision)")
        }
    }

    @Test("a host with lapsed pins still leads to pinned hosts alone")
    func lapsedSource() throws {
        for members in [
            #""expiration": "2020-01-31", "onExpiration": "unpinned","#, #""enforcePinning": false,"#,
        ] {
            let stage = try stage(#""policy": "follow""#, pinned: ["api.example.com": members])
            #expect(try decide(stage, other).contains("held to no pins"), "\(members)")
        }
    }

    @Test("waiving TLS does not waive pins")
    func bothGuards() throws {
        let stage = try stage(
            #""policy": "follow", "rules": [{ "scheme": "http", "then": "follow" }]"#,
            pinned: ["api.example.com": ""]
        )
        #expect(try decide(stage, "http://plain.example.com/").contains("held to no pins"))
    }

    @Test("a rewrite changes scheme, host, port and path alone")
    func rewrites() throws {
        func rewritten(_ rule: String, _ location: String) throws -> String {
            try decide(stage(#""policy": "deny", "rules": [{ "then": "rewrite", \#(rule) }]"#), location)
        }
        #expect(
            try rewritten(#""host": "New.Example.com.""#, "https://o.test:8443/a?b#c")
                == "follow GET https://new.example.com:8443/a?b#c"
        )
        #expect(try rewritten(#""port": 444"#, "https://o.test/a") == "follow GET https://o.test:444/a")
        #expect(try rewritten(#""scheme": "https", "port": 80"#, "http://o.test/a") == "follow GET https://o.test:80/a")
        #expect(try rewritten(#""pathPrefix": "/new""#, "https://o.test/a?b") == "follow GET https://o.test/new/a?b")
        #expect(try rewritten(#""pathPrefix": "/new/""#, "https://o.test") == "follow GET https://o.test/new/")
        #expect(
            try rewritten(#""path": "/old/*", "pathPrefix": "/new/""#, "https://o.test/old/a?/old/")
                == "follow GET https://o.test/new/a?/old/"
        )
        #expect(
            try rewritten(#""path": "/old/*", "pathPrefix": "/""#, "https://o.test/%6fld/%2Fa")
                == "follow GET https://o.test/%2Fa"
        )
    }

    @Test(
        "an ambiguous Location is refused where it matters, else relayed",
        arguments: [
            "https://user@other.example.com/", "https://other.example.com\\@evil.test/", "https:other.example.com",
            "https://a b/", "http://2130706433/", "https://", "https://[::1/", "ht!tp://x/",
            "https://other.example.com:0/",
        ]
    )
    func illegible(location: String) throws {
        #expect(try decide(stage(#""policy": "follow""#), location).contains("cannot be judged"))
        #expect(try decide(stage(#""policy": "deny""#), location).contains("cannot be judged"))
        let denies = try stage(#""policy": "return", "rules": [{ "to": "evil.test", "then": "deny" }]"#)
        #expect(try decide(denies, location).contains("cannot be judged"))
        let returns = try stage(#""policy": "return", "rules": [{ "to": "a.test", "then": "follow" }]"#)
        #expect(try decide(returns, location) == "deliver")
    }

    @Test("two Location fields are no redirect")
    func twice() throws {
        let stage = try stage(#""policy": "follow""#)
        let url = try #require(AbsoluteURL("https://api.example.com/"))
        var hook = RedirectHook(try stage.hooks(), url: url, method: .get)
        let head = try HookFixture.head(302, ["Location: /a", "Location: /a"])
        guard case .refuse = hook.decide(head, url: url, method: .get, body: .none, router: stage.router) else {
            Issue.record("not refused")
            return
        }
    }

    @Test("another scheme is relayed, unless redirects are denied")
    func otherSchemes() throws {
        for location in ["mailto:a@b.c", "myapp://callback?code=1", "ftp://f.test/"] {
            #expect(try decide(stage(#""policy": "follow""#), location) == "deliver")
            #expect(try decide(stage(#""policy": "deny""#), location).contains("no http or https URL"))
        }
    }

    @Test("relative URLs are resolved against the responding URL")
    func relative() throws {
        let stage = try stage(#""policy": "follow""#)
        let from = "https://api.example.com/a/b?c"
        for (location, target) in [
            ("d", "https://api.example.com/a/d"), ("../d", "https://api.example.com/d"),
            ("?e", "https://api.example.com/a/b?e"), ("//OTHER.example.com./x", other),
            ("/", "https://api.example.com/"),
        ] {
            #expect(try decide(stage, location, from: from) == "follow GET \(target)")
        }
    }

    @Test("a loop is found by URL and method, whatever the fragment")
    func loops() throws {
        let stage = try stage(#""policy": "follow""#)
        #expect(try decide(stage, "/start").contains("circles"))
        #expect(try decide(stage, "#there").contains("circles"))
        // From POST to GET it is another request.
        #expect(try decide(stage, "/start", status: 303, method: .post, body: .kept).hasPrefix("follow GET"))
        var hook = RedirectHook(
            try stage.hooks(),
            url: try #require(AbsoluteURL("https://api.example.com/a")),
            method: .get
        )
        for (from, to, isLoop) in [("/a", "/b", false), ("/b", "/c", false), ("/c", "/b", true)] {
            let url = try #require(AbsoluteURL("https://api.example.com\(from)"))
            #expect(try Self.decide(&hook, stage, to, from: url).contains("circles") == isLoop)
        }
    }

    @Test("redirects are followed up to max; relayed ones do not count")
    func limit() throws {
        let stage = try stage(#""policy": "follow", "max": 2, "rules": [{ "path": "/out", "then": "return" }]"#)
        let url = try #require(AbsoluteURL("https://api.example.com/0"))
        var hook = RedirectHook(try stage.hooks(), url: url, method: .get)
        #expect(try Self.decide(&hook, stage, "/1", from: url).hasPrefix("follow"))
        #expect(try Self.decide(&hook, stage, "/2", from: url).hasPrefix("follow"))
        #expect(hook.count == 2)
        #expect(try Self.decide(&hook, stage, "/out", from: url) == "deliver")
        #expect(try Self.decide(&hook, stage, "/3", from: url).contains("one more redirect after 2"))
    }

    @Test("each host on the way may deny what another would follow")
    func rulesOnTheWay() throws {
        let stage = try HookFixture(
            hosts: #"""
                "api.example.com": { "redirects": { "policy": "follow", "rules": [{ "path": "/r*", "then": "return" }] } },
                "strict.example.com": { "redirects": { "policy": "deny", "rules": [{ "to": "ok.test", "then": "follow" }] } },
                "lax.example.com": { "redirects": { "policy": "follow" } }
                """#
        )
        let strict = "https://strict.example.com/"
        #expect(try decide(stage, other, from: strict).contains("hosts/strict.example.com/redirects/policy"))
        #expect(try decide(stage, "https://ok.test/x", from: strict).hasPrefix("follow"))
        #expect(try decide(stage, "https://ok.test/r", from: strict) == "deliver")
        #expect(try decide(stage, "/r", from: "https://lax.example.com/") == "deliver")
        #expect(try decide(stage, "/x", from: "https://lax.example.com/").hasPrefix("follow"))
    }

    @Test("no refusal shows a path or a query, since it is logged")
    func secrets() throws {
        for policy in ["follow", "deny"] {
            let stage = try stage(#""policy": "\#(policy)""#, pinned: ["api.example.com": ""])
            for location in ["https://other.example.com/p?token=secret", "http://x.test/?secret", "/start"] {
                #expect(try !decide(stage, location).contains("secret"))
            }
        }
    }
}
