// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

/// Rules 1 to 20 of the wire: request line and Host. Every case is fed whole and byte by byte.
@Suite("Rules 1-20: request line and Host")
struct RequestLineRuleTests {
    private static let rest = " HTTP/1.1\r\nHost: a.example\r\n\r\n"

    @Test(
        "rule 1: a bare LF is refused",
        arguments: [
            "GET / HTTP/1.1\nHost: a.example\n\n", "GET / HTTP/1.1\r\nHost: a.example\n\r\n",
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.example\r\n\n",
        ]
    )
    func rule1(text: String) {
        #expect(refuse(text) == .bareLineFeed)
    }

    @Test(
        "rule 2: a bare CR is refused",
        arguments: [
            "GET / HTTP/1.1\rHost: a.example\r\n\r\n", "GET /\r HTTP/1.1\r\n\r\n", "GET\r / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.example\rX: y\r\n\r\n", "GET / HTTP/1.1\r\nHost\r: a.example\r\n\r\n",
        ]
    )
    func rule2(text: String) {
        #expect(refuse(text) == .bareCarriageReturn)
    }

    @Test("rule 3: one leading CRLF is tolerated, a second is not")
    func rule3() throws {
        #expect(try accept("\r\nGET /" + Self.rest).method == .get)
        #expect(refuse("\r\n\r\nGET /" + Self.rest) == .leadingEmptyLines)
        #expect(readBothWays(Array("\r\nGET /\(Self.rest)\r\nGET /\(Self.rest)".utf8)).heads.count == 2)
    }

