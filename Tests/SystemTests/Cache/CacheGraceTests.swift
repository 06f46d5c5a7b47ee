// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Grace by rule, bypass and ignored directives, with real origins", .onOwnThreads)
struct CacheGraceTests {
    /// A response that is stale on arrival, and had a lifetime. The origin says nothing of stale use.
    private static let stale = ["Cache-Control: max-age=60", "Age: 60", "ETag: \"v\"", "Connection: close"]

    private enum Successor: CaseIterable {
        case none, otherKey, otherAuthority
    }

    /// A proxy with a rule for grace, whose origin shows another certificate from its second connection on.
    private func start(_ successor: Successor, _ grace: [String: Any]) throws -> (ProxyUnderTest, ScriptedOrigin) {
        let server = try Stage.pki.server(Stage.host)
        let next =
            switch successor {
            case .none: server
            case .otherKey: try Stage.pki.server(Stage.host)
            case .otherAuthority: try TestPKI().server(Stage.host)
            }
        let origin = try ScriptedOrigin(server, successor: next) { connection in
            _ = try connection.readRequest()
            try connection.write(OriginResponse.text("good", fields: Self.stale))
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["cache"] = [String: Any]()
        settings.hosts[Stage.host]?["cache"] = ["rules": [["grace": grace]]]
        return (try ProxyUnderTest(settings), origin)
    }

    @Test("a stale response is used during revalidation, unless the server was refused")
    func whileRevalidating() throws {
        for successor in Successor.allCases {
            let (proxy, origin) = try start(successor, ["staleWhileRevalidate": "1h", "staleIfError": "1h"])
            let url = "http://\(Stage.host)/"
            #expect(try proxy.get(url).text == "good")
            let stale = try proxy.get(url)
            #expect(
                stale.text == "good" && stale["Cache-Status"]?.hasPrefix("pinproxy; hit; ttl=") == true,
                "\(stale.fields)"
            )
            // The third line is that of the revalidation, which meets the successor.
            let lines = try proxy.waitForTaskLines(3)
            #expect(lines.contains { $0.string("client") == "cache" })
            let third = try proxy.get(url)
            if case .none = successor {
                #expect(third.text == "good" && third["Cache-Status"]?.contains("hit") == true)
            } else {
                #expect(third.status == 502 && third.text != "good", "\(successor)")
                #expect(["pin_mismatch", "certificate_untrusted"].contains(third.problemCode))
                for connection in origin.connections.dropFirst() { #expect(connection.applicationBytes == 0) }
            }
        }
    }

    @Test("a stale response replaces an error, never that of a refused server")
    func insteadOfError() throws {
        for successor in Successor.allCases {
            let (proxy, origin) = try start(successor, ["staleIfError": "1h"])
            let url = "http://\(Stage.host)/"
            #expect(try proxy.get(url).text == "good")
            let second = try proxy.get(url)
            if case .none = successor {
                #expect(second.text == "good")
            } else {
                #expect(second.status == 502 && second["Cache-Status"] == "pinproxy; fwd=stale", "\(second.fields)")
                #expect(origin.connections[1].applicationBytes == 0)
            }
        }
        let responses = Monitor(0)
        let cache = try CacheFixture([:], host: ["rules": [["path": "/g/*", "grace": ["staleIfError": "1h"]]]]) { _ in
            let isFirst = responses.with { count in
                count += 1
                return count <= 2
            }
            return isFirst
                ? OriginResponse.text("good", fields: ["Cache-Control: max-age=60", "Age: 60"])
                : "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
        }
        for path in ["/g/x", "/x"] { #expect(try cache.get(path).text == "good") }
        for _ in 0..<2 {
            let stale = try cache.get("/g/x")
            #expect(stale.text == "good" && stale["Cache-Status"]?.contains("fwd-status=503") == true)
        }
        #expect(try cache.get("/x").status == 503)
    }

    @Test("after a failed connection a stale response is used without another")
    func retryAfter() throws {
        for hasMemory in [true, false] {
            let server = try Stage.pki.server(Stage.host)
            var origin: ScriptedOrigin? = try ScriptedOrigin(server) { connection in
                _ = try connection.readRequest()
                try connection.write(OriginResponse.text("good", fields: Self.stale))
            }
            var settings = ProxySettings(trusting: Stage.pki)
            settings.serve(Stage.host, server, at: try #require(origin).port)
            settings.members["cache"] = [String: Any]()
            let grace = ["staleIfError": "1h"].merging(hasMemory ? ["retryAfter": "1h"] : [:]) { one, _ in one }
            settings.hosts[Stage.host]?["cache"] = ["rules": [["grace": grace]]]
            let proxy = try ProxyUnderTest(settings)
            let url = "http://\(Stage.host)/"
            #expect(try proxy.get(url).text == "good")
            origin = nil
            var statuses: [String] = []
            for _ in 0..<3 {
                let response = try proxy.get(url)
                #expect(response.text == "good")
                statuses.append(String((response["Cache-Status"] ?? "").prefix { $0 != "=" }))
            }
            let tried = "pinproxy; fwd"
            #expect(statuses == [tried] + Array(repeating: hasMemory ? "pinproxy; hit; ttl" : tried, count: 2))
            // Nothing stored for it: the origin is asked, and the error is that of the connection.
            #expect(try proxy.get(url + "other").problemCode == "connect_failed")
        }
    }

    @Test("negative caching: errors have the lifetime of a rule, without grace")
    func negative() throws {
        let rules: [[String: Any]] = [
            ["status": [404, "5xx"], "then": "store", "ttl": "1h"], ["grace": ["staleIfError": "1h"]],
        ]
        let count = Monitor(0)
        let cache = try CacheFixture([:], host: ["rules": rules]) { request in
            let number = count.with { count in
                count += 1
                return count
            }
            let status = request.target.split(separator: "/")[0]
            let age = request.target.hasSuffix("/old") ? "Age: 3600\r\n" : ""
            return "HTTP/1.1 \(status) X\r\n\(age)Content-Length: \("\(number)".utf8.count)\r\n\r\n\(number)"
        }
        for (number, status) in [404, 500, 503].enumerated() {
            for _ in 0..<2 {
                let response = try cache.get("/\(status)/x")
                #expect(response.status == status && response.text == "\(number + 1)", "\(response)")
            }
        }
        // Without a rule, or when its lifetime has ended.
        for number in 4...5 { #expect(try cache.get("/410/x").text == "\(number)") }
        for number in 6...7 { #expect(try cache.get("/503/old").text == "\(number)") }
    }

    @Test("a request with a named cookie or field bypasses the cache")
    func bypass() throws {
        let rules: [[String: Any]] = [
            ["path": "/shop/*", "bypass": ["cookies": ["session_*"], "headers": ["X-Preview"]]]
        ]
        let count = Monitor(0)
        let cache = try CacheFixture([:], host: ["rules": rules]) { request in
            let number = count.with { count in
                count += 1
                return count
            }
            return CacheFixture.fresh("\(number)", request.method == "POST" ? [] : ["ETag: \"\(number)\""])
        }
        let own = ["Cookie: a=b; session_1=c"]
        #expect(try cache.get("/shop/x", fields: own).text == "1")
        #expect(try cache.get("/shop/x").text == "2")
        for fields in [own, ["X-Preview:"]] {
            let response = try cache.get("/shop/x", fields: fields)
            #expect(response["Cache-Status"] == "pinproxy; fwd=bypass; detail=rule", "\(response.fields)")
        }
        #expect(try cache.get("/shop/x", fields: ["Cookie: a=b"]).text == "2")
        // A path that the origin may read as another is kept from the cache, too; one without a rule is not.
        #expect(try cache.get("/a/%2e%2e/shop/x", fields: own)["Cache-Status"]?.contains("bypass") == true)
        #expect(try cache.get("/other", fields: own).text == "6")
        #expect(try cache.get("/other", fields: own).text == "6")
        // What an unsafe request invalidates does not depend on its cookies.
        #expect(try cache.ask("POST", "/shop/x", fields: own, body: "x").status == 200)
        #expect(try cache.get("/shop/x").text == "8")
        #expect(try cache.outcomes(9).filter { $0 == "bypass" }.count == 5)
    }

    @Test("a client's directives count unless a rule names them")
    func ignored() throws {
        let rules: [[String: Any]] = [
            ["path": "/v1/*", "ignoreDirectives": ["no-cache", "min-fresh", "no-store", "pragma"]]
        ]
        let cache = try CacheFixture([:], host: ["rules": rules]) { CacheFixture.fresh($0["Cache-Control"] ?? "-") }
        for path in ["/v1/x", "/v2/x"] {
            #expect(try cache.get(path, fields: ["Cache-Control: no-store"]).text == "no-store")
            for field in ["Cache-Control: no-cache", "Cache-Control: min-fresh=7200", "Pragma: no-cache"] {
                let status = try #require(try cache.get(path, fields: [field])["Cache-Status"])
                #expect(status.contains("hit") == (path == "/v1/x"), "\(path) \(field) \(status)")
            }
        }
    }
}
