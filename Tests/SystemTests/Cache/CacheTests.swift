// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The cache, through the proxy", .onOwnThreads)
struct CacheTests {
    @Test("a fresh response is stored, and used without the origin")
    func hit() throws {
        let cache = try CacheFixture { CacheFixture.fresh("body of \($0.target)", ["ETag: \"1\""]) }
        let first = try cache.get("/a?b=c")
        #expect(first.status == 200 && first.text == "body of /a?b=c")
        #expect(first["Cache-Status"]?.hasPrefix("pinproxy; fwd=uri-miss; stored; ttl=") == true, "\(first.fields)")
        #expect(first["Age"] == nil)
        let second = try cache.get("/a?b=c")
        #expect(second.status == 200 && second.text == "body of /a?b=c")
        #expect(second["Cache-Status"]?.hasPrefix("pinproxy; hit; ttl=") == true, "\(second.fields)")
        #expect(second["Age"].flatMap { Int($0) } != nil)
        #expect(second["ETag"] == "\"1\"" && second["Content-Length"] == "14")
        #expect(second["Via"]?.contains("pinproxy-") == true)
        #expect(try cache.get("/a").text == "body of /a")
        #expect(cache.requests.map(\.target) == ["/a?b=c", "/a"])
        let lines = try cache.proxy.waitForTaskLines(3)
        #expect(lines.map { $0.string("cache") } == ["miss", "hit", "miss"])
        #expect(lines[1].integer("bytesReceived") == 14 && lines[1].integer("status") == 200)
        #expect(lines[1].transactions.isEmpty && lines[1].object("pinning") == nil)
    }

