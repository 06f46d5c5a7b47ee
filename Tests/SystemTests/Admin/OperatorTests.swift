// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The admin listener: policy, reload, drain and tokens", .onOwnThreads)
struct OperatorTests {
    private static let token = "0123456789abcdef0123456789abcdef"

    /// A proxy with a token, unless the change says otherwise.
    private func stage(_ change: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage { settings in
            Self.useToken(&settings)
            change(&settings)
        } responding: {
            OriginResponse.text($0.target)
        }
    }

    private static func useToken(_ settings: inout ProxySettings) {
        settings.files["admin.token"] = token + "\n"
        settings.members["admin"] = ["address": "127.0.0.1:0", "tokenFile": "admin.token"]
    }

    private static func request(
        _ line: String,
        _ proxy: ProxyUnderTest,
        fields: [String] = ["Authorization: Bearer \(token)"]
    ) throws -> HTTPMessage {
        let text = (["\(line) HTTP/1.1", "Host: localhost"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
        return try proxy.exchange(text, on: proxy.listening.count - 1)
    }

    private static func object(_ line: String, _ proxy: ProxyUnderTest, status: Int = 200) throws -> [String: Any] {
        let response = try request(line, proxy)
        #expect(response.status == status, "\(response.text)")
        return try #require(try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any])
    }

    @Test("the policy has each domain's file, pins, expiry and last handshake")
    func policy() throws {
        let stage = try stage { $0.pin("other.example.com", to: .unrelated(3), with: ["expiration": "2101-01-31"]) }
        #expect(try stage.get().status == 200)
        let domain = try Patience.poll(for: "the handshake") { () -> [String: Any]? in
            let domains = try Self.object("GET /policy", stage.proxy)["domains"] as? [[String: Any]]
            let found = domains?.first { $0["domain"] as? String == Stage.host }
            return found?["lastHandshake"] == nil ? nil : found
        }
        #expect(domain["mode"] as? String == "publicKey" && domain["enforcePinning"] as? Bool == true)
        #expect((domain["file"] as? String)?.hasSuffix(".json") == true)
        #expect(domain["handshakes"] as? [String: Int] == ["pass": 1])
        let last = try #require(domain["lastHandshake"] as? [String: Any])
        #expect(last["verdict"] as? String == "pass" && last["host"] as? String == Stage.host)
        #expect(try #require(last["certificateExpiresInDays"] as? Int) > 0)
        let keys = try #require(last["keys"] as? [[String: Any]])
        let pins = try #require(domain["pins"] as? [[String: Any]])
        let matched = try #require(pins.first { $0["matched"] as? Int == 1 })
        #expect(keys.contains { $0["pin"] as? String == matched["pin"] as? String && $0["isPinned"] as? Bool == true })
        #expect(keys.contains { $0["isPinned"] as? Bool == false })
        let domains = try #require(try Self.object("GET /policy", stage.proxy)["domains"] as? [[String: Any]])
        let other = try #require(domains.first { $0["domain"] as? String == "other.example.com" })
        #expect(other["expiration"] as? String == "2101-01-31" && other["lastHandshake"] == nil)
        #expect(try #require(other["expiresInDays"] as? Int) > 20_000)
    }

    @Test("the settings in force are shown without secrets")
    func configuration() throws {
        let stage = try stage { settings in
            settings.hosts[Stage.host, default: [:]]["headers"] = [
                "request": ["set": ["Authorization": "Bearer topsecret"]]
            ]
        }
        let text = try Self.request("GET /config", stage.proxy).text
        #expect(text.contains(Stage.host) && text.contains("Authorization") && !text.contains("topsecret"))
        #expect(!text.contains(Self.token))
    }

    @Test("a reload responds with the policy in force or every error")
    func reload() throws {
        let stage = try stage()
        var settings = stage.settings
        settings.pin("more.example.com", to: .unrelated(3))
        try stage.proxy.rewrite(settings)
        var response = try Self.object("POST /reload", stage.proxy)
        #expect(response["applied"] as? Bool == true && (response["errors"] as? [Any])?.isEmpty == true)
        #expect(try #require(response["generation"] as? Int) >= 2)
        settings.members["unpinnedHosts"] = "perhaps"
        try stage.proxy.rewrite(settings)
        response = try Self.object("POST /reload", stage.proxy, status: 422)
        #expect(response["applied"] as? Bool == false)
        let errors = try #require(response["errors"] as? [[String: Any]])
        #expect(errors.map { $0["pointer"] as? String } == ["/unpinnedHosts"])
        #expect(errors[0]["remedy"] as? String != nil && errors[0]["line"] as? Int != nil)
        let loads = try #require(try Self.object("GET /reloads", stage.proxy)["loads"] as? [[String: Any]])
        #expect(loads.last?["trigger"] as? String == "start")
        #expect(loads.contains { $0["trigger"] as? String == "request" && $0["applied"] as? Bool == true })
        #expect(loads.contains { $0["trigger"] as? String == "request" && $0["applied"] as? Bool == false })
        #expect(
            try stage.proxy.waitForEvent("reloadFailed") { $0.string("trigger") == "request" }.string("file") != nil
        )
    }

    @Test("a reload drops pins only on request")
    func droppedPins() throws {
        let stage = try stage()
        var settings = stage.settings
        settings.pin("more.example.com", to: .unrelated(3))
        try stage.proxy.reload(settings)
        try stage.proxy.rewrite(stage.settings)
        let refused = try Self.object("POST /reload", stage.proxy, status: 422)
        #expect((refused["errors"] as? [[String: Any]])?.count == 1)
        #expect(try Self.domains(stage.proxy).contains("more.example.com"))
        #expect(try Self.object("POST /reload?dropPins", stage.proxy)["applied"] as? Bool == true)
        #expect(try Self.domains(stage.proxy) == [Stage.host])
    }

    private static func domains(_ proxy: ProxyUnderTest) throws -> [String] {
        let domains = try object("GET /policy", proxy)["domains"] as? [[String: Any]]
        return (domains ?? []).compactMap { $0["domain"] as? String }
    }

    @Test("drain works like SIGTERM: requests finish, the exit code is 0")
    func drain() throws {
        let gate = Gate()
        let stage = try Stage {
            Self.useToken(&$0)
        } script: { connection in
            guard let request = try connection.readRequest() else { return }
            try gate.pass()
            try connection.respond(request.target)
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/late")))
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        let response = try Self.request("POST /drain", stage.proxy)
        #expect(response.status == 202 && response.text == "{\"draining\":true}\n")
        _ = try Patience.poll(for: "unreadiness") {
            try Self.request("GET /ready", stage.proxy).status == 503 ? true : nil
        }
        #expect(try Self.request("POST /reload", stage.proxy).status == 503)
        #expect(try Self.request("POST /drain", stage.proxy).status == 503)
        gate.open()
        #expect(try client.readResponse().text == "/late")
        let finished = try stage.proxy.waitForExit()
        #expect(finished.exitCode == 0)
        #expect(stage.proxy.events("stopping").map { $0.string("request") } == ["drain"])
    }

    // MARK: Tokens

    @Test("changes need the token, and over TCP in any case")
    func tokens() throws {
        let proxy = try stage { $0.members["cache"] = [String: Any]() }.proxy
        for line in ["POST /reload", "POST /drain", "DELETE /cache?all"] {
            for fields in [[], ["Authorization: Bearer \(Self.token)x"], ["Authorization: Basic Og=="]] {
                let response = try Self.request(line, proxy, fields: fields)
                #expect(response.status == 401 && response.problemCode == "authentication_required", "\(line)")
                let challenges = response.fields.filter { $0.name == "WWW-Authenticate" }.map(\.value)
                #expect(challenges.count == 2 && challenges[0].hasPrefix("Bearer") && challenges[1].hasPrefix("Basic"))
            }
        }
        #expect(try Self.request("DELETE /cache?all", proxy).status == 200)
        #expect(try Self.request("GET /tasks", proxy, fields: []).status == 200)
        let crossSite = try Self.request(
            "POST /reload",
            proxy,
            fields: ["Authorization: Bearer \(Self.token)", "Origin: http://evil.example"]
        )
        #expect(crossSite.status == 403)
        let open = try Stage {
            $0.members["admin"] = ["address": "127.0.0.1:0"]
        } responding: { _ in
            ""
        }.proxy
        let refused = try Self.request("POST /drain", open, fields: [])
        #expect(refused.status == 403 && refused.text.contains("admin.tokenFile"))
        #expect(open.events("reloaded").isEmpty && open.events("stopping").isEmpty)
    }

    @Test("at a Unix socket the mode of its file decides")
    func unixSocket() throws {
        let folder = try TemporaryFolder()
        let stage = try stage { $0.members["admin"] = ["unixSocket": "\(folder.path)/admin.sock"] }
        #expect(try Self.request("POST /reload", stage.proxy, fields: []).status == 200)
    }

    @Test("commands send the configured token, or that of --token-file")
    func commands() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(Self.token, as: "token")
        let proxy = try Stage { settings in
            settings.members["admin"] = ["address": "0.0.0.0:0", "allowRemoteClients": true, "tokenFile": file]
            settings.members["cache"] = [String: Any]()
        } responding: { _ in
            ""
        }.proxy
        let address = "127.0.0.1:\(proxy.port(of: 1))"
        for words in [["health"], ["cache", "stats"], ["cache", "purge", "--all"]] {
            #expect(try pinproxy(words + ["--admin", address, "--token-file", file]).exitCode == 0, "\(words)")
            let without = try pinproxy(words + ["--admin", address])
            #expect(without.exitCode == 1 && without.errors.contains("--token-file"), "\(without.errors)")
            let wrong = try folder.write(String(repeating: "w", count: 40), as: "wrong")
            let refused = try pinproxy(words + ["--admin", address, "--token-file", wrong])
            #expect(refused.exitCode == 1 && refused.errors.contains("does not accept the token"), "\(refused.errors)")
        }
        // The configuration names address and token.
        let config = try folder.write(
            "{ \"version\": 1, \"admin\": { \"address\": \"\(address)\", \"tokenFile\": \"token\" } }",
            as: "config.json"
        )
        #expect(try pinproxy("health", "--config", config).exitCode == 0)
        // From here it is loopback, and still a listener that others can reach.
        #expect(try Self.request("GET /live", proxy, fields: []).status == 401)
        #expect(try Self.request("GET /live", proxy).text == "live\n")
    }

    @Test("each response keeps other sites away; only the page may run scripts")
    func fields() throws {
        let proxy = try stage().proxy
        for line in ["GET /", "GET /live", "GET /tasks", "GET /nothing", "POST /live"] {
            let response = try Self.request(line, proxy)
            #expect(response["X-Content-Type-Options"] == "nosniff" && response["X-Frame-Options"] == "DENY", "\(line)")
            #expect(response["Cross-Origin-Resource-Policy"] == "same-origin", "\(line)")
            let policy = try #require(response["Content-Security-Policy"])
            #expect(policy.hasPrefix("default-src 'none';") && policy.contains("frame-ancestors 'none'"))
            #expect(policy.contains("script-src") == (line == "GET /"), "\(line)")
            #expect(response["Access-Control-Allow-Origin"] == nil)
        }
        #expect(try Self.request("GET /", proxy)["Content-Type"] == "text/html; charset=utf-8")
    }
}
