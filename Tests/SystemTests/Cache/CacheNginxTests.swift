// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The cache before nginx", .onOwnThreads)
struct CacheNginxTests {
    /// - Parameter expires: the directive's value.
    private func stage(_ expires: String, _ files: [String: [UInt8]] = [:]) throws -> (
        origin: NginxOrigin, proxy: ProxyUnderTest
    ) {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(
            server,
            directives: [
                "expires \(expires)", "gzip on", "gzip_proxied any", "gzip_min_length 100", "gzip_types *",
                "gzip_vary on",
            ],
            files: files
        )
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["cache"] = [String: Any]()
        settings.members["workers"] = 1
        return (origin, try ProxyUnderTest(settings))
    }

    private func url(_ path: String) -> String { "http://\(Stage.host)\(path)" }

    @Test("files with a lifetime are requested once; ranges come from the cache")
    func fresh() throws {
        let body = patternBytes(200_000)
        let (origin, proxy) = try stage("1h", ["blob": body])
        #expect(try firstDifference(proxy.get(url("/files/blob")).body, body) == nil)
        let before = try origin.requestCount()
        #expect(try firstDifference(proxy.get(url("/files/blob")).body, body) == nil)
        let part = try proxy.get(url("/files/blob"), fields: ["Range: bytes=1000-1999"])
        #expect(part.status == 206 && part.body == Array(body[1000..<2000]))
        let tag = try #require(part["ETag"])
        let unchanged = try proxy.get(url("/files/blob"), fields: ["If-None-Match: \(tag)"])
        #expect(unchanged.status == 304 && unchanged.body.isEmpty)
        // The only request since then is the count itself.
        #expect(try origin.requestCount() == before + 1)
        #expect(try proxy.waitForTaskLines(4).map { $0.string("cache") } == ["miss", "hit", "hit", "hit"])
    }

    @Test("files without a lifetime are validated, and changed ones fetched anew")
    func stale() throws {
        let (origin, proxy) = try stage("-1", ["text": Array("one".utf8)])
        for _ in 0..<2 { #expect(try proxy.get(url("/files/text")).text == "one") }
        // Another length makes another entity tag, within the same second too.
        try origin.folder.write("another text", as: "files/text")
        for _ in 0..<2 { #expect(try proxy.get(url("/files/text")).text == "another text") }
        #expect(
            try proxy.waitForTaskLines(4).map { $0.string("cache") } == ["miss", "revalidated", "miss", "revalidated"]
        )
    }

    @Test("gzip and plain variants are separate")
    func variants() throws {
        let text = String(repeating: "compressible ", count: 1000)
        let (origin, proxy) = try stage("1h", ["page.txt": Array(text.utf8)])
        for _ in 0..<2 {
            let plain = try proxy.get(url("/files/page.txt"))
            #expect(plain["Content-Encoding"] == nil && plain.text == text)
            let packed = try proxy.get(url("/files/page.txt"), fields: ["Accept-Encoding: gzip"])
            #expect(packed["Content-Encoding"] == "gzip" && packed.body.count < 1000)
        }
        #expect(try proxy.waitForTaskLines(4).map { $0.string("cache") } == ["miss", "miss", "hit", "hit"])
        withExtendedLifetime(origin) {}
    }

    @Test("the cache serves curl and Python alike")
    func clients() throws {
        let (origin, proxy) = try stage("1h")
        let first = try Programs.run("curl", ["-sS", "-x", "http://127.0.0.1:\(proxy.port)", url("/session")]).output
        let script =
            "import urllib.request; print(urllib.request.urlopen('\(url("/session"))').read().decode(), end='')"
        let second = try Programs.run(
            "python3",
            ["-c", script],
            environment: ["http_proxy": "http://127.0.0.1:\(proxy.port)"]
        ).output
        #expect(!first.isEmpty && first == second)
        #expect(try proxy.waitForTaskLines(2).map { $0.string("cache") } == ["miss", "hit"])
        withExtendedLifetime(origin) {}
    }
}