    @Test("without the key nothing is cached, and no response mentions a cache")
    func off() throws {
        let stage = try Stage(responding: { _ in CacheFixture.fresh("x") })
        for _ in 0..<2 { #expect(try stage.get()["Cache-Status"] == nil) }
        #expect(stage.origin.requests.count == 2)
        #expect(try stage.proxy.waitForTaskLines(2).allSatisfy { $0["cache"] == nil })
    }

    @Test("every way into the proxy uses one cache", arguments: WayIn.allCases)
    func waysIn(way: WayIn) throws {
        let folder = try TemporaryFolder()
        let cache = try CacheFixture(
            [:],
            {
                WayIn.addListeners(to: &$0, host: Stage.host, folder: folder)
                $0.members["workers"] = 2
            },
            responding: { _ in CacheFixture.fresh("once") }
        )
        #expect(try cache.get("/x").text == "once")
        let response = try way.get("/x", of: Stage.host, through: cache.proxy)
        #expect(response.status == 200 && response.text == "once")
        #expect(cache.requests.count == 1)
    }

    @Test("a client of HTTP/2 gets small and large stored responses")
    func http2() throws {
        let body = String(decoding: patternBytes(600_000).map { $0 & 63 | 64 }, as: UTF8.self)
        let cache = try CacheFixture([:], { $0.listeners[0]["http2"] = true }) { request in
            CacheFixture.fresh(request.target == "/small" ? "small" : body)
        }
        for (path, expected) in [("/small", "small"), ("/large", body)] {
            for _ in 0..<2 {
                let curl = try Programs.run(
                    "curl",
                    ["-sS", "--http2-prior-knowledge", "-H", "Host: \(Stage.host)", "-x", "", "-o", "-"]
                        + ["--connect-to", "::127.0.0.1:\(cache.proxy.port)", cache.stage.url(path)]
                )
                #expect(curl.exitCode == 0 && curl.output == expected, "\(curl.errors)")
            }
        }
        #expect(cache.requests.count == 2)
        #expect(try cache.outcomes(4) == ["miss", "hit", "miss", "hit"])
    }

    @Test("a stale response is validated: 304 refreshes it, a new one replaces it")
    func validated() throws {
        let cache = try CacheFixture { request in
            if request.target == "/same", request["If-None-Match"] == "\"v1\"" {
                return "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nX-New: yes\r\nCache-Control: max-age=0\r\n\r\n"
            }
            let isAgain = request["If-None-Match"] != nil
            return OriginResponse.text(
                isAgain ? "two" : "one",
                fields: ["ETag: \(isAgain ? "\"v2\"" : "\"v1\"")", "Cache-Control: max-age=0"]
            )
        }
        #expect(try cache.get("/same").text == "one")
        let same = try cache.get("/same")
        #expect(same.status == 200 && same.text == "one" && same["X-New"] == "yes")
        #expect(same["Cache-Status"]?.hasPrefix("pinproxy; fwd=stale; fwd-status=304") == true, "\(same.fields)")
        #expect(try cache.get("/other").text == "one")
        #expect(try cache.get("/other").text == "two")
        // A client's own condition is answered out of the cache.
        let own = try cache.get("/same", fields: ["If-None-Match: \"v1\""])
        #expect(own.status == 304 && own.body.isEmpty)
        let lines = try cache.proxy.waitForTaskLines(5)
        #expect(lines.map { $0.string("cache") } == ["miss", "revalidated", "miss", "miss", "revalidated"])
        #expect(lines[1].integer("status") == 200 && lines[1].transactions.map { $0["status"] as? Int } == [304])
        // All of it over one connection: a validation leaves it as it was.
        #expect(cache.origin.connections.count <= 2)
    }

    @Test("responses are kept apart by what Vary names")
    func vary() throws {
        let cache = try CacheFixture { request in
            CacheFixture.fresh("for \(request["Accept-Language"] ?? "nobody")", ["Vary: Accept-Language"])
        }
        for language in ["de", "en", "de", "en"] {
            #expect(try cache.get("/", fields: ["Accept-Language: \(language)"]).text == "for \(language)")
        }
        #expect(cache.requests.count == 2)
    }

    @Test("private and no-store responses are not stored in a shared cache")
    func kinds() throws {
        let control = ["/private": "private, max-age=60", "/none": "no-store", "/all": "public, max-age=60"]
        for isShared in [true, false] {
            let cache = try CacheFixture(["shared": isShared]) { request in
                OriginResponse.text("x", fields: ["Cache-Control: \(control[request.target] ?? "")"])
            }
            for path in ["/private", "/none", "/all"] {
                for _ in 0..<2 { #expect(try cache.get(path).status == 200) }
            }
            let expected = ["/private": isShared ? 2 : 1, "/none": 2, "/all": 1]
            let counts = Dictionary(grouping: cache.requests, by: \.target).mapValues(\.count)
            #expect(counts == expected)
        }
    }

    @Test("a response to credentials is not shared, also to the proxy's own")
    func credentials() throws {
        let cache = try CacheFixture(
            [:],
            {
                $0.hosts["given.example.com"] = [
                    "resolve": $0.hosts[Stage.host]?["resolve"] as Any,
                    "headers": ["request": ["set": ["Authorization": ["env": "SECRET"]]]],
                ]
                $0.pinnedDomains["given.example.com"] = $0.pinnedDomains[Stage.host]
                $0.pinnedDomains["given.example.com"]?["validatesDomainName"] = false
            },
            environment: ["SECRET": "Bearer abc"]
        ) { request in
            request.target == "/public"
                ? OriginResponse.text("x", fields: ["Cache-Control: public, max-age=60"]) : CacheFixture.fresh("x")
        }
        for path in ["/", "/public"] {
            for _ in 0..<2 {
                #expect(try cache.get(path, fields: ["Authorization: Basic YTpi"]).status == 200)
                #expect(try cache.proxy.get("http://given.example.com\(path)").status == 200)
            }
        }
        let targets = cache.requests.map { "\($0["Host"] ?? "")\($0.target)" }
        #expect(targets.filter { $0 == "\(Stage.host)/" }.count == 2)
        #expect(targets.filter { $0 == "given.example.com/" }.count == 2)
        #expect(targets.filter { $0 == "\(Stage.host)/public" }.count == 1)
        #expect(targets.filter { $0 == "given.example.com/public" }.count == 1)
        #expect(!cache.proxy.output.contains("abc"))
    }

    @Test("an unsafe request is forwarded and invalidates stored responses")
    func invalidation() throws {
        let cache = try CacheFixture { request in
            request.method == "GET" ? CacheFixture.fresh("x") : OriginResponse.text("done")
        }
        #expect(try cache.get("/a").status == 200)
        #expect(try cache.ask("POST", "/a", body: "new").text == "done")
        #expect(try cache.get("/a").status == 200)
        #expect(cache.requests.map(\.method) == ["GET", "POST", "GET"])
        #expect(cache.requests[1].text == "new")
        #expect(try cache.outcomes(3) == ["miss", "bypass", "miss"])
    }

    @Test("only-if-cached gets 504 where nothing is stored")
    func onlyIfCached() throws {
        let cache = try CacheFixture { _ in CacheFixture.fresh("x") }
        let refusal = try cache.get("/", fields: ["Cache-Control: only-if-cached"])
        #expect(refusal.status == 504 && refusal.problemCode == "not_stored")
        #expect(refusal["Cache-Status"] == "pinproxy; fwd=uri-miss")
        #expect(cache.requests.isEmpty)
        #expect(try cache.get().status == 200)
        #expect(try cache.get("/", fields: ["Cache-Control: only-if-cached"]).text == "x")
        #expect(cache.requests.count == 1)
    }

    @Test("HEAD and ranges are served from what a GET has stored")
    func parts() throws {
        let cache = try CacheFixture { _ in CacheFixture.fresh("0123456789", ["ETag: \"v\""]) }
        #expect(try cache.get().text == "0123456789")
        let head = try cache.ask("HEAD")
        #expect(head.status == 200 && head.body.isEmpty && head["Content-Length"] == "10")
        let part = try cache.get("/", fields: ["Range: bytes=2-4"])
        #expect(part.status == 206 && part.text == "234" && part["Content-Range"] == "bytes 2-4/10")
        let behind = try cache.get("/", fields: ["Range: bytes=20-"])
        #expect(behind.status == 416 && behind["Content-Range"] == "bytes */10")
        #expect(cache.requests.count == 1)
    }

    @Test("500 clients that ask for one cold object cause one request")
    func collapsed() throws {
        let gate = Monitor(false)
        let cache = try CacheFixture([:], { $0.members["workers"] = 2 }) { connection in
            while let request = try connection.readRequest() {
                try gate.wait(for: "the clients") { $0 ? true : nil }
                try connection.write(CacheFixture.fresh("for all \(request.target)"))
            }
        }
        let clients = try (0..<500).map { _ in try cache.proxy.connect() }
        for client in clients { try client.send(ProxyUnderTest.request("GET", cache.stage.url("/cold"))) }
        gate.with { $0 = true }
        for client in clients { #expect(try client.readResponse().text == "for all /cold") }
        #expect(cache.requests.count == 1)
        let outcomes = try cache.outcomes(500)
        #expect(outcomes.filter { $0 == "miss" }.count == 1 && outcomes.filter { $0 == "hit" }.count == 499)
    }

    @Test("when the client of a shared request leaves, another one asks")
    func leaderGone() throws {
        let isAsked = Monitor(0)
        let cache = try CacheFixture([:], { _ in }) { connection in
            while try connection.readRequest() != nil {
                let number = isAsked.with { count in
                    count += 1
                    return count
                }
                if number == 1 {
                    // Never answered: the proxy drops the connection when its client has gone.
                    connection.readToEnd()
                    return
                }
                try connection.write(CacheFixture.fresh("second"))
            }
        }
        let leader = try cache.proxy.connect()
        try leader.send(ProxyUnderTest.request("GET", cache.stage.url("/x")))
        try isAsked.wait(for: "the first request") { $0 == 1 ? true : nil }
        let follower = try cache.proxy.connect()
        try follower.send(ProxyUnderTest.request("GET", cache.stage.url("/x")))
        leader.reset()
        #expect(try follower.readResponse().text == "second")
    }

    @Test("redirects are stored, and followed out of the cache")
    func redirects() throws {
        let cache = try CacheFixture([:], { $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"] }) { request in
            guard request.target == "/old" else { return CacheFixture.fresh("new") }
            return OriginResponse.text(
                "moved",
                status: "301 Moved Permanently",
                fields: ["Location: /new", "Cache-Control: max-age=60"]
            )
        }
        for _ in 0..<2 {
            let response = try cache.get("/old")
            #expect(response.status == 200 && response.text == "new")
        }
        #expect(cache.requests.map(\.target) == ["/old", "/new"])
        let line = try #require(try cache.proxy.waitForTaskLines(2).last)
        #expect(line.string("cache") == "hit" && line.integer("redirectCount") == 1)
        #expect(line.transactions.map { $0["cache"] as? String } == ["hit", "hit"])
    }

    @Test("stored responses are rewritten for upgraded clients like new ones")
    func rewritten() throws {
        let cache = try CacheFixture { _ in
            OriginResponse.text(
                "",
                status: "301 Moved Permanently",
                fields: [
                    "Location: https://\(Stage.host)/next", "Strict-Transport-Security: max-age=1",
                    "Cache-Control: max-age=60",
                ]
            )
        }
        for _ in 0..<2 {
            let response = try cache.get()
            #expect(response["Location"] == "http://\(Stage.host)/next")
            #expect(response["Strict-Transport-Security"] == nil)
        }
        // The same for a client that asks for https gets it as it was.
        #expect(try cache.proxy.get("https://\(Stage.host)/")["Location"] == "https://\(Stage.host)/next")
        #expect(cache.requests.count == 1)
    }

    @Test("rules for responses apply to stored ones")
    func responseRules() throws {
        let cache = try CacheFixture { _ in CacheFixture.fresh("text") }
        #expect(try cache.get().status == 200)
        try cache.stage.reload {
            $0.hosts[Stage.host]?["responses"] = ["rules": [["contentType": "text/plain", "then": "cancel"]]]
        }
        let refused = try cache.get()
        #expect(refused.status == 502 && refused.problemCode == "response_denied")
        try cache.stage.reload {
            $0.hosts[Stage.host]?["headers"] = ["response": ["set": ["X-Rule": "yes"]]]
        }
        #expect(try cache.get()["X-Rule"] == "yes")
        #expect(cache.requests.count == 1)
    }

    enum Place: CaseIterable {
        case memory, pageCache, disk
    }

    @Test("a large stored body reaches a slow reader whole, wherever it is", arguments: Place.allCases)
    func slowReader(place: Place) throws {
        let onDisk = place != .memory
        let folder = try TemporaryFolder()
        let body = patternBytes(6 << 20)
        var members: [String: Any] = ["memory": onDisk ? "1MB" : "64MB"]
        if onDisk { members["disk"] = ["path": "\(folder.path)/cache", "size": "100MB"] }
        let cache = try CacheFixture(members) { connection in
            while try connection.readRequest() != nil {
                try connection.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: \(body.count)\r\n\r\n"
                )
                try connection.write(body)
            }
        }
        #expect(try firstDifference(cache.get().body, body) == nil)
        try Patience.poll(for: "the body to be stored") {
            try cache.get("/", fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
        }
        if place == .disk { #expect(try folder.dropFromPageCache() > 0) }
        let client = try TestClient(port: cache.proxy.port, receiveBuffer: 4096)
        try client.send(ProxyUnderTest.request("GET", cache.stage.url()))
        #expect(try firstDifference(client.readResponse().body, body) == nil)
        #expect(cache.requests.count == 1)
    }
}
