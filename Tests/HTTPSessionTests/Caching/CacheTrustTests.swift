// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A session's cache and the security policy", .onOwnThreads)
struct CacheTrustTests {
    /// Answers once a connection; the first `responding` connections, and then hangs up.
    private static func once(
        _ responding: Int = .max,
        _ fields: String...
    ) -> ScriptedOrigin.Script {
        { connection in
            guard try connection.readRequest() != nil, connection.number < responding else { return }
            try connection.respond("\(connection.number)", fields: fields + ["Connection: close"])
        }
    }

    @Test("a stale response replaces an unreachable origin where the origin allows it")
    func unreachable() async throws {
        let cached = try CacheFixture(script: Self.once(1, "Cache-Control: max-age=0, stale-if-error=600"))
        #expect(try await cached.get() == "0")
        let response = try await cached.response(cached.request())
        #expect(response.text == "0")
        #expect(response.sources == ["networkLoad 0", "localCache 200"])
        let strict = try CacheFixture(script: Self.once(1, "Cache-Control: max-age=0"))
        #expect(try await strict.get() == "0")
        await #expect { _ = try await strict.get() } throws: { $0.sessionCode == .responseTruncated }
        await cached.end()
        await strict.end()
    }

    @Test("a stale response replaces a 503 where the origin allows it")
    func serverError() async throws {
        let cached = try CacheFixture { connection in
            while let request = try connection.readRequest() {
                let isFirst = connection.number == 0 && request["X-Turn"] == "1"
                try connection.respond(
                    isFirst ? "good" : String(repeating: "bad", count: 100_000),
                    status: isFirst ? "200 OK" : "503 Unavailable",
                    fields: ["Cache-Control: max-age=0, stale-if-error=600"]
                )
            }
        }
        #expect(try await cached.response(cached.request("/", policy: nil, ("X-Turn", "1"))).text == "good")
        let response = try await cached.response(cached.request())
        #expect(response.text == "good")
        #expect(response.sources == ["networkLoad 503", "localCache 200"])
        await cached.end()
    }

    @Test("no stale response replaces that of a refused server")
    func refused() async throws {
        let cached = try CacheFixture(script: Self.once(.max, "Cache-Control: max-age=0, stale-if-error=600"))
        #expect(try await cached.get() == "0")
        cached.manager.sessionDidReceiveAuthenticationChallenge = { _ in .rejectProtectionSpace }
        await #expect { _ = try await cached.get() } throws: { $0.sessionCode == .certificateUntrusted }
        await cached.end()
    }

    @Test("no stale response is used after a failed pin")
    func failedPin() async throws {
        let cached = try CacheFixture(
            pinned: [ManagerStage.host],
            successor: TestPKI.shared.server(ManagerStage.host),
            script: Self.once(.max, "Cache-Control: max-age=0, stale-if-error=600")
        )
        #expect(try await cached.get() == "0")
        await #expect { _ = try await cached.get() } throws: { $0.sessionCode == .pinMismatch }
        #expect(cached.asked == ["/"])
        await cached.end()
    }

    /// Another session at the same origin, with the same cache.
    private func manager(
        _ cached: CacheFixture,
        _ policy: SecurityPolicy?
    ) throws -> URLSessionManager {
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        trust.policies[try Host(ManagerStage.host)] = policy
        return try URLSessionManager(configuration: cached.manager.configuration, serverTrust: trust)
    }

