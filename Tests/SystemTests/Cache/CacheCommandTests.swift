// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@testable import pinproxy

@Suite("Command line: cache", .onOwnThreads)
struct CacheCommandTests {
    /// An origin whose answers may be stored, and a proxy with a cache and an admin listener.
    private func stage(
        _ cache: [String: Any]? = [:],
        _ change: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> Stage {
        try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.members["log"] = ["redact": ["token"]]
            if let cache { settings.members["cache"] = cache }
            change(&settings)
        } responding: { request in
            let tag = request.target.hasPrefix("/tagged") ? ["Surrogate-Key: red blue"] : []
            return OriginResponse.text(request.target, fields: ["Cache-Control: max-age=600"] + tag)
        }
    }

    private static func run(_ words: [String], _ proxy: ProxyUnderTest) throws -> Programs.Finished {
        try pinproxy(["cache"] + words + ["--admin", "127.0.0.1:\(proxy.port(of: proxy.listening.count - 1))"])
    }

    private static func figures(_ proxy: ProxyUnderTest) throws -> [String: Any] {
        let finished = try run(["stats", "--json"], proxy)
        try #require(finished.exitCode == 0, "\(finished.errors)")
        return try #require(try JSONSerialization.jsonObject(with: Data(finished.output.utf8)) as? [String: Any])
    }

    /// Gets each and waits until it is stored.
    private static func store(_ paths: [String], _ stage: Stage) throws {
        for path in paths { #expect(try stage.get(path).text == path) }
        try Patience.poll(for: "what is stored") {
            try (figures(stage.proxy)["stored"] as? Int ?? 0) >= paths.count ? true : nil
        }
    }

    @Test("the cache's work and contents are reported in all forms")
    func stats() throws {
        let folder = try TemporaryFolder()
        let stage = try stage(["disk": ["path": "\(folder.path)/cache", "size": "20MB"]])
        try Self.store(["/a", "/b"], stage)
        #expect(try stage.get("/a").text == "/a")
        let object = try Patience.poll(for: "the disk") {
            let object = try Self.figures(stage.proxy)
            return (object["disk"] as? [String: Any])?["entries"] as? Int == 2 ? object : nil
        }
        #expect((object["requests"] as? [String: Int])?["hit"] == 1)
        #expect((object["requests"] as? [String: Int])?["miss"] == 2)
        #expect((object["memory"] as? [String: Int])?["entries"] == 2)
        let finished = try Self.run(["stats"], stage.proxy)
        #expect(finished.exitCode == 0)
        for line in [
            "requests       3, 33 % of them from the cache", "  hit          1", "  miss         2",
            "stored         2", "collapsed      0",
        ] {
            #expect(finished.output.contains("\(line)\n"), "\(finished.output)")
        }
        #expect(finished.output.contains(/memory +2 responses, [0-9.]+KB of 64MB, 0 evicted\n/))
        #expect(finished.output.contains(/disk +2 responses, [0-9.]+KB of 20MB, 0 evicted, in .*\/cache\n/))
        let page = try stage.proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1).text
        #expect(page.contains("\npinproxy_cache_requests_total{outcome=\"hit\"} 1\n"))
        #expect(page.contains("\npinproxy_cache_entries{store=\"disk\"} 2\n"))
    }

    @Test("counts are reported by host and rule")
    func hostsAndRules() throws {
        let stage = try stage([:]) {
            $0.hosts[Stage.host]?["cache"] = [
                "rules": [["path": "/b", "then": "skip"], ["bypass": ["cookies": ["session"]]]]
            ]
        }
        for (path, fields) in [("/a", []), ("/a", []), ("/b", []), ("/c", ["Cookie: session=1"])] {
            #expect(try stage.get(path, fields: fields).text == path)
        }
        let finished = try Self.run(["stats"], stage.proxy)
        let lines = finished.output.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let tables = lines.drop { !$0.isEmpty }.map { $0.split(separator: " ").map(String.init) }
        try #require(finished.exitCode == 0 && tables.count >= 7, "\(finished.output)")
        #expect(tables[0] == [] && tables[3] == [])
        #expect(tables[1] == ["HOST", "HIT", "STALE", "REVALIDATED", "MISS", "BYPASS", "STORED", "COLLAPSED"])
        #expect(tables[2] == [Stage.host, "1", "0", "0", "2", "1", "1", "0"])
        #expect(tables[4] == ["HOST", "RULE", "MATCHES", "TEXT"])
        #expect(tables[5].prefix(3) == [Stage.host, "0", "1"] && tables[5].contains("skip"))
        #expect(tables[6].prefix(3) == [Stage.host, "1", "1"])
        #expect(tables[7...] == [[]])
    }

