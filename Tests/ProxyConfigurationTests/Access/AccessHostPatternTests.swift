// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyConfiguration

@Suite("host patterns and access rules")
struct AccessHostPatternTests {
    private func patterns(_ texts: [String]) throws -> [HostPattern] {
        try texts.map { text in
            if text == "*" { return .any }
            if text.hasPrefix("*.") { return .below(try Host(String(text.dropFirst(2)))) }
            return .exactly(try Host(text))
        }
    }

    @Test(
        "a set contains what its patterns say, and nothing else",
        arguments: [
            (
                ["example.com"], ["example.com", "EXAMPLE.com."],
                ["a.example.com", "evilexample.com", "com", "example.org"]
            ),
            (
                ["*.example.com"], ["a.example.com", "a.b.c.example.com", "A.Example.Com."],
                ["example.com", "evilexample.com", "com", "example.com.evil.org"]
            ),
            (["*"], ["example.com", "192.0.2.1", "::1", "localhost"], []),
            ([], [], ["example.com", "192.0.2.1"]),
            (["192.0.2.1", "::1"], ["192.0.2.1", "::1"], ["192.0.2.2", "::2", "example.com"]),
            (["*.com", "*.example.com"], ["example.com", "a.example.com", "other.com"], ["com", "example.org"]),
            (["example.com", "*.com"], ["example.com", "a.example.com"], ["com"]),
            (["localhost"], ["localhost"], ["a.localhost"]),
        ] as [([String], [String], [String])]
    )
    func membership(texts: [String], inside: [String], outside: [String]) throws {
        let set = HostPatternSet(try patterns(texts))
        for text in inside { #expect(set.contains(try Host(text)), "\(text)") }
        for text in outside { #expect(!set.contains(try Host(text)), "\(text)") }
    }

    @Test("an IP literal lies below no name pattern")
    func literalsHaveNoParents() throws {
        // No file can say this (its last label is a number); a set made in memory must not match by digits either.
        let set = HostPatternSet([.below(try Host("1.example"))])
        #expect(!set.contains(try Host("192.0.2.1")))
    }

    @Test("a match names the pattern, the first of equal ones")
    func matchIndex() throws {
        let set = HostPatternSet(try patterns(["b.test", "*.a.test", "b.test"]))
        #expect(set.match(try Host("b.test")) == 0)
        #expect(set.match(try Host("x.a.test")) == 1)
        #expect(set.match(try Host("a.test")) == nil)
    }

    @Test("deny wins over allow, however specific the allow is")
    func denyWins() throws {
        var configuration = AccessConfiguration()
        configuration.denyHosts = try patterns(["*.example.com"])
        configuration.allowHosts = try patterns(["a.example.com", "example.com"])
        let rules = AccessRules(configuration)
        let denied = rules.evaluate(try Host("a.example.com"))
        #expect(denied == .denied(rule: 0))
        #expect(rules.describe(denied) == "access.denyHosts has \"*.example.com\"")
        #expect(rules.evaluate(try Host("example.com")) == .allowed)
        #expect(rules.evaluate(try Host("example.org")) == .notAllowed)
    }

    @Test("without configuration every name is allowed and the five groups are denied")
    func defaults() throws {
        let rules = AccessRules(AccessConfiguration())
        #expect(rules.evaluate(try Host("example.com")) == .allowed)
        for text in ["127.0.0.1", "169.254.1.1", "100.100.100.200", "224.0.0.1", "0.0.0.0"] {
            #expect(rules.evaluate(try #require(IPAddress(text)), port: 443) != .allowed, "\(text)")
        }
        for text in ["10.0.0.1", "100.64.0.1", "192.0.2.1"] {
            #expect(rules.evaluate(try #require(IPAddress(text)), port: 443) == .allowed, "\(text)")
        }
    }
}
