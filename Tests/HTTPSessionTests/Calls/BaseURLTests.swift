// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Base URLs")
struct BaseURLTests {
    @Test(
        "a base with a path ends in a slash",
        arguments: [
            ("https://example.com", "https://example.com"), ("https://example.com/", "https://example.com/"),
            ("https://example.com/v1", "https://example.com/v1/"),
            ("https://example.com/v1/", "https://example.com/v1/"),
            ("https://example.com/v1/api?key=1", "https://example.com/v1/api/?key=1"),
            ("https://EXAMPLE.com:443/v1", "https://example.com/v1/"), ("http://[::1]:8080/a", "http://[::1]:8080/a/"),
        ]
    )
    func slash(base: String, expected: String) throws {
        #expect(try BaseURL(base).text == expected)
    }

    @Test(
        "references are resolved as AFNetworking's documentation shows",
        arguments: [
            ("foo", "http://example.com/v1/foo"), ("foo?bar=baz", "http://example.com/v1/foo?bar=baz"),
            ("/foo", "http://example.com/foo"), ("foo/", "http://example.com/v1/foo/"),
            ("/foo/", "http://example.com/foo/"), ("http://example2.com/", "http://example2.com/"),
            ("", "http://example.com/v1/"), ("../foo", "http://example.com/foo"),
            ("./a/../b", "http://example.com/v1/b"),
            ("?q=1", "http://example.com/v1/?q=1"), ("//other.example/x", "http://other.example/x"),
            ("https://example.com/%20?a=b#c", "https://example.com/%20?a=b#c"), ("a:b", nil), ("mailto:a@b", nil),
            ("a b", "http://example.com/v1/a%20b"), ("ä", "http://example.com/v1/%C3%A4"), ("foo\\bar", nil),
            ("//user@other.example/", nil), ("//ä.example/", nil), ("a\nb", nil), ("a\u{7F}", nil),
            ("https://example.com/a b?c|d", "https://example.com/a%20b?c%7Cd"),
        ] as [(String, String?)]
    )
    func resolution(reference: String, expected: String?) throws {
        for base in ["http://example.com/v1", "http://example.com/v1/"] {
            let base = try BaseURL(base)
            if let expected {
                #expect(try base.resolve(reference) == expected)
            } else {
                let error = #expect(throws: SessionError.self) { try base.resolve(reference) }
                #expect(error?.code == .requestInvalid)
            }
        }
    }

    @Test("a base without a path is the host's root")
    func root() throws {
        #expect(try BaseURL("https://example.com").resolve("foo") == "https://example.com/foo")
        #expect(try BaseURL("https://example.com?x=1").resolve("foo/bar") == "https://example.com/foo/bar")
    }

    @Test(
        "text that is no URL is no base",
        arguments: ["", "example.com", "/v1", "ftp://example.com/", "https://a b/"]
    )
    func noBase(text: String) {
        #expect(throws: SessionError.self) { try BaseURL(text) }
    }
}
