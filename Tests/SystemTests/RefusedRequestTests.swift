import TestSupport
import Testing

@Suite("Requests that are refused")
struct RefusedRequestTests {
    @Test(
        "a bad request is answered with 400, and the connection closes",
        arguments: [
            "GET http://api.example.com/ HTTP/1.1\nHost: api.example.com\n\n",
            "GET  http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
            "GET http://api.example.com/\r\n\r\n",
            "GET http://api.example.com/ HTTP/1.1\r\n\r\n",
            "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nHost: api.example.com\r\n\r\n",
            "GET http://api.example.com/ HTTP/1.1\r\nHost: other.example.com\r\n\r\n",
            "GET http://user:pass@api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
            "GET http://api.example.com/#part HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
            "GET ftp://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
            "GET http://2130706433/ HTTP/1.1\r\nHost: 2130706433\r\n\r\n",
            "GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n",
            "GET http://0x7f.1/ HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n",
            "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nX : 1\r\n\r\n",
            "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nX: 1\r\n folded\r\n\r\n",
            "POST http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 5\r\n"
                + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 5\r\n"
                + "Content-Length: 5\r\n\r\nhello",
            "POST http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: +5\r\n\r\nhello",
            "POST http://api.example.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "GET /path HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
            "CONNECT api.example.com HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        ]
    )
    func badRequest(text: String) throws {
        let stage = try Stage { OriginAnswer.text($0.target) }
        let client = try stage.proxy.connect()
        // A second request, which must not be looked at any more.
        try client.send(text + ProxyUnderTest.request("GET", stage.url("/smuggled")))
        let answer = try client.readResponse()
        #expect(answer.status == 400, "\(answer.startLine)")
        #expect(answer.problemCode == "request_invalid")
        #expect(answer["Proxy-Status"]?.hasPrefix("pinproxy; error=http_request_error; details=") == true)
        if text.contains("/path ") { return }
        #expect(answer["Connection"] == "close")
        #expect(try client.isAtEnd())
        #expect(stage.origin.requests.isEmpty)
    }

    @Test("other faults have statuses of their own")
    func otherStatuses() throws {
        let stage = try Stage { OriginAnswer.text($0.target) }
        let cases: [(String, Int)] = [
            (
                "GET http://api.example.com/\(String(repeating: "x", count: 9000)) HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
                414
            ),
            (
                "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\nX: \(String(repeating: "x", count: 66_000))\r\n\r\n",
                431
            ),
            (ProxyUnderTest.request("GET", stage.url(), fields: (0..<200).map { "X-\($0): 1" }), 431),
            (ProxyUnderTest.request("GET", stage.url(), fields: ["Expect: something"]), 417),
            (ProxyUnderTest.request("POST", stage.url(), fields: ["Transfer-Encoding: gzip, chunked"]), 501),
            ("GET http://api.example.com/ HTTP/2.0\r\nHost: api.example.com\r\n\r\n", 505),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            (ProxyUnderTest.request("TRACE", stage.url()), 405),
        ]
        for (text, status) in cases {
            let client = try stage.proxy.connect()
            try client.send(text)
            let answer = try client.readResponse()
            #expect(answer.status == status, "\(text.prefix(40)) \(answer.startLine)")
            #expect(answer.problemCode == "request_invalid")
            if status == 405 { #expect(answer["Allow"]?.contains("GET") == true) }
        }
        #expect(stage.origin.requests.isEmpty)
    }

    @Test("limits.headBytes bounds the head")
    func headLimit() throws {
        let stage = try Stage({ $0.members["limits"] = ["headBytes": "4KB"] }) { OriginAnswer.text($0.target) }
        #expect(try stage.get(fields: ["X: \(String(repeating: "x", count: 3000))"]).status == 200)
        #expect(try stage.get(fields: ["X: \(String(repeating: "x", count: 5000))"]).status == 431)
    }

    @Test("72 CONNECT to a pinned host is denied with the alternatives, and the connection lives on")
    func connect() throws {
        let stage = try Stage { OriginAnswer.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\n\r\n")
        let answer = try client.readResponse(to: "POST")
        #expect(answer.status == 403)
        #expect(answer.problemCode == "connect_denied")
        let detail = try #require(answer.problem["detail"] as? String)
        #expect(detail.contains("http://\(Stage.host)/"))
        #expect(detail.contains("https://"))
        #expect(detail.contains("gateway"))
        try client.send(ProxyUnderTest.request("GET", stage.url("/next")))
        #expect(try client.readResponse().text == "/next")
        let curl = try Programs.run(
            "curl",
            ["-sS", "-x", "http://127.0.0.1:\(stage.proxy.port)", "https://\(Stage.host)/"]
        )
        #expect(curl.exitCode == 56)
        #expect(curl.errors.contains("403"))
        // Of both CONNECTs nothing has come to the origin.
        #expect(stage.origin.requests.map(\.target) == ["/next"])
    }

    @Test("limits.requestBodyBytes refuses a longer body with 413", arguments: [true, false])
    func bodyLimit(hasLength: Bool) throws {
        let stage = try Stage({ $0.members["limits"] = ["requestBodyBytes": "1KB"] }) {
            OriginAnswer.text("\($0.body.count)")
        }
        func send(_ count: Int) throws -> HTTPMessage {
            let body = String(repeating: "b", count: count)
            if hasLength {
                let text = ProxyUnderTest.request("POST", stage.url(), body: body)
                return try stage.proxy.exchange(text, method: "POST")
            }
            let text = ProxyUnderTest.request("POST", stage.url(), fields: ["Transfer-Encoding: chunked"])
            return try stage.proxy.exchange(
                "\(text)\(String(count, radix: 16))\r\n\(body)\r\n0\r\n\r\n",
                method: "POST"
            )
        }
        #expect(try send(1024).text == "1024")
        let answer = try send(1025)
        #expect(answer.status == 413)
        #expect(answer.problemCode == "request_too_large")
        #expect(answer["Connection"] == "close")
        #expect(stage.origin.requests.allSatisfy { $0.isTruncated || $0.body.count == 1024 })
    }

    @Test("denied hosts, unpinned hosts and a listener's own allowHosts")
    func deniedHosts() throws {
        let stage = try Stage({
            $0.members["access"] = ["denyHosts": ["*.denied.example", "denied.example"]]
            $0.members["unpinnedHosts"] = "deny"
            $0.listeners.append(["address": "127.0.0.1:0", "mode": "forward", "allowHosts": ["other.example.com"]])
        }) { OriginAnswer.text($0.target) }
        for (url, listener, code) in [
            ("http://denied.example/", 0, "host_denied"), ("https://a.b.denied.example/", 0, "host_denied"),
            ("http://unpinned.example.com/", 0, "unpinned_denied"), (stage.url(), 1, "host_denied"),
        ] {
            let client = try stage.proxy.connect(to: listener)
            for _ in 0..<2 {
                try client.send(ProxyUnderTest.request("GET", url))
                let answer = try client.readResponse()
                #expect(answer.status == 403)
                #expect(answer.problemCode == code, "\(url)")
                #expect(answer["Proxy-Status"]?.contains("error=http_request_denied") == true)
            }
        }
        #expect(stage.origin.requests.isEmpty)
    }

    @Test("a gateway answers to its own names only: 421 for any other Host")
    func gatewayHost() throws {
        let stage = try Stage({
            $0.listeners.append([
                "address": "127.0.0.1:0", "mode": "gateway", "upstream": "https://\(Stage.host)",
                "allowedHosts": ["alias.example.com"],
            ])
        }) { OriginAnswer.text($0["Host"] ?? "") }
        let port = stage.proxy.port(of: 1)
        for host in [
            "127.0.0.1:\(port)", "localhost:\(port)", "localhost", Stage.host, "alias.example.com",
            "ALIAS.example.com.",
        ] {
            let answer = try stage.proxy.exchange("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n", on: 1)
            #expect(answer.text == Stage.host, "\(host)")
        }
        for host in ["evil.example.com", "api.example.com.evil.example", "127.0.0.2", "[::1]"] {
            let answer = try stage.proxy.exchange("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n", on: 1)
            #expect(answer.status == 421, "\(host)")
            #expect(answer.problemCode == "misdirected_request")
        }
    }
}
