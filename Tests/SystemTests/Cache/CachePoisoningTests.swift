// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Effects that one client, or one response, must not have on the responses to others.
@Suite("Attacks on the cache: what others get", .onOwnThreads)
struct CachePoisoningTests {
    @Test(
        "a response about one request is not kept, whatever it says",
        arguments: [401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 429, 431, 511]
    )
    func aboutOneRequest(status: Int) throws {
        let cache = try CacheFixture { request in
            let isOdd = request["X-Odd"] != nil
            return OriginResponse.text(
                isOdd ? "not you" : "good",
                status: isOdd ? "\(status) No" : "200 OK",
                fields: ["Cache-Control: public, max-age=3600"]
            )
        }
        #expect(try cache.get("/", fields: ["X-Odd: 1", "Range: bytes=900-"]).status == status)
        #expect(try cache.get().text == "good")
        #expect(cache.requests.count == 2)
    }

    @Test("an overridden Host and odd heads reach neither origin nor key")
    func unkeyedHost() throws {
        let cache = try CacheFixture { CacheFixture.fresh("\($0["Host"] ?? "") \($0.target)") }
        let good = "\(Stage.host) /p"
        for (line, host) in [
            ("http://\(Stage.host)/p", "evil.example.com"), ("http://\(Stage.host):80/p", Stage.host),
            ("https://API.EXAMPLE.COM:443/p", "x"), ("http://\(Stage.host)/p", Stage.host),
        ] {
            let response = try cache.proxy.exchange("GET \(line) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
            #expect(response.status >= 400 || response.text == good, "\(line) \(host): \(response)")
        }
        for (line, status) in [
            ("http://\(Stage.host)/p#x", 200), ("http://user@\(Stage.host)/p", 200),
            ("http://\(Stage.host)\\@evil/p", 400),
        ] {
            let response = try cache.proxy.exchange("GET \(line) HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n")
            #expect(response.status == status && (status == 400 || response.text == good), "\(line): \(response)")
        }
        #expect(try cache.get("/p").text == good)
        #expect(cache.requests.allSatisfy { $0["Host"] == Stage.host && $0.target == "/p" })
    }

    @Test("a Connection field removes nothing from the cache")
    func connectionNamesTerms() throws {
        let folder = try TemporaryFolder()
        let cache = try CacheFixture(["disk": ["path": "\(folder.path)/cache", "size": "100MB"]]) { _ in
            OriginResponse.text(
                "x",
                fields: [
                    "Connection: Cache-Control", "Cache-Control: no-cache", "ETag: \"v\"",
                    "Expires: Fri, 01 Jan 2100 00:00:00 GMT",
                ]
            )
        }
        #expect(try cache.get().text == "x")
        // Out of the disk it would be fresh for decades.
        let proxy = try CacheFixture.restart(cache.proxy, with: cache.stage.settings)
        #expect(try proxy.get(cache.stage.url())["Cache-Status"]?.contains("hit") == false)
        #expect(cache.requests.count == 2)
    }

    @Test("a Vary of thousands of names costs little and is not stored")
    func varyOfThousands() throws {
        let names = (0..<10_000).map { String($0, radix: 36) }.joined(separator: ",")
        let cache = try CacheFixture { _ in CacheFixture.fresh("x", ["Vary: \(names)"]) }
        let begin = Date()
        for _ in 0..<3 {
            #expect(try cache.get()["Cache-Status"]?.contains("detail=vary-everything") == true)
        }
        #expect(Date().timeIntervalSince(begin) < 20)
        #expect(cache.requests.count == 3)
    }

    @Test("thousands of variants of one URL leave a few, and fast lookups")
    func variants() throws {
        let folder = try TemporaryFolder()
        let cache = try CacheFixture(["disk": ["path": "\(folder.path)/cache", "size": "100MB"]]) { request in
            CacheFixture.fresh("for \(request["X"] ?? "")", ["Vary: X", "ETag: \"\(request["X"] ?? "")\""])
        }
        let client = try cache.proxy.connect()
        for number in 0..<300 {
            try client.send(ProxyUnderTest.request("GET", cache.stage.url(), fields: ["X: \(number)"]))
            #expect(try client.readResponse().text == "for \(number)")
        }
        // The latest are there, and no request names more entity tags than that.
        let proxy = try CacheFixture.restart(cache.proxy, with: cache.stage.settings)
        #expect(try proxy.get(cache.stage.url(), fields: ["X: 299"]).text == "for 299")
        #expect(cache.requests.count == 300)
        let asked = cache.requests.map { ($0["If-None-Match"] ?? "").split(separator: ",").count }
        #expect(try #require(asked.max()) <= 32)
        #expect(try proxy.get(cache.stage.url(), fields: ["X: 0"]).text == "for 0")
        #expect(cache.requests.count == 301)
        #expect((cache.requests.last?["If-None-Match"] ?? "").split(separator: ",").count <= 32)
    }

    @Test("a redirect rule's credentials keep its response from other clients")
    func credentialsOfRedirectRules() throws {
        let second = "second.example.com"
        let server = try Stage.pki.server(second)
        let other = try ScriptedOrigin(server) { request in
            CacheFixture.fresh(request["X-Api-Key"] == nil ? "for everybody" : "for the key")
        }
        let cache = try CacheFixture(
            [:],
            {
                $0.serve(second, server, at: other.port)
                $0.hosts[Stage.host]?["redirects"] = [
                    "policy": "return",
                    "rules": [
                        ["to": second, "then": "rewrite", "host": second, "addHeaders": ["X-Api-Key": ["env": "KEY"]]]
                    ],
                ]
            },
            environment: ["KEY": "s3cret"]
        ) { _ in OriginResponse.text("", status: "302 Found", fields: ["Location: https://\(second)/"]) }
        #expect(try cache.get().text == "for the key")
        #expect(try cache.proxy.get("https://\(second)/").text == "for everybody")
    }

    @Test("users of a private cache have one each")
    func partitions() throws {
        let cache = try CacheFixture(
            ["shared": false],
            { settings in
                settings.files["tokens.txt"] = Self.tokens
                settings.members["authentication"] = ["bearer": ["file": "tokens.txt"]]
            },
            responding: { request in
                OriginResponse.text(request["Cookie"] ?? "", fields: ["Cache-Control: private, max-age=60"])
            }
        )
        func get(_ token: String, _ name: String) throws -> HTTPMessage {
            try cache.get("/me", fields: ["Proxy-Authorization: Bearer \(token)", "Cookie: \(name)"])
        }
        #expect(try get("one", "alice").text == "alice")
        #expect(try get("two", "bob").text == "bob")
        #expect(try get("one", "alice")["Cache-Status"]?.contains("hit") == true)
        #expect(try get("two", "bob").text == "bob")
        #expect(cache.requests.count == 2)
    }

    @Test("a private cache keeps credentials apart without authentication")
    func credentialPartitions() throws {
        let cache = try CacheFixture(["shared": false]) { request in
            OriginResponse.text(
                "for \(request["Authorization"] ?? "-") \(request["Cookie"] ?? "-")",
                fields: ["Cache-Control: private, max-age=60"]
            )
        }
        let clients = [
            ([], "for - -"), (["Authorization: Bearer a"], "for Bearer a -"),
            (["Authorization: Bearer b"], "for Bearer b -"),
            (["Cookie: a"], "for - a"), (["Cookie: Bearer a"], "for - Bearer a"),
            (["Authorization: Bearer a", "Cookie: a"], "for Bearer a a"),
        ]
        for _ in 0..<2 {
            for (fields, text) in clients { #expect(try cache.get("/me", fields: fields).text == text) }
        }
        #expect(cache.requests.count == clients.count)
        // The same event makes all of them worthless.
        #expect(try cache.ask("POST", "/me", body: "x").status == 200)
        for (fields, text) in clients { #expect(try cache.get("/me", fields: fields).text == text) }
        #expect(cache.requests.count == clients.count * 2 + 1)
    }

    @Test("a stored redirect is subject to the rules of now")
    func cachedRedirects() throws {
        let second = "second.example.com"
        let server = try Stage.pki.server(second)
        let other = try ScriptedOrigin(server) { _ in CacheFixture.fresh("followed") }
        let cache = try CacheFixture(
            [:],
            {
                $0.serve(second, server, at: other.port)
                $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            }
        ) { _ in
            OriginResponse.text(
                "",
                status: "301 Moved Permanently",
                fields: ["Location: https://\(second)/", "Cache-Control: max-age=3600"]
            )
        }
        #expect(try cache.get().text == "followed")
        #expect(try cache.get().text == "followed")
        try cache.stage.reload { $0.pinnedDomains[second] = nil }
        let unpinned = try cache.get()
        #expect(unpinned.status == 403 && unpinned.problemCode == "redirect_denied")
        try cache.stage.reload { $0.members["access"] = ["denyHosts": [second]] }
        #expect(try cache.get().problemCode == "host_denied")
        #expect(cache.requests.count == 1 && other.requests.count == 1)
    }

    @Test("after a background request meets another server, nothing stale is used")
    func refusedInBackground() throws {
        let server = try Stage.pki.server(Stage.host)
        let other = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, successor: other) { connection in
            _ = try connection.readRequest()
            let fields = ["Cache-Control: max-age=0, stale-while-revalidate=600", "ETag: \"v\"", "Connection: close"]
            try connection.write(OriginResponse.text("good", fields: fields))
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["cache"] = [String: Any]()
        let proxy = try ProxyUnderTest(settings)
        let url = "http://\(Stage.host)/"
        for _ in 0..<2 { #expect(try proxy.get(url).text == "good") }
        let line = try Patience.poll(for: "the background request") {
            proxy.taskLines.first { $0.string("client") == "cache" }
        }
        #expect(line.string("error") == "pin_mismatch")
        let refused = try proxy.get(url)
        #expect(refused.status == 502 && refused.problemCode == "pin_mismatch", "\(refused)")
        #expect(origin.connections.dropFirst().allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("users of a private cache stay apart behind an intercepted CONNECT")
    func partitionsBehindConnect() throws {
        let folder = try TemporaryFolder()
        let made = try Programs.run(
            try Programs.built("pinproxy"),
            ["ca", "init", "--dir", folder.path, Stage.host]
        )
        try #require(made.exitCode == 0, "\(made.errors)")
        let cache = try CacheFixture(
            ["shared": false],
            { settings in
                settings.files["tokens.txt"] = Self.tokens
                settings.members["authentication"] = ["bearer": ["file": "tokens.txt"]]
                settings.members["interception"] = [
                    "certificate": "\(folder.path)/pinproxy-ca.pem", "key": "\(folder.path)/pinproxy-ca.key",
                ]
                settings.hosts[Stage.host]?["connect"] = "intercept"
            },
            responding: { request in
                OriginResponse.text(request["Cookie"] ?? "", fields: ["Cache-Control: private, max-age=60"])
            }
        )
        for (token, name) in [("one", "alice"), ("two", "bob"), ("one", "alice"), ("two", "bob")] {
            let curl = try Programs.run(
                "curl",
                ["-sS", "-x", "http://127.0.0.1:\(cache.proxy.port)", "--cacert", "\(folder.path)/pinproxy-ca.pem"]
                    + ["--proxy-header", "Proxy-Authorization: Bearer \(token)", "-H", "Cookie: \(name)"]
                    + ["https://\(Stage.host)/me"]
            )
            #expect(curl.exitCode == 0 && curl.output == name, "\(curl)")
        }
        #expect(cache.requests.count == 2)
    }

    @Test("a response that spans two policies belongs to the first alone")
    func reloadedMeanwhile() throws {
        let gate = Gate()
        let cache = try CacheFixture { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 8\r\n\r\nhalf")
            try gate.pass()
            try connection.write("half")
        }
        let client = try cache.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", cache.stage.url(), fields: ["Connection: close"]))
        #expect(try client.readResponseHead().status == 200)
        try cache.stage.reload { $0.pin(Stage.host, to: .unrelated(3)) }
        gate.open()
        #expect(String(decoding: try client.readToEnd(), as: UTF8.self) == "halfhalf")
        let refused = try cache.get()
        #expect(refused.status == 502 && refused.problemCode == "pin_mismatch")
        try cache.stage.reload { _ in }
        let kept = try cache.get("/", fields: ["Cache-Control: only-if-cached"])
        #expect(kept.status == 200 && kept.text == "halfhalf")
        #expect(cache.requests.count == 1)
    }

    /// Those whose digests these are: "one" and "two".
    private static let tokens = """
        alice:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed
        bob:3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3

        """
}
