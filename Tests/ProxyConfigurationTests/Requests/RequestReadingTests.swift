// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyConfiguration

@Suite("what a rule can read of a request")
struct RequestReadingTests {
    private func read(_ target: String, _ fields: [(String, String)] = []) -> RequestReading {
        var section = HeaderFields()
        for (name, value) in fields { section.append(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        return RequestReading(target: Array(target.utf8).span, fields: section)
    }

    @Test(
        "a usual path has one reading",
        arguments: [
            "/", "/v1/messages", "/a/", "/a.b/..c/...", "/.well-known/x", "/a%20b", "/%7Euser", "/100%25",
            "/a?x=/../y//z;%2e",
            "/%E2%82%AC/%F0%9F%98%80", "/@scope%2fname", "/a%2Fb%2Fc", "/%E0%A4%85", "/a?b#/../c", "/a%25",
        ]
    )
    func usual(_ target: String) { #expect(read(target).path == nil && read(target).method == nil) }

    @Test(
        "a path that servers read differently has a reason",
        arguments: [
            ("/a/../b", RequestAmbiguity.dotSegment), ("/..", .dotSegment), ("/a/.", .dotSegment),
            ("/a/./b", .dotSegment),
            ("/a/%2e%2E/b", .dotSegment), ("/a/.%2e", .dotSegment), ("/x/..%2fadmin", .dotSegment),
            ("/x%2F..", .dotSegment),
            ("/..?q", .dotSegment), ("//admin", .emptySegment), ("/a//b", .emptySegment), ("/a//", .emptySegment),
            ("/a/%2Fb", .emptySegment), ("/a%2F/b", .emptySegment), ("/a\\b", .backslash), ("/a%5Cb", .backslash),
            ("/a;b/admin", .semicolon), ("/admin;", .semicolon), ("/a%3Bb", .semicolon),
            ("/%252e%252e/x", .doubleEncoding),
            ("/a%252Fb", .doubleEncoding), ("/a%00.jpg", .encodedControl), ("/a%0Ab", .encodedControl),
            ("/a%7F", .encodedControl), ("/a%3F/readme", .encodedDelimiter), ("/a%23", .encodedDelimiter),
            ("/a%3f?x", .encodedDelimiter),
            ("/a%zz", .malformedEncoding), ("/a%2", .malformedEncoding),
            ("/%", .malformedEncoding),
            ("/..%c0%af..", .overlongEncoding), ("/%C1%9C", .overlongEncoding), ("/%e0%80%af", .overlongEncoding),
            ("/%F0%80%80%AF", .overlongEncoding), ("*", .noPath), ("", .noPath),
        ]
    )
    func ambiguous(_ target: String, _ cause: RequestAmbiguity) { #expect(read(target).path == cause) }

    @Test("encoded slashes are counted, outside of the query")
    func encodedSlashes() { #expect(read("/a%2Fb%2fc?d=%2F").encodedSlashes == 2) }

    @Test(
        "a parameter that frameworks take for the method leaves the path readable",
        arguments: [
            "/a?_method=DELETE", "/a?x=1&_method=PUT", "/a?%5Fmethod=x", "/a?_METHOD=x", "/a?_method", "/a?x;_method=x",
            "/a?_method[]=x",
            "/a?_method%5B%5D=x", "/a?+_method=x", "/a?%5f%6dethod=x", "/a?b?_method=x",
            // PHP makes an underscore of a dot, drops white space before a name, and ends it at NUL.
            "/a?.method=DELETE", "/a?+.method=x", "/a?%2Emethod=x", "/a?_method%00=x", "/a?_method%00x=x",
            // qs takes brackets around a name away.
            "/a?[_method]=DELETE", "/a?%5B_method%5D=x", "/a?[_method", "/a?_method]=x",
            // Salesforce.
            "/a?_HttpMethod=DELETE", "/a?_httpmethod", "/a?.HTTPMETHOD=x", "/a?x&[_HttpMethod]=x",
        ]
    )
    func methodParameter(_ target: String) {
        #expect(read(target).method == .methodOverride && read(target).path == nil)
    }

    @Test(
        "other parameters do not replace the method",
        arguments: [
            "/a?x_method=D", "/a?_methods=D", "/a?_metho=d", "/a?x=_method", "/_method", "/a?x=%26_method",
            "/a?method=DELETE", "/a?._method=D", "/a?_httpmethods=D", "/a?_http=D", "/a?_hmethod=D", "/a?x[_method]=D",
            "/a?_mhttpmethod=D",
        ]
    )
    func otherParameter(_ target: String) { #expect(read(target).method == nil) }

    @Test(
        "a field that replaces the method leaves the path readable, whatever its punctuation",
        arguments: [
            "X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "X_HTTP_Method_Override", "X-Http_Method",
            "X.HTTP.Method.Override", "x_http.method", "X!HTTP~Method",
        ]
    )
    func methodField(_ name: String) {
        #expect(read("/", [(name, "DELETE")]).method == .methodOverride && read("/", [(name, "DELETE")]).path == nil)
    }

    @Test(
        "a field that replaces the URL leaves the method readable",
        arguments: [
            "X-Original-URL", "x-rewrite-url", "X_Original_URL", "X.Original.URL", "X-Original-URI", "X-Forwarded-URI",
            "X-Forwarded-Prefix", "x_forwarded_prefix",
        ]
    )
    func urlField(_ name: String) {
        #expect(read("/", [(name, "/admin")]).path == .urlOverride && read("/", [(name, "/admin")]).method == nil)
    }

    @Test(
        "other fields replace nothing",
        arguments: [
            "X-HTTP-Methods", "Accept", "X-Request-Id", "X-Rewritten-Url", "X-Forwarded-For", "X-Forwarded-Proto",
            "X-Hosts",
            "Y-Host", "Forwarded", "X-Real-IP",
        ]
    )
    func otherField(_ name: String) {
        let reading = read("/", [(name, "DELETE")])
        #expect(reading.path == nil && reading.method == nil && reading.host == nil)
    }

    @Test(
        "a field that replaces the host leaves nothing readable",
        arguments: [
            ("X-Forwarded-Host", "b.example"), ("x_forwarded_host", "b.example"), ("X.Forwarded.Host", "b.example"),
            ("X-Host", "b.example"), ("X-Original-Host", "b.example"), ("X-HTTP-Host-Override", "b.example"),
            ("Forwarded", "for=192.0.2.1;host=b.example"), ("forwarded", "for=x, Host = b.example"),
            ("Forwarded", "hhost=x"),
        ]
    )
    func hostField(_ name: String, _ value: String) {
        let reading = read("/", [("Accept", "*/*"), (name, value)])
        #expect(
            reading.host == .hostOverride && reading.path == .hostOverride && reading.method == .hostOverride,
            "\(reading)"
        )
    }

    @Test(
        "Forwarded without a host replaces nothing",
        arguments: ["for=192.0.2.1;proto=https", "by=host", "for=hos;t=x"]
    )
    func forwarded(_ value: String) { #expect(read("/", [("Forwarded", value)]).host == nil) }

    @Test(
        "a field with a second path leaves the method readable",
        arguments: [
            "Destination", "destination", "X-Copy-From", "X-Ms-Copy-Source", "x-amz-copy-source", "X-Goog-Copy-Source",
        ]
    )
    func secondPath(_ name: String) {
        let reading = read("/pub/a", [(name, "/private/key")])
        #expect(reading.path == .destination && reading.method == nil && reading.host == nil)
    }
}
