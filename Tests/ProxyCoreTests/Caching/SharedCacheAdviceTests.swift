// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import StrictJSON
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The servers of a shared cache under the rules of the configuration")
struct SharedCacheAdviceTests {
    private typealias Address = RedisCacheConfiguration.Address

    private func redis(
        _ addresses: [Address],
        isSecure: Bool = false,
        password: String? = "secret"
    ) -> RedisCacheConfiguration {
        var redis = RedisCacheConfiguration(isSecure: isSecure, addresses: addresses)
        redis.password = password.map { Array($0.utf8) }
        redis.secret = [UInt8](repeating: 1, count: 32)
        return redis
    }

    private func snapshot(
        _ redis: RedisCacheConfiguration,
        _ change: (inout Configuration) -> Void = { _ in }
    ) -> PolicySnapshot {
        var configuration = Configuration()
        configuration.cache = CacheConfiguration()
        configuration.cache?.redis = redis
        change(&configuration)
        return PolicySnapshot(
            PolicyParts(
                configuration: configuration,
                pinnedDomains: PinnedDomains(),
                trustAnchors: TrustAnchors(certificates: [])
            ),
            generation: 1
        )
    }

    private func warnings(_ snapshot: PolicySnapshot) -> [String] {
        SharedCacheAdvice.warnings(snapshot, file: "config.json").map(\.message)
    }

    @Test("a password in the clear is warned of, without its text")
    func password() {
        let server = Address(host: "redis.example.com", port: 6379)
        let messages = warnings(snapshot(redis([server])))
        #expect(messages == ["the password goes to redis.example.com:6379 in the clear"])
        #expect(warnings(snapshot(redis([server], isSecure: true))).isEmpty)
        #expect(warnings(snapshot(redis([server], password: nil))).isEmpty)
        #expect(warnings(snapshot(redis([Address(host: "127.0.0.1", port: 6379)]))).isEmpty)
    }

    @Test("a server that the rules deny is warned of")
    func denied() throws {
        let server = Address(host: "redis.example.com", port: 6379)
        let messages = warnings(snapshot(redis([server], isSecure: true)) { $0.unpinnedHosts = .deny })
        #expect(messages.count == 1 && messages[0].contains("unpinnedHosts"))
    }

    @Test("a host that is reached over TLS alone is asked over TLS")
    func upgraded() throws {
        let server = Address(host: "redis.example.com", port: 6379)
        var host = HostConfiguration(host: try Host("redis.example.com"))
        host.upgrade = true
        let upgraded = snapshot(redis([server])) { $0.hosts = [host] }
        #expect(warnings(upgraded).map { $0.contains("over TLS") } == [true])
        let router = Router(snapshot: upgraded, timeouts: RedisCacheConfiguration.timeouts)
        let endpoint = try redis([server]).endpoint(server, router).get()
        #expect(endpoint.scheme == .https && endpoint.port == 6379)
    }

    @Test("an address that servers name is dialled only where any client may go")
    func learned() throws {
        let named = Address(host: "127.0.0.1", port: 6379)
        let redis = redis([named])
        let router = Router(snapshot: snapshot(redis), timeouts: RedisCacheConfiguration.timeouts)
        #expect(throws: Never.self) { _ = try redis.endpoint(named, router).get() }
        for host in ["127.0.0.2", "::1", "169.254.169.254", "a b", ""] {
            #expect(throws: Problem.self) {
                _ = try redis.endpoint(Address(host: host, port: 6379), router).get()
            }
        }
        #expect(throws: Problem.self) { _ = try redis.endpoint(Address(host: "redis", port: 65_536), router).get() }
        #expect(throws: Never.self) { _ = try redis.endpoint(Address(host: "10.0.0.7", port: 7), router).get() }
    }
}
