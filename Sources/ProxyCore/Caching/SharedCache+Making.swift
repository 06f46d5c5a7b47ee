// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore
import SharedCaching

extension SharedCache {
    /// Makes the shared level of a configuration, behind that store.
    convenience init(
        _ redis: RedisCacheConfiguration,
        _ cache: CacheConfiguration,
        _ store: CacheStore,
        _ level: LogConfiguration.Level
    ) {
        var settings = SharedCacheSettings(plan: RedisPlan(redis), prefix: redis.prefix, secret: redis.secret)
        settings.timeout = .milliseconds(redis.timeout.count)
        settings.patience = .milliseconds(cache.patience.count)
        settings.maximumBody = redis.maximumBody
        self.init(settings, store) { code, message, isWarning in
            EventLine(event: isWarning ? "warning" : "sharedCache").with("code", code).with("message", message)
                .write(isWarning ? .warning : .info, at: level)
        }
    }
}

extension RedisPlan {
    fileprivate init(_ redis: RedisCacheConfiguration) {
        func login(_ user: [UInt8]?, _ password: [UInt8]?) -> RedisLogin? {
            password.map { RedisLogin(user: user, password: $0) }
        }
        var kind = redis.isCluster ? Kind.cluster : .server
        if let name = redis.sentinel { kind = .sentinel(name: name, login: login(nil, redis.sentinelPassword)) }
        self.init(
            kind: kind,
            addresses: redis.addresses.map { RedisAddress(host: $0.host, port: $0.port) },
            login: login(redis.user, redis.password)
        )
    }
}

extension RedisCacheConfiguration {
    private static let connectTime = TimeSpan.seconds(2)
    /// Unused connections stay open; each command has a time of its own.
    private static let idleTime = TimeSpan.seconds(24 * 3600)

    /// The limits of a connection.
    static var timeouts: TaskTimeouts {
        var timeouts = TaskTimeouts()
        timeouts.spans.connect = connectTime
        timeouts.spans.stall = idleTime
        return timeouts
    }

    /// A server as an origin, for which rules and pins hold as for any other; nil when the host is none.
    func origin(_ address: Address) -> Origin? {
        guard let port = UInt16(exactly: address.port), port > 0, let host = Self.host(address.host) else { return nil }
        return Origin(scheme: isSecure ? .https : .http, host: host, port: port)
    }

    /// A host as in a URL, or an IPv6 address without brackets, as servers name each other.
    private static func host(_ text: String) -> Host? {
        let isBare = text.utf8.contains(UInt8(ascii: ":")) && !text.utf8.starts(with: [UInt8(ascii: "[")])
        return try? Host(normalizing: Array((isBare ? "[\(text)]" : text).utf8).span)
    }

    /// The endpoint for a server. The rules for addresses hold for what servers say about others, too: one that the configuration names
    /// as an IP literal is intended.
    func endpoint(_ address: Address, _ router: Router) -> Result<Endpoint, Problem> {
        guard let origin = origin(address) else {
            return .failure(Problem(.hostDenied, "The name of a server of the shared cache is no host."))
        }
        return addresses.contains(address) ? router.endpoint(named: origin) : router.endpoint(origin)
    }
}

extension Generation {
    /// Dials the servers of the shared cache under this policy.
    func dial(_ redis: RedisCacheConfiguration) -> RedisDial {
        let router = Router(snapshot: snapshot, timeouts: RedisCacheConfiguration.timeouts)
        return { [manager] address, delegate in
            let server = RedisCacheConfiguration.Address(host: address.host, port: address.port)
            guard case .success(let endpoint) = redis.endpoint(server, router) else { return nil }
            return manager.streamTask(with: endpoint, delegate: delegate)
        }
    }
}
