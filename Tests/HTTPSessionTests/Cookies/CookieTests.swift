// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSessionCodable
import ServerTrustDates
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Cookies", .onOwnThreads)
struct CookieTests {
    private static let now: Int64 = 1_700_000_000

    private static func url(_ text: String) throws -> AbsoluteURL { try #require(AbsoluteURL(text)) }

    private static func parse(_ line: String, from text: String = "https://www.example.com/a/b?c/d") throws -> Cookie? {
        Cookie(setCookie: Array(line.utf8), from: try url(text), at: now)
    }

    @Test("the end of a cookie's life is a date")
    func expirationDate() throws {
        let date = Date(timeIntervalSince1970: 2_000_000_000)
        let cookie = try Cookie(name: "a", value: "b", domain: try Host("a.example"), expirationDate: date)
        #expect(cookie.expirationDate == date && cookie.expires == 2_000_000_000)
        #expect(try Cookie(name: "a", value: "b", domain: try Host("a.example")).expirationDate == nil)
    }

    @Test("name, value and attributes are read as RFC 6265, section 5.2, says")
    func parsing() throws {
        let cookie = try #require(
            try Self.parse(
                " a = b=c ; Path=/x; DOMAIN=.Example.COM; secure; HttpOnly; Max-Age=60; Expires=junk; Other=1"
            )
        )
        #expect(cookie.name == "a" && cookie.value == "b=c")
        #expect(cookie.domain.description == "example.com" && !cookie.isHostOnly)
        #expect(cookie.path == "/x" && cookie.isSecure && cookie.isHTTPOnly)
        #expect(cookie.expires == Self.now + 60)
        let plain = try #require(try Self.parse("a=\"quoted\""))
        #expect(plain.value == "\"quoted\"" && plain.isHostOnly && !plain.isSecure && plain.expires == nil)
        #expect(plain.path == "/a")
        #expect(try Self.parse("a=b; path=relative")?.path == "/a")
        #expect(try Self.parse("a=b", from: "https://www.example.com")?.path == "/")
        #expect(try Self.parse("a=b; domain=")?.isHostOnly == true)
        #expect(try Self.parse("a=b; path=/x; path=/y")?.path == "/y")
    }

    @Test(
        "attributes and cookies that RFC 6265 ignores are ignored",
        arguments: [
            "nothing", "=value", "", "a\u{1}=b", "a=b; domain=other.com", "a=b; domain=www.example.com.evil.com",
            "a=b; domain=com", "a=b; domain=sub.www.example.com", "a=b; domain=ample.com", "a=b; domain=bad..name",
            "__Secure-a=b", "__Host-a=b; Secure", "__host-a=b; Secure; Path=/; Domain=example.com",
        ]
    )
    func ignored(line: String) throws {
        #expect(try Self.parse(line) == nil)
    }

    @Test("prefixes need their attributes; Secure cookies need TLS")
    func promises() throws {
        #expect(try Self.parse("__Host-a=b; Secure; Path=/") != nil)
        #expect(try Self.parse("__Secure-a=b; Secure; Domain=example.com") != nil)
        #expect(try Self.parse("a=b; Secure", from: "http://www.example.com/") == nil)
    }

    @Test("a public suffix gets no cookies, and an address only its own")
    func suffixes() throws {
        #expect(try Self.parse("a=b; domain=co.uk", from: "https://example.co.uk/") == nil)
        #expect(try Self.parse("a=b; domain=github.io", from: "https://someone.github.io/") == nil)
        #expect(try Self.parse("a=b; domain=corp", from: "https://host.corp/") == nil)
        #expect(try Self.parse("a=b; domain=github.io", from: "https://github.io/")?.isHostOnly == true)
        #expect(try Self.parse("a=b; domain=127.0.0.1", from: "https://127.0.0.1/")?.isHostOnly == true)
        #expect(try Self.parse("a=b; domain=0.0.1", from: "https://127.0.0.1/") == nil)
    }

    @Test("Max-Age goes before Expires, and nothing lives longer than 400 days")
    func expiry() throws {
        func expires(_ attributes: String) throws -> Int64? { try Self.parse("a=b; \(attributes)")?.expires }
        #expect(try expires("Expires=Wed, 15 Nov 2023 00:00:00 GMT") == 1_700_006_400)
        #expect(try expires("Expires=Wed, 15 Nov 2023 00:00:00 GMT; Max-Age=5") == Self.now + 5)
        #expect(try expires("Max-Age=0") == 0 && expires("Max-Age=-1") == 0)
        #expect(try expires("Max-Age=99999999999999999999") == Self.now + 400 * 86_400)
        #expect(try expires("Max-Age=1x") == nil && expires("Max-Age=") == nil)
        #expect(try expires("Expires=Fri, 31 Dec 9999 23:59:59 GMT") == Self.now + 400 * 86_400)
    }

