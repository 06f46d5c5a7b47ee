// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Upgraded clients stay with the proxy", .onOwnThreads)
struct UpgradeRewritingTests {
    /// Answers with the fields that a test asks for in `X-Response-…` fields.
    private static func echoFields(_ request: HTTPMessage) -> String {
        let prefix = "X-Answer-"
        let fields = request.fields.filter { $0.name.hasPrefix(prefix) }
            .map { "\($0.name.dropFirst(prefix.count)): \($0.value)" }
        return OriginResponse.text("", status: "302 Found", fields: fields)
    }

    private func stage(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage({
            $0.hosts["upgraded.example.com"] = ["upgrade": true]
            change(&$0)
        }) { Self.echoFields($0) }
    }

    @Test("Location to https becomes http for a host that would be upgraded")
    func location() throws {
        let stage = try stage()
        let host = Stage.host
        let cases = [
            ("https://\(host)/next?a=b#c", "http://\(host)/next?a=b#c"),
            ("https://\(host)", "http://\(host)"),
            ("https://\(host):443/x", "http://\(host)/x"),
            ("https://\(host):8443/x", "http://\(host):8443/x"),
            ("HTTPS://API.EXAMPLE.COM/x", "http://\(host)/x"),
            ("https://upgraded.example.com/x", "http://upgraded.example.com/x"),
            ("https://\(host):80/x", "https://\(host):80/x"),
            ("https://other.example.com/x", "https://other.example.com/x"),
            ("http://\(host)/x", "http://\(host)/x"),
            ("/relative?a", "/relative?a"), ("//\(host)/x", "//\(host)/x"), ("mailto:a@b.c", "mailto:a@b.c"),
        ]
        for (sent, expected) in cases {
            let response = try stage.get(fields: ["X-Answer-Location: \(sent)", "X-Answer-Content-Location: \(sent)"])
            #expect(response["Location"] == expected)
            #expect(response["Content-Location"] == expected)
        }
    }

    @Test("Strict-Transport-Security is removed, and Secure from Set-Cookie alone")
    func securityFields() throws {
        let response = try stage().get(fields: [
            "X-Answer-Strict-Transport-Security: max-age=600", "X-Answer-Set-Cookie: a=1; Secure; HttpOnly; Path=/",
            "X-Answer-Set-Cookie: secure=secure;secure", "X-Answer-X-Other: Secure",
        ])
        #expect(response["Strict-Transport-Security"] == nil)
        let cookies = response.fields.filter { $0.name == "Set-Cookie" }.map(\.value)
        #expect(cookies == ["a=1; HttpOnly; Path=/", "secure=secure"])
        #expect(response["X-Other"] == "Secure")
    }

    private let telling = [
        "X-Answer-Location: https://api.example.com/x", "X-Answer-Strict-Transport-Security: max-age=600",
        "X-Answer-Set-Cookie: a=1; Secure",
    ]

    private func isUntouched(_ response: HTTPMessage) -> Bool {
        response["Location"] == "https://api.example.com/x" && response["Strict-Transport-Security"] == "max-age=600"
            && response["Set-Cookie"] == "a=1; Secure"
    }

    @Test("responses stay unchanged for https, and with rewriteUpgraded false")
    func untouched() throws {
        let stage = try stage()
        #expect(isUntouched(try stage.proxy.get("https://\(Stage.host)/", fields: telling)))
        #expect(!isUntouched(try stage.get(fields: telling)))
        let off = try self.stage { $0.hosts[Stage.host]?["rewriteUpgraded"] = false }
        #expect(isUntouched(try off.get(fields: telling)))
    }

    @Test("a gateway's links lead to itself, under the client's name for it")
    func gateway() throws {
        let stage = try stage { $0.addGateway(to: Stage.host) }
        let port = stage.proxy.port(of: 1)
        for name in ["127.0.0.1:\(port)", "localhost:\(port)"] {
            let fields = (["Host: \(name)"] + telling).joined(separator: "\r\n")
            let response = try stage.proxy.exchange("GET / HTTP/1.1\r\n\(fields)\r\n\r\n", on: 1)
            #expect(response["Location"] == "http://\(name)/x")
            #expect(response["Strict-Transport-Security"] == nil)
            #expect(response["Set-Cookie"] == "a=1")
        }
        let other = try stage.proxy.exchange(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX-Answer-Location: https://upgraded.example.com/x\r\n\r\n",
            on: 1
        )
        #expect(other["Location"] == "https://upgraded.example.com/x")
    }

    @Test("Refresh and Link lead back, Alt-Svc is removed")
    func otherFields() throws {
        let stage = try stage { $0.addGateway(to: Stage.host) }
        let told = [
            "X-Answer-Refresh: 1; url=https://\(Stage.host)/r",
            "X-Answer-Link: <https://\(Stage.host)/2>; rel=\"next\"",
            "X-Answer-Link: <https://other.example.com/>; rel=\"help\"", "X-Answer-Alt-Svc: h3=\":443\"",
            "X-Answer-Location: https://\(Stage.host)/1", "X-Answer-Location: https://other.example.com/",
            "X-Answer-Set-Cookie: a=1; Domain=\(Stage.host); Secure", "X-Answer-Set-Cookie: __Host-b=1; Secure; Path=/",
        ]
        let response = try stage.get(fields: told)
        #expect(response["Refresh"] == "1; url=http://\(Stage.host)/r" && response["Alt-Svc"] == nil)
        #expect(
            response["Link"] == "<http://\(Stage.host)/2>; rel=\"next\", <https://other.example.com/>; rel=\"help\""
        )
        #expect(response["Location"] == "http://\(Stage.host)/1, https://other.example.com/")
        #expect(response["Set-Cookie"] == "a=1; Domain=\(Stage.host), __Host-b=1; Secure; Path=/")

        let port = stage.proxy.port(of: 1)
        for (name, keepsDomain) in [("localhost:\(port)", false), ("\(Stage.host):\(port)", true)] {
            let fields = (["Host: \(name)"] + told).joined(separator: "\r\n")
            let response = try stage.proxy.exchange("GET / HTTP/1.1\r\n\(fields)\r\n\r\n", on: 1)
            #expect(response["Refresh"] == "1; url=http://\(name)/r" && response["Alt-Svc"] == nil)
            #expect(response["Link"]?.hasPrefix("<http://\(name)/2>") == true)
            let cookie = keepsDomain ? "a=1; Domain=\(Stage.host)" : "a=1"
            #expect(response["Set-Cookie"] == "\(cookie), __Host-b=1; Secure; Path=/")
        }
    }

    @Test("curl follows an upgraded host's https redirect through the proxy")
    func curlFollows() throws {
        let stage = try Stage { request in
            request.target == "/start"
                ? OriginResponse.text("", status: "302 Found", fields: ["Location: https://\(Stage.host)/end"])
                : OriginResponse.text("the end")
        }
        let curl = try Programs.run(
            "curl",
            ["-sS", "-L", "-x", "http://127.0.0.1:\(stage.proxy.port)", stage.url("/start")]
        )
        #expect(curl.output == "the end", "\(curl.errors)")
    }
}
