// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import IOCore
import TestSupport
import Testing

/// Responses that were removed stay removed, whatever is on its way meanwhile, and when the process dies.
@Suite("The cache: what is removed does not come back", .onOwnThreads)
struct CacheRemovalTests {
    /// An origin that says which version of a path it sends, of which each POST makes another.
    private static func stage(_ cache: [String: Any], bytes: @escaping @Sendable (String) -> Int) throws -> CacheFixture
    {
        let versions = Monitor<[String: Int]>([:])
        return try CacheFixture(cache, { $0.members["admin"] = ["address": "127.0.0.1:0"] }) { request in
            let version = versions.with { versions in
                if request.method != "GET" { versions[request.target, default: 0] += 1 }
                return versions[request.target] ?? 0
            }
            guard request.method == "GET" else { return OriginResponse.text("done") }
            return OriginResponse.text(
                "\(version) " + letters("x", bytes(request.target)),
                fields: ["Cache-Control: max-age=600"]
            )
        }
    }

    private static func version(_ response: HTTPMessage) -> String { String(response.text.prefix { $0 != " " }) }

    @Test("after a POST and kill -9, invalidated responses do not return")
    func killed() throws {
        let folder = try TemporaryFolder()
        let disk: [String: Any] = ["path": "\(folder.path)/cache", "size": "2GB"]
        let cache = try Self.stage(["memory": "1MB", "disk": disk]) { $0.hasPrefix("/large") ? 500_000 : 5000 }
        var proxy = cache.proxy
        for round in 0..<20 {
            let paths = ["/small/\(round)", "/large/\(round)"]
            for path in paths { #expect(Self.version(try proxy.get(cache.stage.url(path))) == "0") }
            // Too large for memory: when it answers, the disk has it, and what came before it.
            let stored = proxy
            try Patience.poll(for: "the disk") {
                let url = cache.stage.url(paths[1])
                return try stored.get(url, fields: ["Cache-Control: only-if-cached"]).status == 200 ? true : nil
            }
            let (changed, kept) = round % 2 == 0 ? (paths[0], paths[1]) : (paths[1], paths[0])
            let post = ProxyUnderTest.request("POST", cache.stage.url(changed), body: "x")
            #expect(try proxy.exchange(post, method: "POST").text == "done")
            proxy.signal(SIGKILL)
            try proxy.waitForExit()
            proxy = try ProxyUnderTest(cache.stage.settings)
            #expect(Self.version(try proxy.get(cache.stage.url(changed))) == "1", "round \(round)")
            #expect(try proxy.get(cache.stage.url(kept))["Cache-Status"]?.contains("hit") == true, "round \(round)")
        }
    }

    @Test(
        "purged or invalidated responses are gone, also those just received",
        arguments: [true, false]
    )
    func removedAtOnce(isPurge: Bool) throws {
        let folder = try TemporaryFolder()
        let disk: [String: Any] = ["path": "\(folder.path)/cache", "size": "2GB"]
        let cache = try Self.stage(["memory": "1MB", "disk": disk]) { _ in 2_200_000 }
        let proxy = cache.proxy
        for round in 0..<30 {
            let path = "/\(round)"
            #expect(Self.version(try cache.get(path)) == "0")
            if isPurge {
                let line = "DELETE /cache?url=\(cache.stage.url(path)) HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                let response = try proxy.exchange(line, on: proxy.listening.count - 1)
                #expect(response.status == 200, "\(response)")
            } else {
                #expect(try cache.ask("POST", path, body: "x").text == "done")
            }
            let before = cache.requests.count
            let again = try cache.get(path)
            #expect(again["Cache-Status"]?.contains("hit") == false, "round \(round): \(again.fields)")
            #expect(cache.requests.count == before + 1 && Self.version(again) == (isPurge ? "0" : "1"))
        }
    }

    @Test("a POST during which the cache is reloaded invalidates in the new one", arguments: [false, true])
    func reload(onDisk: Bool) throws {
        let folder = try TemporaryFolder()
        let gate = Latch(count: 1)
        let version = Monitor(0)
        var members: [String: Any] = ["memory": "1MB"]
        if onDisk { members["disk"] = ["path": "\(folder.path)/cache", "size": "100MB"] }
        let cache = try CacheFixture(members) { connection in
            while let request = try connection.readRequest() {
                guard request.method == "GET" else {
                    gate.wait()
                    version.with { $0 += 1 }
                    try connection.write(OriginResponse.text("done"))
                    continue
                }
                try connection.write(CacheFixture.fresh("\(version.read { $0 }) ."))
            }
        }
        let client = try cache.proxy.connect()
        try client.send(ProxyUnderTest.request("POST", cache.stage.url("/a"), body: "x"))
        try cache.origin.wait(for: "the POST") { records in
            records.contains { $0.requests.contains { $0.method == "POST" } } ? true : nil
        }
        members["memory"] = "2MB"
        try cache.stage.reload { $0.members["cache"] = members }
        #expect(Self.version(try cache.get("/a")) == "0")
        #expect(try cache.get("/a")["Cache-Status"]?.contains("hit") == true)
        gate.countDown()
        #expect(try client.readResponse().text == "done")
        #expect(Self.version(try cache.get("/a")) == "1")
    }
}
