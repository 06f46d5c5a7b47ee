// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTP2Core
import TestSupport
import Testing

/// Plain requests get a stored response at once, others by a transaction: nobody must see a difference.
@Suite("Stored responses for plain requests", .onOwnThreads)
struct PlainHitTests {
    private static let id = "X-Request-Id"
    private static let paths = ["/page", "/moved", "/absent", "/nothing"]

    private static func response(to path: String) -> String {
        let fields = [
            "Cache-Control: max-age=3600", "Age: 100", "Via: 1.1 origin", "\(id): the-origins", "X-Own: 1",
            "Strict-Transport-Security: max-age=1", "Link: <https://\(Stage.host)/a>; rel=preload",
        ]
        switch path {
        case "/moved":
            let place = "Location: https://\(Stage.host)/next"
            return OriginResponse.text("moved", status: "301 Moved Permanently", fields: fields + [place])
        case "/absent": return OriginResponse.text("absent", status: "404 Not Found", fields: fields)
        case "/nothing": return (["HTTP/1.1 204 No Content"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
        default: return OriginResponse.text("page", fields: fields)
        }
    }

    private func cache() throws -> CacheFixture {
        try CacheFixture(
            [:],
            {
                $0.listeners[0]["http2"] = true
                $0.members["requestID"] = ["field": Self.id]
            },
            responding: { Self.response(to: $0.target) }
        )
    }

    /// The members of a log's line that do not depend on the time.
    private static func members(_ line: LogLine) -> [String] {
        line.members.filter { !["time", "duration"].contains($0.key) }.map { "\($0.key)=\($0.value)" }.sorted()
    }

    @Test("a response at once has head, body and log line of the usual way")
    func sameAsUsual() throws {
        let cache = try cache()
        let client = try cache.proxy.connect()
        var count = 0
        func get(_ path: String, _ fields: [String] = []) throws -> HTTPMessage {
            count += 1
            try client.send(ProxyUnderTest.request("GET", cache.stage.url(path), fields: ["\(Self.id): mine"] + fields))
            return try client.readResponse()
        }
        // The last of each path are a request by the usual way, and a plain one.
        var ends: [Int] = []
        for path in Self.paths {
            #expect(try get(path)["Cache-Status"]?.contains("stored") == true)
            // The same Age and Date before and after it are those of the time between, too.
            let (plain, usual) = try Patience.poll(for: "one second") { () -> (HTTPMessage, HTTPMessage)? in
                let before = try get(path)
                // A decisive field that says nothing.
                let usual = try get(path, ["Pragma: x"])
                let after = try get(path)
                return before.fields == after.fields ? (after, usual) : nil
            }
            ends.append(count)
            #expect(plain.startLine == usual.startLine && plain.text == usual.text)
            #expect(plain.fields == usual.fields)
            #expect(plain["Cache-Status"]?.hasPrefix("pinproxy; hit; ttl=") == true, "\(plain.fields)")
            let age = plain["Age"].flatMap { Int($0) } ?? 0
            #expect(age >= 100)
            let via = plain["Via"] ?? ""
            #expect(via.contains("1.1 origin") && via.contains("pinproxy-"), "\(via)")
            #expect(plain.fields.filter { $0.name == Self.id }.map(\.value) == ["mine"])
            #expect(plain["Strict-Transport-Security"] == nil)
            #expect(plain["Link"]?.contains("<\(cache.stage.url("/a"))>") == true, "\(plain.fields)")
            #expect(plain["Location"] == (path == "/moved" ? cache.stage.url("/next") : nil))
        }
        #expect(cache.requests.count == Self.paths.count)
        let lines = try cache.proxy.waitForTaskLines(count)
        for end in ends {
            let plain = Self.members(lines[end - 1])
            #expect(plain == Self.members(lines[end - 2]))
            #expect(plain.contains("cache=hit") && plain.contains("requestId=mine"), "\(plain)")
        }
    }

    @Test("over HTTP/2, too, a response at once is that of the usual way")
    func sameOverHTTP2() throws {
        let cache = try cache()
        let peer = try HTTP2Peer(cache.proxy.connect())
        func get(_ path: String, _ fields: [(String, String)] = []) throws -> PeerStream {
            let all = [("x-request-id", "mine")] + fields
            return try peer.finish(peer.request("GET", path, authority: Stage.host, fields: all))
        }
        for path in Self.paths {
            #expect(try get(path).head["cache-status"]?.contains("stored") == true)
            let (plain, usual) = try Patience.poll(for: "one second") { () -> (PeerStream, PeerStream)? in
                let before = try get(path)
                let usual = try get(path, [("pragma", "x")])
                let after = try get(path)
                return before.blocks == after.blocks ? (after, usual) : nil
            }
            #expect(plain.blocks == usual.blocks)
            #expect(plain.text == usual.text && plain.hasEnd && usual.hasEnd)
            #expect(plain.endedWithHead == usual.endedWithHead)
            #expect(plain.head["cache-status"]?.hasPrefix("pinproxy; hit; ttl=") == true, "\(plain.head)")
            #expect(plain.head["x-request-id"] == "mine" && plain.head["strict-transport-security"] == nil)
            #expect(plain.head["location"] == (path == "/moved" ? cache.stage.url("/next") : nil))
        }
        #expect(cache.requests.count == Self.paths.count)
    }

    @Test("a host's changes to responses are made to stored ones, too")
    func hooks() throws {
        let cache = try CacheFixture(
            [:],
            {
                $0.hosts[Stage.host]?["headers"] = ["response": ["set": ["X-Rule": "yes"], "remove": ["X-Own"]]]
            },
            responding: { _ in CacheFixture.fresh("page", ["X-Own: 1"]) }
        )
        for _ in 0..<3 {
            let response = try cache.get()
            #expect(response.text == "page" && response["X-Rule"] == "yes" && response["X-Own"] == nil)
        }
        #expect(try cache.outcomes(3) == ["miss", "hit", "hit"])
        try cache.stage.reload { $0.hosts[Stage.host]?["headers"] = nil }
        let plain = try cache.get()
        #expect(plain.text == "page" && plain["X-Rule"] == nil && plain["X-Own"] == "1")
        #expect(cache.requests.count == 1)
        try cache.stage.reload {
            $0.hosts[Stage.host]?["responses"] = ["rules": [["contentType": "text/plain", "then": "cancel"]]]
        }
        #expect(try cache.get().problemCode == "response_denied")
        #expect(cache.requests.count == 1)
    }

    @Test("a request with the credential of a rule gets no response for all")
    func credentials() throws {
        let cache = try CacheFixture { request in
            OriginResponse.text(
                request["X-Api-Key"] == nil ? "for all" : "for a key",
                fields: ["Cache-Control: public, max-age=3600"]
            )
        }
        for _ in 0..<2 { #expect(try cache.get("/x").text == "for all") }
        #expect(cache.requests.count == 1)
        let reloaded = try cache.stage.reload {
            $0.files["llm"] = "sk-live-0123456789\n"
            $0.members["credentials"] = ["llm": ["header": "X-Api-Key", "file": "llm"]]
            $0.members["requests"] = [
                "rules": [["id": "with", "host": Stage.host, "then": "allow", "credential": "llm"]]
            ]
        }
        #expect(reloaded.string("event") == "reloaded", "\(reloaded.text)")
        for _ in 0..<2 { #expect(try cache.get("/x").text == "for a key") }
        #expect(cache.requests.count == 2)
        // The response that is stored for all was there all the time.
        try cache.stage.reload { _ in }
        #expect(try cache.get("/x").text == "for all")
        #expect(cache.requests.count == 2)
    }

    @Test("for a shut window 16 KB of a stored response wait, until it stalls")
    func shutWindow() throws {
        let long = letters("s", 29 << 10)
        let short = letters("s", 15 << 10)
        let cache = try CacheFixture(
            [:],
            {
                $0.listeners[0]["http2"] = true
                $0.setTimeouts(["stall": "1s"])
            },
            responding: { CacheFixture.fresh($0.target == "/long" ? long : short) }
        )
        for path in ["/long", "/short"] { #expect(try cache.get(path).status == 200) }
        // SETTINGS_INITIAL_WINDOW_SIZE is 0.
        let shut = try HTTP2Peer(cache.proxy.connect(), window: 0)
        let stalled = try shut.finish(shut.request("GET", "/long", authority: Stage.host))
        #expect(stalled.status == 200 && stalled.body.isEmpty && !stalled.hasEnd)
        #expect(stalled.closed == .internalError)
        // What may wait as a whole needs no time.
        let waiting = try shut.request("GET", "/short", authority: Stage.host)
        try shut.wait { waiting.status == 200 }
        #expect(waiting.body.isEmpty && !waiting.isClosed)
        let open = try HTTP2Peer(cache.proxy.connect())
        let whole = try open.finish(open.request("GET", "/long", authority: Stage.host))
        #expect(whole.hasEnd && firstDifference(whole.body, Array(long.utf8)) == nil)
        let hits = try cache.proxy.waitForTaskLines(5).dropFirst(2)
        #expect(hits.map { $0.string("cache") } == ["hit", "hit", "hit"])
        #expect(hits.map { $0.string("error") } == ["stalled", nil, nil])
        let sizes = hits.compactMap { $0.integer("bytesReceived") }
        #expect(sizes == [16 << 10, short.utf8.count, long.utf8.count])
        #expect(cache.requests.count == 2)
    }
}