    @Test("dates as cookies have them")
    func dates() {
        let good = [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
            "06 november 1994 8:49:37", "8:49:37 6-Nov-1994",
        ]
        for text in good { #expect(CookieDate.parse(Array(text.utf8)) == 784_111_777, "\(text)") }
        for text in ["", "06 Nov 1994", "32 Nov 1994 08:49:37", "06 Nov 1994 24:00:00", "06 Nov 1600 00:00:00"] {
            #expect(CookieDate.parse(Array(text.utf8)) == nil, "\(text)")
        }
        #expect(CookieDate.parse(Array("01 Jan 69 00:00:00".utf8)) == 3_124_224_000)
    }

    @Test(
        "a request gets what its host, path and scheme match",
        arguments: [
            ("https://www.example.com/a/x", "deep=1; wide=2; secure=4"),
            ("https://www.example.com/a", "deep=1; wide=2; secure=4"),
            ("https://www.example.com/ab", "wide=2; secure=4"), ("http://www.example.com/a/", "deep=1; wide=2"),
            ("https://sub.example.com/", "wide=2"), ("https://example.com/", "wide=2"),
            ("https://notexample.com/", ""), ("https://sub.www.example.com/a/", "wide=2"),
        ]
    )
    func matching(text: String, sent: String) throws {
        let storage = CookieStorage()
        var fields = HeaderFields()
        for line in [
            "gone=0; Max-Age=0", "wide=2; Domain=example.com; Path=/", "deep=1; Path=/a", "secure=4; Path=/; Secure",
        ] {
            try fields.append(name: "Set-Cookie", value: line)
        }
        storage.storeCookies(of: fields, from: try Self.url("https://www.example.com/"), at: CookieStorage.now)
        #expect(storage.field(for: try Self.url(text)) ?? "" == sent)
    }

    @Test("a later cookie replaces one of equal name, domain and path; expired ones go")
    func replacement() throws {
        let storage = CookieStorage()
        let url = try Self.url("https://a.example/")
        func take(_ line: String, from url: AbsoluteURL) throws {
            var fields = HeaderFields()
            try fields.append(name: "Set-Cookie", value: line)
            storage.storeCookies(of: fields, from: url, at: CookieStorage.now)
        }
        for line in ["a=1", "b=2", "a=3", "a=9; Path=/x"] { try take(line, from: url) }
        #expect(storage.field(for: url) == "a=3; b=2")
        try take("b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", from: url)
        #expect(storage.field(for: url) == "a=3")
        #expect(storage.cookies.count == 2)
        // A cookie that was set over TLS is not replaced by one that was set without.
        try take("s=secret; Secure", from: url)
        let plain = try Self.url("http://a.example/")
        try take("s=planted", from: plain)
        #expect(storage.field(for: url) == "a=3; s=secret")
        try take("t=fine", from: plain)
        #expect(storage.field(for: plain) == "a=3; t=fine")
    }

    @Test("the storage is bounded by domain and in all: the least recently used go")
    func bounds() throws {
        let storage = CookieStorage(limit: 6, limitPerDomain: 3)
        for host in ["a.example", "b.example", "c.example"] {
            for name in ["1", "2", "3", "4"] {
                storage.set(try Cookie(name: name, value: host, domain: try Host(host)))
                _ = storage.field(for: try Self.url("https://\(host)/"))
            }
        }
        #expect(storage.cookies.map { "\($0.name)\($0.value.first ?? " ")" } == ["2b", "3b", "4b", "2c", "3c", "4c"])
        #expect(throws: SessionError.self) { try Cookie(name: "a b", value: "", domain: try Host("a.example")) }
        #expect(throws: SessionError.self) { try Cookie(name: "a", value: "b;c", domain: try Host("a.example")) }
        #expect(throws: SessionError.self) { try Cookie(name: "a", value: "b\r\nc", domain: try Host("a.example")) }
    }

    @Test("a session takes cookies from each redirect and sends them back")
    func session() async throws {
        let storage = CookieStorage()
        let stage = try ManagerStage {
            $0.cookieStorage = storage
        } responding: { request in
            if request.target == "/start" {
                return OriginResponse.text(
                    "",
                    status: "302 Found",
                    fields: ["Location: /next", "Set-Cookie: a=1; Secure", "Set-Cookie: b=2; Path=/next"]
                )
            }
            return OriginResponse.text(request["Cookie"] ?? "none")
        }
        func get(_ url: String, _ headers: HTTPHeaders = [:]) async throws -> String {
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: url, headers: headers))
            return String(decoding: try await task.value().data, as: UTF8.self)
        }
        #expect(try await get(ManagerStage.url("/start")) == "b=2; a=1")
        #expect(try await get(ManagerStage.url("/")) == "a=1")
        #expect(try await get(ManagerStage.url("/", ManagerStage.other)) == "none")
        #expect(try await get(ManagerStage.url("/"), ["Cookie": "own=1"]) == "own=1")
        #expect(try storage.cookies(for: ManagerStage.url("/next")).map(\.name) == ["b", "a"])
        storage.removeAll()
        #expect(try await get(ManagerStage.url("/")) == "none")
        await stage.end()
    }

    @Test("without a storage there are no cookies")
    func off() async throws {
        let stage = try ManagerStage { request in
            OriginResponse.text(request["Cookie"] ?? "none", fields: ["Set-Cookie: a=1"])
        }
        for _ in 0..<2 {
            let response = try await stage.manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/")))
                .value()
            #expect(response.data == Array("none".utf8))
        }
        await stage.end()
    }

    @Test("a cookie that is received at the end of time lives until then")
    func endOfTime() throws {
        for line in [
            "a=b; Max-Age=60", "a=b; Max-Age=99999999999999999999", "a=b; Expires=Fri, 31 Dec 9999 23:59:59 GMT",
        ] {
            let cookie = Cookie(setCookie: Array(line.utf8), from: try Self.url("https://a.example.com/"), at: .max)
            #expect(cookie?.expires == (line.contains("Expires") ? 253_402_300_799 : .max), "\(line)")
        }
    }
}