    @Test(
        "rule 4: white space before the first field or the request line is refused",
        arguments: [
            "GET / HTTP/1.1\r\n Host: a.example\r\n\r\n", "GET / HTTP/1.1\r\n\tHost: a.example\r\n\r\n",
            " GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ]
    )
    func rule4(text: String) {
        #expect(refuse(text) == .leadingWhiteSpace)
    }

    @Test(
        "rule 5: several spaces or a TAB in the request line are refused",
        arguments: [
            "GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET / HTTP/1.1 ", "GET\t/ HTTP/1.1", "GET /\tHTTP/1.1",
            "GET / HTTP/1.1\t", "GET /a b HTTP/1.1", "GET / x HTTP/1.1",
        ]
    )
    func rule5(line: String) {
        #expect(refuse(line + "\r\nHost: a.example\r\n\r\n") == .requestLineSpacing)
    }

    @Test("rule 6: a missing target is refused", arguments: ["GET", "GET ", "GET HTTP/1.1"])
    func rule6(line: String) {
        let fault = refuse(line + "\r\nHost: a.example\r\n\r\n")
        #expect(fault == .missingTarget || fault == .version09)
        #expect(fault?.status == 400)
    }

    @Test("rule 7: HTTP/0.9 is refused", arguments: ["GET /", "GET / HTTP/0.9"])
    func rule7(line: String) {
        #expect(refuse(line + "\r\n\r\n") == .version09)
        #expect(RequestFault.version09.status == 400)
    }

    @Test(
        "rule 8: another major version is 505",
        arguments: ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/3.1\r\n\r\n"]
    )
    func rule8Unsupported(text: String) {
        #expect(refuse(text) == .versionUnsupported)
        #expect(RequestFault.versionUnsupported.status == 505)
    }

    @Test(
        "rule 8: a malformed version is 400",
        arguments: [
            "http/1.1", "HTTP/1", "HTTP/1.10", "HTTP/11", "HTTP/2", "HTTP 1.1", "HTTPS/1.1", "HTTP/1.x", "HTTP/+1.1",
            "FTP/1.1",
        ]
    )
    func rule8Malformed(version: String) {
        #expect(refuse("GET / \(version)\r\nHost: a.example\r\n\r\n")?.status == 400)
    }

    @Test("rule 8: a higher minor version counts as 1.1")
    func rule8Minor() throws {
        #expect(try accept("GET / HTTP/1.7\r\nHost: a.example\r\n\r\n").minorVersion == 1)
    }

    @Test(
        "rule 9: a method that is no token is refused",
        arguments: ["G(T", "GE\u{7F}T", "GET\0", "G\u{E9}T", "GET,", "\"GET\"", "@", ":"]
    )
    func rule9NoToken(method: String) {
        #expect(refuse(method + " /" + Self.rest) == .methodInvalid)
    }

    @Test(
        "rule 9: an unknown method is taken as it is",
        arguments: ["PROPFIND", "get", "M-SEARCH", "X", "QUERY", "GETT"]
    )
    func rule9Unknown(method: String) throws {
        #expect(try accept(method + " /" + Self.rest).method == .other(Array(method.utf8)))
    }

    @Test("rule 9: an over-long method is 501")
    func rule9TooLong() throws {
        let longest = String(repeating: "M", count: 32)
        #expect(try accept(longest + " /" + Self.rest).method.description == longest)
        #expect(refuse(longest + "M /" + Self.rest) == .methodTooLong)
        #expect(refuse(String(repeating: "M", count: 100_000)) == .methodTooLong)
        #expect(RequestFault.methodTooLong.status == 501)
    }

    @Test("rule 10: an over-long target is 414, even before its line ends")
    func rule10() throws {
        let longest = "/" + String(repeating: "a", count: 8191)
        #expect(try String(copying: accept("GET " + longest + Self.rest).target) == longest)
        #expect(refuse("GET " + longest + "a" + Self.rest) == .targetTooLong)
        #expect(refuse("GET " + longest + String(repeating: "a", count: 100)) == .targetTooLong)
        #expect(RequestFault.targetTooLong.status == 414)
        var limits = HeadLimits()
        limits.targetBytes = 4
        #expect(refuse("GET /abcd" + Self.rest, limits: limits) == .targetTooLong)
    }

    @Test("rule 11: NUL, control characters and invalid UTF-8 in the target are refused")
    func rule11() {
        for byte in [UInt8](0...0x1F) + [UInt8](0x7F...0xFF) where byte != 0x09 && byte != 0x0A && byte != 0x0D {
            let bytes = Array("GET /a".utf8) + [byte] + Array(("b" + Self.rest).utf8)
            #expect(readBothWays(bytes).fault == .targetInvalidByte, "byte \(byte)")
        }
    }

    @Test(
        "rule 11: UTF-8 in the target is percent-encoded for every reader",
        arguments: [
            ("/caf\u{E9}?q=\u{1F600}&x=%C3%A9", "/caf%C3%A9?q=%F0%9F%98%80&x=%C3%A9"),
            ("http://a.example/\u{85}\u{2028}", "/%C2%85%E2%80%A8"), ("/\u{E9}#\u{E9}", "/%C3%A9"),
            ("http://a.example?\u{7FF}", "/?%DF%BF"),
        ]
    )
    func rule11UTF8(target: String, expected: String) throws {
        let head = try accept("GET \(target)" + Self.rest)
        #expect(String(copying: head.target) == expected)
        #expect(String(copying: head.rawTarget).utf8.allSatisfy { $0 < 0x7F })
    }

    @Test(
        "rule 11: surrogates, over-long forms and halves of characters are refused",
        arguments: [[0xC0, 0xAF], [0xE0, 0x80, 0xAF], [0xED, 0xA0, 0x80], [0xC3], [0xF4, 0x90, 0x80, 0x80], [0xE9]]
    )
    func rule11NoUTF8(bytes: [UInt8]) {
        #expect(readBothWays(Array("GET /a".utf8) + bytes + Array(("/b" + Self.rest).utf8)).fault == .targetInvalidByte)
    }

    @Test(
        "rule 11: UTF-8 is no part of a host",
        arguments: ["GET http://b\u{FC}cher.example/", "CONNECT b\u{FC}cher.example:443"]
    )
    func rule11Host(line: String) {
        #expect(refuse(line + Self.rest) == .hostInvalid)
    }

    @Test(
        "rule 12: a fragment is removed",
        arguments: [
            ("/#", "/"), ("/a#b", "/a"), ("/a?b#c?d#e", "/a?b"), ("http://a.example/#x", "/"),
            ("http://a.example#x", "/"), ("http://a.example?q#x", "/?q"), ("http://a.example#@b.example/", "/"),
        ]
    )
    func rule12(target: String, expected: String) throws {
        let head = try accept("GET \(target)" + Self.rest)
        #expect(String(copying: head.target) == expected)
        try #expect(head.host == Host("a.example"))
        #expect(!String(copying: head.rawTarget).contains("#"))
    }

    @Test(
        "rule 12: '#' outside of URLs and paths is refused",
        arguments: ["OPTIONS *#x", "CONNECT a.example:443#x", "GET #x", "GET #", "GET a.example#/"]
    )
    func rule12Refused(line: String) {
        #expect(refuse(line + Self.rest) == .targetFragment)
    }

    @Test("rule 13: '*' goes with OPTIONS only")
    func rule13() throws {
        #expect(refuse("GET *" + Self.rest) == .asteriskWithoutOptions)
        let head = try accept("OPTIONS *" + Self.rest)
        #expect(head.form == .asterisk)
        #expect(String(copying: head.target) == "*")
        #expect(refuse("OPTIONS **" + Self.rest)?.status == 400)
    }

    @Test(
        "rule 14: CONNECT needs host:port",
        arguments: [
            ("/", RequestFault.connectWithoutAuthority), ("a.example", .connectWithoutAuthority),
            ("*", .connectWithoutAuthority),
            ("http://a.example:443/", .connectWithoutAuthority), ("a.example:443/", .connectWithoutAuthority),
            ("a.example:", .connectWithoutAuthority), ("a.example:0", .portInvalid), ("a.example:65536", .portInvalid),
            ("a.example:x", .portInvalid), ("a.example:080", .portInvalid), (":443", .authorityInvalid),
            ("::1:443", .authorityInvalid),
            ("[::1]", .connectWithoutAuthority), ("[::1]443", .authorityInvalid), ("[::1", .authorityInvalid),
            ("[127.0.0.1]:443", .hostInvalid), ("127.1:443", .hostAmbiguousNumber), ("a..b:443", .hostInvalid),
        ]
    )
    func rule14(target: String, fault: RequestFault) {
        #expect(refuse("CONNECT \(target)" + Self.rest) == fault)
        #expect(fault.status == 400)
    }

    @Test("rule 14: CONNECT with an authority is understood")
    func rule14Accepted() throws {
        let head = try accept("CONNECT [2001:DB8::1]:8443 HTTP/1.1\r\nHost: [2001:db8:0::1]:8443\r\n\r\n")
        #expect(head.form == .authority)
        #expect(head.host?.authorityText == "[2001:db8::1]")
        #expect(head.port == 8443)
        // Many clients omit the port in the Host of a CONNECT.
        #expect(try accept("CONNECT a.example:443" + Self.rest).port == 443)
        #expect(refuse("CONNECT b.example:443" + Self.rest, limits: Self.strict) == .hostDiffers)
        let other = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n\r\n"
        #expect(refuse(other, limits: Self.strict) == .hostDiffers)
        // undici 5 and Node's http send the proxy's name or another port.
        #expect(try accept("CONNECT b.example:443" + Self.rest).host == Host("b.example"))
        #expect(try accept(other).port == 443)
    }

    @Test(
        "rule 14: host:port with another method is refused",
        arguments: ["a.example:443", "a.example", "127.0.0.1:80", "[::1]:443"]
    )
    func rule14OtherMethod(target: String) {
        #expect(refuse("GET \(target)" + Self.rest)?.status == 400)
    }

    @Test(
        "rule 15: user information becomes Authorization",
        arguments: [
            ("http://u:p@a.example/x", "u:p"), ("http://u@a.example/x", "u:"), ("https://u:@a.example:443/x", "u:"),
            ("http://:p@a.example/x", ":p"), ("http://a.example:80@a.example/x", "a.example:80"),
            ("http://u:p:q@a.example/x#u@b", "u:p:q"), ("http://us%20er:p%25%C3%A9;=@a.example/x", "us er:p%\u{E9};="),
            ("HTTP://u:p@A.Example/x", "u:p"),
        ]
    )
    func rule15(target: String, credentials: String) throws {
        let head = try accept("GET \(target)" + Self.rest)
        let index = try #require(head.fields.first(.authorization))
        #expect(String(copying: head.fields.value(at: index)) == "Basic \(Base64.encode(Array(credentials.utf8)))")
        try #expect(head.host == Host("a.example"))
        #expect(String(copying: head.target) == "/x")
        #expect(!String(copying: head.rawTarget).contains("@"))
    }

    @Test("rule 15: an existing Authorization stays, and an empty name gives none")
    func rule15Kept() throws {
        let head = try accept(
            "GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer x\r\n\r\n"
        )
        let index = try #require(head.fields.first(.authorization))
        #expect(String(copying: head.fields.value(at: index)) == "Bearer x")
        #expect(head.fields.next(.authorization, after: index) == nil)
        let empty = try accept("GET http://@a.example/" + Self.rest)
        #expect(empty.fields.first(.authorization) == nil)
        // The next head of the connection has none.
        let texts = "GET http://u:p@a.example/\(Self.rest)GET http://a.example/\(Self.rest)"
        let heads = readBothWays(Array(texts.utf8)).heads
        #expect(heads.map { $0.fields.contains(.authorization) } == [true, false])
    }

    @Test(
        "rule 15: ambiguous user information is refused, and any in CONNECT and Host",
        arguments: [
            "GET http://u@b@a.example/", "GET http://u:p@@a.example/", "GET http://u\\@a.example/",
            "GET http://u:p@a.example\\@b.example/", "GET http://u%40b@a.example/", "GET http://u%2Fb@a.example/",
            "GET http://u%3ab@a.example/", "GET http://u%5c@a.example/", "GET http://u%0d@a.example/",
            "GET http://u%7F@a.example/", "GET http://u%@a.example/", "GET http://u%4@a.example/",
            "GET http://u%zz@a.example/", "GET http://[::1]@a.example/", "GET http://u:p@a.example:80@b/",
            "GET http://u\"@a.example/", "CONNECT u@a.example:443",
            "CONNECT u:p@a.example:443", "GET u@a.example",
        ]
    )
    func rule15Refused(line: String) {
        #expect(refuse(line + Self.rest) == .userinfo)
        #expect(refuse("GET / HTTP/1.1\r\nHost: u@a.example\r\n\r\n") == .userinfo)
        #expect(refuse("GET / HTTP/1.1\r\nHost: u:p@a.example:80\r\n\r\n") == .userinfo)
    }

    @Test(
        "rule 16: a scheme other than http and https is refused",
        arguments: [
            "ftp://a.example/", "file:///etc/passwd", "ws://a.example/", "wss://a.example/", "ws:/a",
            "httpx://a.example/", "javascript:alert(1)",
            "gopher://a.example/",
        ]
    )
    func rule16(target: String) {
        #expect(refuse("GET \(target)" + Self.rest) == .schemeUnsupported)
    }

    @Test("rule 16: ws and wss mean http and https with an Upgrade")
    func rule16WebSocket() throws {
        let offer = " HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        let plain = try accept("GET WS://a.example/chat" + offer)
        #expect(plain.scheme == .http && plain.port == 80 && plain.wantsUpgrade)
        let secure = try accept("GET wss://u:p@a.example/chat#x" + offer)
        #expect(secure.scheme == .https && secure.port == 443)
        #expect(String(copying: secure.target) == "/chat")
        let without = " HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\n"
        #expect(refuse("GET ws://a.example/" + without) == .schemeUnsupported)
        #expect(refuse("GET ws://a.example/" + offer.replacing("HTTP/1.1", with: "HTTP/1.0")) == .schemeUnsupported)
    }

    @Test("rule 16: the scheme is read in any case")
    func rule16AnyCase() throws {
        #expect(try accept("GET HTTPS://a.example/" + Self.rest).scheme == .https)
        #expect(try accept("GET hTTp://a.example/" + Self.rest).scheme == .http)
    }

    @Test(
        "a malformed absolute-form is refused",
        arguments: [
            "http:/a.example/", "http:a.example", "http://", "http:///a", "http://:80/", "http://:/",
            "http://a.example:99999/",
            "http://a,b/", "http://a b/", "http://[::1/", "http://[::1]x/", "http://a%2eexample/", "http://2130706433/",
            "a", "a/b", "1:2",
            "//a.example/", "http://*.a.example/",
        ]
    )
    func malformedAbsoluteForm(target: String) throws {
        // Two leading slashes begin a path: in origin-form only a path can follow the method.
        if target.hasPrefix("//") {
            #expect(try accept("GET \(target)" + Self.rest).form == .origin)
        } else {
            #expect(refuse("GET \(target)" + Self.rest)?.status == 400)
        }
    }

    @Test(
        "an empty path of an absolute-form becomes '/', or '*' for OPTIONS",
        arguments: [
            ("GET http://a.example", "/"), ("GET http://a.example?x=1", "/?x=1"), ("OPTIONS http://a.example", "*"),
            ("OPTIONS http://a.example/", "/"), ("GET http://a.example/a%2F../b?c", "/a%2F../b?c"), ("GET /", "/"),
            ("GET /%00|\"{}", "/%00|\"{}"),
        ]
    )
    func emptyPath(line: String, target: String) throws {
        #expect(try String(copying: accept(line + Self.rest).target) == target)
    }

    @Test("rule 17: HTTP/1.1 needs a Host, HTTP/1.0 does not")
    func rule17() throws {
        #expect(refuse("GET / HTTP/1.1\r\n\r\n") == .hostMissing)
        #expect(refuse("GET http://a.example/ HTTP/1.1\r\n\r\n") == .hostMissing)
        #expect(refuse("CONNECT a.example:443 HTTP/1.1\r\n\r\n") == .hostMissing)
        let head = try accept("GET / HTTP/1.0\r\n\r\n")
        #expect(head.host == nil)
        #expect(String(copying: head.hostBytes).isEmpty)
        #expect(try accept("GET http://a.example/ HTTP/1.0\r\n\r\n").host?.description == "a.example")
    }

    @Test("rule 18: more than one Host is refused, even if equal")
    func rule18() {
        #expect(refuse("GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n") == .hostRepeated)
        #expect(refuse("GET / HTTP/1.0\r\nHost: a.example\r\nhOST: b.example\r\n\r\n") == .hostRepeated)
    }

    @Test(
        "rule 19: a Host that is more than host and port is refused",
        arguments: [
            "a.example,b.example", "a.example/", "a.example/x", "http://a.example", "", "a.example x", "a.example::",
            ":80", ":", "a.example?", "a..b", "[::1", "bücher.example",
        ]
    )
    func rule19(host: String) {
        #expect(refuse("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n")?.status == 400)
    }

    private static let strict = HeadLimits(strictHost: true)

    @Test(
        "rule 20: a Host that differs from the target is replaced, or refused",
        arguments: ["b.example", "a.example:81", "a.example:443", "a.example.evil", "[::1]:8080"]
    )
    func rule20(host: String) throws {
        let text = "GET http://a.example/ HTTP/1.1\r\nHost: \(host)\r\n\r\n"
        #expect(refuse(text, limits: Self.strict) == .hostDiffers)
        let head = try accept(text)
        try #expect(head.host == Host("a.example") && head.port == 80)
        #expect(String(copying: head.rawHost) == "a.example")
        let index = try #require(head.fields.first(.host))
        #expect(String(copying: head.fields.value(at: index)) == "a.example")
        #expect(head.fields.next(.host, after: index) == nil)
    }

    @Test("rule 20: an invalid Host is refused beside any target", arguments: ["", "u@b.example", "b/", "127.1"])
    func rule20Invalid(host: String) {
        #expect(refuse("GET http://a.example/ HTTP/1.1\r\nHost: \(host)\r\n\r\n")?.status == 400)
    }

    @Test(
        "rule 20: a Host that says the same in other words is accepted",
        arguments: [
            ("http://a.example/", "A.EXAMPLE:80"), ("https://a.example./", "a.example:443"),
            ("http://a.example:80/", "a.example"), ("http://[::1]:80/", "[0::1]"),
            // RFC 3986, section 6.2.3.
            ("http://a.example:/", "a.example:"), ("http://a.example/", "a.example:"),
            ("https://a.example:", "a.example:443"), ("http://[::1]:/", "[::1]:"),
        ]
    )
    func rule20Same(target: String, host: String) throws {
        let head = try accept("GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
        #expect(head.host == (target.contains("::") ? try Host("::1") : try Host("a.example")))
    }
}
