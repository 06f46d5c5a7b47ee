// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Cache rules", .onOwnThreads)
struct CacheRuleTests {
    @Test("a rule gives a lifetime, drops fields or forbids storing; the first counts")
    func rules() throws {
        let rules: [[String: Any]] = [
            ["path": "/v1/secret/*", "then": "skip"],
            [
                "path": "/v1/*", "status": [200], "then": "store", "ttl": "5m", "removeHeaders": ["Set-Cookie"],
                "setHeaders": ["X-Stored": "yes"],
            ],
            ["contentType": "text/event-stream", "then": "skip"],
        ]
        let cache = try CacheFixture([:], host: ["rules": rules]) { request in
            let type = request.target == "/events" ? "text/event-stream" : "text/plain"
            return OriginResponse.text(
                "x",
                fields: ["Content-Type: \(type)", "Set-Cookie: a=b"]
                    + (request.target == "/v1/item" ? [] : ["Cache-Control: public, max-age=60"])
            )
        }
        let first = try cache.get("/v1/item")
        #expect(first["Set-Cookie"] == "a=b" && first["X-Stored"] == nil)
        let second = try cache.get("/v1/item")
        #expect(second["Set-Cookie"] == nil && second["X-Stored"] == "yes")
        #expect(second["Cache-Status"]?.hasPrefix("pinproxy; hit; ttl=") == true, "\(second.fields)")
        for path in ["/v1/secret/x", "/v1/%73ecret/x", "/events"] {
            for _ in 0..<2 {
                #expect(try cache.get(path)["Cache-Status"]?.contains("detail=rule") == true)
            }
        }
        #expect(cache.requests.count == 7)
    }

    @Test("bodies above a rule's limit are not stored")
    func sizes() throws {
        let cache = try CacheFixture([:], host: ["rules": [["then": "store", "maxBytes": "1KB"]]]) { connection in
            while let request = try connection.readRequest() {
                let body = String(repeating: "x", count: request.target.hasPrefix("/small") ? 1000 : 2000)
                let framing =
                    request.target.hasSuffix("chunked") ? "Transfer-Encoding: chunked" : "Content-Length: \(body.count)"
                try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\(framing)\r\n\r\n")
                let isChunked = request.target.hasSuffix("chunked")
                try connection.write(isChunked ? "\(String(body.count, radix: 16))\r\n\(body)\r\n0\r\n\r\n" : body)
            }
        }
        let paths = ["/small", "/small-chunked", "/large", "/large-chunked"]
        for path in paths + paths { #expect(try cache.get(path).status == 200) }
        let counts = Dictionary(grouping: cache.requests, by: \.target).mapValues(\.count)
        #expect(counts == ["/small": 1, "/small-chunked": 1, "/large": 2, "/large-chunked": 2])
    }

    @Test("request policies: for all hosts, for one, and by rule")
    func requestPolicies() throws {
        let cache = try CacheFixture(
            [:],
            host: [
                "requestPolicy": "returnCacheDataElseLoad",
                "rules": [
                    ["path": "/live/*", "requestPolicy": "reloadIgnoringLocalCacheData"],
                    ["path": "/offline/*", "requestPolicy": "returnCacheDataDontLoad"],
                ],
            ],
            {
                $0.members["defaults"] = ["cache": ["requestPolicy": "returnCacheDataDontLoad"]]
                $0.hosts["other.example.com"] = ["resolve": $0.hosts[Stage.host]?["resolve"] as Any]
            }
        ) { _ in OriginResponse.text("x", fields: ["Cache-Control: max-age=0", "ETag: \"v\""]) }
        // However old it is.
        for _ in 0..<2 { #expect(try cache.get("/old").text == "x") }
        #expect(cache.requests.count == 1)
        for _ in 0..<2 { #expect(try cache.get("/live/1").text == "x") }
        #expect(cache.requests.count == 3)
        let offline = try cache.get("/offline/1")
        #expect(offline.status == 504 && offline.problemCode == "not_stored")
        #expect(try cache.proxy.get("http://other.example.com/").problemCode == "not_stored")
        #expect(cache.requests.count == 3)
    }
}
