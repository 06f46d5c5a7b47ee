// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("URLs and cookies that keep a client with the proxy")
struct ResponseURLTests {
    private func rewriter(_ mode: URLRewriter.Mode, base: String? = nil, upstreamPort: UInt16 = 443) throws
        -> URLRewriter
    {
        let stage = try HookFixture(
            hosts: #""api.example.com": { "upgrade": true }, "[2001:db8::1]": { "upgrade": true }"#
        )
        return URLRewriter(
            mode: mode,
            router: stage.router,
            upstream: ListenerConfiguration.Upstream(host: try Host("api.example.com"), port: upstreamPort),
            clientAuthority: Array("localhost:9001".utf8),
            base: base.flatMap { AbsoluteURL($0) }
        )
    }

    private func text(_ bytes: [UInt8]?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }

    @Test(
        "an upgraded client's https links to upgraded hosts become http",
        arguments: [
            ("https://api.example.com/a?b#c", "http://api.example.com/a?b#c"),
            ("https://api.example.com", "http://api.example.com"),
            ("https://api.example.com?a", "http://api.example.com?a"),
            ("https://api.example.com#a", "http://api.example.com#a"),
            ("HTTPS://API.Example.COM./A", "http://api.example.com/A"),
            ("https://api.example.com:443/", "http://api.example.com/"),
            ("https://api.example.com:8443/", "http://api.example.com:8443/"),
            ("https://[2001:DB8:0::1]:8443/a", "http://[2001:db8::1]:8443/a"),
            ("https://user:pw@api.example.com/a", "http://user:pw@api.example.com/a"),
            ("https://api.example.com/a b/ä\\c", "http://api.example.com/a b/ä\\c"),
            ("https://api.example.com/../%2e/", "http://api.example.com/../%2e/"),
            ("https://api.example.com:80/", nil), ("https://api.example.com:0/", nil),
            ("https://other.example.com/", nil), ("http://api.example.com/", nil), ("//api.example.com/", nil),
            ("/a", nil), ("a", nil), ("", nil), ("mailto:a@b.c", nil), ("https:/api.example.com/", nil),
            ("https:///api.example.com/", nil), ("https://api.example.com\\@other.example.com/", nil),
            ("https://api.example.com@other.example.com/", nil), ("https://a@b@api.example.com/", nil),
            ("https://a\\@api.example.com/", nil), ("https://api.example.com /", nil), ("https://[::1/", nil),
            ("https://api.example.com%2f.evil.test/", nil), ("https://2130706433/", nil),
        ] as [(String, String?)]
    )
    func upgraded(reference: String, expected: String?) throws {
        #expect(text(try rewriter(.upgraded).rewritten(Array(reference.utf8).span)) == expected)
    }

    @Test("a redirected client's links become http at the port that leads here alone")
    func redirected() throws {
        let link = "https://api.example.com/a"
        let rewriter = try rewriter(.redirected(isAtUsualPort: true))
        #expect(text(rewriter.rewritten(Array(link.utf8).span)) == "http://api.example.com/a")
        #expect(rewriter.rewritten(Array("https://api.example.com:8443/".utf8).span) == nil)
        #expect(rewriter.rewritten(Array("https://other.example.com/".utf8).span) == nil)
        let elsewhere = try self.rewriter(.redirected(isAtUsualPort: false))
        #expect(elsewhere.rewritten(Array(link.utf8).span) == nil)
    }

    @Test(
        "a gateway's upstream becomes the gateway in all URLs",
        arguments: [
            ("https://api.example.com/a", "http://localhost:9001/a"),
            ("https://API.example.com.:443?a", "http://localhost:9001?a"),
            ("//api.example.com/a", "http://localhost:9001/a"),
            ("http://api.example.com/a", "http://localhost:9001/a"),
            ("http://api.example.com:443/a", "http://localhost:9001/a"),
            ("https://user@api.example.com/", "http://user@localhost:9001/"),
            ("http://api.example.com:8080/", nil), ("https://api.example.com:8443/", nil),
            ("//other.example.com/", nil), ("https://other.example.com/", nil), ("/a", nil), ("a?b", nil),
        ] as [(String, String?)]
    )
    func gateway(reference: String, expected: String?) throws {
        #expect(text(try rewriter(.gateway).rewritten(Array(reference.utf8).span)) == expected)
    }

