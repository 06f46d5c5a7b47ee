// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// What `UpgradeRewritingTests` sees of responses, for requests: servers compare the URLs in them with their own.
@Suite("Origins see their own URLs in rewritten requests", .onOwnThreads)
struct OriginViewTests {
    private static let other = "upgraded.example.com"

    /// Answers with the request's fields, each in a field `X-Seen-…` of its own, and with those of `X-Response-…`.
    private static func echo(_ request: HTTPMessage) -> String {
        let seen = request.fields.map { "X-Seen-\($0.name): \($0.value)" }
        let prefix = "X-Answer-"
        let responses = request.fields.filter { $0.name.hasPrefix(prefix) }
            .map { "\($0.name.dropFirst(prefix.count)): \($0.value)" }
        return OriginResponse.text("", status: request["X-Status"] ?? "200 OK", fields: seen + responses)
    }

    private func stage(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage({
            $0.hosts[Self.other] = ["upgrade": true]
            $0.hosts[Stage.host]?["browsers"] = true
            $0.addGateway(to: Stage.host)
            change(&$0)
        }) { Self.echo($0) }
    }

    private static let names = ["Origin", "Referer", "Destination", "Content-Location"]

    @Test("an upgraded client's http becomes https for every upgraded host")
    func upgraded() throws {
        let stage = try stage()
        let host = Stage.host
        for (sent, seen) in [
            ("http://\(host)/a?b#c", "https://\(host)/a?b#c"), ("http://\(host)", "https://\(host)"),
            ("http://\(host):80/x", "https://\(host)/x"), ("http://\(host):8443/x", "https://\(host):8443/x"),
            ("HTTP://API.EXAMPLE.COM/x", "https://\(host)/x"), ("http://\(Self.other)/", "https://\(Self.other)/"),
            ("https://\(host)/x", "https://\(host)/x"), ("http://other.example.com/", "http://other.example.com/"),
            ("null", "null"), ("/path", "/path"), ("//\(host)/x", "//\(host)/x"),
            ("http://a@b@\(host)/", "http://a@b@\(host)/"),
            ("http://\(host)\\@evil.test/", "http://\(host)\\@evil.test/"),
        ] {
            let response = try stage.get(fields: Self.names.map { "\($0): \(sent)" })
            for name in Self.names { #expect(response["X-Seen-\(name)"] == seen, "\(name): \(sent)") }
        }
    }

    @Test("a gateway's client names the gateway, and the origin sees itself")
    func gateway() throws {
        let stage = try stage()
        let port = stage.proxy.port(of: 1)
        for name in ["127.0.0.1:\(port)", "localhost:\(port)"] {
            for (sent, seen) in [
                ("http://\(name)/a?b", "https://\(Stage.host)/a?b"), ("http://\(name)", "https://\(Stage.host)"),
                ("http://127.0.0.1:1/", "http://127.0.0.1:1/"),
                ("http://evil.test:\(port)/", "http://evil.test:\(port)/"),
                ("https://\(name)/", "https://\(name)/"), ("http://\(Stage.host)/", "http://\(Stage.host)/"),
            ] {
                let fields = (["Host: \(name)"] + Self.names.map { "\($0): \(sent)" }).joined(separator: "\r\n")
                let response = try stage.proxy.exchange("GET / HTTP/1.1\r\n\(fields)\r\n\r\n", on: 1)
                for field in Self.names { #expect(response["X-Seen-\(field)"] == seen, "\(field): \(sent)") }
            }
        }
    }

    @Test("tagged lists in If and targets of Link change; tokens do not")
    func lists() throws {
        let host = Stage.host
        let response = try stage().get(fields: [
            "If: <http://\(host)/a> (<http://\(host)/token> [\"W/)<http://\(host)/>\"]) <http://other.test/> (<urn:b>)",
            "Link: <http://\(host)/b>; rel=\"http://\(host)/c\"",
        ])
        #expect(
            response["X-Seen-If"]
                == "<https://\(host)/a> (<http://\(host)/token> [\"W/)<http://\(host)/>\"]) <http://other.test/> (<urn:b>)"
        )
        #expect(response["X-Seen-Link"] == "<https://\(host)/b>; rel=\"http://\(host)/c\"")
    }

    @Test("requests stay unchanged for https, and with rewriteUpgraded false")
    func untouched() throws {
        let stage = try stage()
        let sent = "http://\(Stage.host)/"
        let fields = Self.names.map { "\($0): \(sent)" }
        let https = try stage.proxy.get("https://\(Stage.host)/", fields: fields)
        let off = try self.stage { $0.hosts[Stage.host]?["rewriteUpgraded"] = false }.get(fields: fields)
        for name in Self.names {
            #expect(https["X-Seen-\(name)"] == sent)
            #expect(off["X-Seen-\(name)"] == sent)
        }
    }

    @Test("CORS fields and a registry's token URLs are rewritten for the client")
    func wayBack() throws {
        let stage = try stage()
        let host = Stage.host
        let port = stage.proxy.port(of: 1)
        let challenge = { (url: String) in "Bearer realm=\"\(url)\", service=\"registry\"" }
        let digest =
            "Digest realm=\"https://\(host)/\", nonce=\"a\", Bearer error=\"a, b\", resource_metadata=\"https://\(host)/r\""
        let fields = [
            "X-Answer-Access-Control-Allow-Origin: https://\(host)",
            "X-Answer-WWW-Authenticate: \(challenge("https://\(host)/token"))", "X-Answer-WWW-Authenticate: \(digest)",
            "X-Answer-WWW-Authenticate: \(challenge("https://auth.other.test/token"))", "X-Status: 401 Unauthorized",
        ]
        for (name, listener) in [(host, 0), ("localhost:\(port)", 1)] {
            func ask(_ page: String) throws -> HTTPMessage {
                let target = listener == 0 ? stage.url() : "/"
                let all = (["Host: \(name)", "Origin: \(page)"] + fields).joined(separator: "\r\n")
                return try stage.proxy.exchange("GET \(target) HTTP/1.1\r\n\(all)\r\n\r\n", on: listener)
            }
            let response = try ask("http://\(name)")
            #expect(response["Access-Control-Allow-Origin"] == "http://\(name)")
            // Another page than the one that has asked keeps its name.
            #expect(try ask("https://\(host)")["Access-Control-Allow-Origin"] == "https://\(host)")
            let challenges = response.fields.filter { $0.name == "WWW-Authenticate" }.map(\.value)
            #expect(
                challenges == [
                    challenge("http://\(name)/token"),
                    digest.replacing("resource_metadata=\"https://\(host)", with: "resource_metadata=\"http://\(name)"),
                    challenge("https://auth.other.test/token"),
                ]
            )
        }
    }

