// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

private let value = "sk-live-0123456789", other = "sk-live-9876543210"
private let stars = String(repeating: "*", count: value.utf8.count)

/// The fields beside a credential: what the client and `headers` would add, and what comes back on the less usual ways.
@Suite("Fields beside a credential", .onOwnThreads)
struct CredentialFieldTests {
    /// A credential `llm` for everything below /v1/, `second` below /v2/, and a rule without one for the rest.
    private static let rules: [[String: any Sendable]] = [
        ["id": "v1", "host": "*.example.com", "path": "/v1/*", "then": "allow", "credential": "llm"],
        ["id": "v2", "host": "*.example.com", "path": "/v2/*", "then": "allow", "credential": "second"],
        ["id": "rest", "host": "*.example.com", "then": "allow"],
    ]

    private static func prepare(_ settings: inout ProxySettings, rules: [[String: any Sendable]] = rules) {
        settings.members["workers"] = 1
        settings.files["llm"] = value
        settings.files["second"] = other
        settings.members["requests"] = ["rules": rules]
        settings.members["credentials"] = [
            "llm": ["header": "X-Api-Key", "file": "llm"], "second": ["header": "X-Api-Key", "file": "second"],
        ]
        settings.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
    }

    /// An origin that leads from /start over /middle to /v1/end, and from /v1/on to /v2/end.
    private static func response(_ request: HTTPMessage) -> String {
        let next = ["/start": "/middle", "/middle": "/v1/end", "/v1/on": "/v2/end"][request.target]
        guard let next else { return OriginResponse.text("end", fields: ["X-Echo: \(value) \(other)"]) }
        return OriginResponse.text("", status: "302 Found", fields: ["Location: \(next)"])
    }

    // MARK: To the origin

    @Test("a client's fields stay behind only at a hop with a credential")
    func hops() throws {
        let stage = try Stage({ Self.prepare(&$0) }, responding: Self.response)
        let own = ["Authorization: of-client", "Cookie: a=of-client", "X_Api_Key: of-client", "X-Kept: yes"]
        #expect(try stage.get("/start", fields: own).text == "end")
        let requests = stage.origin.requests
        #expect(requests.map(\.target) == ["/start", "/middle", "/v1/end"])
        for request in requests {
            let isLast = request.target == "/v1/end"
            #expect(request["X-Api-Key"] == (isLast ? value : nil) && request["X-Kept"] == "yes")
            #expect(request.fields.contains { $0.value.contains("of-client") } != isLast, "\(request.fields)")
        }
    }

    @Test("trailers of the credential's name stay behind at such a hop")
    func trailersOfHop() throws {
        let stage = try Stage({ Self.prepare(&$0) }) { request in
            guard request.target == "/start" else { return OriginResponse.text("end") }
            return OriginResponse.text("", status: "307 Temporary Redirect", fields: ["Location: /v1/end"])
        }
        let head = ProxyUnderTest.request("POST", stage.url("/start"), fields: ["Transfer-Encoding: chunked"])
        let trailers = "X-Api-Key: of-client\r\nX!Api_Key: of-client\r\nX-Sum: 1\r\n"
        let response = try stage.proxy.exchange("\(head)2\r\nhi\r\n0\r\n\(trailers)\r\n", method: "POST")
        #expect(response.text == "end", "\(response)")
        let requests = stage.origin.requests
        #expect(requests.map(\.text) == ["hi", "hi"] && requests.last?["X-Api-Key"] == value)
        #expect(requests.map { $0.trailers.map(\.name) } == [["X-Api-Key", "X!Api_Key", "X-Sum"], ["X-Sum"]])
    }

    @Test("a configured field is written only where no credential is")
    func headers() throws {
        let upgrades: [[String: any Sendable]] = [
            ["id": "ws", "host": "*.example.com", "method": "UPGRADE", "then": "allow", "credential": "llm"]
        ]
        let change: (inout ProxySettings) -> Void = {
            Self.prepare(&$0, rules: upgrades + Self.rules)
            $0.hosts[Stage.host]?["headers"] = [
                "request": ["set": ["x-api-key": "of-headers"], "add": ["X_Api_Key": "of-headers"]]
            ]
        }
        let stage = try Stage(change, responding: Self.response)
        #expect(try stage.get("/v1/x").status == 200)
        #expect(try stage.get("/start").status == 200)
        #expect(try stage.get("/upgrade", fields: ["Connection: Upgrade", "Upgrade: echo"]).status == 200)
        for request in stage.origin.requests {
            let keys = request.fields.filter { $0.name.lowercased().replacing("_", with: "-") == "x-api-key" }
            let isGiven = request.target.hasPrefix("/v1/") || request.target == "/upgrade"
            #expect(keys.map(\.value) == (isGiven ? [value] : ["of-headers", "of-headers"]), "\(request)")
        }
        #expect(stage.origin.requests.count == 5)
    }

