// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// The key that programs do not have, of a file.
private let key = "sk-live-0123456789"

@Suite("Credentials of rules", .onOwnThreads)
struct CredentialTests {
    /// A credential `llm` in X-Api-Key for everything below /v1/, and a rule without one for the rest.
    private func stage(
        _ credential: [String: Any] = [:],
        rules: [[String: Any]]? = nil,
        _ change: (inout ProxySettings) -> Void = { _ in },
        responding response: @escaping @Sendable (HTTPMessage) -> String = { _ in OriginResponse.text("here") }
    ) throws -> Stage {
        try Stage({ Self.prepare(&$0, credential, rules: rules, change) }, responding: response)
    }

    private static func prepare(
        _ settings: inout ProxySettings,
        _ credential: [String: Any],
        rules: [[String: Any]]?,
        _ change: (inout ProxySettings) -> Void
    ) {
        settings.files["llm"] = key + "\n"
        settings.members["requests"] = [
            "rules": rules ?? [
                ["id": "v1", "host": Stage.host, "path": "/v1/*", "then": "allow", "credential": "llm"],
                ["id": "rest", "host": Stage.host, "then": "allow"],
            ]
        ]
        settings.members["credentials"] = [
            "llm": ["header": "X-Api-Key", "file": "llm"].merging(credential) { $1 }
        ]
        change(&settings)
    }

    private static func digest(_ token: String) -> String {
        SecretDigest.sha256(Array(token.utf8)).map { String(format: "%02x", $0) }.joined()
    }

