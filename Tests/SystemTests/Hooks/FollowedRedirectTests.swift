// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Redirects that the proxy follows", .onOwnThreads)
struct FollowedRedirectTests {
    private static let second = "second.example.com"

    /// A pinned host whose redirects are followed, and a second one, pinned too.
    private struct Pair {
        let stage: Stage
        let second: ScriptedOrigin
    }

    /// - Parameters:
    ///   - redirects: of the first host.
    ///   - isPinned: whether the second host is.
    ///   - temporary: where the proxy keeps larger bodies.
    private func pair(
        _ redirects: [String: Any] = ["policy": "follow"],
        isPinned: Bool = true,
        temporary: String? = nil,
        _ change: (inout ProxySettings) -> Void = { _ in },
        first: @escaping @Sendable (HTTPMessage) -> String,
        second response: @escaping @Sendable (HTTPMessage) -> String = { _ in OriginResponse.text("the end") }
    ) throws -> Pair {
        let server = try Stage.pki.server(Self.second)
        let second = try ScriptedOrigin(server, responding: response)
        let stage = try Stage(
            {
                $0.hosts[Stage.host]?["redirects"] = redirects
                $0.resolve(Self.second, to: second.port)
                if isPinned { $0.pin(Self.second, to: server.pin) }
                change(&$0)
            },
            environment: temporary.map { ["TMPDIR": $0] } ?? [:],
            responding: first
        )
        return Pair(stage: stage, second: second)
    }

    private static func redirect(_ location: String, status: String = "302 Found") -> String {
        OriginResponse.text("", status: status, fields: ["Location: \(location)"])
    }

