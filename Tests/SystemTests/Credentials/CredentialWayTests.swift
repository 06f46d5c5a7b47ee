// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTP2Core
import ServerTrust
import TestSupport
import Testing

private let value = "sk-live-0123456789"
private let stars = String(repeating: "*", count: value.utf8.count)

/// The ways on which a request with a credential can go: kept connections, HTTP/2, refreshes, interception, ports, upgrades.
@Suite("The ways of requests with credentials", .onOwnThreads)
struct CredentialWayTests {
    private static let rules: [[String: any Sendable]] = [
        ["id": "v1", "host": Stage.host, "path": "/v1/*", "then": "allow", "credential": "llm"],
        ["id": "rest", "host": Stage.host, "then": "allow"],
    ]

    private static func prepare(_ settings: inout ProxySettings, rules: [[String: Any]] = rules) {
        settings.members["workers"] = 1
        settings.files["llm"] = value + "\n"
        settings.members["requests"] = ["rules": rules]
        settings.members["credentials"] = ["llm": ["header": "X-Api-Key", "file": "llm"]]
    }

    private func stage(
        rules: [[String: Any]] = rules,
        _ change: (inout ProxySettings) -> Void = { _ in },
        responding response: @escaping @Sendable (HTTPMessage) -> String = { _ in OriginResponse.text("here") }
    ) throws -> Stage {
        try Stage(
            {
                Self.prepare(&$0, rules: rules)
                change(&$0)
            },
            responding: response
        )
    }

    private func keys(_ stage: Stage) -> [String?] { stage.origin.requests.map { $0["X-Api-Key"] } }

    // MARK: Connections

    @Test("a connection whose server proved too little gets no credential")
    func keptConnection() throws {
        let reportOnly: (inout ProxySettings) -> Void = {
            $0.pin(Stage.host, to: .unrelated(7), with: ["enforcePinning": false])
        }
        let stage = try stage(reportOnly)
        #expect(try stage.get("/other").status == 200)
        #expect(try stage.get("/v1/x").problemCode == "credential_withheld")
        #expect(stage.origin.requests.map(\.target) == ["/other"] && stage.origin.connections.count == 1)

        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(200, stream: request.stream, ends: true)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        Self.prepare(&settings)
        reportOnly(&settings)
        let proxy = try ProxyUnderTest(settings)
        #expect(try proxy.get("http://\(Stage.host)/other").status == 200)
        #expect(try proxy.get("http://\(Stage.host)/v1/x").problemCode == "credential_withheld")
        #expect(origin.connections.map(\.requestFrames) == [1])
    }

    @Test("an offer of Upgrade needs the same proof of the server")
    func withheldUpgrade() throws {
        let rules: [[String: Any]] = [
            ["id": "ws", "host": Stage.host, "method": ["GET", "UPGRADE"], "then": "allow", "credential": "llm"]
        ]
        let stage = try stage(rules: rules) { $0.pin(Stage.host, to: .unrelated(7), with: ["enforcePinning": false]) }
        let response = try stage.get("/", fields: ["Connection: Upgrade", "Upgrade: echo"])
        #expect(response.problemCode == "credential_withheld", "\(response)")
        #expect(stage.origin.requests.isEmpty)
    }

    @Test("a connection that a client has authenticated carries no credential")
    func authenticatedConnection() throws {
        let stage = try Stage({ Self.prepare(&$0) }) { connection in
            var isAuthenticated = false
            while let request = try connection.readRequest() {
                switch request["Authorization"] {
                case "NTLM hello":
                    try connection.respond("", status: "401 No", fields: ["WWW-Authenticate: NTLM challenge"])
                    continue
                case "NTLM proof": isAuthenticated = true
                default: break
                }
                if isAuthenticated || request["X-Api-Key"] != nil {
                    try connection.respond(isAuthenticated ? "authenticated" : "new")
                } else {
                    try connection.respond("", status: "401 No", fields: ["WWW-Authenticate: NTLM"])
                }
            }
        }
        let client = try stage.proxy.connect()
        func get(_ path: String, _ authorization: String? = nil) throws -> HTTPMessage {
            let fields = authorization.map { ["Authorization: \($0)"] } ?? []
            try client.send(ProxyUnderTest.request("GET", stage.url(path), fields: fields))
            return try client.readResponse()
        }
        #expect(try get("/other").status == 401)
        #expect(try get("/other", "NTLM hello").status == 401)
        #expect(try get("/other", "NTLM proof").text == "authenticated")
        // The client's own connection stays for what has no credential.
        #expect(try get("/v1/x").text == "new")
        #expect(try get("/other").text == "authenticated")
        // The client's NTLM stays behind, so that it cannot authenticate the connection of the credential.
        #expect(try get("/v1/x", "NTLM proof").text == "new")
        #expect(stage.origin.requests.filter { $0.target == "/v1/x" }.allSatisfy { $0["Authorization"] == nil })
    }

