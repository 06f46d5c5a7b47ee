// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Rules 36 to 43 as origin and client meet them: the head is at the origin when the fault comes.
@Suite("Bodies that break a rule are cut for the origin", .onOwnThreads)
struct BrokenBodyRuleTests {
    private static let longTrailers = (0..<100).map { "X-\($0): 1\r\n" }.joined()

    /// The bytes that follow a valid first chunk.
    private static let rules: [WireRule] = [
        .rule(
            38,
            "a chunk size that is not hexadecimal digits alone",
            ["+5", "-5", "0x5", " 5", "g", "5_0", "\"5\"", ""].map { ("\($0)\r\nhello\r\n0\r\n\r\n", 400) }
        ),
        .rule(
            39,
            "a chunk size that overflows",
            ["FFFFFFFFFFFFFFFF", "10000000000000005"].map { ("\($0)\r\nhello\r\n0\r\n\r\n", 400) }
        ),
        .rule(
            40,
            "a bare CR or LF behind size, data or trailer",
            [
                "5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r0\r\n\r\n",
                "0\n\r\n", "0\r\nX: 1\n\r\n", "0\r\nX: 1\r\n\n", "0\r\nX: a\rb\r\n\r\n",
            ].map { ($0, 400) }
        ),
        .rule(
            41,
            "no CRLF behind the data, or more data than the size",
            ["5\r\nhello0\r\n\r\n", "5\r\nhello!\r\n0\r\n\r\n", "4\r\nhello\r\n0\r\n\r\n"].map { ($0, 400) }
        ),
        .rule(
            42,
            "an extension that is malformed or too long",
            [
                "5;\r\nhello\r\n0\r\n\r\n", "5;a=\"b\r\nhello\r\n0\r\n\r\n",
                "5;a=\(String(repeating: "b", count: 2000))\r\n",
            ].map { ($0, 400) }
        ),
        .rule(
            43,
            "trailers that are malformed or too many",
            [
                ("0\r\nX : 1\r\n\r\n", 400), ("0\r\nno colon\r\n\r\n", 400), ("0\r\nX: 1\r\n folded\r\n\r\n", 400),
                ("0\r\nContent_Length: 5\r\n\r\n", 400), ("0\r\n\(longTrailers)\r\n", 431),
                ("0\r\nX: \(String(repeating: "x", count: 9000))\r\n\r\n", 431),
            ]
        ),
    ]

    @Test("a body that is refused", arguments: rules)
    func refused(rule: WireRule) throws {
        let stage = try Stage { connection in
            guard let head = try connection.readRequestHead() else { return }
            _ = try connection.readBody(of: head)
            // Never comes to this: the body is not whole.
            try connection.respond("whole")
        }
        for (number, (bytes, status)) in rule.cases.enumerated() {
            let what = String(decoding: bytes.prefix(60), as: UTF8.self).debugDescription
            let client = try stage.proxy.connect()
            let path = "/\(number)"
            let start = ProxyUnderTest.request("PUT", stage.url(path), fields: ["Transfer-Encoding: chunked"])
            try client.send(start + "3\r\nabc\r\n")
            try stage.origin.wait(for: "the head of \(what)") { records in
                records.contains { $0.requests.contains { $0.target == path } } ? true : nil
            }
            try client.send(bytes + Array(ProxyUnderTest.request("GET", stage.url("/smuggled")).utf8))
            let response = try client.readResponse(to: "PUT")
            #expect(response.status == status, "\(what) \(response.startLine)")
            #expect(response.problemCode == "request_invalid", "\(what)")
            #expect(response["Connection"] == "close")
            #expect(try client.isAtEnd(), "\(what)")
        }
        let records = try stage.origin.waitForClosed()
        #expect(records.allSatisfy { $0.requests.allSatisfy(\.isTruncated) })
        #expect(records.flatMap(\.requests).count == rule.cases.count)
    }

    @Test("rule 35: a body with GET, HEAD or OPTIONS is no request")
    func bodiesOfBodiless() throws {
        let stage = try Stage { request in
            request.method == "HEAD"
                ? "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
                : OriginResponse.text("\(request.method) \(request.body.count)")
        }
        let smuggled = ProxyUnderTest.request("GET", stage.url("/smuggled"))
        for method in ["GET", "HEAD", "OPTIONS"] {
            for isChunked in [false, true] {
                let client = try stage.proxy.connect()
                if isChunked {
                    let size = String(smuggled.utf8.count, radix: 16)
                    let head = ProxyUnderTest.request(method, stage.url(), fields: ["Transfer-Encoding: chunked"])
                    try client.send("\(head)\(size)\r\n\(smuggled)\r\n0\r\n\r\n")
                } else {
                    try client.send(ProxyUnderTest.request(method, stage.url(), body: smuggled))
                }
                let response = try client.readResponse(to: method)
                #expect(response.status == 200)
                if method != "HEAD" { #expect(response.text == "\(method) \(smuggled.utf8.count)") }
                try client.send(ProxyUnderTest.request("GET", stage.url("/next")))
                #expect(try client.readResponse().text == "GET 0")
            }
        }
        #expect(!stage.origin.requests.contains { $0.target == "/smuggled" })
    }

    @Test("rule 42: valid extensions are not passed on")
    func extensions() throws {
        let stage = try Stage { OriginResponse.text($0.text) }
        let head = ProxyUnderTest.request("PUT", stage.url(), fields: ["Transfer-Encoding: chunked"])
        let body = "5;name=value\r\nhello\r\n1 ;a=\"quoted;\"\r\n!\r\n0;last\r\n\r\n"
        #expect(try stage.proxy.exchange(head + body, method: "PUT").text == "hello!")
    }
}
