// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("What changed rules open")
struct RequestsOpeningTests {
    private func requests(_ policy: String, _ rules: [String]) -> RequestsConfiguration {
        let list = rules.isEmpty ? "" : #", "rules": [\#(rules.joined(separator: ","))]"#
        let text = #"{"version": 1, "requests": {"policy": "\#(policy)"\#(list)}}"#
        return readConfiguration(text).configuration.requests ?? RequestsConfiguration()
    }

    private static let deny = #"{"id": "no", "host": "a.example", "then": "deny"}"#
    private static let get = #"{"id": "get", "host": "b.example", "method": "GET", "then": "allow"}"#

    @Test("a policy, or an unconditional rule, may send more")
    func otherRequests() {
        let before = requests("deny", [Self.get])
        #expect(requests("report", [Self.get]).opening(after: before) == .otherRequests(.report, rule: nil))
        #expect(requests("allow", []).opening(after: requests("report", [])) == .otherRequests(.allow, rule: nil))
        for rule in [
            #"{"id": "all", "then": "allow"}"#, #"{"id": "all", "host": "*", "then": "allow"}"#,
            #"{"id": "all", "host": ["a.example", "*"], "port": 443, "then": "allow"}"#,
        ] {
            #expect(requests("deny", [rule, Self.get]).opening(after: before) == .otherRequests(.allow, rule: "all"))
            #expect(requests("deny", [rule]).opening(after: requests("allow", [rule])) == nil)
        }
        let report = #"{"id": "all", "then": "report"}"#
        #expect(requests("deny", [Self.get, report]).opening(after: before) == .otherRequests(.report, rule: "all"))
    }

    @Test("a denying rule may go while other requests are sent")
    func denials() {
        let before = requests("allow", [Self.deny, Self.get])
        #expect(requests("allow", [Self.get]).opening(after: before) == .denial("no"))
        #expect(requests("allow", []).opening(after: before) == .denial("no"))
        // Behind a rule for every request it decides nothing.
        let all = #"{"id": "all", "then": "allow"}"#
        #expect(requests("allow", [all, Self.deny]).opening(after: before) == .denial("no"))
        let narrower = #"{"id": "no", "host": "a.example", "method": "PUT", "then": "deny"}"#
        #expect(requests("allow", [narrower]).opening(after: before) == .denial("no"))
    }

    @Test("other changes open nothing")
    func nothing() {
        let before = requests("allow", [Self.deny, Self.get])
        let renamed = #"{"id": "never", "host": "a.example", "then": "deny"}"#
        let wider = #"{"id": "wide", "host": ["*.a.example", "a.example"], "then": "deny"}"#
        let all = #"{"id": "none", "then": "deny"}"#
        for list in [[Self.deny], [Self.get, Self.deny], [renamed], [wider], [all], [Self.get, all]] {
            #expect(requests("allow", list).opening(after: before) == nil, "\(list)")
        }
        #expect(requests("deny", [Self.get]).opening(after: before) == nil)
        // With a policy that denies, rules that deny are exceptions of those that allow.
        #expect(requests("deny", [Self.get]).opening(after: requests("deny", [Self.deny, Self.get])) == nil)
    }
}
