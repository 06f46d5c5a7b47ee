// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Rules 1 to 34 as a client meets them, and a few more refusals of heads that have no number.
@Suite("Refused heads never reach the origin", .onOwnThreads)
struct RefusedHeadRuleTests {
    private static let line = "GET http://api.example.com/ HTTP/1.1\r\n"
    private static let host = "Host: api.example.com\r\n"
    private static let head = line + host
    private static let post = "POST http://api.example.com/ HTTP/1.1\r\n" + host

    private static func asked(_ target: String, method: String = "GET") -> String {
        "\(method) \(target) HTTP/1.1\r\n\(host)\r\n"
    }

    private static func framed(_ fields: String, body: String = "hello") -> String { "\(post)\(fields)\r\n\r\n\(body)" }

    private static let requestLine: [WireRule] = [
        .rule(
            1,
            "a line that ends with LF alone",
            [
                ("GET http://api.example.com/ HTTP/1.1\nHost: api.example.com\n\n", 400),
                (line + "Host: api.example.com\n\r\n", 400),
                (head + "\n", 400),
            ]
        ),
        .rule(
            2,
            "a CR without LF",
            [
                ("GET http://api.example.com/ HTTP/1.1\rHost: api.example.com\r\n\r\n", 400),
                (head + "X: a\rb\r\n\r\n", 400),
            ]
        ),
        .rule(3, "two empty lines before the request", [("\r\n\r\n" + head + "\r\n", 400)]),
        .rule(
            4,
            "white space before the request line or the first field",
            [(" " + head + "\r\n", 400), (line + " " + host + "\r\n", 400)]
        ),
        .rule(
            5,
            "several spaces or a TAB in the request line",
            [
                ("GET  http://api.example.com/ HTTP/1.1\r\n" + host + "\r\n", 400),
                ("GET http://api.example.com/\tHTTP/1.1\r\n" + host + "\r\n", 400),
                ("GET http://api.example.com/ HTTP/1.1 \r\n" + host + "\r\n", 400),
            ]
        ),
        .rule(6, "no target", [("GET HTTP/1.1\r\n" + host + "\r\n", 400), ("GET \r\n" + host + "\r\n", 400)]),
        .rule(7, "HTTP/0.9", [("GET http://api.example.com/\r\n\r\n", 400)]),
        .rule(
            8,
            "another version, the preface of HTTP/2 among them, or none",
            [
                ("GET http://api.example.com/ HTTP/2.0\r\n" + host + "\r\n", 505),
                ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
                ("GET http://api.example.com/ HTTP/1.10\r\n" + host + "\r\n", 400),
                ("GET http://api.example.com/ http/1.1\r\n" + host + "\r\n", 400),
            ]
        ),
        .rule(
            9,
            "a method that is no token, or too long",
            [
                (asked("http://api.example.com/", method: "G(T"), 400),
                (asked("http://api.example.com/", method: String(repeating: "M", count: 33)), 501),
            ]
        ),
        .rule(
            10,
            "a target that is too long",
            [(asked("http://api.example.com/" + String(repeating: "x", count: 9000)), 414)]
        ),
        .rule(
            11,
            "a control character in the target, or UTF-8 in its host",
            [
                (asked("http://api.example.com/\u{0}"), 400), (asked("http://api.example.com/\u{1}"), 400),
                (asked("http://api.example.com/\u{7F}"), 400), (asked("http://\u{E9}.example.com/"), 400),
            ]
        ),
        .rule(12, "# in a target without a path", [(asked("api.example.com:443#part", method: "CONNECT"), 400)]),
        .rule(13, "* without OPTIONS", [(asked("*"), 400)]),
        .rule(
            14,
            "CONNECT without host and port, and host and port without CONNECT",
            [
                (asked("api.example.com", method: "CONNECT"), 400), (asked("/", method: "CONNECT"), 400),
                (asked("api.example.com:0", method: "CONNECT"), 400), (asked("api.example.com:443"), 400),
            ]
        ),
        .rule(
            15,
            "user information that can be read in two ways, or in Host",
            [
                (asked("http://user:pass@other.example.com@api.example.com/"), 400),
                (asked("http://user%40other.example.com@api.example.com/"), 400),
                (asked("user:pass@api.example.com:443", method: "CONNECT"), 400),
                (line + "Host: user@api.example.com\r\n\r\n", 400),
            ]
        ),
        .rule(
            16,
            "a scheme other than http and https, ws without Upgrade",
            [(asked("ftp://api.example.com/"), 400), (asked("ws://api.example.com/"), 400)]
        ),
    ]

    private static let hostField: [WireRule] = [
        .rule(17, "HTTP/1.1 without Host", [(line + "\r\n", 400)]),
        .rule(18, "more than one Host, even if they are equal", [(head + host + "\r\n", 400)]),
        .rule(
            19,
            "a Host with a comma, a path, or anything but host and port",
            [
                (line + "Host: api.example.com,other.example.com\r\n\r\n", 400),
                (line + "Host: api.example.com/path\r\n\r\n", 400), (line + "Host:\r\n\r\n", 400),
            ]
        ),
        .rule(
            20,
            "a Host that is none beside an absolute target",
            [(line + "Host: other.example.com/\r\n\r\n", 400), (line + "Host: u@api.example.com\r\n\r\n", 400)]
        ),
    ]

