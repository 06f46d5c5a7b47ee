// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Rules about requests", .onOwnThreads)
struct RequestRuleTests {
    private func stage(
        _ rules: [[String: Any]],
        policy: String = "deny",
        _ change: (inout ProxySettings) -> Void = { _ in },
        responding response: @escaping @Sendable (HTTPMessage) -> String = { _ in OriginResponse.text("here") }
    ) throws -> Stage {
        try Stage(
            {
                $0.members["requests"] = ["policy": policy, "rules": rules]
                change(&$0)
            },
            responding: response
        )
    }

    private static var readV1: [String: Any] {
        [
            "id": "v1", "host": Stage.host, "method": "read", "path": "/v1/*", "then": "allow",
        ]
    }

    @Test("an allowed request is sent, and its log line names the rule")
    func allowed() throws {
        let stage = try stage([Self.readV1])
        #expect(try stage.get("/v1/x").text == "here")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("rule") == "v1" && line["wouldDeny"] == nil && line["ambiguity"] == nil)
    }

    @Test("a request without a matching rule gets 403, and no list")
    func denied() throws {
        let stage = try stage([Self.readV1])
        let response = try stage.get("/v2/x")
        #expect(response.status == 403 && response.problemCode == "request_denied")
        #expect(response.text.contains("No rule of requests lets it be sent") && !response.text.contains("v1"))
        #expect(
            try stage.get("/v1/x", fields: ["X-HTTP-Method-Override: DELETE"]).text.contains("may replace its method")
        )
        #expect(try stage.get("//v1/x").problemCode == "request_denied")
        #expect(try stage.get("/v1/a%2Fb").text.contains("encoded slash"))
        #expect(stage.origin.requests.isEmpty && stage.origin.connections.isEmpty)
        let lines = try stage.proxy.waitForTaskLines(4)
        // Two workers hand their lines over in either order.
        let causes = lines.map { $0.string("ambiguity") ?? "" }
        #expect(causes.sorted() == ["", "emptySegment", "encodedSlash", "methodOverride"])
        #expect(lines.allSatisfy { $0.string("error") == "request_denied" && $0.string("rule") == nil })
    }

    @Test("a rule that denies is named in the refusal and the log")
    func deniedByRule() throws {
        let stage = try stage([
            ["id": "no-delete", "method": "DELETE", "then": "deny"],
            ["id": "all", "host": Stage.host, "then": "allow"],
        ])
        let response = try stage.proxy.exchange(ProxyUnderTest.request("DELETE", stage.url("/x")), method: "DELETE")
        #expect(response.status == 403 && response.text.contains("\\\"no-delete\\\""))
        #expect(try stage.get("/x").status == 200)
        #expect(try stage.proxy.waitForTaskLines(2).map { $0.string("rule") } == ["no-delete", "all"])
    }

    @Test("a report-only denial is sent, and logged as denied")
    func reported() throws {
        let stage = try stage([["id": "try", "host": Stage.host, "method": "GET", "then": "report"]], policy: "report")
        #expect(try stage.get("/x").status == 200)
        #expect(try stage.proxy.exchange(ProxyUnderTest.request("POST", stage.url("/x")), method: "POST").status == 200)
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(
            lines.map { $0.string("rule") } == ["try", nil] && lines.allSatisfy { $0["wouldDeny"] as? Bool == true }
        )
    }

    @Test("an offer of Upgrade passes a rule only with GET")
    func offers() throws {
        let stage = try stage([
            [
                "id": "socket", "host": Stage.host, "method": ["GET", "UPGRADE"], "path": "/app/*", "then": "allow",
            ]
        ])
        let offer = ["Connection: Upgrade", "Upgrade: x"]
        for method in ["DELETE", "POST", "PURGEX"] {
            let request = ProxyUnderTest.request(method, stage.url("/app/1"), fields: offer)
            let response = try stage.proxy.exchange(request, method: method)
            #expect(response.status == 403 && response.problemCode == "request_denied")
        }
        #expect(stage.origin.requests.isEmpty)
        #expect(try stage.get("/app/1", fields: offer).status == 200)
        #expect(try stage.get("/app/1").status == 200)
        let lines = try stage.proxy.waitForTaskLines(5)
        #expect(lines.count { $0["upgrade"] as? Bool == true } == 4)
        #expect(lines.count { $0["upgrade"] == nil && $0.string("rule") == "socket" } == 1)
    }

    @Test("a reporting policy sends ambiguous requests, and logs the cause")
    func reportedCauses() throws {
        let stage = try Stage(
            { $0.members["requests"] = ["policy": "report"] },
            responding: { _ in OriginResponse.text("here") }
        )
        #expect(try stage.get("/x", fields: ["X-HTTP-Method-Override: DELETE"]).status == 200)
        #expect(try stage.get("/a/../b").status == 200)
        #expect(try stage.get("/x", fields: ["X-Forwarded-Host: other.example"]).status == 200)
        #expect(try stage.get("/x").status == 200)
        let causes = try stage.proxy.waitForTaskLines(4).map { $0.string("ambiguity") ?? "" }
        #expect(causes.sorted() == ["", "dotSegment", "hostOverride", "methodOverride"])
    }

    @Test("a field with another host or a second path is refused")
    func otherPlaces() throws {
        let stage = try stage([
            ["id": "copy", "host": Stage.host, "method": ["GET", "COPY"], "path": "/pub/*", "then": "allow"]
        ])
        for field in ["X-Forwarded-Host: other.example", "Forwarded: host=other.example", "Destination: /private/key"] {
            #expect(try stage.get("/pub/a", fields: [field]).problemCode == "request_denied", "\(field)")
        }
        #expect(stage.origin.requests.isEmpty)
        #expect(try stage.get("/pub/a", fields: ["X-Forwarded-For: ::1"]).status == 200)
    }

    @Test("a redirect's hop is checked by its own method and path")
    func hops() throws {
        let stage = try stage(
            [
                ["id": "start", "host": Stage.host, "path": "/start*", "then": "allow"],
                ["id": "open", "host": Stage.host, "path": "/open", "method": "GET", "then": "report"],
            ],
            { $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"] },
            responding: { request in
                switch request.startLine.split(separator: " ")[1] {
                case "/start": OriginResponse.text("", status: "302 Found", fields: ["Location: /secret"])
                case "/start/open": OriginResponse.text("", status: "302 Found", fields: ["Location: /open"])
                default: OriginResponse.text("end")
                }
            }
        )
        let refused = try stage.get("/start")
        #expect(refused.status == 403 && refused.problemCode == "request_denied")
        #expect(stage.origin.requests.count == 1)
        #expect(try stage.get("/start/open").text == "end")
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines[0].string("rule") == nil && lines[0].string("error") == "request_denied")
        #expect(lines[1].string("rule") == "open" && lines[1]["wouldDeny"] as? Bool == true)
    }

    @Test("a hop is checked by its method, and by the client's user")
    func methodAndUserOfHops() throws {
        let digests = ["ann", "bob"].map { name in
            let digest = SecretDigest.sha256(Array("token-\(name)".utf8)).map { String(format: "%02x", $0) }.joined()
            return "\(name):\(digest)\n"
        }
        let stage = try stage(
            [
                ["id": "start", "host": Stage.host, "path": "/start/*", "then": "allow"],
                ["id": "open", "host": Stage.host, "path": "/open", "method": "GET", "user": "ann", "then": "allow"],
            ],
            {
                $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
                $0.files["tokens"] = digests.joined()
                $0.listeners[0]["authentication"] = ["bearer": ["file": "tokens"]]
            },
            responding: { request in
                switch request.target {
                case "/start/303": OriginResponse.text("", status: "303 See Other", fields: ["Location: /open"])
                case "/start/307":
                    OriginResponse.text("", status: "307 Temporary Redirect", fields: ["Location: /open"])
                default: OriginResponse.text("end")
                }
            }
        )
        func post(_ path: String, as user: String) throws -> HTTPMessage {
            let fields = ["Proxy-Authorization: Bearer token-\(user)"]
            let request = ProxyUnderTest.request("POST", stage.url(path), fields: fields, body: "a body")
            return try stage.proxy.exchange(request, method: "POST")
        }
        // A POST becomes a GET behind 303, and stays one behind 307.
        #expect(try post("/start/303", as: "ann").text == "end")
        #expect(try post("/start/307", as: "ann").problemCode == "request_denied")
        #expect(try post("/start/303", as: "bob").problemCode == "request_denied")
        // The origin tells them by connection.
        #expect(stage.origin.requests.map(\.target).sorted() == ["/open", "/start/303", "/start/303", "/start/307"])
    }

    @Test("an intercepted CONNECT passes where a request in it could")
    func interceptions() throws {
        let work = try TemporaryFolder()
        let other = "other.example.com"
        let made = try Programs.run(
            try Programs.built("pinproxy"),
            ["ca", "init", "--dir", work.path, Stage.host, other]
        )
        try #require(made.exitCode == 0, "\(made.errors)")
        let authority = "\(work.path)/pinproxy-ca.pem"
        let stage = try stage(
            [["id": "del", "host": Stage.host, "method": "DELETE", "then": "deny"], Self.readV1],
            {
                $0.members["interception"] = ["certificate": authority, "key": "\(work.path)/pinproxy-ca.key"]
                $0.hosts[Stage.host]?["connect"] = "intercept"
                $0.hosts[other] = ["connect": "intercept"]
                $0.members["admin"] = ["address": "127.0.0.1:0"]
            }
        )
        func curl(_ url: String) throws -> Programs.Finished {
            let proxy = "http://127.0.0.1:\(stage.proxy.port)"
            return try Programs.run("curl", ["-sS", "-x", proxy, "--cacert", authority, "-w", " %{http_code}", url])
        }
        #expect(try curl("https://\(Stage.host)/v1/x").output == "here 200")
        let inside = try curl("https://\(Stage.host)/v2").output
        #expect(inside.contains("request_denied") && inside.hasSuffix(" 403"))
        let outside = try curl("https://\(other)/v1/x")
        #expect(outside.exitCode == 56 && outside.errors.contains("403"), "\(outside.errors)")
        #expect(stage.origin.requests.count == 1)
        let page = try stage.proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1).text
        #expect(page.contains(#"pinproxy_rule_matches_total{rule="v1",then="allow"} 1"#))
        #expect(page.contains(#"pinproxy_rule_matches_total{rule="",then="deny"} 2"#))
        #expect(page.contains(#"pinproxy_rule_matches_total{rule="del",then="deny"} 0"#))
    }

    @Test("a stored response is not used for a request that the rules deny")
    func storedResponses() throws {
        let stage = try stage(
            [["id": "v1", "host": Stage.host, "method": "GET", "path": "/v1", "then": "allow"]],
            { $0.members["cache"] = [String: Any]() },
            responding: { _ in OriginResponse.text("stored", fields: ["Cache-Control: max-age=100"]) }
        )
        #expect(try stage.get("/v1").status == 200)
        #expect(try stage.get("/v1").status == 200)
        #expect(stage.origin.requests.count == 1)
        try stage.reload {
            $0.members["cache"] = [String: Any]()
            $0.members["requests"] = ["rules": [["id": "v2", "host": Stage.host, "path": "/v2", "then": "allow"]]]
        }
        #expect(try stage.get("/v1").problemCode == "request_denied")
    }

    @Test("changed files neither drop requests nor open the policy; SIGHUP does")
    func reloads() throws {
        let stage = try stage([Self.readV1])
        var settings = stage.settings
        settings.members["requests"] = ["policy": "report", "rules": [Self.readV1]]
        try stage.proxy.rewrite(settings)
        let opened = try stage.proxy.waitForEvent("reloadFailed")
        #expect(
            opened.string("code") == "requests_opened"
                && opened.string("message")?.contains("becomes \"report\"") == true
        )
        let all: [String: Any] = ["id": "all", "then": "allow"]
        settings.members["requests"] = ["rules": [Self.readV1, all]]
        try stage.proxy.rewrite(settings)
        try stage.proxy.waitForEvent("reloadFailed") { $0.string("message")?.contains("has no condition") == true }
        settings.members["requests"] = nil
        try stage.proxy.rewrite(settings)
        try stage.proxy.waitForEvent("reloadFailed") { $0.string("message")?.contains("is gone") == true }
        #expect(try stage.get("/v2").problemCode == "request_denied")
        try stage.proxy.reload(settings)
        #expect(try stage.get("/v2").status == 200)
    }

    @Test("metrics count the decisions of each rule")
    func metrics() throws {
        let stage = try stage([Self.readV1], { $0.members["admin"] = ["address": "127.0.0.1:0"] })
        _ = try stage.get("/v1/a")
        _ = try stage.get("/v1/b")
        _ = try stage.get("/v2")
        let page = try stage.proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1).text
        #expect(page.contains(#"pinproxy_rule_matches_total{rule="v1",then="allow"} 2"#))
        #expect(page.contains(#"pinproxy_rule_matches_total{rule="",then="deny"} 1"#))
    }
}