    @Test("a renewed value closes no connection and drops no stored response")
    func renewal() throws {
        let stage = try stage({ $0.members["cache"] = ["shared": false] }) { request in
            OriginResponse.text(
                "stored",
                fields: request.target == "/v1/stored" ? ["Cache-Control: max-age=1000"] : ["Cache-Control: no-store"]
            )
        }
        #expect(try stage.get("/v1/stored").status == 200)
        try stage.proxy.folder.write("sk-live-other-value\n", as: "llm")
        try Patience.poll(for: "the new value") {
            _ = try stage.get("/v1/x")
            return keys(stage).last == "sk-live-other-value" ? true : nil
        }
        #expect(try stage.get("/v1/stored").status == 200)
        #expect(stage.origin.requests.filter { $0.target == "/v1/stored" }.count == 1)
        #expect(stage.origin.connections.count == 1)
        #expect(stage.proxy.events("reloaded").isEmpty)
    }

    // MARK: Rules

    @Test("a rule that only reports gives its credential, and the log says so")
    func report() throws {
        let rules: [[String: Any]] = [
            ["id": "try", "host": Stage.host, "path": "/v1/*", "then": "report", "credential": "llm"],
            ["id": "rest", "host": Stage.host, "then": "report"],
        ]
        let stage = try stage(rules: rules)
        #expect(try stage.get("/v1/x").status == 200)
        #expect(try stage.get("/other").status == 200)
        #expect(keys(stage) == [value, nil])
        let line = try #require(try stage.proxy.waitForTaskLines(2).first { $0.string("rule") == "try" })
        #expect(line["wouldDeny"] != nil && line.string("credential") == "llm", "\(line.text)")
    }

    @Test("a rule for GET gives none to an offer of Upgrade or another port")
    func conditions() throws {
        let rules: [[String: Any]] = [
            ["id": "read", "host": Stage.host, "method": "GET", "then": "allow", "credential": "llm"]
        ]
        let stage = try stage(rules: rules)
        let upgrade = try stage.get("/", fields: ["Connection: Upgrade", "Upgrade: echo"])
        #expect(upgrade.problemCode == "request_denied", "\(upgrade)")
        #expect(try stage.proxy.get("http://\(Stage.host):8443/").problemCode == "request_denied")
        #expect(stage.origin.requests.isEmpty)
        #expect(try stage.get("/").status == 200)
        #expect(keys(stage) == [value])
    }

    @Test("requests inside an intercepted CONNECT get the credential of their rule")
    func intercepted() throws {
        let work = try TemporaryFolder()
        let made = try pinproxy("ca", "init", "--dir", work.path, Stage.host)
        try #require(made.exitCode == 0, "\(made.errors)")
        let authority = "\(work.path)/pinproxy-ca.pem"
        let stage = try stage({
            $0.members["interception"] = ["certificate": authority, "key": "\(work.path)/pinproxy-ca.key"]
            $0.hosts[Stage.host]?["connect"] = "intercept"
        })
        let urls = ["https://\(Stage.host)/v1/x", "https://\(Stage.host)/other"]
        let words = ["-sS", "-x", "http://127.0.0.1:\(stage.proxy.port)", "--cacert", authority] + urls
        let finished = try Programs.run("curl", words)
        #expect(finished.output == "herehere", "\(finished)")
        #expect(keys(stage) == [value, nil])
    }

    @Test("the placeholder is asked for before a stored response is used")
    func storedBehindPlaceholder() throws {
        let stage = try stage({
            $0.members["credentials"] = [
                "llm": ["header": "X-Api-Key", "file": "llm", "placeholder": "agent-key-1"]
            ]
            $0.members["cache"] = ["shared": false]
        }) { _ in OriginResponse.text("stored", fields: ["Cache-Control: max-age=1000"]) }
        let fields = ["X-Api-Key: agent-key-1"]
        #expect(try stage.get("/v1/x", fields: fields).text == "stored")
        #expect(try stage.get("/v1/x", fields: fields).text == "stored")
        #expect(try stage.get("/v1/x").problemCode == "credential_required")
        #expect(stage.origin.requests.count == 1)
    }