    @Test("a gateway to another port replaces that port alone")
    func gatewayPort() throws {
        let rewriter = try rewriter(.gateway, upstreamPort: 8443)
        #expect(text(rewriter.rewritten(Array("https://api.example.com:8443/".utf8).span)) == "http://localhost:9001/")
        #expect(rewriter.rewritten(Array("https://api.example.com/".utf8).span) == nil)
        #expect(rewriter.rewritten(Array("http://api.example.com/".utf8).span) == nil)
    }

    @Test("after a followed redirect relative URLs become absolute")
    func base() throws {
        let base = "https://cdn.example.com/a/b?c"
        let plain = try rewriter(.off, base: base)
        for (reference, expected) in [
            ("/x", "https://cdn.example.com/x"), ("x", "https://cdn.example.com/a/x"),
            ("//other.test/x", "https://other.test/x"), ("?y", "https://cdn.example.com/a/b?y"),
            ("a b", "https://cdn.example.com/a/a%20b"), ("https://other.test/", nil), ("mailto:x@y.z", nil),
        ] as [(String, String?)] {
            #expect(text(plain.rewritten(Array(reference.utf8).span)) == expected)
        }
        let upgraded = try rewriter(.upgraded, base: "https://api.example.com/a")
        for reference in ["/x", "//api.example.com/x", "https://api.example.com/x", "x"] {
            #expect(text(upgraded.rewritten(Array(reference.utf8).span)) == "http://api.example.com/x")
        }
        let gateway = try rewriter(.gateway, base: "https://cdn.example.com/a")
        #expect(text(gateway.rewritten(Array("/x".utf8).span)) == "https://cdn.example.com/x")
    }

    @Test(
        "the URL in Refresh is found in every form",
        arguments: [
            ("0; url=https://api.example.com/", "0; url=http://api.example.com/"),
            ("5;URL = 'https://api.example.com/a'", "5;URL = 'http://api.example.com/a'"),
            ("1.5,url=\"https://api.example.com/\" x", "1.5,url=\"http://api.example.com/\" x"),
            ("0;https://api.example.com/", "0;http://api.example.com/"),
            ("0; url=https://other.example.com/", nil), ("5", nil), ("0;", nil), ("0;url=", nil), ("", nil),
            ("url=https://api.example.com/", nil),
        ] as [(String, String?)]
    )
    func refresh(value: String, expected: String?) throws {
        #expect(text(try rewriter(.upgraded).rewritten(refresh: Array(value.utf8).span)) == expected)
    }