    @Test("stored responses are listed without the values of masked parameters")
    func list() throws {
        let stage = try stage()
        #expect(try Self.run(["list"], stage.proxy).errors == "nothing is stored\n")
        try Self.store(["/tagged?token=secret", "/b"], stage)
        let finished = try Self.run(["list"], stage.proxy)
        #expect(finished.exitCode == 0 && !finished.output.contains("secret"))
        let lines = finished.output.split(separator: "\n")
        #expect(lines[0] == "STATUS  SIZE  STORED                FRESH UNTIL           URL")
        #expect(
            Set(lines[1...].map { $0.suffix(from: $0.range(of: "https")!.lowerBound) }) == [
                "https://\(Stage.host)/tagged?token=***", "https://\(Stage.host)/b",
            ]
        )
        let json = try Self.run(["list", "--json", "--limit", "5", "--host", Stage.host], stage.proxy)
        let objects = try json.output.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        }
        #expect(objects.count == 2)
        let tagged = try #require(objects.first { ($0["url"] as? String)?.contains("tagged") == true })
        #expect(tagged["tags"] as? [String] == ["red", "blue"] && tagged["bytes"] as? Int == 20)
        #expect(try Self.run(["list", "--limit", "1"], stage.proxy).output.split(separator: "\n").count == 2)
        #expect(try Self.run(["list", "--host", "other.example.com"], stage.proxy).output.isEmpty)
        let wrong = try Self.run(["list", "--limit", "0"], stage.proxy)
        #expect(wrong.exitCode == 64 && wrong.errors.contains("limit is a number from 1 to 10000"))
    }

    @Test("a URL, host, tag or everything is purged; the next request is forwarded")
    func purge() throws {
        let stage = try stage()
        func asked() -> Int { stage.origin.requests.count }
        let paths = ["/a", "/b", "/tagged/1", "/tagged/2"]
        try Self.store(paths, stage)
        func purge(_ words: String..., removes count: Int) throws {
            let finished = try Self.run(["purge"] + words, stage.proxy)
            #expect(finished.output == (count == 1 ? "1 response removed\n" : "\(count) responses removed\n"))
            #expect(finished.exitCode == 0, "\(finished.errors)")
        }
        // As the client writes it, before it is upgraded.
        try purge(stage.url("/a"), removes: 1)
        try purge(stage.url("/a"), removes: 0)
        try purge("--tag", "blue", removes: 2)
        let before = asked()
        for path in paths { #expect(try stage.get(path).text == path) }
        #expect(asked() == before + 3)
        try Patience.poll(for: "what is stored anew") {
            try Self.figures(stage.proxy)["stored"] as? Int == 7 ? true : nil
        }
        try purge("https://\(Stage.host)/b", removes: 1)
        try purge("--host", Stage.host.uppercased(), removes: 3)
        try purge("--all", removes: 0)
        let json = try Self.run(["purge", "--all", "--json"], stage.proxy)
        #expect(json.output == "{\"removed\":0}\n")
        for path in ["/a/1", "/a/2", "/b/1"] { #expect(try stage.get(path).text == path) }
        try Patience.poll(for: "what is stored below") {
            try Self.figures(stage.proxy)["stored"] as? Int == 10 ? true : nil
        }
        try purge("--prefix", stage.url("/a/"), removes: 2)
        let soft = try Self.run(["purge", "--soft", "--prefix", stage.url("/b/")], stage.proxy)
        #expect(soft.output == "1 response is stale now\n", "\(soft.errors)")
        let count = asked()
        #expect(try stage.get("/b/1").text == "/b/1")
        #expect(asked() == count + 1)
        let wrong = try Self.run(["purge", "/a"], stage.proxy)
        #expect(wrong.exitCode == 64 && wrong.errors.contains("no http or https URL"))
    }

    @Test("a browser's request purges nothing")
    func browser() throws {
        let stage = try stage()
        try Self.store(["/a"], stage)
        let client = try stage.proxy.connect(to: 1)
        try client.send(
            "DELETE /cache?all HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n"
                + "POST /cache?all HTTP/1.1\r\nHost: localhost\r\n\r\n"
                + "GET /cache/entries HTTP/1.1\r\nHost: localhost\r\n\r\nGET /cache HTTP/1.1\r\nHost: localhost\r\n\r\n"
                + "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        #expect(try client.readResponse().status == 403)
        let post = try client.readResponse()
        #expect(post.status == 405 && post["Allow"] == "GET, HEAD, DELETE")
        let entries = try client.readResponse()
        #expect(entries.status == 200 && entries["Content-Type"] == "application/json")
        #expect(entries.text.contains("/a\""))
        #expect(try client.readResponse().text.contains("\"entries\":1"))
        #expect(try client.readResponse().text == "live\n")
    }

    @Test("a proxy without a cache says so, until a reload gives it one")
    func none() throws {
        let stage = try stage(nil)
        for words in [["stats"], ["list"], ["purge", "--all"]] {
            let finished = try Self.run(words, stage.proxy)
            #expect(finished.exitCode == 1 && finished.errors.contains("has no cache"), "\(finished.errors)")
        }
        try stage.reload { $0.members["cache"] = [String: String]() }
        #expect(try Self.run(["stats"], stage.proxy).exitCode == 0)
    }

    @Test("an absent or foreign listener is reported as such")
    func unavailable() throws {
        #expect(try pinproxy("cache", "stats", "--admin", "unix:/nonexistent/admin.sock").exitCode == 69)
        let other = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n<p>")
        }
        let finished = try pinproxy("cache", "stats", "--admin", "127.0.0.1:\(other.port)")
        #expect(finished.exitCode == 69 && finished.errors.contains("is not the admin listener of a pinproxy"))
    }

    @Test(
        "sizes have the largest fitting unit",
        arguments: [
            (0, "0B"), (1023, "1023B"), (1024, "1KB"), (1536, "1.5KB"), (1 << 20, "1MB"), ((1 << 30) * 5 / 2, "2.5GB"),
            (1 << 30 - 1, "1023.9MB"),
        ]
    )
    func sizes(bytes: Int, text: String) {
        #expect(CacheReport.size(bytes) == text)
    }
}
