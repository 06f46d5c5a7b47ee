// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("The admin listener: documents, their schemas, and what stays out of them", .onOwnThreads)
struct AdminDocumentTests {
    private static func get(_ path: String, from proxy: ProxyUnderTest) throws -> HTTPMessage {
        let response = try proxy.exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        try #require(response.status == 200, "\(response.text)")
        return response
    }

    /// Domains of every kind: in each mode, reported, expired, excluded, with ports, with certificates.
    private func stage(_ change: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.members["workers"] = 1
            let pki = Stage.pki
            settings.pin(
                "certificate.test",
                toCertificate: pki.root.certificate,
                with: ["includeSubdomains": true, "ports": [443, 8443]]
            )
            settings.pinnedDomains["out.certificate.test"] = ["excludeFromParentPolicy": true]
            settings.pin("reported.test", to: .unrelated(2), with: ["enforcePinning": false])
            settings.pin(
                "old.test",
                to: .unrelated(3),
                with: [
                    "expiration": "2024-02-29", "onExpiration": "unpinned",
                    "forbiddenPins": ["\(PublicKeyPin.unrelated(9))"],
                ]
            )
            settings.pin("wrong.test", to: .unrelated(4), with: ["expiration": "2101-01-31"])
            settings.pinnedDomains["none.test"] = ["pinningMode": "none"]
            settings.pin("lax.test", to: .unrelated(5), with: ["allowInvalidCertificates": true])
            settings.pin("any.test", to: .unrelated(6), with: ["validatesDomainName": false])
            let scoped: [[String: Any]] = [
                ["spki-sha256": "\(PublicKeyPin.unrelated(7).base64)", "scope": "leaf", "comment": "next \"year\""],
                ["spki-sha256": "\(PublicKeyPin.unrelated(8).base64)", "scope": "ca", "backup": true],
            ]
            settings.pinnedDomains["scoped.test"] = ["pinningMode": "publicKey", "pins": scoped]
            change(&settings)
        } responding: {
            OriginResponse.text($0.target)
        }
    }

    @Test("/policy follows its schema, with domains and verdicts of every kind")
    func policy() throws {
        let stage = try stage { settings in
            // All of them reach the origin of the test, whose certificate fits none of their names.
            for host in ["reported.test", "old.test", "wrong.test", "none.test", "lax.test", "any.test"] {
                settings.hosts[host, default: [:]]["resolve"] = settings.hosts[Stage.host]?["resolve"]
            }
        }
        #expect(try stage.get().status == 200)
        for host in ["reported.test", "old.test", "wrong.test", "none.test", "lax.test", "any.test"] {
            _ = try stage.proxy.get("http://\(host)/")
        }
        let schema = try SchemaCheck("policy.schema.json")
        let document = try Patience.poll(for: "six handshakes") { () -> HTTPMessage? in
            let policy = try Self.get("/policy", from: stage.proxy)
            #expect(try schema.issues(of: policy.body) == [])
            return policy.text.components(separatedBy: "\"lastHandshake\"").count == 7 ? policy : nil
        }
        #expect(document["Content-Type"] == "application/json")
        for text in [
            "\"excludedFromParentPolicy\":true", "\"ports\":[443,8443]", "\"certificate\":\"", "\"scope\":\"ca\"",
            "\"comment\":\"next \\\"year\\\"\"", "\"allowInvalidCertificates\":true", "\"validatesDomainName\":false",
            "\"mode\":\"none\"", "\"onExpiration\":\"unpinned\"", "\"forbiddenPins\":1", "\"expiresInDays\":-",
            "\"verdict\":\"pass\"", "\"verdict\":\"fail\"", "\"handshakes\":{\"fail\":1}",
        ] {
            #expect(document.text.contains(text), "\(text): \(document.text)")
        }
    }

    @Test("with since, /policy has the domains with a later handshake")
    func changes() throws {
        let stage = try stage()
        #expect(try stage.get().status == 200)
        let schema = try SchemaCheck("policy.schema.json")
        func policy(_ query: String) throws -> [String: Any] {
            let document = try Self.get("/policy\(query)", from: stage.proxy)
            #expect(try schema.issues(of: document.body) == [])
            return try #require(try JSONSerialization.jsonObject(with: Data(document.body)) as? [String: Any])
        }
        func names(_ document: [String: Any]) -> [String] {
            ((document["domains"] as? [[String: Any]]) ?? []).compactMap { $0["domain"] as? String }
        }
        let seen = try Patience.poll(for: "a handshake") { () -> [String: Any]? in
            let document = try policy("?since=1")
            return names(document).isEmpty ? nil : document
        }
        let all = try policy("")
        #expect(names(seen) == [Stage.host] && names(all).count > 5)
        #expect(seen["generation"] as? Int == all["generation"] as? Int)
        let first = try #require((seen["domains"] as? [[String: Any]])?.first?["lastHandshake"] as? [String: Any])
        let time = try #require(try (first["time"] as? String).map { try Date($0, strategy: .iso8601) })
        let second = Int(time.timeIntervalSince1970)
        #expect(names(try policy("?since=\(second)")) == [Stage.host])
        #expect(names(try policy("?since=\(second + 1)")) == [])
    }

    @Test("a domain has the time of its last failed connection, and since includes it")
    func connectFailure() throws {
        let stage = try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.resolve("dead.example.com", to: 1)
            settings.pin("dead.example.com", to: .unrelated(7))
        } responding: {
            OriginResponse.text($0.target)
        }
        #expect(try stage.proxy.get("http://dead.example.com/").status == 502)
        let document = try Patience.poll(for: "the failure") { () -> HTTPMessage? in
            let document = try Self.get("/policy?since=1", from: stage.proxy)
            return document.text.contains("dead.example.com") ? document : nil
        }
        #expect(try SchemaCheck("policy.schema.json").issues(of: document.body) == [])
        let object = try #require(try JSONSerialization.jsonObject(with: Data(document.body)) as? [String: Any])
        let domains = try #require(object["domains"] as? [[String: Any]])
        let failure = try #require(domains.first?["lastConnectFailure"] as? [String: Any])
        #expect(domains.count == 1 && failure["error"] as? String == "connect_failed")
        #expect(domains[0]["lastHandshake"] == nil)
        let time = try Date(try #require(failure["time"] as? String), strategy: .iso8601)
        #expect(abs(time.timeIntervalSinceNow) < 600)
    }

    @Test("the figures of the moment are those of requests, connections, turns, memory and losses")
    func status() throws {
        let stage = try stage()
        for path in ["/a", "/b", "/c"] { #expect(try stage.get(path).status == 200) }
        _ = try stage.proxy.waitForTaskLines(3)
        let document = try Self.get("/status", from: stage.proxy)
        let figures = try #require(try JSONSerialization.jsonObject(with: Data(document.body)) as? [String: Any])
        #expect(document["Content-Type"] == "application/json" && document.body.count < 1000)
        #expect(figures["requests"] as? Int == 3 && figures["live"] as? Bool == true, "\(document.text)")
        #expect(figures["draining"] as? Bool == false && figures["generation"] as? Int == 1)
        #expect(figures["logLinesLost"] as? Int == 0 && figures["logLossReported"] == nil)
        #expect(figures["cache"] as? Bool == false)
        #expect(figures["reportsLost"] as? Int == 0 && figures["connectionsRefused"] as? Int == 0)
        #expect(figures["reportLossReported"] == nil && figures["lastConnectionRefused"] == nil)
        for name in ["residentBytes", "heldBytesLimit", "openFiles", "openFilesLimit"] {
            #expect((figures[name] as? Int ?? 0) > 0, "\(name): \(document.text)")
        }
        #expect((figures["version"] as? String)?.isEmpty == false)
        let times = try ["started", "time"].map { try Date(try #require(figures[$0] as? String), strategy: .iso8601) }
        #expect(times[0] <= times[1] && times[1].timeIntervalSince(times[0]) < 600)
    }

    @Test("a schema refuses unknown members")
    func schema() throws {
        let schema = try SchemaCheck("policy.schema.json")
        let good = #""generation":1,"loaded":"2026-11-23T20:00:00Z","unpinnedHosts":"deny""#
        #expect(try schema.issues(of: Array("{\(good),\"domains\":[]}".utf8)) == [])
        for (text, issue) in [
            ("{\(good)}", "required"), ("{\(good),\"domains\":[],\"x\":1}", "/x: not known"),
            ("{\(good),\"domains\":[{\"domain\":1,\"file\":\"\",\"includeSubdomains\":1}]}", "/domains/0/domain: type"),
            ("{\(good),\"domains\":{}}", "/domains: type"), ("[]", "type object"),
        ] {
            let issues = try schema.issues(of: Array(text.utf8))
            #expect(issues.contains { $0.contains(issue) }, "\(text): \(issues)")
        }
        #expect(throws: SchemaCheck.UnknownKeyword.self) {
            try SchemaCheck(text: Array(#"{ "oneOf": [] }"#.utf8)).issues(of: [0x31])
        }
    }

    @Test("/settings follows its schema, and agrees with pinproxy check")
    func settings() throws {
        let stage = try stage { settings in
            settings.members["log"] = ["tasks": "off", "level": "warning", "redact": ["session"]]
            settings.members["limits"] = ["connections": 1234, "requestBodyBytes": "3MB"]
            settings.members["defaults"] = ["timeouts": ["connect": "7s", "total": "1h"]]
            settings.members["reports"] = ["file": "reports.jsonl"]
            settings.hosts[Stage.host]?["timeouts"] = ["stall": "9s"]
            settings.hosts[Stage.host]?["connectionsPerHost"] = 5
        }
        let document = try Self.get("/config", from: stage.proxy)
        #expect(try SchemaCheck("settings.schema.json").issues(of: document.body) == [])
        for text in [
            "connections 1234", "requestBodyBytes 3MB", "connect 7s", "total 1h", "stall 9s", "level warning",
            "parameters session", "reports.jsonl", "{\"label\":\"connectionsPerHost\",\"text\":\"5\"}",
            "{\"label\":\"workers\",\"text\":\"1\"}",
        ] {
            #expect(document.text.contains(text), "\(text): \(document.text)")
        }
        let check = try pinproxy("check", "--json", "--config", "\(stage.proxy.folder.path)/config.json")
        func sections(_ text: String, _ name: String) throws -> NSArray {
            let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
            return try #require(object?[name] as? NSArray)
        }
        #expect(try sections(check.output, "policy") == sections(document.text, "sections"))
    }

    @Test("no document has secrets of the configuration, of clients or of failed loads")
    func secrets() throws {
        let secrets = ["swordfish", "open-sesame", "c3dvcmRmaXNo", "PRIVATE KEY", String(repeating: "t", count: 40)]
        let stage = try stage { settings in
            settings.files["admin.token"] = String(repeating: "t", count: 40)
            settings.members["admin"] = ["address": "127.0.0.1:0", "tokenFile": "admin.token"]
            settings.members["log"] = ["redact": ["key"]]
            settings.members["upstreamProxy"] = "http://u:swordfish@127.0.0.1:1"
            settings.hosts[Stage.host]?["upstreamProxy"] = "none"
            settings.hosts[Stage.host]?["headers"] = ["request": ["set": ["Authorization": "Basic c3dvcmRmaXNo"]]]
        }
        let fields = [
            "Authorization: Bearer open-sesame", "Cookie: a=swordfish", "Proxy-Authorization: Basic c3dvcmRmaXNo",
        ]
        #expect(try stage.get("/?key=swordfish&KEY=swordfish&%6bey=swordfish", fields: fields).status == 200)
        _ = try stage.proxy.get("http://user:swordfish@\(Stage.host)/", fields: fields)
        _ = try stage.proxy.get("http://user:swordfish@/", fields: fields)
        // What an operator has mistyped is told, and not repeated where it is a secret.
        let mistakes: [(inout ProxySettings) -> Void] = [
            { $0.members["upstreamProxy"] = "http://u:swordfish@proxy.test:99999" },
            { $0.members["upstreamProxy"] = "http://u:swordfish@" },
            {
                $0.members["upstreamProxy"] = ["url": "ftp://u:swordfish@127.0.0.1:1"]
            },
            { $0.hosts[Stage.host]?["headers"] = ["request": ["set": ["Authorization": "Basic swordfish\n"]]] },
            { $0.files["admin.token"] = "swordfish" },
            {
                $0.files["users"] = "alice:swordfish\n"
                $0.members["authentication"] = ["basic": ["file": "users"]]
            },
            {
                $0.files["tokens"] = "ci:swordfish\n"
                $0.members["authentication"] = ["bearer": ["file": "tokens"]]
            },
        ]
        for mistake in mistakes {
            let line = try stage.reload(mistake)
            #expect(line.string("event") == "reloadFailed", "\(line.text)")
        }
        _ = try stage.proxy.waitForTaskLines(3)
        _ = try Patience.poll(for: "three tasks") {
            try Self.get("/tasks", from: stage.proxy).text.split(separator: "\n").count > 3 ? true : nil
        }
        for path in [
            "/", "/metrics", "/tasks", "/tasks.har", "/policy", "/status", "/config", "/reloads", "/workers",
            "/tasks/stream?from=0",
        ] {
            let text: String
            if path.hasPrefix("/tasks/stream") {
                let client = try stage.proxy.connect(to: 1)
                try client.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
                var all = ""
                while all.components(separatedBy: "event: task").count < 4 {
                    let bytes = try client.receive()
                    try #require(!bytes.isEmpty)
                    all += String(decoding: bytes, as: UTF8.self)
                }
                text = all
            } else {
                text = try Self.get(path, from: stage.proxy).text
            }
            for secret in secrets { #expect(!text.contains(secret), "\(path): \(secret)\n\(text)") }
        }
        for secret in secrets {
            #expect(!(stage.proxy.output + stage.proxy.errors).contains(secret), "the logs: \(secret)")
        }
    }
}
