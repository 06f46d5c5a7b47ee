// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@testable import pinproxy

@Suite("The owner's rules for keys of the cache", .onOwnThreads)
struct CacheKeyRuleTests {
    private static var rules: [[String: Any]] {
        [
            ["path": "/plain/*", "key": ["sortParameters": false]],
            ["key": ["ignoreParameters": ["utm_*"], "sortParameters": true, "headers": ["X-Tenant"]]],
        ]
    }

    /// Each answer tells its number and its request.
    private func stage(_ cache: [String: Any] = [:]) throws -> CacheFixture {
        let count = Monitor(0)
        return try CacheFixture(
            cache,
            host: ["rules": Self.rules],
            { $0.members["admin"] = ["address": "127.0.0.1:0"] }
        ) {
            let number = count.with { count in
                count += 1
                return count
            }
            return CacheFixture.fresh("\(number) \($0.target) \($0["X-Tenant"] ?? "-")")
        }
    }

    @Test("ignored parameters and their order do not matter, added fields do")
    func keys() throws {
        let cache = try stage()
        let first = "1 /x?b=1&utm_a=2&a=3 -"
        for path in ["/x?b=1&utm_a=2&a=3", "/x?a=3&b=1", "/x?utm_b&b=1&a=3&utm_c=4"] {
            #expect(try cache.get(path).text == first)
        }
        // Nothing but what the rule says: another value, a parameter that hides another, another path, another spelling.
        for (number, path) in ["/x?a=3&b=2", "/x?a=3&b=1&utm_a=2;c=4", "/plain/x?b&a", "/plain/x?a&b", "/x?%61=3&b=1"]
            .enumerated()
        {
            #expect(try cache.get(path).text == "\(number + 2) \(path) -")
        }
        for tenant in ["a", "b", "a", "b"] {
            let response = try cache.get("/x?a=3&b=1", fields: ["X-Tenant: \(tenant)"])
            #expect(response.text == "\(tenant == "a" ? 7 : 8) /x?a=3&b=1 \(tenant)")
        }
        // HEAD has the key of GET.
        #expect(try cache.ask("HEAD", "/x?b=1&a=3")["Cache-Status"]?.contains("hit") == true)
        // Without a key nothing is cached.
        for _ in 0..<2 {
            let long = try cache.get("/x?a=3&b=1", fields: ["X-Tenant: \(String(repeating: "x", count: 5000))"])
            #expect(long["Cache-Status"] == "pinproxy; fwd=bypass; detail=rule")
        }
        #expect(cache.requests.count == 10)
    }

    @Test("an unsafe method and a purge remove all responses of a URL")
    func removal() throws {
        let folder = try TemporaryFolder()
        let cache = try stage(["disk": ["path": "\(folder.path)/cache", "size": "20MB"]])
        func fill() throws {
            for tenant in ["a", "b"] { _ = try cache.get("/x?a&b&utm_a=1", fields: ["X-Tenant: \(tenant)"]) }
        }
        func isStored(_ tenant: String) throws -> Bool {
            let fields = ["X-Tenant: \(tenant)", "Cache-Control: only-if-cached"]
            return try cache.get("/x?b&a", fields: fields).status == 200
        }
        try fill()
        #expect(try isStored("a") && isStored("b") && !isStored("c"))
        #expect(try cache.ask("POST", "/x?utm_z=9&b&a", body: "x").status == 200)
        #expect(try !isStored("a") && !isStored("b"))
        try fill()
        #expect(try isStored("a") && isStored("b"))
        let admin = "127.0.0.1:\(cache.proxy.port(of: cache.proxy.listening.count - 1))"
        let url = cache.stage.url("/x?b&utm_other&a").replacing("http:", with: "https:")
        let purged = try pinproxy(["cache", "purge", url, "--admin", admin])
        #expect(purged.exitCode == 0 && purged.output.contains("2"), "\(purged)")
        #expect(try !isStored("a") && !isStored("b"))
    }

    @Test("the cache's results are counted by host and rule")
    func counts() throws {
        let cache = try stage()
        for path in ["/x?a", "/x?a&utm_b", "/plain/x", "/plain/x"] { _ = try cache.get(path) }
        let admin = cache.proxy.listening.count - 1
        let page = try cache.proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: admin).text
        let host = Stage.host
        for line in [
            "pinproxy_cache_host_requests_total{host=\"\(host)\",outcome=\"hit\"} 2",
            "pinproxy_cache_host_requests_total{host=\"\(host)\",outcome=\"miss\"} 2",
            "pinproxy_cache_rule_matches_total{host=\"\(host)\",rule=\"0\"} 2",
            "pinproxy_cache_rule_matches_total{host=\"\(host)\",rule=\"1\"} 2",
        ] { #expect(page.contains("\n\(line)\n"), "\(line)") }
        let figures = try cache.proxy.exchange("GET /cache HTTP/1.1\r\nHost: localhost\r\n\r\n", on: admin).text
        #expect(figures.contains("\"text\":\"key without parameter utm_* with sorted parameters with x-tenant\""))
    }

    @Test("responses stored under other key rules are not used after a reload")
    func reload() throws {
        let cache = try stage()
        for _ in 0..<2 { #expect(try cache.get("/x?utm_a=1").text == "1 /x?utm_a=1 -") }
        try cache.stage.reload { $0.hosts[Stage.host]?["cache"] = [String: Any]() }
        // The response to a request with a parameter is not the response to one without it any more.
        #expect(try cache.get("/x").text == "2 /x -")
    }
}
