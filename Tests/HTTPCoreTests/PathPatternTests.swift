// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import HTTPCore

@Suite("Patterns for paths")
struct PathPatternTests {
    @Test(
        "a path pattern matches its paths",
        arguments: [
            ("/a", "/a", true), ("/a", "/a?b", true), ("/a", "/a#b", true), ("/a", "/A", false), ("/a", "/a/", false),
            ("/a/*", "/a/b/c", true), ("/a/*", "/a/", true), ("/a/*", "/a", false), ("*", "/", true),
            ("*.zip", "/a/b.zip", true), ("*.zip", "/a.zip/b", false), ("/a/*/c", "/a/b/b/c", true),
            ("/a/*/c", "/a/c", false), ("/a*a", "/a", false), ("/*x*y*", "/1x2y3", true), ("/*x*y*", "/1y2x3", false),
            ("/v1/*", "/%761/a", true), ("/%76*", "/v1", true), ("/a%2fb", "/a%2Fb", true), ("/a/b", "/a%2fb", false),
            ("/a*", "/a%zz", true), ("/a%2", "/a%2", true), ("/%7e*", "/~b", true),
            ("/a*c*e", "/aec", false), ("/aa*aa", "/aaa", false), ("/a**b", "/ab", true), ("*", "", true),
            ("/a", "/b?/a", false), ("*b", "/a?b", false), ("/a*", "/a?%zz", true),
        ]
    )
    func matches(pattern: String, target: String, isMatch: Bool) throws {
        let pattern = try #require(PathPattern(pattern))
        #expect(pattern.matches(Array(target.utf8).span) == isMatch)
    }

    @Test("patterns agree with a naive search, and count each byte once")
    func agreement() {
        func isMatch(_ pattern: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>) -> Bool {
            guard let first = pattern.first else { return name.isEmpty }
            guard first == UInt8(ascii: "*") else {
                return name.first == first && isMatch(pattern.dropFirst(), name.dropFirst())
            }
            let rest = pattern.dropFirst()
            return isMatch(rest, []) || name.indices.contains { isMatch(rest, name[$0...]) }
        }
        var random = SeededGenerator(seed: 39)
        func text(_ letters: String, _ count: Int) -> [UInt8] {
            let letters = Array(letters.utf8)
            return (0..<Int.random(in: 0...count, using: &random)).map { _ in letters.randomElement(using: &random)! }
        }
        for _ in 0..<20_000 {
            let written = text("aab*", 9)
            let name = text("aab", 14)
            let pattern = WildcardPattern(String(decoding: written, as: UTF8.self), written)
            var budget = 14
            #expect(pattern.matches(name.span, within: &budget) == isMatch(written[...], name[...]) && budget >= 0)
        }
    }

    @Test("a search beyond its budget ends below zero")
    func budget() {
        let pattern = WildcardPattern("/*aab*b", Array("/*aab*b".utf8))
        let name = Array(("/" + String(repeating: "a", count: 8_000) + "bb").utf8)
        for (allowed, left) in [(8_001, 0), (8_000, -1)] {
            var budget = allowed
            #expect(pattern.matches(name.span, within: &budget) == (left == 0) && budget == left)
        }
    }

    @Test(
        "a pattern that could match no path is refused",
        arguments: ["", "a", "a/*", "/a?b", "/a#b", "/a b", "/ä", "/a\"b", "?"]
    )
    func invalid(text: String) {
        #expect(PathPattern(text) == nil)
    }

    @Test("a final star stands for the rest of the target")
    func rest() throws {
        func rest(_ pattern: String, _ target: String) throws -> String? {
            try #require(PathPattern(pattern)).rest(of: Array(target.utf8)).map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(try rest("/old/*", "/old/a%2Fb?c") == "a%2Fb?c")
        #expect(try rest("/old/*", "/%6Fld/a") == "a")
        #expect(try rest("/o%2Fd/*", "/o%2fd/a") == "a")
        #expect(try rest("/old/*", "/new/a") == nil)
        #expect(try rest("/old", "/old") == nil)
        #expect(try rest("/*/a*", "/x/ab") == nil)
    }
}