    @Test("a response from under one policy is not used under another")
    func otherPolicy() async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        #expect(try await cached.get() == "1")
        let same = try manager(cached, nil)
        #expect(try await same.dataTask(with: cached.request()).value().text == "1")
        let pinned = try manager(cached, .pinning(ManagerStage.server.pin))
        #expect(try await pinned.dataTask(with: cached.request()).value().text == "2")
        #expect(try await pinned.dataTask(with: cached.request()).value().text == "2")
        let wrong = try manager(cached, .pinning(.unrelated(7)))
        for policy in [CachePolicy.useProtocolCachePolicy, .returnCacheDataElseLoad] {
            let task = try wrong.dataTask(with: cached.request(policy: policy))
            await #expect { _ = try await task.value() } throws: { $0.sessionCode == .pinMismatch }
        }
        #expect(cached.asked.count == 2)
        for manager in [same, pinned, wrong] { await manager.invalidateSession(cancelingTasks: false) }
        await cached.end()
    }

    @Test("with an expired pin set that refuses all, no stored response is used")
    func expiry() throws {
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(ManagerStage.server.pin), Pin(.unrelated(8))]
        configuration.expiration = CalendarDate("2027-01-31")
        let last: Int64 = 1_801_439_999
        func endpoint(_ scheme: Endpoint.Scheme = .https, port: UInt16 = 1) throws -> Endpoint {
            Endpoint(
                scheme: scheme,
                host: try Host("api.example.com"),
                port: scheme == .https ? 443 : 80,
                resolve: (host: try Host("127.0.0.1"), port: port),
                policy: try SecurityPolicy(configuration),
                anchors: TestPKI.shared.anchors
            )
        }
        let enforced = try endpoint()
        #expect(enforced.cacheDigest(at: last) != nil)
        #expect(enforced.cacheDigest(at: last) == enforced.cacheDigest(at: 0))
        #expect(enforced.cacheDigest(at: last + 1) == nil)
        #expect(try endpoint().cacheDigest(at: last) == enforced.cacheDigest(at: last))
        #expect(try endpoint(port: 2).cacheDigest(at: last) != enforced.cacheDigest(at: last))
        #expect(try endpoint(.http).cacheDigest(at: last) != endpoint(.http, port: 2).cacheDigest(at: last))
        configuration.onExpiration = .unpinned
        let falling = try endpoint()
        #expect(falling.cacheDigest(at: last + 1) != nil)
        #expect(falling.cacheDigest(at: last + 1) != falling.cacheDigest(at: last))
    }

    @Test("a long fixed address, or a proxy with an account, has its own store", arguments: [true, false])
    func places(isHTTPS: Bool) throws {
        func endpoint(_ place: String? = nil, port: UInt16 = 1, proxy: SessionProxy? = nil) throws -> Endpoint {
            Endpoint(
                scheme: isHTTPS ? .https : .http,
                host: try Host(ManagerStage.host),
                port: 443,
                resolve: try place.map { (try Host($0), port) },
                policy: .unpinned,
                anchors: TestPKI.shared.anchors,
                proxy: proxy
            )
        }
        let long = "a-name-that-is-longer-than-a-digest.example.com"
        let host = try Host("192.0.2.1")
        let endpoints = [
            try endpoint(), try endpoint(long), try endpoint(long, port: 2), try endpoint("x.\(long)"),
            try endpoint(proxy: SessionProxy(host: host, port: 1)),
            try endpoint(proxy: SessionProxy(host: host, port: 2)),
            try endpoint(proxy: SessionProxy(.socks5, host: host, port: 2)),
            try endpoint(proxy: SessionProxy(host: host, port: 1, credentials: ("a", "bc"))),
            try endpoint(proxy: SessionProxy(host: host, port: 1, credentials: ("ab", "c"))),
            try endpoint(long, proxy: SessionProxy(host: host, port: 1)),
        ]
        let digests = endpoints.map { $0.cacheDigest(at: 0) }
        #expect(Set(digests).count == digests.count)
        #expect(try endpoint(long).cacheDigest(at: 0) == digests[1])
    }

    @Test("a response is stored only where the policy passed in full")
    func reportOnly() async throws {
        let cached = try CacheFixture(responding: CacheFixture.counting("Cache-Control: max-age=60"))
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(.unrelated(7)), Pin(.unrelated(8))]
        configuration.enforcePinning = false
        let manager = try manager(cached, try SecurityPolicy(configuration))
        #expect(try await manager.dataTask(with: cached.request()).value().text == "1")
        #expect(try await manager.dataTask(with: cached.request()).value().text == "2")
        #expect(cached.cache.currentMemoryUsage == 0)
        await manager.invalidateSession(cancelingTasks: false)
        await cached.end()
    }

    @Test("a stale response is used at once and refreshed in the background")
    func refreshed() async throws {
        let cached = try CacheFixture(
            responding: CacheFixture.counting("Cache-Control: max-age=0, stale-while-revalidate=600")
        )
        #expect(try await cached.get() == "1")
        let stale = try await cached.response(cached.request())
        #expect(stale.text == "1" && stale.sources == ["localCache 200"])
        try await eventually("the second request") { cached.asked.count == 2 }
        // By and by; each time another request may be on its way.
        var last = ""
        for _ in 0..<1000 where last != "2" && last != "3" { last = try await cached.get() }
        #expect(last == "2" || last == "3")
        await cached.end()
    }

    @Test("the hooks also evaluate connections of background requests")
    func refreshIsJudged() async throws {
        let cached = try CacheFixture(
            script: Self.once(.max, "Cache-Control: max-age=0, stale-while-revalidate=600")
        )
        let log = cached.stage.log
        let first = try cached.manager.dataTask(with: cached.request())
        #expect(try await first.value().text == "0")
        let task = try cached.manager.dataTask(with: cached.request())
        task.delegate.taskDidReceiveChallenge = { task, challenge in
            log.with { $0.append("\(task.state) \(challenge.protectionSpace.authenticationMethod)") }
            return .rejectProtectionSpace
        }
        #expect(try await task.value().text == "0")
        _ = try await cached.stage.wait(for: "completed serverTrust")
        await cached.manager.invalidateSession(cancelingTasks: false)
        // No request went out behind the refusal.
        #expect(cached.asked == ["/"])
        await cached.end()
    }
}