    @Test("a background refresh has the credential of the request that caused it")
    func refresh() throws {
        let stage = try stage({ $0.members["cache"] = ["shared": false] }) { request in
            let age = request["If-None-Match"] == nil ? "max-age=0, stale-while-revalidate=1000" : "max-age=1000"
            return OriginResponse.text("stored", fields: ["ETag: \"a\"", "Cache-Control: \(age)", "X-Echo: \(value)"])
        }
        for path in ["/v1/x", "/other"] {
            #expect(try stage.get(path).text == "stored")
            #expect(try stage.get(path).text == "stored")
            try stage.origin.wait(for: "the refresh") { records in
                records.flatMap(\.requests).filter { $0.target == path }.count > 1 ? true : nil
            }
        }
        for request in stage.origin.requests {
            #expect(request["X-Api-Key"] == (request.target == "/v1/x" ? value : nil))
        }
        try Patience.poll(for: "the refreshed response") {
            let response = try stage.get("/v1/x")
            #expect(response["X-Echo"] == stars, "\(response)")
            return response["Cache-Control"] == "max-age=1000" ? true : nil
        }
        try Patience.poll(for: "the line of the refresh") {
            let lines = stage.proxy.taskLines.filter {
                $0.string("credential") == "llm" && $0.string("client") == "cache"
            }
            return lines.isEmpty ? nil : true
        }
    }