    private static let fields: [WireRule] = [
        .rule(21, "white space before the colon", [(head + "X : 1\r\n\r\n", 400), (head + "X\t: 1\r\n\r\n", 400)]),
        .rule(
            22,
            "a field over two lines",
            [(head + "X: 1\r\n folded\r\n\r\n", 400), (head + "X: 1\r\n\tfolded\r\n\r\n", 400)]
        ),
        .rule(
            23,
            "an empty or invalid name, or no colon",
            [(head + ": 1\r\n\r\n", 400), (head + "X(: 1\r\n\r\n", 400), (head + "no colon\r\n\r\n", 400)]
        ),
        .rule(
            24,
            "NUL or another control character in a value",
            [
                (head + "X: a\u{0}b\r\n\r\n", 400), (head + "X: a\u{1}b\r\n\r\n", 400),
                (head + "X: a\u{7F}b\r\n\r\n", 400),
            ]
        ),
        .rule(
            25,
            "a head that is too large, or too many fields",
            [
                (head + "X: " + String(repeating: "x", count: 66_000) + "\r\n\r\n", 431),
                (head + (0..<200).map { "X-\($0): 1\r\n" }.joined() + "\r\n", 431),
            ]
        ),
        .rule(
            26,
            "names that some take for those of framing",
            [(framed("Transfer_Encoding: chunked"), 400), (framed("Content_Length: 5"), 400)]
        ),
    ]

    private static let framing: [WireRule] = [
        .rule(
            27,
            "Content-Length and Transfer-Encoding",
            [(framed("Content-Length: 5\r\nTransfer-Encoding: chunked", body: "0\r\n\r\n"), 400)]
        ),
        .rule(
            28,
            "two lengths, or a list of them, even if they are equal",
            [(framed("Content-Length: 5\r\nContent-Length: 5"), 400), (framed("Content-Length: 5, 5"), 400)]
        ),
        .rule(
            29,
            "a length that is no plain number",
            ["+5", "-0", "0x5", "1_0", "5 5", "", "99999999999999999999"].map { (framed("Content-Length: \($0)"), 400) }
        ),
        .rule(30, "a length with leading zeros", [(framed("Content-Length: 05"), 400)]),
        .rule(
            31,
            "Transfer-Encoding twice",
            [(framed("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", body: "0\r\n\r\n"), 400)]
        ),
        .rule(
            32,
            "a final coding that is not chunked, or one that is unknown",
            [
                (framed("Transfer-Encoding: gzip"), 400), (framed("Transfer-Encoding: chunked, identity"), 400),
                (framed("Transfer-Encoding: gzip, chunked"), 501), (framed("Transfer-Encoding: cow"), 501),
            ]
        ),
        .rule(
            33,
            "a malformed Transfer-Encoding",
            [
                "chunked,chunked", "", "chunked,", ",chunked", "chunked;a=b", "chunked\u{0B}", "chunked\u{0C}",
                "chunked\u{0}", "\"chunked\"",
            ].map { (framed("Transfer-Encoding: \($0)", body: "0\r\n\r\n"), 400) }
        ),
        .rule(
            34,
            "Transfer-Encoding in HTTP/1.0",
            [("POST http://api.example.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)]
        ),
        .rule(46, "TRACE is not forwarded", [(asked("http://api.example.com/", method: "TRACE"), 405)]),
        .rule(48, "an expectation that is not known", [(head + "Expect: something\r\n\r\n", 417)]),
    ]

    @Test("a refused head reaches no origin", arguments: requestLine + hostField + fields + framing)
    func refused(rule: WireRule) throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        for (bytes, status) in rule.cases {
            let what = String(decoding: bytes.prefix(100), as: UTF8.self).debugDescription
            let client = try stage.proxy.connect()
            // A second request, which must not be looked at any more.
            try client.send(bytes + Array(ProxyUnderTest.request("GET", stage.url("/smuggled")).utf8))
            let response = try client.readResponse(to: bytes.starts(with: Array("CONNECT".utf8)) ? "POST" : "GET")
            #expect(response.status == status, "\(what) \(response.startLine)")
            #expect(response.problemCode == "request_invalid", "\(what)")
            #expect(response["Proxy-Status"]?.hasPrefix("pinproxy; error=http_request_error; details=") == true)
            if status == 405 { #expect(response["Allow"]?.contains("GET") == true) }
            #expect(response["Connection"] == "close", "\(what)")
            #expect(try client.isAtEnd(), "\(what)")
        }
        #expect(stage.origin.requests.isEmpty)
        #expect(stage.origin.applicationBytes == 0)
    }

    @Test(
        "a host in an old numeric form is refused",
        arguments: ["2130706433", "127.1", "0x7f.1", "0177.0.0.1"]
    )
    func ambiguousNumber(host: String) throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let response = try stage.proxy.get("http://\(host)/")
        #expect(response.status == 400)
        #expect(response.problemCode == "request_invalid")
    }

    @Test("an origin-form request names no host, and its connection stays")
    func originForm() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send("GET /path HTTP/1.1\r\n\(Self.host)\r\n" + ProxyUnderTest.request("GET", stage.url("/next")))
        #expect(try client.readResponse().problemCode == "request_invalid")
        #expect(try client.readResponse().text == "/next")
        #expect(stage.origin.requests.map(\.target) == ["/next"])
    }
}
