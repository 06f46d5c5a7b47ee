// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("The cache and trust", .onOwnThreads)
struct CacheTrustTests {
    private static let stale = ["Cache-Control: max-age=0, stale-if-error=600", "ETag: \"v\""]

    @Test("stale-if-error replaces an unreachable or failing origin")
    func staleIfError() throws {
        let responses = Monitor(0)
        let cache = try CacheFixture { connection in
            while try connection.readRequest() != nil {
                let number = responses.with { count in
                    count += 1
                    return count
                }
                switch number {
                case 1: try connection.write(OriginResponse.text("good", fields: Self.stale))
                case 2: try connection.respond("broken", status: "503 Service Unavailable")
                default: return
                }
            }
        }
        #expect(try cache.get().text == "good")
        let failed = try cache.get()
        #expect(failed.status == 200 && failed.text == "good")
        #expect(failed["Cache-Status"]?.contains("fwd=stale; fwd-status=503") == true, "\(failed.fields)")
        // The origin ends the connection without an answer.
        let silent = try cache.get()
        #expect(silent.status == 200 && silent.text == "good", "\(silent)")
        #expect(try cache.outcomes(3) == ["miss", "stale", "stale"])
    }

    @Test("no stale response replaces that of a refused server")
    func refusedServer() throws {
        let server = try Stage.pki.server(Stage.host)
        let other = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server, successor: other) { connection in
            _ = try connection.readRequest()
            try connection.write(OriginResponse.text("good", fields: Self.stale + ["Connection: close"]))
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["cache"] = [String: Any]()
        let proxy = try ProxyUnderTest(settings)
        let url = "http://\(Stage.host)/"
        #expect(try proxy.get(url).text == "good")
        let refused = try proxy.get(url)
        #expect(refused.status == 502 && refused.problemCode == "pin_mismatch")
        #expect(refused["Cache-Status"] == "pinproxy; fwd=stale")
        #expect(origin.connections[1].applicationBytes == 0)
    }

