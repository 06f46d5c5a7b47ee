// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("which rule decides about a request")
struct RequestRulesTests {
    // MARK: By hand

    /// The rules of a text in the form of the configuration.
    private func rules(_ text: String, policy: String = "deny") throws -> RequestRules {
        let read = readConfiguration(#"{"version": 1, "requests": {"policy": "\#(policy)", "rules": [\#(text)]}}"#)
        try #require(read.issues.isEmpty, "\(read.issues)")
        return RequestRules(try #require(read.configuration.requests))
    }

    private func judge(
        _ rules: RequestRules,
        _ method: String,
        _ url: String,
        user: String? = nil,
        isUpgrade: Bool = false,
        fields: [(String, String)] = []
    ) throws -> String {
        let parsed = try #require(AbsoluteURL(url))
        let origin = parsed.origin
        var section = HeaderFields()
        for (name, value) in fields { section.append(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        let verdict = rules.rules(for: origin.host, port: origin.port, defaultPort: origin.scheme.defaultPort).judge(
            try #require(HTTPMethod(method)),
            isUpgrade: isUpgrade,
            target: parsed.target.span,
            fields: section,
            user: user.map { Array($0.utf8) }
        )
        return text(verdict)
    }

    private func text(_ verdict: RequestVerdict) -> String {
        let decision =
            switch verdict.decision {
            case .allowed: "allow"
            case .denied: "deny"
            case .reported: "report"
            }
        return decision + " " + (verdict.rule?.rule.id ?? "-") + (verdict.ambiguity.map { " \($0.rawValue)" } ?? "")
    }

    @Test("a path that is too long for its host's patterns is denied")
    func longPaths() throws {
        let text = (0..<200).map {
            #"{"id": "r\#($0)", "host": "a.example", "path": "/*aab*x\#($0)*", "then": "deny"}"#
        }
        let rules = try rules(text.joined(separator: ","), policy: "allow")
        func path(_ count: Int) -> String { String(repeating: "a", count: count) }
        #expect(try judge(rules, "GET", "https://a.example/\(path(8_000))") == "deny - longPath")
        #expect(try judge(rules, "GET", "https://a.example/\(path(2_000))") == "allow -")
        #expect(try judge(rules, "GET", "https://b.example/\(path(8_000))") == "allow -")
    }

    @Test("the first rule that matches decides, and otherwise the policy")
    func order() throws {
        let text =
            #"{"id": "no", "host": "a.example", "method": "DELETE", "then": "deny"}, {"id": "yes", "host": "a.example", "then": "allow"}"#
        let rules = try rules(text)
        #expect(try judge(rules, "DELETE", "https://a.example/x") == "deny no")
        #expect(try judge(rules, "GET", "https://a.example/x") == "allow yes")
        #expect(try judge(rules, "GET", "https://b.example/x") == "deny -")
        #expect(try judge(self.rules(text, policy: "report"), "GET", "https://b.example/x") == "report -")
        #expect(try judge(self.rules(text, policy: "allow"), "GET", "https://b.example/x") == "allow -")
    }

    @Test("a host is exact, a domain, or any, in the file's order")
    func hosts() throws {
        let rules = try rules(
            #"{"id": "below", "host": "*.a.example", "method": "GET", "then": "allow"}, {"id": "exact", "host": ["b.a.example", "10.0.0.1"], "then": "allow"}, {"id": "any", "host": "*", "method": "PUT", "then": "report"}"#
        )
        #expect(try judge(rules, "GET", "https://c.b.a.example/") == "allow below")
        #expect(try judge(rules, "GET", "https://b.a.example/") == "allow below")
        #expect(try judge(rules, "POST", "https://b.a.example/") == "allow exact")
        #expect(try judge(rules, "GET", "https://a.example/") == "deny -")
        #expect(try judge(rules, "GET", "https://10.0.0.1/") == "allow exact")
        #expect(try judge(rules, "PUT", "https://a.example/") == "report any")
    }

    @Test("without a port an allow means the scheme's, a deny every port")
    func ports() throws {
        let rules = try rules(
            #"{"id": "no", "host": "b.example", "then": "deny"}, {"id": "yes", "host": ["a.example", "b.example"], "then": "allow"}, {"id": "port", "host": "a.example", "port": [8443, 25], "then": "allow"}"#
        )
        #expect(try judge(rules, "GET", "https://a.example/") == "allow yes")
        #expect(try judge(rules, "GET", "http://a.example/") == "allow yes")
        #expect(try judge(rules, "GET", "http://a.example:443/") == "deny -")
        #expect(try judge(rules, "GET", "http://a.example:25/") == "allow port")
        #expect(try judge(rules, "GET", "https://a.example:8444/") == "deny -")
        #expect(try judge(rules, "GET", "https://b.example:8444/") == "deny no")
    }

    @Test("methods are matched exactly; a deny ignores case")
    func methods() throws {
        let rules = try rules(
            #"{"id": "no", "host": "a.example", "method": "DELETE", "then": "deny"}, {"id": "read", "host": "a.example", "method": "read", "then": "allow"}, {"id": "ws", "host": "a.example", "method": "UPGRADE", "path": "/ws", "then": "allow"}, {"id": "dav", "host": "a.example", "method": "PROPFIND", "then": "allow"}"#
        )
        #expect(try judge(rules, "delete", "https://a.example/") == "deny no")
        for method in ["GET", "HEAD", "OPTIONS"] {
            #expect(try judge(rules, method, "https://a.example/") == "allow read")
        }
        #expect(try judge(rules, "get", "https://a.example/") == "deny -")
        #expect(try judge(rules, "PROPFIND", "https://a.example/") == "allow dav")
        #expect(try judge(rules, "GET", "https://a.example/ws", isUpgrade: true) == "allow ws")
        #expect(try judge(rules, "GET", "https://a.example/other", isUpgrade: true) == "deny -")
        // To an origin that does not switch it is the request itself.
        #expect(try judge(rules, "DELETE", "https://a.example/ws", isUpgrade: true) == "deny no")
    }

    @Test("an Upgrade is allowed as GET, or as a named method")
    func upgradesOfOtherMethods() throws {
        let rules = try rules(
            #"{"id": "ws", "host": "a.example", "method": ["GET", "UPGRADE"], "path": "/app/*", "then": "allow"}, {"id": "post", "host": "b.example", "method": ["POST", "UPGRADE"], "then": "allow"}, {"id": "no", "host": "c.example", "method": "UPGRADE", "then": "deny"}, {"id": "c", "host": "c.example", "then": "allow"}"#
        )
        for method in ["DELETE", "POST", "PUT", "HEAD", "PURGEX"] {
            #expect(try judge(rules, method, "https://a.example/app/1", isUpgrade: true) == "deny -")
            #expect(try judge(rules, method, "https://c.example/", isUpgrade: true) == "deny no")
        }
        #expect(try judge(rules, "GET", "https://a.example/app/1", isUpgrade: true) == "allow ws")
        #expect(try judge(rules, "POST", "https://b.example/", isUpgrade: true) == "allow post")
        #expect(try judge(rules, "GET", "https://b.example/", isUpgrade: true) == "allow post")
        #expect(try judge(rules, "PUT", "https://b.example/", isUpgrade: true) == "deny -")
    }

    @Test("a request with a replaceable host matches denying rules alone")
    func replacedHosts() throws {
        let rules = try rules(
            #"{"id": "host", "host": "a.example", "then": "allow"}, {"id": "any", "user": "early", "then": "allow"}, {"id": "no", "host": "b.example", "then": "deny"}, {"id": "get", "method": "GET", "user": "some", "then": "allow"}, {"id": "late", "user": "late", "then": "allow"}"#
        )
        for (name, value) in [("X-Forwarded-Host", "b.example"), ("Forwarded", "host=b.example")] {
            func verdict(_ url: String, _ user: String, _ rules: RequestRules) throws -> String {
                try judge(rules, "GET", url, user: user, fields: [(name, value)])
            }
            #expect(try verdict("https://a.example/", "x", rules) == "deny no hostOverride")
            #expect(try verdict("https://a.example/", "early", rules) == "allow any")
            #expect(try verdict("https://c.example/", "late", rules) == "deny no hostOverride")
            let open = try self.rules(
                #"{"id": "late", "user": "late", "then": "allow"}, {"id": "get", "method": "GET", "then": "allow"}"#
            )
            #expect(try verdict("https://c.example/", "late", open) == "allow late")
            #expect(try verdict("https://c.example/", "x", open) == "deny - hostOverride")
            let named = try self.rules(#"{"id": "a", "host": "*.example", "then": "report"}"#)
            #expect(try verdict("https://a.example/", "x", named) == "deny - hostOverride")
            let denied = #"{"id": "no", "host": "b.example", "method": "DELETE", "then": "deny"}"#
            #expect(
                try verdict("https://a.example/", "x", self.rules(denied, policy: "allow")) == "deny no hostOverride"
            )
        }
        #expect(try judge(rules, "GET", "https://a.example/", fields: [("X-Forwarded-For", "::1")]) == "allow host")
    }

    @Test("a request with a second path matches no rule with paths")
    func secondPaths() throws {
        let rules = try rules(
            #"{"id": "dav", "host": "a.example", "method": ["COPY", "MOVE"], "path": "/pub/*", "then": "allow"}, {"id": "b", "host": "b.example", "method": "COPY", "then": "allow"}"#
        )
        let destination = [("Destination", "https://a.example/private/key")]
        #expect(try judge(rules, "COPY", "https://a.example/pub/a", fields: destination) == "deny - destination")
        #expect(try judge(rules, "COPY", "https://a.example/pub/a") == "allow dav")
        #expect(try judge(rules, "COPY", "https://b.example/pub/a", fields: destination) == "allow b")
    }

    @Test("a reporting policy notes ambiguous requests, also without rules")
    func reportedAmbiguities() throws {
        var requests = RequestsConfiguration()
        requests.policy = .report
        let lists = [
            RequestRules(requests),
            try rules(#"{"id": "b", "host": "b.example", "then": "allow"}"#, policy: "report"),
            try rules(#"{"id": "a", "host": "a.example", "method": "PUT", "then": "deny"}"#, policy: "report"),
        ]
        for rules in lists.prefix(2) {
            let override = [("X-HTTP-Method-Override", "DELETE")]
            #expect(try judge(rules, "POST", "https://a.example/", fields: override) == "report - methodOverride")
        }
        for rules in lists {
            let url = [("X-Original-URL", "/x")]
            #expect(try judge(rules, "GET", "https://a.example/", fields: url) == "report - urlOverride")
            #expect(try judge(rules, "GET", "https://a.example/a/../b") == "report - dotSegment")
            #expect(try judge(rules, "GET", "https://a.example/a") == "report -")
            let found = rules.rules(for: try Host("a.example"), port: 443, defaultPort: 443)
            #expect(text(found.judgeTunnel(user: nil)) == (rules === lists[2] ? "deny a tunnel" : "report -"))
        }
    }

    @Test("comparisons with patterns are bounded for each request")
    func manyPatterns() throws {
        var requests = RequestsConfiguration()
        requests.rules = (0..<800).map { number in
            var rule = RequestRule(id: "r\(number)", number % 2 == 0 ? .allow : .deny)
            rule.hosts = [.any]
            rule.paths = (0..<50).compactMap { RulePath("/a\(number)-\($0)/*") }
            return rule
        }
        let rules = RequestRules(requests)
        #expect(try judge(rules, "GET", "https://a.example/a100-3/x") == "allow r100")
        #expect(try judge(rules, "GET", "https://a.example/b") == "deny - longPath")
    }

    @Test("a rule without methods covers an Upgrade")
    func upgradeOfAnyMethod() throws {
        #expect(
            try judge(
                rules(#"{"id": "a", "host": "a.example", "then": "allow"}"#),
                "GET",
                "https://a.example/",
                isUpgrade: true
            ) == "allow a"
        )
    }

    @Test("users match by the log's name; an unknown one matches every deny")
    func users() throws {
        let rules = try rules(
            #"{"id": "agents", "host": "a.example", "user": ["agent-*", "uid 1000"], "then": "allow"}, {"id": "no", "host": "b.example", "user": "guest", "then": "deny"}, {"id": "b", "host": "b.example", "then": "allow"}"#
        )
        #expect(try judge(rules, "GET", "https://a.example/", user: "agent-7") == "allow agents")
        #expect(try judge(rules, "GET", "https://a.example/", user: "uid 1000") == "allow agents")
        #expect(try judge(rules, "GET", "https://a.example/", user: "Agent-7") == "deny -")
        #expect(try judge(rules, "GET", "https://a.example/") == "deny -")
        #expect(try judge(rules, "GET", "https://b.example/", user: "guest") == "deny no")
        #expect(try judge(rules, "GET", "https://b.example/") == "deny no")
        #expect(try judge(rules, "GET", "https://b.example/", user: "host") == "allow b")
    }

    @Test("an ambiguous path matches every deny with a path, and no allow")
    func ambiguousPaths() throws {
        let rules = try rules(
            #"{"id": "no", "host": "b.example", "path": "/admin/*", "then": "deny"}, {"id": "all", "host": "b.example", "then": "allow"}, {"id": "v1", "host": "a.example", "path": "/v1/*", "then": "allow"}, {"id": "try", "host": "c.example", "path": "/*", "then": "report"}"#
        )
        #expect(try judge(rules, "GET", "https://b.example/public") == "allow all")
        for (path, cause) in [("//admin/x", "emptySegment"), ("/a/../admin/x", "dotSegment"), ("/a;b/x", "semicolon")] {
            #expect(try judge(rules, "GET", "https://b.example\(path)") == "deny no \(cause)")
            #expect(try judge(rules, "GET", "https://a.example/v1\(path)") == "deny - \(cause)")
            #expect(try judge(rules, "GET", "https://c.example\(path)") == "deny - \(cause)")
        }
        #expect(
            try judge(rules, "GET", "https://a.example/v1/x", fields: [("X-Original-URL", "/v2")])
                == "deny - urlOverride"
        )
        #expect(
            try judge(rules, "GET", "https://b.example/x", fields: [("X-Original-URL", "/v2")]) == "deny no urlOverride"
        )
    }

    @Test("a replaceable method matches every deny with methods, and no allow")
    func ambiguousMethods() throws {
        let rules = try rules(
            #"{"id": "no", "host": "b.example", "method": "DELETE", "then": "deny"}, {"id": "b", "host": "b.example", "then": "allow"}, {"id": "post", "host": "a.example", "method": "POST", "then": "allow"}, {"id": "path", "host": "c.example", "path": "/v1", "then": "allow"}"#
        )
        let override = [("X-HTTP-Method-Override", "DELETE")]
        #expect(try judge(rules, "POST", "https://a.example/", fields: override) == "deny - methodOverride")
        #expect(try judge(rules, "POST", "https://b.example/", fields: override) == "deny no methodOverride")
        #expect(try judge(rules, "POST", "https://b.example/?_method=DELETE") == "deny no methodOverride")
        // The path stays readable, and the rule says nothing of methods.
        #expect(try judge(rules, "POST", "https://c.example/v1", fields: override) == "allow path")
    }

    @Test("an encoded slash matches where a pattern spells it, and no star")
    func encodedSlashes() throws {
        let rules = try rules(
            #"{"id": "no", "host": "b.example", "path": ["/admin", "/x%2Fadmin"], "then": "deny"}, {"id": "b", "host": "b.example", "then": "allow"}, {"id": "npm", "host": "a.example", "path": ["/*", "/@*%2F*"], "then": "allow"}"#
        )
        #expect(try judge(rules, "GET", "https://a.example/react") == "allow npm")
        #expect(try judge(rules, "GET", "https://a.example/@babel%2fcore") == "allow npm")
        #expect(try judge(rules, "GET", "https://a.example/@babel%2Fcore%2Fx") == "deny - encodedSlash")
        #expect(try judge(rules, "GET", "https://a.example/a%2Fb") == "deny - encodedSlash")
        #expect(try judge(rules, "GET", "https://b.example/y%2Fz") == "deny no encodedSlash")
        #expect(try judge(rules, "GET", "https://b.example/x%2fadmin") == "deny no")
    }

    @Test("encoded unreserved letters are compared decoded; a deny compares in any case")
    func normalForm() throws {
        let rules = try rules(
            #"{"id": "no", "host": "a.example", "path": "/Admin/*", "then": "deny"}, {"id": "home", "host": "a.example", "path": "/~user/*", "then": "allow"}"#
        )
        #expect(try judge(rules, "GET", "https://a.example/%7Euser/x") == "allow home")
        #expect(try judge(rules, "GET", "https://a.example/~USER/x") == "deny -")
        for path in ["/Admin/x", "/aDMIN/x", "/%61dmin/x", "/ADM%49N/"] {
            #expect(try judge(rules, "GET", "https://a.example\(path)") == "deny no")
        }
    }

    @Test("in a tunnel neither path nor method is seen")
    func tunnels() throws {
        let rules = try rules(
            #"{"id": "path", "host": "a.example", "path": "/*", "then": "allow"}, {"id": "method", "host": "a.example", "method": "GET", "then": "allow"}, {"id": "del", "host": "b.example", "method": "DELETE", "then": "deny"}, {"id": "host", "host": ["b.example", "c.example"], "then": "allow"}"#
        )
        func tunnel(_ host: String) throws -> String {
            text(rules.rules(for: try Host(host), port: 443, defaultPort: 443).judgeTunnel(user: nil))
        }
        #expect(try tunnel("a.example") == "deny - tunnel")
        #expect(try tunnel("b.example") == "deny del tunnel")
        #expect(try tunnel("c.example") == "allow host")
    }

    @Test("a CONNECT that is intercepted passes where a request in it could")
    func interceptions() throws {
        let rules = try rules(
            #"{"id": "del", "host": ["a.example", "b.example"], "method": "DELETE", "then": "deny"}, {"id": "a", "host": "a.example", "method": "GET", "path": "/x", "then": "report"}, {"id": "never", "host": "c.example", "then": "deny"}, {"id": "c", "host": "c.example", "then": "allow"}, {"id": "user", "host": "d.example", "user": "me", "then": "allow"}"#
        )
        func connect(_ host: String, _ rules: RequestRules, user: String? = nil) throws -> String {
            text(
                rules.rules(for: try Host(host), port: 443, defaultPort: 443).judgeInterception(
                    user: user.map { Array($0.utf8) }
                )
            )
        }
        #expect(try connect("a.example", rules) == "allow a")
        #expect(try connect("b.example", rules) == "deny -")
        #expect(try connect("c.example", rules) == "deny never")
        #expect(try connect("d.example", rules, user: "me") == "allow user")
        #expect(try connect("d.example", rules, user: "you") == "deny -")
        let open = try self.rules(#"{"id": "x", "host": "x.example", "then": "deny"}"#, policy: "report")
        #expect(try connect("b.example", open) == "allow -")
    }

    @Test("counts are by rule and decision, and survive a reload")
    func tallies() throws {
        let first = try rules(
            #"{"id": "a", "host": "a.example", "then": "allow"}, {"id": "b", "host": "b.example", "then": "allow"}"#
        )
        func count(_ rules: RequestRules, _ host: String) throws {
            let found = rules.rules(for: try Host(host), port: 443, defaultPort: 443)
            found.count(found.judgeTunnel(user: nil))
        }
        for host in ["a.example", "a.example", "b.example", "c.example"] { try count(first, host) }
        #expect(first.tallies.map { "\($0.key) \($0.count)" } == ["a allow 2", "b allow 1", " deny 1"])
        var next = first.configuration
        next.rules[1].action = .deny
        next.rules.append(RequestRule(id: "c", .allow))
        let second = RequestRules(next, following: first)
        #expect(second.tallies.map { "\($0.key) \($0.count)" } == ["a allow 2", "b deny 0", "c allow 0", " deny 1"])
        try count(first, "a.example")
        #expect(second.tallies[0].count == 3)
    }

    // MARK: Against a model

    /// What a rule means, written down as plainly as can be.
    private struct Model {
        var rules: [RequestRule]
        var policy: RequestsConfiguration.Policy

        func judge(_ host: Host, _ port: UInt16, _ method: HTTPMethod, _ target: String, _ user: String?) -> String {
            for rule in rules {
                let isDeny = rule.action == .deny
                guard rule.hosts.isEmpty || rule.hosts.contains(where: { holds($0, host) }) else { continue }
                if rule.ports.isEmpty ? !isDeny && port != 443 : !rule.ports.contains(port) { continue }
                if !rule.users.isEmpty, user.map({ name in !rule.users.contains { star($0.text, name) } }) ?? !isDeny {
                    continue
                }
                if let methods = rule.methods, !methods.methods.contains(method) { continue }
                let path = target.split(separator: "?", omittingEmptySubsequences: false)[0]
                let isAmbiguous =
                    path.contains("//") || path.contains("/../") || path.hasSuffix("/..") || path.contains(";")
                if !rule.paths.isEmpty {
                    if isDeny {
                        let fits = rule.paths.contains { star($0.text.lowercased(), path.lowercased()) }
                        if !isAmbiguous, !fits { continue }
                    } else if isAmbiguous || !rule.paths.contains(where: { star($0.text, String(path)) }) {
                        continue
                    }
                }
                return "\(rule.action.rawValue) \(rule.id)"
            }
            return "\(policy.rawValue) -"
        }

        private func holds(_ pattern: HostPattern, _ host: Host) -> Bool {
            switch pattern {
            case .any: true
            case .exactly(let other): host == other
            case .below(let other): host.description.hasSuffix(".\(other)")
            }
        }

        /// Whether a text has the form of a pattern, by trying each length of each star.
        private func star(_ pattern: String, _ text: String) -> Bool {
            star(Array(pattern.utf8)[...], Array(text.utf8)[...])
        }

        private func star(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>) -> Bool {
            guard let first = pattern.first else { return text.isEmpty }
            if first == UInt8(ascii: "*") {
                return (0...text.count).contains { star(pattern.dropFirst(), text.dropFirst($0)) }
            }
            return text.first == first && star(pattern.dropFirst(), text.dropFirst())
        }
    }

    @Test("the compiled rules decide as a plain model does", arguments: 0..<UInt64(Extent.of(10, whole: 40)))
    func model(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        func pick<T>(_ list: [T]) -> T { list[Int(random.next() % UInt64(list.count))] }
        func some<T>(_ list: [T]) -> [T] {
            (0..<Int(random.next() % 3)).map { _ in pick(list) }
        }
        let hosts = ["a.example", "b.a.example", "c.b.a.example", "example", "10.0.0.1"]
        let patterns: [HostPattern] =
            try hosts.map { .exactly(try Host($0)) } + [
                .any, .below(try Host("a.example")), .below(try Host("example")),
            ]
        let paths = ["/*", "/a", "/a/*", "*b", "/*/b*", "/A/*", "/a*c*"]
        let targets = ["/a", "/a/b", "/A/b", "/x/b", "/a/../b", "//a", "/a;b", "/abc?x=/..", "/a/bcd", "/"]
        let methods: [HTTPMethod] = [.get, .post, .delete]
        let users = ["agent-1", "agent-2", "guest"]
        for _ in 0..<50 {
            var requests = RequestsConfiguration()
            requests.policy = pick(RequestsConfiguration.Policy.allCases)
            for number in 0..<(1 + Int(random.next() % 20)) {
                var rule = RequestRule(id: "r\(number)", pick(RequestRule.Action.allCases))
                rule.hosts = some(patterns)
                rule.ports = some([443, 8443])
                rule.paths = some(paths).compactMap { RulePath($0) }
                rule.users = some(["agent-*", "guest", "*"]).compactMap { UserPattern($0) }
                let chosen = some(methods)
                if !chosen.isEmpty {
                    var set = RuleMethods()
                    set.methods = Set(chosen)
                    rule.methods = set
                }
                requests.rules.append(rule)
            }
            let compiled = RequestRules(requests)
            // One for each origin, as routes have them: it remembers verdicts where the list is long.
            var routes: [String: HostRules] = [:]
            let model = Model(rules: requests.rules, policy: requests.policy)
            for _ in 0..<60 {
                let (host, port, method) = (try Host(pick(hosts)), pick([UInt16(443), 8443]), pick(methods))
                let (target, user) = (pick(targets), pick(users.map(Optional.some) + [nil]))
                let rules = routes["\(host) \(port)"] ?? compiled.rules(for: host, port: port, defaultPort: 443)
                routes["\(host) \(port)"] = rules
                let verdict = rules.judge(
                    method,
                    target: Array(target.utf8).span,
                    fields: HeaderFields(),
                    user: user.map { Array($0.utf8) }
                )
                let expected = model.judge(host, port, method, target, user)
                let found = text(verdict).split(separator: " ").prefix(2).joined(separator: " ")
                #expect(found == expected, "\(method) \(host):\(port)\(target) \(user ?? "-") under \(requests.rules)")
            }
        }
    }
}