    @Test("a hop reaches the named host under its own pins")
    func followed() throws {
        let pair = try pair(first: { _ in Self.redirect("https://\(Self.second)/next?a=b&code=7#c") })
        let response = try pair.stage.get(
            "/start?token=x",
            fields: ["Accept: text/plain", "Authorization: secret", "Cookie: a=b"]
        )
        #expect(response.status == 200 && response.text == "the end")
        #expect(response["Location"] == nil)
        let request = try #require(pair.second.requests.first)
        #expect(request.startLine == "GET /next?a=b&code=7 HTTP/1.1")
        #expect(request["Host"] == Self.second && request["Accept"] == "text/plain")
        #expect(request["Authorization"] == nil && request["Cookie"] == nil)
        #expect(pair.stage.origin.requests.first?["Authorization"] == "secret")

        let line = try #require(try pair.stage.proxy.waitForTaskLines(1).first)
        #expect(line.integer("redirectCount") == 1 && line.integer("status") == 200)
        #expect(line.string("url") == "https://\(Stage.host)/start?token=***")
        #expect(
            line.transactions.map { $0["url"] as? String } == [
                "https://\(Stage.host)/start?token=***", "https://\(Self.second)/next?a=b&code=***",
            ]
        )
        #expect(line.transactions.map { $0["status"] as? Int } == [302, 200])
        let starts = line.transactions.compactMap { ($0["fetchStart"] as? NSNumber)?.doubleValue }
        #expect(starts.count == 2 && starts[1] > 0 && starts[1] < (line.number("duration") ?? 0))
        #expect(line.object("pinning")?["domain"] as? String == Self.second)
    }

    @Test("a hop to a host with a wrong pin sends nothing there")
    func secondPinFails() throws {
        let pair = try pair({ $0.pin(Self.second, to: .unrelated(2)) }, location: "https://\(Self.second)/")
        let response = try pair.stage.get("/start")
        #expect(response.status == 502 && response.problemCode == "pin_mismatch")
        #expect(try pair.second.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
        let line = try #require(try pair.stage.proxy.waitForTaskLines(1).first)
        #expect(line.transactions.count == 2 && line.integer("redirectCount") == 1)
        #expect(line.string("error") == "pin_mismatch")
    }

    private func pair(
        _ change: (inout ProxySettings) -> Void,
        location: String,
        redirects: [String: Any] = ["policy": "follow"],
        isPinned: Bool = true
    ) throws -> Pair {
        try pair(redirects, isPinned: isPinned, change, first: { _ in Self.redirect(location) })
    }

    @Test("leaving TLS or pins is denied, unless a rule names the target")
    func guards() throws {
        let plain = try ScriptedOrigin(nil) { _ in OriginResponse.text("in the clear") }
        let cases: [(location: String, isPinned: Bool, rule: [String: Any], waives: Bool)] = [
            ("http://plain.example.com/", true, ["scheme": "http", "to": "plain.example.com", "then": "follow"], true),
            ("http://plain.example.com/", true, ["to": "plain.example.com", "then": "follow"], false),
            ("https://\(Self.second)/", false, ["to": Self.second, "then": "follow"], true),
            ("https://\(Self.second)/", false, ["to": "*", "then": "follow"], false),
        ]
        for one in cases {
            let redirects: [String: Any] = ["policy": "return", "rules": [one.rule]]
            let pair = try pair(
                { $0.resolve("plain.example.com", to: plain.port) },
                location: one.location,
                redirects: redirects,
                isPinned: one.isPinned
            )
            let response = try pair.stage.get("/start")
            if one.waives {
                #expect(response.status == 200, "\(one.rule): \(response.text)")
            } else {
                #expect(
                    response.status == 403 && response.problemCode == "redirect_denied",
                    "\(one.rule): \(response.text)"
                )
                #expect(response["Proxy-Status"]?.contains("error=http_request_denied") == true)
                #expect(pair.second.connections.isEmpty)
            }
        }
        #expect(plain.requests.count == 1)
    }

    @Test(
        "a request does not follow to a host without effective pins",
        arguments: [
            ["expiration": "2020-01-31", "onExpiration": "unpinned"], ["enforcePinning": false],
            ["expiration": "2020-01-31", "enforcePinning": false], ["ports": [444]], ["pinningMode": "none"],
        ] as [[String: any Sendable]]
    )
    func heldToNoPins(members: [String: any Sendable]) throws {
        func post(_ members: [String: Any]) throws -> (HTTPMessage, ScriptedOrigin) {
            // Another key than the pinned one.
            let pair = try pair(
                ["policy": "follow"],
                { settings in
                    var domain = settings.pinnedDomains[Self.second] ?? [:]
                    domain["pins"] = ["\(PublicKeyPin.unrelated(2))", "\(PublicKeyPin.unrelated(3))"]
                    if members["pinningMode"] != nil { domain["pins"] = nil }
                    settings.pinnedDomains[Self.second] = domain.merging(members) { $1 }
                },
                first: { _ in Self.redirect("https://\(Self.second)/next", status: "307 Temporary Redirect") }
            )
            let request = ProxyUnderTest.request(
                "POST",
                pair.stage.url("/start"),
                fields: ["X-Api-Key: secret"],
                body: "the body"
            )
            return (try pair.stage.proxy.exchange(request, method: "POST"), pair.second)
        }
        let (response, second) = try post(members)
        #expect(
            response.status == 403 && response.problemCode == "redirect_denied",
            "\(response.startLine) \(response.text)"
        )
        #expect(second.applicationBytes == 0)
        // With pins that hold, the hop is made, and they refuse the server.
        let (held, _) = try post(["expiration": "2098-12-31"])
        #expect(held.problemCode == "pin_mismatch", "\(held.startLine) \(held.text)")
    }

    @Test("the access and address rules apply to each hop")
    func hopsAreJudged() throws {
        for (location, code) in [
            ("http://169.254.169.254/latest/meta-data/", "address_denied"),
            ("http://[fd00:ec2::254]/", "address_denied"),
            ("http://127.0.0.1:22/", "address_denied"), ("https://denied.example.com/", "host_denied"),
            ("https://localhost.example.com/", "dns_failed"),
        ] {
            let pair = try pair(
                ["policy": "follow", "rules": [["scheme": "http", "then": "follow"]]],
                {
                    $0.pinnedDomains[Stage.host] = nil
                    $0.hosts[Stage.host]?["upgrade"] = true
                    $0.members["access"] = ["denyHosts": ["denied.example.com"]]
                },
                first: { _ in Self.redirect(location) }
            )
            let response = try pair.stage.get("/start")
            #expect(response.problemCode == code, "\(location): \(response.text)")
            if code != "dns_failed" { #expect(response.text.contains("redirects to"), "\(response.text)") }
        }
    }

    @Test(
        "a 303 is followed with GET, a 307 with the body",
        arguments: ["303 See Other", "307 Temporary Redirect", "302 Found"]
    )
    func methods(status: String) throws {
        let pair = try pair(
            first: { _ in Self.redirect("https://\(Self.second)/next", status: status) },
            second: { OriginResponse.text("\($0.method) \($0.text)") }
        )
        let response = try pair.stage.proxy.exchange(
            ProxyUnderTest.request(
                "POST",
                pair.stage.url("/start"),
                fields: ["Content-Type: text/plain"],
                body: "the body"
            ),
            method: "POST"
        )
        let keeps = status.hasPrefix("307")
        #expect(response.text == (keeps ? "POST the body" : "GET "))
        let request = try #require(pair.second.requests.first)
        #expect((request["Content-Type"] != nil) == keeps)
        #expect(request["Content-Length"] == (keeps ? "8" : nil))
        #expect(pair.stage.origin.requests.first?.text == "the body")
    }

    @Test("a body of some megabytes is repeated whole, without leftovers", arguments: [true, false])
    func largeBody(hasLength: Bool) throws {
        let folder = try TemporaryFolder()
        let pair = try pair(
            temporary: folder.path,
            first: { _ in Self.redirect("https://\(Self.second)/next", status: "308 Permanent Redirect") },
            second: { OriginResponse.text("\($0.body.count)") }
        )
        let body = patternBytes(3 << 20)
        let file = try pair.stage.proxy.folder.write(bytes: body, as: "upload")
        let framing = hasLength ? [] : ["-H", "Transfer-Encoding: chunked"]
        let curl = try Programs.run(
            "curl",
            ["-sS", "-x", "http://127.0.0.1:\(pair.stage.proxy.port)", "-T", file] + framing + [pair.stage.url("/up")]
        )
        #expect(curl.output == "\(body.count)", "\(curl.output) \(curl.errors)")
        let isIntact = pair.second.requests.first?.body == body
        #expect(isIntact)
        let line = try #require(try pair.stage.proxy.waitForTaskLines(1).first)
        #expect(line.integer("bytesSent") == body.count)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
        let descriptors = "/proc/\(pair.stage.proxy.identifier)/fd"
        func spooled() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: descriptors)
                .compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "\(descriptors)/\($0)") }
                .filter { $0.hasPrefix(folder.path) }
        }
        let deadline = Date() + Patience.seconds
        while try !spooled().isEmpty, Date() < deadline { usleep(10_000) }
        #expect(try spooled().isEmpty)
    }

    @Test("a redirect whose body cannot be kept is left to the client")
    func unwritableFolder() throws {
        let pair = try pair(
            temporary: "/nowhere/at/all",
            first: { Self.redirect("https://\(Self.second)/\($0.body.count)", status: "308 Permanent Redirect") }
        )
        let body = String(repeating: "x", count: 1 << 20)
        let large = try pair.stage.proxy.exchange(
            ProxyUnderTest.request("POST", pair.stage.url("/up"), body: body),
            method: "POST"
        )
        #expect(large.status == 308 && large["Location"] == "http://\(Self.second)/\(1 << 20)")
        let small = try pair.stage.proxy.exchange(
            ProxyUnderTest.request("POST", pair.stage.url("/up"), body: "small"),
            method: "POST"
        )
        #expect(small.text == "the end")
    }

    @Test("a client waiting for 100 is told once; the last origin gets the body")
    func continuation() throws {
        let server = try Stage.pki.server(Self.second)
        let second = try ScriptedOrigin(server) { connection in
            let head = try connection.readRequestHead()
            #expect(head?["Expect"] == "100-continue")
            try connection.write("HTTP/1.1 100 Continue\r\n\r\n")
            if let head { try connection.respond(connection.readBody(of: head).text) }
        }
        let stage = try Stage({
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.resolve(Self.second, to: second.port)
            $0.pin(Self.second, to: server.pin)
        }) { connection in
            _ = try connection.readRequestHead()
            try connection.write(Self.redirect("https://\(Self.second)/", status: "307 Temporary Redirect"))
        }
        let client = try stage.proxy.connect()
        let fields = "Host: \(Stage.host)\r\nExpect: 100-continue\r\nContent-Length: 4"
        try client.send("POST \(stage.url("/")) HTTP/1.1\r\n\(fields)\r\n\r\n")
        #expect(String(decoding: try client.receive(), as: UTF8.self) == "HTTP/1.1 100 Continue\r\n\r\n")
        try client.send("body")
        let response = try client.readResponse(to: "POST")
        #expect(response.text == "body" && response.interim.isEmpty)
        #expect(stage.origin.connections.allSatisfy { $0.requests.allSatisfy { $0.body.isEmpty } })
    }

    @Test("a body above the limit leaves the redirect to the client", arguments: [true, false])
    func tooLargeBody(hasLength: Bool) throws {
        let pair = try pair(
            ["policy": "follow"],
            { $0.members["limits"] = ["redirectBodyBytes": "100KB"] },
            first: { _ in Self.redirect("https://\(Self.second)/next", status: "307 Temporary Redirect") }
        )
        let client = try pair.stage.proxy.connect()
        let body = patternBytes(300 << 10)
        let framing = hasLength ? "Content-Length: \(body.count)" : "Transfer-Encoding: chunked"
        try client.send("PUT \(pair.stage.url("/up")) HTTP/1.1\r\nHost: \(Stage.host)\r\n\(framing)\r\n\r\n")
        if hasLength {
            try client.send(body)
        } else {
            try client.send(Array("\(String(body.count, radix: 16))\r\n".utf8) + body + Array("\r\n0\r\n\r\n".utf8))
        }
        let response = try client.readResponse(to: "PUT")
        #expect(response.status == 307 && response["Location"] == "http://\(Self.second)/next")
        let isIntact = pair.stage.origin.requests.first?.body == body
        #expect(isIntact)
        #expect(pair.second.connections.isEmpty)
    }

    @Test("after an early redirect the rest goes to the next host")
    func earlyRedirect() throws {
        let server = try Stage.pki.server(Self.second)
        let second = try ScriptedOrigin(server) { OriginResponse.text("\($0.body.count)") }
        let stage = try Stage({
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.resolve(Self.second, to: second.port)
            $0.pin(Self.second, to: server.pin)
        }) { connection in
            _ = try connection.readRequestHead()
            try connection.write(Self.redirect("https://\(Self.second)/next", status: "307 Temporary Redirect"))
        }
        let client = try stage.proxy.connect()
        let body = patternBytes(200 << 10)
        try client.send(
            "PUT \(stage.url("/up")) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: \(body.count)\r\n\r\n"
        )
        try client.send(Array(body[..<1000]))
        try second.wait(for: "the second host") { $0.isEmpty ? nil : true }
        try client.send(Array(body[1000...]))
        #expect(try client.readResponse(to: "PUT").text == "\(body.count)")
        let isIntact = second.requests.first?.body == body
        #expect(isIntact)
        // The connection is as good as any.
        try client.send(ProxyUnderTest.request("GET", "https://\(Self.second)/more"))
        #expect(try client.readResponse().text == "0")
    }

    @Test("going in circles and too many hops end with the reason")
    func loops() throws {
        let circle = try pair(
            ["policy": "follow"],
            first: { $0.target == "/a" ? Self.redirect("/b") : Self.redirect("/a") }
        )
        let response = try circle.stage.get("/a")
        #expect(
            response.status == 403 && response.problemCode == "redirect_denied" && response.text.contains("circles")
        )
        #expect(circle.stage.origin.requests.map(\.target) == ["/a", "/b"])
        // One connection served both.
        #expect(circle.stage.origin.connections.count == 1)
        let endless = try pair(["policy": "follow", "max": 3], first: { Self.redirect("\($0.target)x") })
        #expect(try endless.stage.get("/").text.contains("one more redirect after 3"))
        #expect(endless.stage.origin.requests.count == 4)
        let line = try #require(try endless.stage.proxy.waitForTaskLines(1).first)
        #expect(line.transactions.count == 4 && line.string("error") == "redirect_denied")
    }

    @Test("a relayed redirect has its full target, through the proxy")
    func relativeAfterHop() throws {
        let pair = try pair(
            ["policy": "follow", "rules": [["path": "/out*", "then": "return"]]],
            first: { _ in Self.redirect("https://\(Self.second)/a/b") },
            second: { _ in Self.redirect("../out?x") }
        )
        let upgraded = try pair.stage.get("/start")
        #expect(upgraded.status == 302 && upgraded["Location"] == "http://\(Self.second)/out?x")
        let asked = try pair.stage.proxy.get("https://\(Stage.host)/start")
        #expect(asked["Location"] == "https://\(Self.second)/out?x")
    }

    @Test("another host's response sets no cookies and promises for the first")
    func foreignStatements() throws {
        let fields = [
            "Set-Cookie: a=1", "Strict-Transport-Security: max-age=1", "Alt-Svc: h3=\":443\"", "Clear-Site-Data: \"*\"",
            "X-Own: 1",
        ]
        let responded = OriginResponse.text("", fields: fields)
        let pair = try pair(
            first: {
                $0.target == "/stay"
                    ? Self.redirect("/here")
                    : $0.target == "/here" ? responded : Self.redirect("https://\(Self.second)/")
            },
            second: { _ in responded }
        )
        let foreign = try pair.stage.proxy.get("https://\(Stage.host)/go")
        #expect(foreign["X-Own"] == "1")
        for name in ["Set-Cookie", "Strict-Transport-Security", "Alt-Svc", "Clear-Site-Data"] {
            #expect(foreign[name] == nil, "\(name)")
        }
        let own = try pair.stage.proxy.get("https://\(Stage.host)/stay")
        #expect(own["Set-Cookie"] == "a=1" && own["Strict-Transport-Security"] == "max-age=1")
    }

    @Test("HEAD stays HEAD, and a redirect's body does not reach the client")
    func headAndBodies() throws {
        let text = String(repeating: "moved ", count: 20_000)
        let pair = try pair(
            first: { request in
                let fields = ["Location: https://\(Self.second)\(request.target)"]
                if request.method == "HEAD" { return "HTTP/1.1 302 Found\r\n\(fields[0])\r\nContent-Length: 5\r\n\r\n" }
                if request.target == "/chunked" {
                    return
                        "HTTP/1.1 302 Found\r\n\(fields[0])\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nmoved\r\n0\r\nX-T: 1\r\n\r\n"
                }
                return OriginResponse.text(
                    request.target == "/long" ? text : "moved",
                    status: "302 Found",
                    fields: fields
                )
            },
            second: { request in
                request.method == "HEAD"
                    ? "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" : OriginResponse.text("at \(request.target)")
            }
        )
        let client = try pair.stage.proxy.connect()
        for target in ["/short", "/long", "/chunked", "/short"] {
            try client.send(ProxyUnderTest.request("GET", pair.stage.url(target)))
            let response = try client.readResponse()
            #expect(response.text == "at \(target)" && response.trailers.isEmpty)
        }
        try client.send(ProxyUnderTest.request("HEAD", pair.stage.url("/short")))
        #expect(try client.readResponse(to: "HEAD")["Content-Length"] == "9")
        #expect(pair.second.requests.last?.method == "HEAD")
    }

    @Test("a gateway's redirect to its own upstream uses the gateway's route")
    func gateway() throws {
        let stage = try Stage({
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.addGateway(to: Stage.host)
        }) { $0.target == "/a" ? Self.redirect("http://\(Stage.host)/b") : OriginResponse.text("at \($0.target)") }
        let port = stage.proxy.port(of: 1)
        let response = try stage.proxy.exchange("GET /a HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n", on: 1)
        #expect(response.text == "at /b")
    }

    @Test("a denying policy responds itself, and hides the origin's response")
    func denied() throws {
        let pair = try pair(["policy": "deny"], first: { _ in Self.redirect("https://\(Self.second)/") })
        let response = try pair.stage.get("/start")
        #expect(response.status == 403 && response.problemCode == "redirect_denied")
        #expect(response.text.contains("hosts/\(Stage.host)/redirects/policy") && response["Location"] == nil)
        #expect(pair.second.connections.isEmpty)
    }

    @Test("a rewritten redirect has its rule's target and fields")
    func rewritten() throws {
        let rule: [String: Any] = [
            "to": "old.example.com", "path": "/old/*", "then": "rewrite", "host": Self.second, "pathPrefix": "/new/",
            "removeHeaders": ["X-Client"], "addHeaders": ["X-Added": "1"],
        ]
        let pair = try pair(
            ["policy": "return", "rules": [rule]],
            first: { _ in Self.redirect("https://old.example.com/old/a?b") },
            second: { _ in OriginResponse.text("new") }
        )
        #expect(try pair.stage.get("/start", fields: ["X-Client: 1", "X-Other: 1"]).text == "new")
        let request = try #require(pair.second.requests.first)
        #expect(request.target == "/new/a?b" && request["X-Client"] == nil)
        #expect(request["X-Added"] == "1" && request["X-Other"] == "1")
    }

    @Test("a client that leaves between hops ends the exchange")
    func clientGone() throws {
        let isAsked = Gate()
        let server = try Stage.pki.server(Self.second)
        let second = try ScriptedOrigin(server) { connection in
            _ = try connection.readRequest()
            isAsked.open()
            connection.readToEnd()
        }
        let stage = try Stage({
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.resolve(Self.second, to: second.port)
            $0.pin(Self.second, to: server.pin)
        }) { $0.target == "/go" ? Self.redirect("https://\(Self.second)/") : OriginResponse.text("here") }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/go")))
        try isAsked.pass()
        client.reset()
        try second.waitForClosed()
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "client_closed" && line.integer("redirectCount") == 1)
        #expect(try stage.get("/stay").text == "here")
    }

    @Test("a reload between two hops governs the second")
    func reloadBetween() throws {
        let mayRespond = Gate()
        let isAsked = Gate()
        let pair = try pair(first: { request in
            isAsked.open()
            try? mayRespond.pass()
            return Self.redirect("https://\(Self.second)/next")
        })
        let client = try pair.stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", pair.stage.url("/start")))
        try isAsked.pass()
        try pair.stage.reload { $0.members["access"] = ["denyHosts": [Self.second]] }
        mayRespond.open()
        let response = try client.readResponse()
        #expect(response.status == 403 && response.problemCode == "host_denied", "\(response.text)")
        #expect(pair.second.connections.isEmpty)
    }

    @Test("curl gets through a chain of redirects in one request")
    func curl() throws {
        let pair = try pair(
            first: {
                $0.target == "/3"
                    ? Self.redirect("https://\(Self.second)/end")
                    : Self.redirect("\((Int($0.target.dropFirst()) ?? 0) + 1)")
            },
            second: { _ in OriginResponse.text("the end") }
        )
        let curl = try Programs.run(
            "curl",
            ["-sS", "-x", "http://127.0.0.1:\(pair.stage.proxy.port)", "-w", " %{http_code}", pair.stage.url("/0")]
        )
        #expect(curl.output == "the end 200", "\(curl.errors)")
        #expect(pair.stage.origin.requests.map(\.target) == ["/0", "/1", "/2", "/3"])
    }
}