    @Test("a gateway's upstream path does not become another host for HTTP/1.0")
    func nameless() throws {
        let stage = try stage()
        for path in ["//evil.test/x", "/\\evil.test", "/a"] {
            let location = "X-Answer-Location: https://\(Stage.host)\(path)"
            let response = try stage.proxy.exchange("GET / HTTP/1.0\r\n\(location)\r\n\r\n", on: 1)
            #expect(response["Location"] == (path == "/a" ? path : "/." + path))
        }
    }

    // MARK: - Every kind of head

    @Test("early hints lead back, and WebSocket offers have the origin's Origin")
    func otherHeads() throws {
        let stage = try Stage { connection in
            while let request = try connection.readRequestHead() {
                guard request["Upgrade"] == nil else {
                    let key = "Connection: Upgrade\r\nUpgrade: websocket"
                    try connection.write(
                        "HTTP/1.1 101 Switching Protocols\r\n\(key)\r\nX-Seen: \(request["Origin"] ?? "")\r\n\r\n"
                    )
                    return
                }
                try connection.write("HTTP/1.1 103 Early Hints\r\nLink: <https://\(Stage.host)/s>; rel=preload\r\n\r\n")
                try connection.respond("")
            }
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        let response = try client.readResponse()
        #expect(response.status == 200)
        #expect(response.interim.map { $0["Link"] } == ["<http://\(Stage.host)/s>; rel=preload"])
        try client.send(
            ProxyUnderTest.request(
                "GET",
                stage.url(),
                fields: [
                    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                    "Sec-WebSocket-Version: 13", "Origin: http://\(Stage.host)",
                ]
            )
        )
        #expect(try client.readResponseHead()["X-Seen"] == "https://\(Stage.host)")
    }

    @Test("a request after a redirect has the origin's view, too")
    func redirected() throws {
        let stage = try Stage({
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
        }) { request in
            request.target == "/start"
                ? OriginResponse.text("", status: "307 Temporary Redirect", fields: ["Location: /end"])
                : Self.echo(request)
        }
        let response = try stage.get("/start", fields: ["Referer: http://\(Stage.host)/page"])
        #expect(response["X-Seen-Referer"] == "https://\(Stage.host)/page")
    }

    // MARK: - A real server

    @Test("WebDAV's MOVE and COPY work at nginx, which compares Destination", arguments: [true, false])
    func webDAV(isGateway: Bool) throws {
        let server = try Stage.pki.server(Stage.host)
        let nginx = try NginxOrigin(server, files: ["a": Array("moved".utf8)])
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: nginx.port)
        settings.addGateway(to: Stage.host)
        let proxy = try ProxyUnderTest(settings)
        let base = isGateway ? "http://localhost:\(proxy.port(of: 1))" : "http://\(Stage.host)"
        for (method, from, to) in [("COPY", "a", "b"), ("MOVE", "b", "c")] {
            let curl = try Programs.run(
                "curl",
                [
                    "-sS", "-X", method, "-o", "/dev/null", "-w", "%{http_code}", "-H",
                    "Destination: \(base)/files/\(to)",
                ]
                    + (isGateway ? [] : ["-x", "http://127.0.0.1:\(proxy.port)"]) + ["\(base)/files/\(from)"]
            )
            #expect(curl.output == "204", "\(method): \(curl.output) \(curl.errors)")
        }
        #expect(try nginx.file("c") == Array("moved".utf8))
    }
}