    @Test("a server refused at an Upgrade also puts its origin in doubt")
    func refusedUpgrade() throws {
        let server = try Stage.pki.server(Stage.host)
        let other = try Stage.pki.server(Stage.host)
        var origin: ScriptedOrigin? = try ScriptedOrigin(server, successor: other) { connection in
            _ = try connection.readRequest()
            try connection.write(OriginResponse.text("good", fields: Self.stale + ["Connection: close"]))
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: try #require(origin).port)
        settings.members["cache"] = [String: Any]()
        let proxy = try ProxyUnderTest(settings)
        let url = "http://\(Stage.host)/"
        #expect(try proxy.get(url).text == "good")
        let offer = ["Connection: upgrade", "Upgrade: websocket"]
        let refused = try proxy.exchange(ProxyUnderTest.request("GET", url, fields: offer))
        #expect(refused.status == 502 && refused.problemCode == "pin_mismatch")
        // Nothing listens there any more.
        origin = nil
        let unreachable = try proxy.get(url)
        #expect(unreachable.status == 502 && unreachable.problemCode == "connect_failed")
    }

    @Test("a response from another policy, as before an expired pin set, is not used")
    func policyChanged() throws {
        let cache = try CacheFixture { _ in CacheFixture.fresh("x") }
        #expect(try cache.get().status == 200)
        try cache.stage.reload { _ in }
        #expect(try cache.get()["Cache-Status"]?.contains("hit") == true)
        try cache.stage.reload { $0.pin(Stage.host, to: .unrelated(3)) }
        let refused = try cache.get()
        #expect(refused.status == 502 && refused.problemCode == "pin_mismatch")
        try cache.stage.reload { $0.pinnedDomains[Stage.host]?["expiration"] = "2020-01-01" }
        #expect(try cache.get().problemCode == "pin_set_expired")
        // Under the policy that it came under it is there still.
        try cache.stage.reload { _ in }
        #expect(try cache.get()["Cache-Status"]?.contains("hit") == true)
        #expect(cache.requests.count == 1)
    }

    @Test("a response from another address is not used after a reload")
    func otherPlace() throws {
        let cache = try CacheFixture { _ in CacheFixture.fresh("here") }
        let there = try ScriptedOrigin(cache.stage.server) { _ in CacheFixture.fresh("there") }
        for _ in 0..<2 { #expect(try cache.get().text == "here") }
        try cache.stage.reload { $0.resolve(Stage.host, to: there.port) }
        #expect(try cache.get().text == "there")
        try cache.stage.reload { _ in }
        try cache.stage.reload { $0.members["access"] = ["denyAddresses": ["metadata"]] }
        #expect(try cache.get().text == "here")
        #expect(cache.requests.count == 2 && there.requests.count == 1)
    }

    @Test("a response to other configured fields is not used")
    func otherFields() throws {
        for (isShared, name) in [(false, "Authorization"), (true, "X-Tenant")] {
            func given(_ value: String) -> (inout ProxySettings) -> Void {
                { $0.hosts[Stage.host]?["headers"] = ["request": ["set": [name: value]]] }
            }
            let cache = try CacheFixture(["shared": isShared], given("a")) { request in
                OriginResponse.text(
                    "for \(request[name] ?? "-")",
                    fields: ["Cache-Control: max-age=60\(isShared ? "" : ", private")"]
                )
            }
            for _ in 0..<2 { #expect(try cache.get().text == "for a") }
            try cache.stage.reload(given("b"))
            for _ in 0..<2 { #expect(try cache.get().text == "for b") }
            try cache.stage.reload { _ in }
            #expect(try cache.get().text == "for a")
            // Under another credential the first one's stays; under another tenant it is replaced.
            #expect(cache.requests.count == (isShared ? 3 : 2))
        }
    }

    @Test("a new revocation list makes the cache ask the origin again")
    func newRevocationList() throws {
        func listing(_ revoked: [Certificate]) throws -> (inout ProxySettings) -> Void {
            let list = try RevocationListBuilder(validity: TestPKI.validity, revoked: revoked)
                .pem(issuer: Stage.pki.intermediate)
            return {
                $0.files["pins/list.pem"] = list
                $0.pinnedDomains[Stage.host]?["revocation"] = ["crlFiles": ["list.pem"]]
            }
        }
        let cache = try CacheFixture([:], try listing([])) { _ in CacheFixture.fresh("x") }
        for _ in 0..<2 { #expect(try cache.get().text == "x") }
        #expect(cache.requests.count == 1)
        try cache.stage.reload(try listing([cache.stage.server.certificate]))
        #expect(try cache.get().problemCode == "certificate_revoked")
        #expect(cache.requests.count == 1)
    }

    @Test("a server that was only let by has nothing stored", arguments: [true, false])
    func onlyLetBy(isReported: Bool) throws {
        let cache = try CacheFixture(
            [:],
            {
                if isReported {
                    $0.pin(Stage.host, to: .unrelated(3), with: ["enforcePinning": false])
                } else {
                    $0.pinnedDomains[Stage.host] = ["pinningMode": "none", "validatesDomainName": false]
                }
            },
            responding: { _ in CacheFixture.fresh("x") }
        )
        for _ in 0..<2 { #expect(try cache.get().status == 200) }
        #expect(cache.requests.count == 2)
    }

    @Test("a stored response leaves other rules in force: a denied host stays denied")
    func denied() throws {
        let cache = try CacheFixture { _ in CacheFixture.fresh("x") }
        #expect(try cache.get().status == 200)
        try cache.stage.reload { $0.members["access"] = ["denyHosts": [Stage.host]] }
        #expect(try cache.get().problemCode == "host_denied")
    }

    @Test("stale-while-revalidate responds at once, with a line for the refresh")
    func background() throws {
        let cache = try CacheFixture { request in
            if request["If-None-Match"] != nil {
                return "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nCache-Control: max-age=3600\r\n\r\n"
            }
            return OriginResponse.text(
                "x",
                fields: ["ETag: \"v\"", "Cache-Control: max-age=0, stale-while-revalidate=600"]
            )
        }
        #expect(try cache.get().text == "x")
        let stale = try cache.get()
        #expect(stale.text == "x" && stale["Cache-Status"]?.hasPrefix("pinproxy; hit; ttl=") == true)
        let line = try Patience.poll(for: "the line of the background request") {
            cache.proxy.taskLines.first { $0.string("client") == "cache" }
        }
        #expect(line.string("method") == "GET" && line.string("url") == "https://\(Stage.host)/")
        #expect(line.string("cache") == "revalidated" && line.integer("status") == 304)
        #expect(line.object("pinning")?["verdict"] as? String == "pass" && line.transactions.count == 1)
        let fresh = try cache.get()
        #expect(fresh["Cache-Status"].map { $0.contains("ttl=3") } == true, "\(fresh.fields)")
        #expect(cache.requests.count == 2)
    }

    @Test("a body that ends with its connection is stored over TLS alone")
    func untilClose() throws {
        let script: ScriptedOrigin.Script = { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nall of it")
        }
        let plain = try ScriptedOrigin(nil, script: script)
        let cache = try CacheFixture([:], { $0.resolve("plain.example.com", to: plain.port) }, script: script)
        for _ in 0..<2 {
            #expect(try cache.get().text == "all of it")
            #expect(try cache.proxy.get("http://plain.example.com/").text == "all of it")
        }
        #expect(cache.origin.connections.count == 1)
        #expect(plain.connections.count == 2)
    }

    @Test("a body that breaks off is not stored")
    func truncated() throws {
        let cache = try CacheFixture { connection in
            guard try connection.readRequest() != nil else { return }
            if connection.number == 0 {
                try connection.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhalf")
                connection.close(.reset)
            } else {
                try connection.write(CacheFixture.fresh("whole"))
            }
        }
        let client = try cache.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", cache.stage.url()))
        #expect(try client.readResponse().isTruncated)
        #expect(try cache.get().text == "whole")
    }

    // MARK: The disk

    @Test("stored responses on disk survive a restart")
    func restart() throws {
        let folder = try TemporaryFolder()
        let large = String(repeating: "large ", count: 100_000)
        let cache = try CacheFixture(["disk": ["path": "\(folder.path)/cache", "size": "100MB"]]) { request in
            CacheFixture.fresh(request.target == "/large" ? large : "small")
        }
        for path in ["/small", "/large"] { #expect(try cache.get(path).status == 200) }
        let proxy = try CacheFixture.restart(cache.proxy, with: cache.stage.settings)
        #expect(try proxy.get(cache.stage.url("/small")).text == "small")
        #expect(try proxy.get(cache.stage.url("/large")).text == large)
        #expect(cache.requests.count == 2)
        #expect(try proxy.waitForTaskLines(2).map { $0.string("cache") } == ["hit", "hit"])
        _ = try proxy.terminate()
        // Under other pins it is as if it were not there.
        var settings = cache.stage.settings
        settings.pin(Stage.host, to: .unrelated(3))
        let other = try ProxyUnderTest(settings)
        #expect(try other.get(cache.stage.url("/small")).problemCode == "pin_mismatch")
    }

    @Test("an unusable folder leaves memory alone, and is reported once")
    func unusable() throws {
        let cache = try CacheFixture(["disk": ["path": "/proc/pinproxy-cache", "size": "100MB"]]) { _ in
            CacheFixture.fresh("x")
        }
        for path in ["/1", "/2", "/1", "/3"] { #expect(try cache.get(path).text == "x") }
        let event = try cache.proxy.waitForEvent("warning") { $0.string("code") == "cache_disk" }
        #expect(event.string("message")?.contains("/proc/pinproxy-cache") == true)
        #expect(cache.requests.count == 3)
        #expect(cache.proxy.events("warning").filter { $0.string("code") == "cache_disk" }.count == 1)
    }

    @Test("a full disk leaves memory and origin, and is reported once")
    func full() throws {
        let folder = try TemporaryFolder()
        let body = String(repeating: "0123456789", count: 100_000)
        let cache = try CacheFixture(["memory": "1MB", "disk": ["path": "\(folder.path)/cache", "size": "100MB"]]) {
            $0.target.hasPrefix("/large") ? CacheFixture.fresh(body) : CacheFixture.fresh($0.target)
        }
        #expect(try cache.get("/before").text == "/before")
        let limited = try Programs.run("prlimit", ["--pid", "\(cache.proxy.identifier)", "--fsize=4096"])
        #expect(limited.exitCode == 0, "\(limited.errors)")
        for path in ["/large/1", "/small/1", "/large/2", "/small/2", "/large/1", "/small/1"] {
            #expect(try cache.get(path).text == (path.hasPrefix("/large") ? body : path))
        }
        let event = try cache.proxy.waitForEvent("warning") { $0.string("code") == "cache_disk" }
        #expect(event.string("message")?.contains("off") == true)
        #expect(cache.requests.filter { $0.target.hasPrefix("/small") }.count == 2)
        #expect(cache.proxy.events("warning").filter { $0.string("code") == "cache_disk" }.count == 1)
    }

    @Test("damaged or missing files are misses, never wrong bytes")
    func damaged() throws {
        let folder = try TemporaryFolder()
        let body = String(repeating: "0123456789", count: 100_000)
        let cache = try CacheFixture(["memory": "1MB", "disk": ["path": "\(folder.path)/cache", "size": "100MB"]]) {
            _ in
            CacheFixture.fresh(body)
        }
        for path in ["/cut", "/changed", "/gone"] { #expect(try cache.get(path).text == body) }
        let proxy = try CacheFixture.restart(cache.proxy, with: cache.stage.settings)
        var files: [String] = []
        for case let name as String in try #require(FileManager.default.enumerator(atPath: "\(folder.path)/cache")) {
            let path = "\(folder.path)/cache/\(name)"
            let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
            if size == body.utf8.count { files.append(path) }
        }
        #expect(files.count == 3)
        truncate(files[0], 1000)
        let descriptor = open(files[1], O_WRONLY)
        #expect(pwrite(descriptor, "X", 1, 5000) == 1)
        close(descriptor)
        unlink(files[2])
        for path in ["/cut", "/changed", "/gone"] { #expect(try proxy.get(cache.stage.url(path)).text == body) }
        #expect(cache.requests.count == 6)
    }

    @Test("a reload can change or remove the cache")
    func reloaded() throws {
        let folder = try TemporaryFolder()
        let disk: [String: Any] = ["path": "\(folder.path)/cache", "size": "100MB"]
        let cache = try CacheFixture(["disk": disk]) { _ in CacheFixture.fresh("x") }
        #expect(try cache.get().text == "x")
        // Another size of memory: the disk has it.
        try cache.stage.reload { $0.members["cache"] = ["memory": "32MB", "disk": disk] }
        #expect(try cache.get()["Cache-Status"]?.contains("hit") == true)
        try cache.stage.reload { $0.members["cache"] = nil }
        #expect(try cache.get()["Cache-Status"] == nil)
        #expect(cache.requests.count == 2)
    }
}
