// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPCore

@Suite("Patterns for media types")
struct MediaTypePatternTests {
    @Test(
        "a media type pattern matches its types",
        arguments: [
            ("text/html", "text/html", true), ("Text/HTML", "tEXT/html; charset=utf-8", true),
            ("text/html", " text/html ;a=b", true), ("text/html", "text/htmlx", false), ("text/*", "text/plain", true),
            ("text/*", "image/png", false), ("*/*", "image/png", true), ("*/*", "image", false),
            ("text/html", "text/ html", false), ("text/html", "", false), ("*/*", "image/png, text/html", false),
        ]
    )
    func matches(pattern: String, value: String, isMatch: Bool) throws {
        #expect(try #require(MediaTypePattern(pattern)).matches(Array(value.utf8).span) == isMatch)
    }

    @Test(
        "text that is no media type is no pattern",
        arguments: ["", "text", "text/", "/html", "*/html", "text/html;q=1", "text/h*", "t*/*", "a/b/c", "text/ html"]
    )
    func invalid(text: String) {
        #expect(MediaTypePattern(text) == nil)
    }

    @Test("two types fit a rule that refuses, and none that allows")
    func severalFields() throws {
        let html = [try #require(MediaTypePattern("text/html"))]
        let any = [try #require(MediaTypePattern("*/*"))]
        var fields = HeaderFields()
        #expect(
            !html.matchAny(fields) && !html.matchOnly(fields) && any.matchAny(fields) && any.matchOnly(fields)
        )
        try fields.append(name: "Content-Type", value: "text/html")
        #expect(html.matchAny(fields) && html.matchOnly(fields))
        try fields.append(name: "content-type", value: "text/plain")
        #expect(
            html.matchAny(fields) && !html.matchOnly(fields) && any.matchAny(fields) && !any.matchOnly(fields)
        )
    }
}