    private func values(_ name: String, in message: HTTPMessage?) -> [String] {
        message?.fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value) ?? []
    }

    @Test("a request gets the credential of its rule, which the log names")
    func written() throws {
        let stage = try stage()
        #expect(try stage.get("/v1/x").text == "here")
        #expect(try stage.get("/other").text == "here")
        let requests = stage.origin.requests
        #expect(values("X-Api-Key", in: requests.first) == [key] && values("X-Api-Key", in: requests.last) == [])
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines.contains { $0.string("rule") == "v1" && $0.string("credential") == "llm" })
        #expect(lines.contains { $0.string("rule") == "rest" && $0["credential"] == nil })
        #expect(!stage.proxy.output.contains(key) && !stage.proxy.errors.contains(key))
    }

    @Test("the client's own credentials, fields of that name and trailers stay behind")
    func ownFields() throws {
        let stage = try stage()
        let response = try stage.proxy.exchange(
            "POST \(stage.url("/v1/x")) HTTP/1.1\r\nHost: \(Stage.host)\r\nAuthorization: Bearer of-attacker\r\n"
                + "Cookie: a=of-attacker\r\nX_Api_Key: of-attacker\r\nX.Api.Key: of-attacker\r\nx-api-key: of-attacker\r\nTrailer: X-Api-Key\r\n"
                + "Transfer-Encoding: chunked\r\nX-Kept: yes\r\n\r\n2\r\nab\r\n0\r\nX-Api-Key: of-attacker\r\n"
                + "Authorization: of-attacker\r\nX_Api_Key: of-attacker\r\n\r\n",
            method: "POST"
        )
        #expect(response.status == 200)
        let request = try #require(stage.origin.requests.first)
        #expect(values("x-api-key", in: request) == [key] && values("x-kept", in: request) == ["yes"])
        let all = request.fields + request.trailers
        #expect(!all.contains { $0.value.contains("of-attacker") }, "\(all)")
    }

    @Test("a server with a wrong key gets nothing of the request")
    func wrongKey() throws {
        let stage = try stage([:], { $0.pin(Stage.host, to: .unrelated(7)) })
        #expect(try stage.get("/v1/x").problemCode == "pin_mismatch")
        #expect(stage.origin.requests.isEmpty)
    }

    @Test(
        "a verdict that is not a matched pin withholds the credential",
        arguments: [
            (["enforcePinning": false], "only reported"),
            (["expiration": "2020-01-01", "onExpiration": "unpinned"], "expired"),
        ] as [([String: any Sendable], String)]
    )
    func withheld(members: [String: any Sendable], cause: String) throws {
        let stage = try stage([:], { $0.pin(Stage.host, to: .unrelated(7), with: members) })
        let response = try stage.get("/v1/x")
        #expect(
            response.status == 502 && response.problemCode == "credential_withheld" && response.text.contains(cause)
        )
        #expect(stage.origin.requests.isEmpty)
        #expect(try stage.get("/other").status == 200)
    }

    @Test("a host that no pin file names gets the credential only with allowUnpinned", arguments: [false, true])
    func unpinned(isAllowed: Bool) throws {
        let rules: [[String: Any]] = [
            ["id": "v1", "host": "*.example.com", "then": "allow", "credential": "llm"]
        ]
        let stage = try stage(isAllowed ? ["allowUnpinned": true] : [:], rules: rules) {
            $0.pinnedDomains = [:]
            $0.hosts[Stage.host]?["upgrade"] = true
        }
        let response = try stage.get("/v1/x")
        if isAllowed {
            #expect(response.status == 200 && values("x-api-key", in: stage.origin.requests.first) == [key])
        } else {
            #expect(response.problemCode == "credential_withheld" && response.text.contains("allowUnpinned"))
            #expect(stage.origin.requests.isEmpty)
        }
    }

    @Test("a request without TLS gets no credential")
    func cleartext() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil { try connection.write(OriginResponse.text("plain")) }
        }
        let stage = try stage(
            ["allowUnpinned": true],
            rules: [["id": "v1", "host": "*.example.com", "then": "allow", "credential": "llm"]]
        ) { $0.resolve("plain.example.com", to: origin.port) }
        let response = try stage.proxy.get("http://plain.example.com/v1/x")
        #expect(response.problemCode == "credential_withheld" && response.text.contains("no TLS"))
        #expect(origin.requests.isEmpty)
    }

    @Test("a request without the placeholder is refused, and the placeholder under another rule, too")
    func placeholders() throws {
        let stage = try stage(["placeholder": "agent-key-1"])
        let missing = try stage.get("/v1/x")
        #expect(missing.status == 403 && missing.problemCode == "credential_required")
        let other = try stage.get("/other", fields: ["X-Api-Key: agent-key-1"])
        #expect(other.status == 403 && other.problemCode == "credential_misdirected")
        #expect(stage.origin.requests.isEmpty)
        #expect(try stage.get("/v1/x", fields: ["X-Api-Key: agent-key-1"]).status == 200)
        #expect(try stage.get("/other", fields: ["X-Api-Key: a-key-of-its-own"]).status == 200)
        #expect(values("x-api-key", in: stage.origin.requests.first) == [key])
        #expect(values("x-api-key", in: stage.origin.requests.last) == ["a-key-of-its-own"])
    }

    @Test("Basic authentication has the value as its password")
    func basic() throws {
        let rules: [[String: Any]] = [["id": "git", "host": Stage.host, "then": "allow", "credential": "git"]]
        let stage = try stage([:], rules: rules) {
            $0.members["credentials"] = [
                "git": ["basicUser": "x-access-token", "file": "llm", "placeholder": "agent-key-1"]
            ]
        }
        func basic(_ pair: String) -> String { "Authorization: Basic \(Data(pair.utf8).base64EncodedString())" }
        #expect(try stage.get("/", fields: [basic("me:wrong")]).problemCode == "credential_required")
        #expect(try stage.get("/", fields: [basic("me:agent-key-1")]).status == 200)
        let sent = "Basic \(Data("x-access-token:\(key)".utf8).base64EncodedString())"
        #expect(values("authorization", in: stage.origin.requests.first) == [sent])
    }

    @Test("a page of another site gets no credential")
    func otherSites() throws {
        let stage = try stage(
            [:],
            {
                $0.addGateway(to: Stage.host)
                $0.hosts[Stage.host]?["browsers"] = true
            }
        )
        for field in ["Sec-Fetch-Site: cross-site", "Origin: https://evil.example"] {
            let request = "GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n"
            let response = try stage.proxy.exchange(request, on: 1)
            #expect(response.status == 403 && response.problemCode == "credential_withheld")
            #expect(try stage.get("/v1/x", fields: [field]).problemCode == "credential_withheld")
        }
        #expect(stage.origin.requests.isEmpty)
    }

    @Test("a hop of a redirect gets the credential of its own rule")
    func hops() throws {
        let stage = try stage([:], { $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"] }) { request in
            switch request.target {
            case "/v1/away": OriginResponse.text("", status: "302 Found", fields: ["Location: /plain"])
            case "/start": OriginResponse.text("", status: "302 Found", fields: ["Location: /v1/end"])
            default: OriginResponse.text("end")
            }
        }
        #expect(try stage.get("/v1/away").text == "end")
        #expect(try stage.get("/start").text == "end")
        #expect(stage.origin.requests.map { values("x-api-key", in: $0) } == [[key], [], [], [key]])
    }

    @Test("an echo of the credential is masked, and a masked Location not followed")
    func echoes() throws {
        let encoded = "%73k-live-0123456789"
        let stage = try stage([:], { $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"] }) { request in
            if request.target == "/v1/redirect" {
                return OriginResponse.text("", status: "302 Found", fields: ["Location: /v1/end?k=\(encoded)"])
            }
            return "HTTP/1.1 200 OK\r\nX-Echo: a\(key)b\r\nX-Encoded: \(encoded)\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "2\r\nok\r\n0\r\nX-Trailer: \(key)\r\n\r\n"
        }
        let response = try stage.get("/v1/x")
        let stars = String(repeating: "*", count: key.utf8.count)
        #expect(response.text == "ok" && response["X-Echo"] == "a\(stars)b")
        #expect(response["X-Encoded"] == String(repeating: "*", count: encoded.utf8.count))
        #expect(!response.trailers.contains { $0.value.contains(key) } && !response.trailers.isEmpty)
        let redirect = try stage.get("/v1/redirect")
        #expect(redirect.status == 302 && redirect["Location"]?.contains(key) == false)
        #expect(stage.origin.requests.count == 2)
    }

    @Test("an echo in an informational head is masked")
    func hints() throws {
        let stage = try stage(responding: { _ in
            "HTTP/1.1 103 Early Hints\r\nLink: </\(key)>; rel=preload\r\n\r\n" + OriginResponse.text("ok")
        })
        let link = try stage.get("/v1/x").interim.first?["Link"]
        #expect(link?.contains("***") == true && link?.contains(key) == false, "\(link ?? "")")
    }

    /// A shared cache, and a credential for users whose names begin with a b.
    private func cachingStage(responding response: @escaping @Sendable (HTTPMessage) -> String) throws -> Stage {
        let rules: [[String: Any]] = [
            [
                "id": "with", "host": Stage.host, "path": "/x", "method": "GET", "user": "b*", "then": "allow",
                "credential": "llm",
            ],
            ["id": "without", "host": Stage.host, "then": "allow"],
        ]
        return try stage(
            [:],
            rules: rules,
            {
                $0.members["cache"] = ["shared": true]
                $0.files["tokens"] = ["anne", "bob", "beth"].map { "\($0):\(Self.digest("token-\($0)"))\n" }.joined()
                $0.listeners[0]["authentication"] = ["bearer": ["file": "tokens"]]
            },
            responding: response
        )
    }

    @Test("a request does not wait for another credential's response")
    func readingAlong() throws {
        let gate = Gate()
        let stage = try cachingStage { request in
            if request["X-Api-Key"] != nil { try? gate.pass() }
            let text = request["X-Api-Key"] == nil ? "without" : "with"
            return OriginResponse.text(text, fields: ["Cache-Control: public, max-age=1000"])
        }
        defer { gate.open() }
        let client = try stage.proxy.connect()
        let ofBob = ["Proxy-Authorization: Bearer token-bob"]
        try client.send(ProxyUnderTest.request("GET", stage.url("/x"), fields: ofBob))
        try stage.origin.wait(for: "the first request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        #expect(try stage.get("/x", fields: ["Proxy-Authorization: Bearer token-anne"]).text == "without")
        gate.open()
        #expect(try client.readResponse().text == "with")
        #expect(stage.origin.requests.count == 2)
    }

    @Test("users and rules have separate stored responses, also in a shared cache")
    func storedResponses() throws {
        let stage = try cachingStage { _ in
            OriginResponse.text("stored", fields: ["Cache-Control: public, max-age=1000", "Vary: X-Api-Key"])
        }
        func get(as user: String) throws -> Int {
            let response = try stage.get("/x", fields: ["Proxy-Authorization: Bearer token-\(user)"])
            #expect(response.status == 200, "\(response.text)")
            return stage.origin.requests.count
        }
        #expect(try get(as: "anne") == 1)
        #expect(try get(as: "anne") == 1)
        #expect(try get(as: "bob") == 2)
        #expect(try get(as: "bob") == 2)
        #expect(try get(as: "beth") == 3)
        #expect(try get(as: "anne") == 3)
    }

    @Test("an upgraded request gets the credential, and its 101 is masked")
    func upgrades() throws {
        let rules: [[String: Any]] = [
            ["id": "ws", "host": Stage.host, "method": "UPGRADE", "then": "allow", "credential": "llm"]
        ]
        let stage = try Stage({ Self.prepare(&$0, [:], rules: rules) { _ in } }) { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Echo: \(key)\r\n\r\nhello"
            )
        }
        let response = try stage.proxy.exchange(
            "GET \(stage.url("/")) HTTP/1.1\r\nHost: \(Stage.host)\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        )
        #expect(response.status == 101 && response["X-Echo"] == String(repeating: "*", count: key.utf8.count))
        #expect(values("x-api-key", in: stage.origin.requests.first) == [key])
    }

    @Test("a lost file fails its credential alone, and its return heals it")
    func lostFile() throws {
        let stage = try stage()
        #expect(try stage.get("/v1/x").status == 200)
        let path = "\(stage.proxy.folder.path)/llm"
        try FileManager.default.removeItem(atPath: path)
        try Patience.poll(for: "the key is gone") {
            try stage.get("/v1/x").problemCode == "credential_unavailable" ? true : nil
        }
        #expect(try stage.get("/other").status == 200)
        try stage.proxy.folder.write("sk-live-other-value\n", as: "llm")
        try Patience.poll(for: "the key is back") { try stage.get("/v1/x").status == 200 ? true : nil }
        #expect(stage.origin.requests.contains { values("x-api-key", in: $0) == ["sk-live-other-value"] })
    }

    @Test(
        "a 401 renews the credential once, and repeats the request",
        arguments: [nil, "request", "response"],
        ["a body", ""]
    )
    func renewed(changing part: String?, body: String) throws {
        let work = try TemporaryFolder()
        let stage = try stage(
            [:],
            {
                let script = "echo x >> $0; echo value-number-$(wc -l < $0)"
                $0.members["credentials"] = [
                    "llm": ["header": "X-Api-Key", "command": ["/bin/sh", "-c", script, "\(work.path)/runs"]]
                ]
                if let part { $0.hosts[Stage.host]?["headers"] = [part: ["set": ["X-Set": "set"]]] }
            }
        ) { request in
            let key = request.fields.first { $0.name.lowercased() == "x-api-key" }?.value
            let isSet = values("X-Set", in: request) == (part == "request" ? ["set"] : [])
            return key == "value-number-2" && request.text == body && isSet
                ? OriginResponse.text("accepted") : OriginResponse.text("no", status: "401 Unauthorized")
        }
        func post() throws -> HTTPMessage {
            try stage.proxy.exchange(
                "POST \(stage.url("/v1/x")) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: \(body.count)\r\n\r\n\(body)",
                method: "POST"
            )
        }
        // Within ten seconds of a run of the source a 401 is passed on.
        #expect(try post().status == 401)
        try Patience.poll(for: "the source may run again", every: 0.5) { try post().status == 200 ? true : nil }
        // The last one was sent with both.
        let accepted = stage.origin.requests.filter { values("x-api-key", in: $0) == ["value-number-2"] }
        #expect(accepted.count == 1 && accepted.first?.text == body)
    }

    @Test("over HTTP/2 the credential enters no compression table")
    func http2() throws {
        // Huffman coding makes it longer, so that it stands in the frame as it is.
        let plain = "<>{}|<>{}|<>{}|<"
        let frames = Monitor<[[UInt8]]>([])
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                frames.with { $0.append(request.payload) }
                try script.head(200, fields: [("x-echo", plain)], stream: request.stream, ends: true)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        settings.members["workers"] = 1
        Self.prepare(&settings, [:], rules: nil) { $0.files["llm"] = plain }
        let proxy = try ProxyUnderTest(settings)
        for _ in 0..<2 {
            let response = try proxy.get("http://\(Stage.host)/v1/x")
            #expect(response.status == 200 && response["X-Echo"] == String(repeating: "*", count: plain.utf8.count))
        }
        #expect(origin.connections.count == 1)
        for payload in frames.with({ $0 }) { #expect(Self.isNeverIndexed(plain, in: payload)) }
    }

    /// Whether a value stands behind a name as a literal that is never indexed (RFC 7541, section 6.2.3).
    private static func isNeverIndexed(_ value: String, in payload: [UInt8]) -> Bool {
        let bytes = Array(value.utf8)
        guard let place = payload.firstRange(of: bytes)?.lowerBound, place > 1, payload[place - 1] == UInt8(bytes.count)
        else { return false }
        // A new name, with Huffman coding.
        return (1..<16).contains { length in
            let start = place - 1 - length - 1
            return start > 0 && payload[start] == 0x80 | UInt8(length) && payload[start - 1] == 0x10
        }
    }
}
