// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

@Suite("Fields on their way", .onOwnThreads)
struct ForwardedFieldsTests {
    @Test("rules 44 and 47: end-to-end fields arrive in order, hop-by-hop ones do not")
    func requestFields() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let response = try stage.get(
            "/path?query=a%20b",
            fields: [
                "User-Agent: test/1", "Accept: text/plain", "X-First: 1", "Connection: X-Dropped, keep-alive, TE",
                "X-Dropped: secret", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "TE: trailers, gzip",
                "Proxy-Authorization: Basic c2VjcmV0", "Upgrade: websocket", "X-Second: 2", "X-Empty:",
                "Cookie: a=b", "X-First: again",
            ]
        )
        #expect(response.status == 200)
        let request = try #require(stage.origin.requests.first)
        #expect(request.startLine == "GET /path?query=a%20b HTTP/1.1")
        #expect(request["Host"] == Stage.host)
        for name in ["X-Dropped", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Upgrade"] {
            #expect(request[name] == nil, "\(name)")
        }
        #expect(request["TE"] == "trailers")
        #expect(request["Connection"] == "TE")
        let names = request.fields.map(\.name).filter { !["Host", "Via", "TE", "Connection"].contains($0) }
        #expect(names == ["User-Agent", "Accept", "X-First", "X-Second", "X-Empty", "Cookie", "X-First"])
        #expect(request["X-First"] == "1, again")
        #expect(request["X-Empty"] == "")
    }

    @Test("only Via and Host are added to a request")
    func nothingAdded() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        _ = try stage.get()
        let request = try #require(stage.origin.requests.first)
        #expect(Set(request.fields.map(\.name)) == ["Host", "Via"])
    }

    @Test(
        "rule 44: Connection cannot remove an end-to-end field",
        arguments: ["Host", "Authorization", "Cookie", "Via"]
    )
    func connectionNamesEndToEnd(name: String) throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let fields = ["Connection: \(name), Content-Length", "Authorization: x", "Cookie: a=b"]
        let request = ProxyUnderTest.request("POST", stage.url(), fields: fields, body: "four")
        #expect(try stage.proxy.exchange(request, method: "POST").status == 200)
        let arrived = try #require(stage.origin.requests.first)
        #expect(arrived[name] != nil)
        #expect(arrived.text == "four")
    }

    @Test("rule 46: Max-Forwards of OPTIONS counts down, and the proxy responds at 0")
    func maxForwards() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        for (sent, arriving) in [("2", "1"), ("1", "0")] {
            let request = ProxyUnderTest.request("OPTIONS", stage.url(), fields: ["Max-Forwards: \(sent)"])
            #expect(try stage.proxy.exchange(request, method: "OPTIONS").status == 200)
            #expect(stage.origin.requests.last?["Max-Forwards"] == arriving)
        }
        let last = ProxyUnderTest.request("OPTIONS", stage.url(), fields: ["Max-Forwards: 0"])
        let response = try stage.proxy.exchange(last, method: "OPTIONS")
        #expect(response.status == 200)
        #expect(response["Allow"]?.contains("OPTIONS") == true)
        #expect(stage.origin.requests.count == 2)
        // Other methods are not concerned.
        #expect(try stage.get(fields: ["Max-Forwards: 0"]).status == 200)
        #expect(stage.origin.requests.last?["Max-Forwards"] == "0")
    }

    @Test("rule 44: hop-by-hop fields of a response do not reach the client")
    func responseFields() throws {
        let stage = try Stage { _ in
            OriginResponse.text(
                "body",
                fields: [
                    "Server: origin", "Connection: X-Dropped", "X-Dropped: 1", "Keep-Alive: timeout=5",
                    "Proxy-Authenticate: Basic realm=x", "Set-Cookie: a=1", "Set-Cookie: b=2", "X-Kept: 1",
                    "Date: Sat, 21 Nov 2026 06:00:00 GMT", "Upgrade: h2c",
                ]
            )
        }
        let response = try stage.get()
        for name in ["X-Dropped", "Keep-Alive", "Proxy-Authenticate", "Upgrade", "Connection"] {
            #expect(response[name] == nil, "\(name)")
        }
        #expect(response["Server"] == "origin")
        #expect(response["Set-Cookie"] == "a=1, b=2")
        #expect(response["X-Kept"] == "1")
        #expect(response["Date"] == "Sat, 21 Nov 2026 06:00:00 GMT")
    }

    @Test("rule 45: Via names this process both ways, after earlier ones")
    func via() throws {
        let stage = try Stage { _ in OriginResponse.text("body", fields: ["Via: 1.1 inner"]) }
        let response = try stage.get(fields: ["Via: 1.0 outer"])
        let sent = try #require(stage.origin.requests.first?["Via"])
        #expect(sent.wholeMatch(of: /1\.0 outer, 1\.1 pinproxy-[a-z0-9]{8}/) != nil, "\(sent)")
        let received = try #require(response["Via"])
        #expect(received.wholeMatch(of: /1\.1 inner, 1\.1 pinproxy-[a-z0-9]{8}/) != nil, "\(received)")
    }

    @Test("rule 45: a request that has been here before is a loop: 508")
    func loop() throws {
        let stage = try Stage { OriginResponse.text($0["Via"] ?? "") }
        let own = try stage.get().text
        let again = try stage.get(fields: ["Via: \(own)"])
        #expect(again.status == 508)
        #expect(again.problemCode == "loop_detected")
        #expect(again["Proxy-Status"]?.contains("error=proxy_loop_detected") == true)
        // Another pinproxy in the chain is none.
        #expect(try stage.get(fields: ["Via: 1.1 pinproxy-aaaaaaaa"]).status == 200)
    }

    @Test("rule 45: with via off, no Via names this process")
    func viaOff() throws {
        let stage = try Stage({ $0.hosts[Stage.host]?["via"] = "off" }) { connection in
            while let request = try connection.readRequest() {
                try connection.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
                try connection.respond(request["Via"] ?? "-", fields: ["Via: 1.1 inner"])
            }
        }
        let response = try stage.get()
        #expect(response.text == "-" && response["Via"] == "1.1 inner")
        #expect(response.interim.map { $0["Via"] } == [nil])
        // A reload takes it in, in both directions.
        try stage.reload { $0.hosts[Stage.host]?["via"] = "on" }
        #expect(try stage.get().text.hasPrefix("1.1 pinproxy-"))
    }

    @Test("rule 45: a loop of two proxies that both have via off is found")
    func loopWithoutVia() throws {
        // Each is a gateway that answers to the host's name, and sends what it gets to the other.
        let server = try Stage.pki.server(Stage.host)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["defaults"] = ["via": "off"]
        settings.files["own.pem"] = server.chain.map(\.pem).joined()
        settings.files["own.key"] = server.identity.key.privateKeyPEM
        settings.addGateway(to: Stage.host)
        settings.listeners[1]["tls"] = ["certificate": "own.pem", "key": "own.key"]
        settings.serve(Stage.host, server, at: 9)
        let first = try ProxyUnderTest(settings)
        settings.resolve(Stage.host, to: first.port(of: 1))
        let second = try ProxyUnderTest(settings)
        settings.resolve(Stage.host, to: second.port(of: 1))
        _ = try first.reload(settings)
        let response = try first.get("http://\(Stage.host)/")
        #expect(response.status == 508 && response.problemCode == "loop_detected", "\(response.text)")
        #expect(try first.waitForTaskLines(2).count == 2)
        #expect(try second.waitForTaskLines(1).count == 1)
    }

    @Test("rule 45: with via off, CDN-Loop names this process")
    func cdnLoop() throws {
        let stage = try Stage({ $0.members["defaults"] = ["via": "off"] }) {
            OriginResponse.text("\($0["Via"] ?? "-") \($0["CDN-Loop"] ?? "-")")
        }
        let sent = try stage.get(fields: ["Via: 1.1 other", "CDN-Loop: cdn.example"]).text
        let match = try #require(sent.wholeMatch(of: /1\.1 other cdn\.example, (pinproxy-[a-z0-9]{8})/), "\(sent)")
        // The second time it comes from another proxy of the kind, with the names of both.
        let again = try stage.get(fields: ["CDN-Loop: \(match.1), pinproxy-aaaaaaaa"])
        #expect(again.status == 508 && again.problemCode == "loop_detected")
        #expect(try stage.get(fields: ["CDN-Loop: pinproxy-aaaaaaaa"]).status == 200)
    }

    @Test("rule 45: nginx compresses for a host whose via is off, and not with Via")
    func compression() throws {
        let server = try Stage.pki.server(Stage.host)
        let page = [UInt8](repeating: 97, count: 19_000)
        let origin = try NginxOrigin(
            server,
            directives: ["gzip on", "gzip_types *", "gzip_min_length 1"],
            files: ["page": page]
        )
        for (via, isCompressed) in [("on", false), ("off", true)] {
            var settings = ProxySettings(trusting: Stage.pki)
            settings.serve(Stage.host, server, at: origin.port)
            settings.hosts[Stage.host]?["via"] = via
            let proxy = try ProxyUnderTest(settings)
            let response = try proxy.get("http://\(Stage.host)/files/page", fields: ["Accept-Encoding: gzip"])
            #expect(response.status == 200 && (response["Content-Encoding"] == "gzip") == isCompressed, "\(via)")
            #expect(isCompressed ? response.body.count < 1000 : response.body.count == page.count, "\(via)")
        }
    }

    @Test("rule 53: a response without Date gets one")
    func date() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let date = try #require(try stage.get()["Date"])
        #expect(date.wholeMatch(of: /[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT/) != nil)
    }

    @Test("rule 9: unknown methods pass through", arguments: ["PATCH", "PROPFIND", "X-OWN"])
    func methods(method: String) throws {
        let stage = try Stage { OriginResponse.text("\($0.method) \($0.text)") }
        let request = ProxyUnderTest.request(method, stage.url(), body: "with a body")
        #expect(try stage.proxy.exchange(request, method: method).text == "\(method) with a body")
    }

    @Test("rule 52: Upgrade without its Connection token is ignored, and goes no further")
    func upgradeWithoutToken() throws {
        let stage = try Stage { OriginResponse.text($0["Upgrade"] ?? "none") }
        let client = try stage.proxy.connect()
        let incomplete = [
            ["Upgrade: websocket"], ["Upgrade: websocket", "Connection: keep-alive"], ["Connection: upgrade"],
        ]
        for fields in incomplete {
            try client.send(ProxyUnderTest.request("GET", stage.url(), fields: fields))
            let response = try client.readResponse()
            #expect(response.status == 200)
            #expect(response.text == "none")
        }
    }

    @Test("a GET with a body is forwarded with it")
    func getWithBody() throws {
        let stage = try Stage { OriginResponse.text($0.text) }
        let client = try stage.proxy.connect()
        for body in ["one", "two"] {
            try client.send(ProxyUnderTest.request("GET", stage.url(), body: body))
            #expect(try client.readResponse().text == body)
        }
    }

    @Test("rule 20: Host has the target's host, and an unusual port")
    func host() throws {
        let stage = try Stage { OriginResponse.text($0["Host"] ?? "") }
        #expect(try stage.proxy.get("http://API.Example.COM/").text == Stage.host)
        #expect(try stage.proxy.get("https://\(Stage.host):443/").text == Stage.host)
        #expect(try stage.proxy.get("http://\(Stage.host):8443/").text == "\(Stage.host):8443")
        #expect(try stage.proxy.get("http://\(Stage.host)./").text == Stage.host)
        let old = try stage.proxy.exchange("GET http://\(Stage.host)/ HTTP/1.0\r\n\r\n")
        #expect(old.text == Stage.host)
    }

    @Test("rule 20: a Host that differs from the target is replaced; limits.strictHost refuses it")
    func differingHost() throws {
        let stage = try Stage { OriginResponse.text("\($0["Host"] ?? "") \($0.target)") }
        for host in ["localhost:8080", "other.example.com", "\(Stage.host):8080"] {
            let response = try stage.proxy.exchange("GET http://\(Stage.host)/x HTTP/1.1\r\nHost: \(host)\r\n\r\n")
            #expect(response.status == 200 && response.text == "\(Stage.host) /x")
        }
        let strict = try Stage({ $0.members["limits"] = ["strictHost": true] }) { OriginResponse.text($0.target) }
        let refused = try strict.proxy.exchange("GET http://\(Stage.host)/ HTTP/1.1\r\nHost: other.example.com\r\n\r\n")
        #expect(refused.status == 400 && refused.text.contains("(rule host-differs)"))
        #expect(try strict.get("/").status == 200)
        #expect(strict.origin.requests.count == 1)
    }

    @Test("rule 15: user information in the target becomes Authorization, and is not logged")
    func userinfo() throws {
        let stage = try Stage {
            OriginResponse.text("\($0["Authorization"] ?? "none") \($0["Host"] ?? "") \($0.target)")
        }
        let url = "http://user:s%20cret@\(Stage.host)/x"
        let response = try stage.proxy.get(url)
        #expect(response.text == "Basic dXNlcjpzIGNyZXQ= \(Stage.host) /x")
        let own = try stage.proxy.get(url, fields: ["Authorization: Bearer own"])
        #expect(own.text == "Bearer own \(Stage.host) /x")
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines.allSatisfy { $0.string("url") == "https://\(Stage.host)/x" })
    }

    @Test("rule 12: a fragment is removed, rule 11: UTF-8 is percent-encoded")
    func unusualTargets() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        #expect(try stage.get("/a?b#part").text == "/a?b")
        #expect(try stage.proxy.get("http://\(Stage.host)#part").text == "/")
        #expect(try stage.get("/caf\u{E9}").text == "/caf%C3%A9")
    }

    @Test("rule 10: limits.targetBytes bounds the target")
    func targetBytes() throws {
        let stage = try Stage({ $0.members["limits"] = ["targetBytes": "32KB"] }) {
            OriginResponse.text("\($0.target.utf8.count)")
        }
        #expect(try stage.get("/" + String(repeating: "x", count: 32_000)).text == "32001")
        #expect(try stage.get("/" + String(repeating: "x", count: 33_000)).status == 414)
    }

    @Test("rule 16: ws and wss URLs with an Upgrade are requests for http and https ones", arguments: ["ws", "wss"])
    func webSocketURL(scheme: String) throws {
        let stage = try Stage { OriginResponse.text("\($0["Host"] ?? "") \($0["Upgrade"] ?? "")") }
        let response = try stage.proxy.get(
            "\(scheme)://\(Stage.host)/",
            fields: ["Connection: Upgrade", "Upgrade: websocket"]
        )
        #expect(response.status == 200 && response.text == "\(Stage.host) websocket")
    }

    @Test("the path goes through as it was written")
    func exactPath() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        for path in ["/a/../b", "/a//b/./c", "/%2e%2E/%00", "/?", "/?a=b&c=%20+;:@!$'()*,", "/~x"] {
            #expect(try stage.get(path).text == path)
        }
        #expect(try stage.proxy.get("http://\(Stage.host)?only=query").text == "/?only=query")
        #expect(try stage.proxy.get("http://\(Stage.host)").text == "/")
    }
}