    @Test(
        "targets of links are changed, and nothing else",
        arguments: [
            (
                #"<https://api.example.com/2>; rel="next", </1>; rel=prev"#,
                #"<http://api.example.com/2>; rel="next", </1>; rel=prev"#
            ),
            (
                #"</a>; title="<https://api.example.com/>\"", <https://api.example.com/3>;rel=last"#,
                #"</a>; title="<https://api.example.com/>\"", <http://api.example.com/3>;rel=last"#
            ),
            (#"<https://other.example.com/>; rel=next"#, nil), ("<https://api.example.com/", nil), ("", nil),
        ] as [(String, String?)]
    )
    func links(value: String, expected: String?) throws {
        var budget = URLRewriter.Budget()
        #expect(text(try rewriter(.upgraded).rewritten(link: Array(value.utf8).span, &budget)) == expected)
    }

    @Test(
        "cookies lose Secure and what depends on it",
        arguments: [
            ("a=1; Secure; HttpOnly; Path=/", "a=1; HttpOnly; Path=/"), ("a=1;secure", "a=1"), ("a=1 ; Secure", "a=1"),
            ("a=1 ;\tSecure; Path=/ ; secure", "a=1 ; Path=/"),
            ("a=1; SECURE=x; Max-Age=1", "a=1; Max-Age=1"), ("a=1; Secure; SameSite=None; Partitioned", "a=1"),
            ("a=1; SameSite=None", nil), ("a=1; Secure; SameSite=Lax", "a=1; SameSite=Lax"),
            ("secure=secure", nil), ("Secure; Path=/", nil), ("a=1; Path=/secure", nil), ("", nil),
            ("__Host-a=1; Secure; Path=/", nil), ("__secure-a=1; Secure", nil), ("a=1; Domain=api.example.com", nil),
        ] as [(String, String?)]
    )
    func cookies(cookie: String, expected: String?) {
        #expect(text(CookieRewriter(gateway: nil).rewritten(Array(cookie.utf8).span)) == expected)
    }

    @Test(
        "through a gateway cookies lose a domain that does not fit",
        arguments: [
            ("a=1; Domain=api.example.com; Path=/", "a=1; Path=/"), ("a=1; domain=.Example.com", "a=1"),
            ("a=1; Domain=other.example.com", nil), ("a=1; Domain=ple.com", nil), ("a=1; Domain=", nil),
            ("a=1; Domain=.", nil),
        ] as [(String, String?)]
    )
    func gatewayCookies(cookie: String, expected: String?) throws {
        let rewriter = CookieRewriter(gateway: try Host("api.example.com"))
        #expect(text(rewriter.rewritten(Array(cookie.utf8).span)) == expected)
    }

    @Test("a gateway with TLS leads to https, and cookies stay secure")
    func gatewayOverTLS() throws {
        let stage = try HookFixture(hosts: "")
        let host = try Host("api.example.com")
        let rewriter = URLRewriter(
            mode: .gateway,
            router: stage.router,
            upstream: ListenerConfiguration.Upstream(host: host),
            clientAuthority: Array("localhost:9001".utf8),
            isTLS: true
        )
        for reference in ["https://api.example.com/a", "http://api.example.com/a", "//api.example.com/a"] {
            #expect(text(rewriter.rewritten(Array(reference.utf8).span)) == "https://localhost:9001/a")
        }
        let cookies = CookieRewriter(gateway: host, keepsSecure: true)
        let cookie = Array("a=1; Domain=api.example.com; Secure; SameSite=None".utf8)
        #expect(text(cookies.rewritten(cookie.span)) == "a=1; Secure; SameSite=None")
        #expect(cookies.rewritten(Array("a=1; Secure".utf8).span) == nil)
    }

    @Test("any rewritten field stays valid, and leads to no new host")
    func anything() throws {
        let rewriters = [
            try rewriter(.upgraded), try rewriter(.gateway),
            try rewriter(.upgraded, base: "https://api.example.com/a/b"),
            try rewriter(.off, base: "https://cdn.example.com/"),
        ]
        let pieces = [
            "https://", "http://", "//", "api.example.com", "[2001:db8::1]", ":443", ":80", "@", "/", "?", "#", "\\",
            " ",
            "<", ">", "\"", "'", ";", ",", "url=", "5", "ä", "%2f", "..", "rel=next", "Secure", "Domain=", "=", "\t",
            "(", ")", "Bearer ", "realm=",
        ]
        var random = SeededGenerator(seed: 6)
        for _ in 0..<4000 {
            let value = (0..<Int.random(in: 0...9, using: &random)).map { _ in
                pieces.randomElement(using: &random) ?? ""
            }.joined()
            let bytes = Array(value.utf8)
            for rewriter in rewriters {
                var budget = URLRewriter.Budget()
                for result in [
                    rewriter.rewritten(bytes.span), rewriter.rewritten(refresh: bytes.span),
                    rewriter.rewritten(link: bytes.span, &budget),
                    rewriter.rewritten(condition: bytes.span, &budget),
                    rewriter.rewritten(challenge: bytes.span, &budget),
                    CookieRewriter(gateway: nil).rewritten(bytes.span),
                    CookieRewriter(gateway: try Host("api.example.com")).rewritten(bytes.span),
                ] {
                    guard let result else { continue }
                    if result.span.firstIndexOutsideFieldValue(in: 0..<result.count) != nil {
                        Issue.record("\(value) makes no field value")
                    }
                }
                guard let result = rewriter.rewritten(bytes.span),
                    let url = AbsoluteURL(String(decoding: result, as: UTF8.self))
                else { continue }
                let host = url.origin.host.description
                let isKnown = ["api.example.com", "localhost", "cdn.example.com"].contains(host)
                if !isKnown, !value.lowercased().contains(host) { Issue.record("\(value) leads to \(host)") }
            }
        }
    }
}