    @Test(
        "a refresh that the rules would deny, or change, is not begun",
        arguments: [false, true]
    )
    func refreshOfOther(isDenied: Bool) throws {
        let open: [[String: any Sendable]] = [["id": "all", "host": Stage.host, "then": "allow"]]
        let stage = try stage(rules: open, { $0.members["cache"] = ["shared": false] }) { request in
            let control = "Cache-Control: max-age=0, stale-while-revalidate=1000"
            return OriginResponse.text("stored", fields: [control, "X-Given: \(request["X-Api-Key"] == nil ? 0 : 1)"])
        }
        #expect(try stage.get("/v1/x")["X-Given"] == "0")
        // What is stored without a credential may be used for a HEAD alone.
        let denied: [[String: any Sendable]] = [
            ["id": "get", "host": Stage.host, "path": "/v1/x", "method": "GET", "then": "deny"]
        ]
        try stage.reload {
            $0.members["requests"] = [
                "rules": [["id": "head", "host": Stage.host, "method": "HEAD", "then": "allow"]]
                    + (isDenied ? denied + open : Self.rules)
            ]
        }
        let head = ProxyUnderTest.request("HEAD", stage.url("/v1/x"))
        #expect(try stage.proxy.exchange(head, method: "HEAD")["X-Given"] == "0")
        for path in ["/v1/y", "/other"] { #expect(try stage.get(path).status == 200) }
        #expect(stage.origin.requests.map(\.target) == ["/v1/x", "/v1/y", "/other"])
        #expect(try stage.proxy.exchange(head, method: "HEAD")["X-Given"] == "0")
    }

    @Test(
        "a refresh after a reload needs the same rule and credential",
        arguments: ["same", "definition", "rule", "denied"]
    )
    func refreshAcrossReload(change: String) throws {
        let gate = Gate()
        let stage = try Stage({
            Self.prepare(&$0)
            $0.files["other"] = "sk-live-other-value"
            $0.members["cache"] = ["shared": false]
        }) { connection in
            while let request = try connection.readRequest() {
                guard request["If-None-Match"] != nil else {
                    let control = "Cache-Control: max-age=0, stale-while-revalidate=600"
                    try connection.respond("whole", fields: ["ETag: \"a\"", control])
                    continue
                }
                try gate.pass()
                // Of another response: the whole is asked for.
                try connection.write("HTTP/1.1 304 Not Modified\r\nETag: \"other\"\r\n\r\n")
            }
        }
        defer { gate.open() }
        for _ in 0..<2 { #expect(try stage.get("/v1/x").text == "whole") }
        func requests() -> [HTTPMessage] { stage.origin.requests.filter { $0.target == "/v1/x" } }
        try stage.origin.wait(for: "the validation") { $0.flatMap(\.requests).count == 2 ? true : nil }
        try stage.reload { settings in
            var rule: [String: any Sendable] = ["id": "v1", "host": Stage.host, "path": "/v1/*", "then": "allow"]
            switch change {
            case "definition": settings.members["credentials"] = ["llm": ["header": "X-Api-Key", "file": "other"]]
            case "rule": settings.members["requests"] = ["rules": [rule] + Self.rules.dropFirst()]
            case "denied":
                rule["then"] = "deny"
                settings.members["requests"] = ["rules": [rule] + Self.rules.dropFirst()]
            default: break
            }
        }
        // The value of a new definition is there, too.
        #expect(try stage.get("/v1/other").status == (change == "denied" ? 403 : 200))
        gate.open()
        let lines = try Patience.poll(for: "the refresh to end") {
            let lines = stage.proxy.taskLines.filter { $0.string("client") == "cache" }
            return lines.count == (change == "same" ? 2 : 1) ? lines : nil
        }
        if change == "same" {
            #expect(requests().map { $0["X-Api-Key"] } == [value, value, value])
        } else {
            #expect(lines[0].string("error") == "cancelled", "\(lines[0].text)")
            #expect(requests().count == 2)
        }
    }

    // MARK: What comes back

    @Test("a validation that sends the value back leaves none in the stored response")
    func validation() throws {
        let stage = try stage({ $0.members["cache"] = ["shared": false] }) { request in
            guard request["If-None-Match"] != nil else {
                return OriginResponse.text("stored", fields: ["ETag: \"a\"", "Cache-Control: no-cache"])
            }
            return "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nX-Echo: \(request["X-Api-Key"] ?? "")\r\n\r\n"
        }
        #expect(try stage.get("/v1/x").text == "stored")
        for _ in 0..<2 {
            let response = try stage.get("/v1/x")
            #expect(response.text == "stored" && response["X-Echo"] == stars, "\(response)")
        }
    }

    @Test("the error about an invalid response masks the value", arguments: ["1.1", "2", "upgrade"])
    func invalidResponses(version: String) throws {
        let server = try Stage.pki.server(Stage.host)
        // A part of a name could be shown that holds a part of the value.
        let names = ["X-\(value)", "X-\(String(repeating: "y", count: 48))-\(value)"]
        let sent = Monitor(0)
        let next: @Sendable () -> String = {
            sent.with { number in
                number += 1
                return names[(number - 1) % names.count]
            }
        }
        let origin = try ScriptedOrigin(server, protocols: version == "2" ? ["h2"] : []) { connection in
            guard version == "2" else {
                while try connection.readRequest() != nil {
                    try connection.write("HTTP/1.1 200 OK\r\n\(next()): a\u{0}b\r\nContent-Length: 0\r\n\r\n")
                }
                return
            }
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(200, fields: [(next(), "a")], stream: request.stream, ends: true)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = version == "2" ? "2" : "1.1"
        Self.prepare(&settings)
        let proxy = try ProxyUnderTest(settings)
        for _ in names {
            let fields = version == "upgrade" ? ["Connection: Upgrade", "Upgrade: echo"] : []
            let response = try proxy.get("http://\(Stage.host)/v1/x", fields: fields)
            #expect(response.problemCode == "response_invalid", "\(response)")
            for text in [response.text, response["Proxy-Status"] ?? ""] {
                #expect(!text.contains("sk-live"), "\(text)")
            }
        }
        let lines = try proxy.waitForTaskLines(names.count)
        #expect(lines.allSatisfy { $0.string("errorDetails")?.contains("(rule response-") == true })
        #expect(!proxy.output.contains("sk-live") && !proxy.errors.contains("sk-live"), "\(proxy.output)")
    }

    @Test("an earlier hop's value is masked behind a redirect")
    func echoOfEarlierHop() throws {
        let stage = try stage({ $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"] }) { request in
            switch request.target {
            case "/v1/away": OriginResponse.text("", status: "302 Found", fields: ["Location: /echo"])
            case "/v1/further": OriginResponse.text("", status: "302 Found", fields: ["Location: /leave"])
            case "/leave": OriginResponse.text("", status: "302 Found", fields: ["Location: /echo?\(value)"])
            default: OriginResponse.text("end", fields: ["X-Echo: \(value)"])
            }
        }
        let response = try stage.get("/v1/away")
        #expect(response.text == "end" && response["X-Echo"] == stars, "\(response)")
        let left = try stage.get("/v1/further")
        #expect(left.status == 302 && left["Location"]?.contains(value) == false, "\(left)")
        #expect(keys(stage) == [value, nil, value, nil])
        // Another request of the same client knows nothing of it.
        #expect(try stage.get("/echo")["X-Echo"] == value)
    }

    @Test("hooks see the masked value, and no file has it in its name")
    func hooks() throws {
        let spool = try TemporaryFolder()
        let stage = try stage({
            $0.hosts[Stage.host]?["redirects"] = [
                "policy": "follow", "rules": [["to": "\(value).example.com", "then": "deny"]],
            ]
            $0.hosts[Stage.host]?["responses"] = [
                "rules": [
                    ["contentType": "text/x-\(value)", "then": "cancel"],
                    ["contentType": "application/octet-stream", "then": "becomeDownload", "directory": spool.path],
                ]
            ]
        }) { request in
            switch request.target {
            case "/v1/redirect":
                OriginResponse.text("", status: "302 Found", fields: ["Location: http://\(value).example.com/"])
            case "/v1/type": OriginResponse.text("seen", fields: ["Content-Type: text/x-\(value)"])
            default:
                OriginResponse.text(
                    "saved",
                    fields: [
                        "Content-Type: application/octet-stream",
                        "Content-Disposition: attachment; filename=\"\(value).txt\"",
                    ]
                )
            }
        }
        let redirect = try stage.get("/v1/redirect")
        #expect(redirect.status == 302 && redirect["Location"] == "http://\(stars).example.com/", "\(redirect)")
        let typed = try stage.get("/v1/type")
        #expect(typed.text == "seen" && typed["Content-Type"] == "text/x-\(stars)", "\(typed)")
        let saved = try stage.get("/v1/saved")
        let files = try FileManager.default.contentsOfDirectory(atPath: spool.path)
        #expect(files.count == 1 && !files.contains { $0.contains(value) }, "\(files) \(saved)")
        #expect(!stage.proxy.output.contains(value) && !stage.proxy.errors.contains(value))
    }

    @Test("fields and trailers of the name stay behind over HTTP/2, echoes are masked")
    func overHTTP2() throws {
        let stage = try stage(HTTP2ClientTests.takeHTTP2) { request in
            let echo = request["X-Api-Key"] ?? ""
            return
                "HTTP/1.1 200 OK\r\nX-Echo: \(echo)\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Late: \(echo)\r\n\r\n"
        }
        let peer = try HTTP2Peer(stage.proxy.connect())
        let own = [
            ("x-api-key", "of-attacker"), ("x_api_key", "of-attacker"), ("cookie", "of-attacker"), ("x-kept", "yes"),
        ]
        let stream = try peer.request(
            "POST",
            "/v1/x",
            authority: Stage.host,
            fields: own,
            body: Array("ab".utf8),
            ends: false
        )
        try peer.end(
            stream,
            trailers: [("x-api-key", "of-attacker"), ("authorization", "of-attacker"), ("x-sum", "1")]
        )
        let response = try peer.finish(stream)
        #expect(response.status == 200 && response.head["x-echo"] == stars && response.trailers?["x-late"] == stars)
        let request = try #require(stage.origin.requests.first)
        #expect(request["X-Api-Key"] == value && request["X-Kept"] == "yes" && request.text == "ab")
        #expect(!(request.fields + request.trailers).contains { $0.value.contains("of-attacker") }, "\(request)")
    }

    @Test("trailers of HTTP/2 from an origin have the value masked")
    func trailersOfHTTP2() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                let stream = request.stream
                try script.head(103, fields: [("link", "</\(value)>")], stream: stream)
                try script.head(200, fields: [("x-echo", value)], stream: stream)
                try script.body("ok", stream: stream, ends: false)
                // A field block without a status ends the stream: 0x00 is a literal that is not indexed.
                let (name, text) = (Array("x-late".utf8), Array(value.utf8))
                let block = [0x00, UInt8(name.count)] + name + [UInt8(text.count)] + text
                try script.send(.headers, flags: 5, stream: stream, block)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = "2"
        Self.prepare(&settings)
        let proxy = try ProxyUnderTest(settings)
        let response = try proxy.exchange(
            ProxyUnderTest.request("GET", "http://\(Stage.host)/v1/x", fields: ["TE: trailers"])
        )
        #expect(response.text == "ok" && response["X-Echo"] == stars, "\(response)")
        #expect(response.interim.first?["Link"] == "</\(stars)>", "\(response.interim)")
        #expect(response.trailers.map(\.value) == [stars], "\(response.trailers)")
    }
}
