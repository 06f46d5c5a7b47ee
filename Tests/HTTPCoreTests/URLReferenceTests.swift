// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@Suite("URI references")
struct URLReferenceTests {
    private func reference(_ text: String) -> URLReference? { URLReference(Array(text.utf8).span) }

    @Test(
        "an absolute URL gives its origin and the rest",
        arguments: [
            ("http://A.example/x?y#z", "http://a.example", "/x?y#z"),
            ("HTTPS://a.example:443", "https://a.example", ""),
            ("https://a.example:8443?q", "https://a.example:8443", "?q"),
            ("http://[::0:1]:80/", "http://[::1]", "/"), ("http://a.example#f", "http://a.example", "#f"),
            ("http://a.example./", "http://a.example", "/"),
            ("https://a.example:/x", "https://a.example", "/x"), ("http://[::1]:", "http://[::1]", ""),
        ]
    )
    func absolute(text: String, origin: String, rest: String) throws {
        let url = try #require(AbsoluteURL(text))
        #expect(url.origin.description == origin)
        #expect(String(decoding: url.rest, as: UTF8.self) == rest)
    }

    @Test("the kinds of reference are told apart")
    func kinds() throws {
        #expect(try reference("//A.example:81/x") == .schemeRelative(Host("a.example"), port: 81, rest: 14..<16))
        #expect(reference("/a//b:c") == .pathAbsolute)
        for text in ["a/b", "?q", "#f", "", "../a", "./a:b", "a/b:c"] {
            #expect(reference(text) == .relative, "\(text)")
        }
        for text in ["mailto:a@b.example", "ftp://a.example/", "urn:x"] { #expect(reference(text) == .otherScheme) }
    }

    @Test(
        "a reference that cannot be evaluated is refused",
        arguments: [
            "http://", "http:/a", "http:a", "http://u@a.example/", "http://u:p@a.example/", "http://a b/",
            "http://a.example/ x", "http://127.1/", "/\\evil.example", "\\\\evil.example",
            "http:\\\\evil.example", "http://a.example:0/", "http://a.example:x/", "http://:/", "//", "///",
            "//u@a.example/", "1a:b", "http://bücher.example/", "/\u{01}", "http://a\u{7F}/", "http://[::1/",
        ]
    )
    func unjudged(text: String) {
        #expect(reference(text) == nil)
        #expect(AbsoluteURL(text) == nil)
    }

    @Test("structured fields escape what they hold")
    func structuredFields() {
        var buffer = ByteBuffer()
        buffer.appendStructured(token: "pinproxy")
        buffer.appendStructuredParameter(key: "error", token: "tls_certificate_error")
        buffer.appendStructuredParameter(key: "details", string: Array("a\"b\\c\r\nd\u{E9}\0".utf8).span)
        buffer.appendStructuredParameter(key: "received-status", integer: 502)
        buffer.appendStructuredFlag(key: "hit")
        #expect(
            String(copying: buffer.bytes)
                == "pinproxy; error=tls_certificate_error; details=\"a\\\"b\\\\c??d???\"; received-status=502; hit"
        )
        buffer.removeAll()
        buffer.appendStructured(integer: .min)
        buffer.append(" ")
        buffer.appendStructured(string: "x")
        #expect(String(copying: buffer.bytes) == "-999999999999999 \"x\"")
    }
}
