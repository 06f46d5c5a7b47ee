// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyConfiguration

@Suite("advice about a list of rules")
struct RuleAdviceTests {
    private func findings(_ rules: String) -> [RuleAdvice.Finding] {
        RuleAdvice(
            readConfiguration(#"{"version": 1, "requests": {"rules": [\#(rules)]}}"#).configuration.requests?.rules
                ?? []
        ).findings
    }

    @Test(
        "a rule that an earlier one covers is hidden",
        arguments: [
            #"{"id": "a", "host": "a.example", "then": "allow"}, {"id": "b", "host": "a.example", "method": "GET", "then": "report"}"#,
            #"{"id": "a", "then": "deny"}, {"id": "b", "host": "a.example", "port": 8443, "then": "allow"}"#,
            #"{"id": "a", "host": "*.a.example", "then": "allow"}, {"id": "b", "host": ["x.a.example", "*.y.a.example"], "path": "/x", "then": "allow"}"#,
            #"{"id": "a", "host": "a.example", "method": "read", "path": "/v1/*", "then": "allow"}, {"id": "b", "host": "a.example", "method": "GET", "path": "/v1/x", "then": "allow"}"#,
            #"{"id": "a", "host": "a.example", "path": "/v1/*", "user": "*", "then": "deny"}, {"id": "b", "host": "a.example", "path": "/v1/*", "user": "me", "then": "allow"}"#,
        ]
    )
    func hidden(_ rules: String) { #expect(findings(rules) == [.hidden(1, by: 0)]) }

    @Test(
        "a rule with requests of its own is not hidden",
        arguments: [
            #"{"id": "a", "host": "a.example", "then": "allow"}, {"id": "b", "host": "a.example", "then": "deny"}"#,
            #"{"id": "a", "host": "a.example", "then": "allow"}, {"id": "b", "host": "a.example", "port": 8443, "then": "allow"}"#,
            #"{"id": "a", "host": "*.a.example", "then": "allow"}, {"id": "b", "host": "a.example", "then": "allow"}"#,
            #"{"id": "a", "host": "a.example", "method": "GET", "then": "allow"}, {"id": "b", "host": "a.example", "then": "allow"}"#,
            #"{"id": "a", "host": "a.example", "user": "me", "then": "allow"}, {"id": "b", "host": "a.example", "then": "allow"}"#,
            #"{"id": "a", "host": "a.example", "path": "/v1*", "then": "allow"}, {"id": "b", "host": "a.example", "path": "/v1%2Fx", "then": "allow"}"#,
            #"{"id": "a", "host": "a.example", "path": "/*", "then": "allow"}, {"id": "b", "host": "a.example", "path": "/x", "then": "deny"}"#,
            #"{"id": "a", "host": "a.example", "method": "GET", "then": "allow"}, {"id": "b", "host": "a.example", "method": ["GET", "UPGRADE"], "then": "allow"}"#,
        ]
    )
    func notHidden(_ rules: String) { #expect(findings(rules).isEmpty) }

    @Test("a report above other rules of its hosts is reported")
    func reports() {
        let report = #"{"id": "r", "host": "*.example", "port": 443, "then": "report"}"#
        let allow = #"{"id": "a", "host": "a.example", "method": "POST", "then": "allow"}"#
        #expect(findings("\(report), \(allow)") == [.reportAbove(0, 1)])
        #expect(findings("\(allow), \(report)").isEmpty)
    }

    @Test("equal lists of hosts are compared host by host", .timeLimit(.minutes(5)))
    func longLists() throws {
        let hosts = try (0..<3000).map { HostPattern.exactly(try Host("h\($0).example")) }
        let rules = (0..<20).map { number in
            var rule = RequestRule(id: "r\(number)", .allow)
            rule.hosts = hosts
            return rule
        }
        let expected = (1..<20).map { RuleAdvice.Finding.hidden($0, by: 0) }
        #expect(RuleAdvice(rules).findings == expected)
        #expect(RuleAdvice(rules, effort: 19 * 3001 + 1).findings == expected)
        #expect(RuleAdvice(rules, effort: 4000).findings == [.hidden(1, by: 0)])
    }
}