    // MARK: Back

    @Test("an origin's echo without a switch is masked everywhere")
    func unswitched() throws {
        let rules: [[String: any Sendable]] = [
            ["id": "ws", "host": Stage.host, "method": "UPGRADE", "then": "allow", "credential": "llm"]
        ]
        let stage = try Stage({ Self.prepare(&$0, rules: rules) }) { _ in
            "HTTP/1.1 103 Early Hints\r\nLink: </\(value)>\r\n\r\nHTTP/1.1 200 OK\r\nX-Echo: \(value)\r\n"
                + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Late: \(value)\r\n\r\n"
        }
        let own = ["Authorization: of-client", "Cookie: a=of-client", "X_Api_Key: of-client"]
        let response = try stage.get("/", fields: ["Connection: Upgrade", "Upgrade: echo", "TE: trailers"] + own)
        let request = try #require(stage.origin.requests.first)
        #expect(request["X-Api-Key"] == value)
        #expect(!request.fields.contains { $0.value.contains("of-client") }, "\(request.fields)")
        #expect(response.status == 200 && response.text == "ok" && response["X-Echo"] == stars, "\(response)")
        #expect(response.interim.map { $0["Link"] } == ["</\(stars)>"], "\(response.interim)")
        #expect(response.trailers.map(\.value) == [stars], "\(response.trailers)")
    }

    @Test("the value of an earlier hop is masked beside that of the last one")
    func earlierHop() throws {
        let stage = try Stage({ Self.prepare(&$0) }, responding: Self.response)
        let response = try stage.get("/v1/on")
        #expect(stage.origin.requests.map { $0["X-Api-Key"] } == [value, other])
        #expect(response.text == "end" && response["X-Echo"] == "\(stars) \(stars)", "\(response)")
    }

    @Test("a shared cache keeps such a response only if the origin allows it")
    func sharedCache() throws {
        let stage = try Stage({
            Self.prepare(&$0)
            $0.members["cache"] = ["shared": true]
        }) { request in
            // RFC 9111, section 3.5.
            let control = request.target == "/v1/public" ? "public, max-age=1000" : "max-age=1000"
            return OriginResponse.text("stored", fields: ["Cache-Control: \(control)"])
        }
        for path in ["/v1/x", "/v1/public", "/other"] {
            for _ in 0..<2 { #expect(try stage.get(path).text == "stored") }
        }
        #expect(stage.origin.requests.map(\.target) == ["/v1/x", "/v1/x", "/v1/public", "/other"])
    }

    // MARK: Connections

    @Test("a hop without a credential uses its client's connection, masked")
    func authenticatedHop() throws {
        let stage = try Stage({ Self.prepare(&$0) }) { connection in
            var isAuthenticated = false
            while let request = try connection.readRequest() {
                if request["Authorization"] == "NTLM proof" { isAuthenticated = true }
                if request.target == "/v1/on" {
                    try connection.respond("", status: "302 Found", fields: ["Location: /end"])
                } else if isAuthenticated {
                    try connection.respond("authenticated", fields: ["X-Echo: \(value)"])
                } else {
                    try connection.respond("", status: "401 No", fields: ["WWW-Authenticate: NTLM"])
                }
            }
        }
        let client = try stage.proxy.connect()
        func get(_ path: String, _ fields: String...) throws -> HTTPMessage {
            try client.send(ProxyUnderTest.request("GET", stage.url(path), fields: fields))
            return try client.readResponse()
        }
        let known = try get("/other", "Authorization: NTLM proof")
        #expect(known.text == "authenticated" && known["X-Echo"] == value, "\(known)")
        let response = try get("/v1/on")
        #expect(response.text == "authenticated" && response["X-Echo"] == stars, "\(response)")
        // The credential went another way.
        let places = stage.origin.connections.map { $0.requests.map(\.target) }
        #expect(Set(places) == [["/other", "/end"], ["/v1/on"]], "\(places)")
    }

    @Test("an origin that authenticates connections gets no client's for a credential")
    func challenge() throws {
        let stage = try Stage({ Self.prepare(&$0) }) { _ in
            OriginResponse.text("no", status: "401 Unauthorized", fields: ["WWW-Authenticate: NTLM"])
        }
        let client = try stage.proxy.connect()
        for path in ["/v1/x", "/v1/y"] {
            try client.send(ProxyUnderTest.request("GET", stage.url(path)))
            #expect(try client.readResponse().status == 401)
        }
        // Nobody has authenticated it: it carries the next request with a credential.
        #expect(stage.origin.connections.count == 1)
        #expect(stage.origin.requests.map { $0["X-Api-Key"] } == [value, value])
    }
}
