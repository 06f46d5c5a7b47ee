// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Requests that are refused", .onOwnThreads)
struct RefusedRequestTests {
    @Test("limits.headBytes bounds the head")
    func headLimit() throws {
        let stage = try Stage({ $0.members["limits"] = ["headBytes": "4KB"] }) { OriginResponse.text($0.target) }
        #expect(try stage.get(fields: ["X: \(String(repeating: "x", count: 3000))"]).status == 200)
        #expect(try stage.get(fields: ["X: \(String(repeating: "x", count: 5000))"]).status == 431)
    }

    @Test("72 CONNECT to a pinned host is denied, and the connection stays")
    func connect() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\n\r\n")
        let response = try client.readResponse(to: "POST")
        #expect(response.status == 403)
        #expect(response.problemCode == "connect_denied")
        let detail = try #require(response.problem["detail"] as? String)
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
        // The origin has received nothing of either CONNECT.
        #expect(stage.origin.requests.map(\.target) == ["/next"])
    }

    @Test("rule 37: limits.requestBodyBytes refuses a longer body with 413", arguments: [true, false])
    func bodyLimit(hasLength: Bool) throws {
        let stage = try Stage({ $0.members["limits"] = ["requestBodyBytes": "1KB"] }) {
            OriginResponse.text("\($0.body.count)")
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
        let response = try send(1025)
        #expect(response.status == 413)
        #expect(response.problemCode == "request_too_large")
        #expect(response["Connection"] == "close")
        #expect(stage.origin.requests.allSatisfy { $0.isTruncated || $0.body.count == 1024 })
    }

    @Test("denied hosts, unpinned hosts and a listener's own allowHosts")
    func deniedHosts() throws {
        let stage = try Stage({
            $0.members["access"] = ["denyHosts": ["*.denied.example", "denied.example"]]
            $0.members["unpinnedHosts"] = "deny"
            $0.listeners.append(["address": "127.0.0.1:0", "mode": "forward", "allowHosts": ["other.example.com"]])
        }) { OriginResponse.text($0.target) }
        for (url, listener, code) in [
            ("http://denied.example/", 0, "host_denied"), ("https://a.b.denied.example/", 0, "host_denied"),
            ("http://unpinned.example.com/", 0, "unpinned_denied"), (stage.url(), 1, "host_denied"),
        ] {
            let client = try stage.proxy.connect(to: listener)
            for _ in 0..<2 {
                try client.send(ProxyUnderTest.request("GET", url))
                let response = try client.readResponse()
                #expect(response.status == 403)
                #expect(response.problemCode == code, "\(url)")
                #expect(response["Proxy-Status"]?.contains("error=http_request_denied") == true)
            }
        }
        #expect(stage.origin.requests.isEmpty)
    }

    @Test("a gateway responds to its own names: others get 421")
    func gatewayHost() throws {
        let stage = try Stage({
            $0.listeners.append([
                "address": "127.0.0.1:0", "mode": "gateway", "upstream": "https://\(Stage.host)",
                "allowedHosts": ["alias.example.com"],
            ])
        }) { OriginResponse.text($0["Host"] ?? "") }
        let port = stage.proxy.port(of: 1)
        for host in [
            "127.0.0.1:\(port)", "localhost:\(port)", "localhost", Stage.host, "alias.example.com",
            "ALIAS.example.com.",
        ] {
            let response = try stage.proxy.exchange("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n", on: 1)
            #expect(response.text == Stage.host, "\(host)")
        }
        for host in ["evil.example.com", "api.example.com.evil.example", "127.0.0.2", "[::1]"] {
            let response = try stage.proxy.exchange("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n", on: 1)
            #expect(response.status == 421, "\(host)")
            #expect(response.problemCode == "misdirected_request")
            #expect(response.text.contains("its allowedHosts"))
        }
        // A program that takes it for its proxy is not told to change the gateway's names.
        let proxied = "GET http://other.example.com/ HTTP/1.1\r\nHost: other.example.com\r\n\r\n"
        let response = try stage.proxy.exchange(proxied, on: 1)
        #expect(response.status == 421 && response.problemCode == "misdirected_request")
        #expect(response.text.contains("mode forward") && !response.text.contains("allowedHosts"))
    }

    @Test("a page of another site sends nothing to a gateway by default")
    func gatewayForeignPage() throws {
        let secret: (inout ProxySettings) -> Void = {
            $0.addGateway(to: Stage.host)
            $0.listeners[1]["http2"] = true
            $0.hosts[Stage.host]?["headers"] = ["request": ["set": ["X-Api-Key": "secret"]]]
        }
        let stage = try Stage(secret) { OriginResponse.text($0["X-Api-Key"] ?? "-") }
        let port = stage.proxy.port(of: 1)
        let requests = ["GET / HTTP/1.1", "POST /v1/messages HTTP/1.1\r\nContent-Length: 0", "OPTIONS / HTTP/1.1"]
        func ask(_ line: String, _ field: String, _ stage: Stage) throws -> HTTPMessage {
            let host = "localhost:\(stage.proxy.port(of: 1))"
            return try stage.proxy.exchange("\(line)\r\nHost: \(host)\r\n\(field)\r\n\r\n", on: 1)
        }
        let foreign = [
            ("Origin: http://evil.example", "Origin"), ("Origin: null", "Origin"),
            ("Origin: http://localhost:1", "Origin"), ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site"),
            ("Sec-Fetch-Site: same-site", "Sec-Fetch-Site"),
        ]
        for (field, cause) in foreign {
            for line in requests {
                let response = try ask(line, field, stage)
                #expect(response.status == 403 && response.problemCode == "request_denied", "\(line) \(field)")
                #expect(response.text.contains("its \(cause) is") && response.text.contains(#"\"browsers\": true"#))
                #expect(response["Proxy-Status"]?.contains("error=http_request_denied") == true)
                #expect(response["Access-Control-Allow-Origin"] == nil)
            }
        }
        let peer = try HTTP2Peer(stage.proxy.connect(to: 1))
        for (name, value) in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
            let stream = try peer.request("GET", "/", authority: "localhost:\(port)", fields: [(name, value)])
            #expect(try peer.finish(stream).status == 403, "\(name)")
        }
        // An offer of WebSocket is a request, too, and the only kind that no preflight precedes.
        let offer = "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket"
        #expect(try ask(offer, "Origin: http://evil.example", stage).status == 403)
        #expect(stage.origin.connections.isEmpty)
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "request_denied" && line.string("url") == "https://\(Stage.host)/")

        for field in [
            "Accept: */*", "Sec-Fetch-Site: none", "Sec-Fetch-Site: same-origin", "Origin: http://localhost:\(port)",
        ] {
            #expect(try ask(requests[0], field, stage).text == "secret", "\(field)")
        }
        let own = try peer.request(
            "GET",
            "/",
            authority: "localhost:\(port)",
            fields: [("origin", "http://localhost:\(port)"), ("sec-fetch-site", "same-origin")]
        )
        #expect(try peer.finish(own).text == "secret")
        // A forward listener's clients name the origin; browsers that use it as their proxy are meant to.
        #expect(try stage.get(fields: [foreign[0].0]).status == 200)

        let open = try Stage({
            secret(&$0)
            $0.hosts[Stage.host]?["browsers"] = true
        }) { OriginResponse.text($0["X-Api-Key"] ?? "-") }
        for (field, _) in foreign { #expect(try ask(requests[1], field, open).text == "secret", "\(field)") }
    }

    @Test("a gateway accepts HTTP/1.0 without Host, and links by paths")
    func gatewayWithoutHost() throws {
        let stage = try Stage({ $0.addGateway(to: Stage.host) }) { request in
            guard request.target == "/moved" else {
                return OriginResponse.text("\(request["Host"] ?? "-") \(request.target)")
            }
            return "HTTP/1.1 302 Found\r\nLocation: https://\(Stage.host)/new?a\r\nContent-Length: 0\r\n\r\n"
        }
        let response = try stage.proxy.exchange("GET /v1 HTTP/1.0\r\n\r\n", on: 1)
        #expect(response.status == 200 && response.text == "\(Stage.host) /v1", "\(response.text)")
        let moved = try stage.proxy.exchange("GET /moved HTTP/1.0\r\n\r\n", on: 1)
        #expect(moved.status == 302 && moved["Location"] == "/new?a")
        // HTTP/1.1 has to have one, and another one stays another one in HTTP/1.0, too.
        #expect(try stage.proxy.exchange("GET /v1 HTTP/1.1\r\n\r\n", on: 1).status == 400)
        let other = try stage.proxy.exchange("GET /v1 HTTP/1.0\r\nHost: evil.example.com\r\n\r\n", on: 1)
        #expect(other.status == 421 && other.text.contains("the request's Host is another"))
        #expect(try stage.proxy.exchange("GET /v1 HTTP/1.0\r\nHost: localhost\r\n\r\n", on: 1).status == 200)
        // A forward proxy cannot know what is meant.
        #expect(try stage.proxy.exchange("GET /v1 HTTP/1.0\r\n\r\n").status == 400)
    }
}
