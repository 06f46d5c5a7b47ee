import Testing

@testable import HTTPCore

@Suite("Patterns for paths")
struct PathPatternTests {
    @Test(
        "a pattern takes in",
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

    @Test("what could match no path is none", arguments: ["", "a", "a/*", "/a?b", "/a#b", "/a b", "/ä", "/a\"b", "?"])
    func invalid(text: String) {
        #expect(PathPattern(text) == nil)
    }

    @Test("the star at the end stands for the rest of the target")
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
