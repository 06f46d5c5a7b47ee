// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPCore

@Suite("References against a base")
struct URLResolutionTests {
    private static func resolve(_ reference: String, _ base: String) -> String? {
        AbsoluteURL(base)?.resolving(Array(reference.utf8).span)?.text
    }

    @Test(
        "a reference means what RFC 3986, section 5.4, says",
        arguments: [
            ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"),
            ("//g", "http://g/"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q#s"), ("g#s", "http://a/b/c/g#s"), (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
            ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"), ("./g/.", "http://a/b/c/g/"), ("g/../h", "http://a/b/c/h"),
            ("g;x=1/../y", "http://a/b/c/y"), ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://B.example:443/x", "https://b.example/x"), ("//b.example:8080", "http://b.example:8080/"),
        ]
    )
    func examples(reference: String, meaning: String) {
        #expect(Self.resolve(reference, "http://a/b/c/d;p?q") == meaning)
    }

    @Test(
        "a base without a path is its root",
        arguments: [("g", "https://a/g"), ("?y", "https://a/?y"), ("", "https://a/")]
    )
    func emptyBase(reference: String, meaning: String) {
        #expect(Self.resolve(reference, "https://a") == meaning)
    }

    @Test(
        "a reference that cannot be evaluated is not guessed",
        arguments: ["mailto:a@b", "ftp://b/", "//user@b/", "http://127.1/", "/a b", "/\\b", "http:/b"]
    )
    func refused(reference: String) {
        #expect(Self.resolve(reference, "https://a/") == nil)
    }

    @Test("the target has a path, a query, and no fragment")
    func target() throws {
        #expect(try #require(AbsoluteURL("https://a?x#y")).target == Array("/?x".utf8))
        #expect(try #require(AbsoluteURL("https://a/b?c")).target == Array("/b?c".utf8))
    }
}
