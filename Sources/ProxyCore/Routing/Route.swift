// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// The destination of the requests for one authority, found once and used until the policy changes.
final class Route {
    /// The kind of destination.
    enum Destination {
        case origin(Endpoint)
        /// CONNECT: a connection to that host and port, whose bytes are relayed unchanged.
        case tunnel(Endpoint)
        /// CONNECT: TLS that ends in the proxy, with requests to that origin inside.
        case intercept(Endpoint)
        /// CONNECT: requests of plain HTTP for that authority inside.
        case requests(InterceptedAuthority)
        case refused(Problem)
    }

    let destination: Destination
    /// Where requests go; nil for everything else.
    var endpoint: Endpoint? {
        if case .origin(let endpoint) = destination { endpoint } else { nil }
    }
    /// The client requested http, and the origin is reached over https.
    let isUpgraded: Bool
    /// Whether responses are rewritten so that an upgraded client stays with the proxy.
    let rewritesUpgraded: Bool
    /// Whether requests and responses get this proxy's Via.
    let addsVia: Bool
    /// The origin in the log's form: `https://api.example.com`. A host in normal form holds nothing that JSON escapes.
    let logPrefix: [UInt8]
    /// Changes to requests and responses beyond forwarding; nil for most hosts.
    let hooks: HostHooks?
    /// The terms of the cache; nil without a cache.
    let cache: CacheTerms?
    /// The rules about requests; nil when there are none at all.
    let rules: HostRules?

    init(
        destination: Destination,
        isUpgraded: Bool,
        rewritesUpgraded: Bool,
        addsVia: Bool = true,
        logPrefix: [UInt8],
        hooks: HostHooks? = nil,
        cache: CacheTerms? = nil,
        rules: HostRules? = nil
    ) {
        self.rules = rules
        self.hooks = hooks
        self.cache = cache
        self.destination = destination
        self.isUpgraded = isUpgraded
        self.rewritesUpgraded = rewritesUpgraded
        self.addsVia = addsVia
        self.logPrefix = logPrefix
    }
}

extension Route {
    /// The same route with another destination.
    func to(_ destination: Destination) -> Route {
        Route(
            destination: destination,
            isUpgraded: isUpgraded,
            rewritesUpgraded: rewritesUpgraded,
            addsVia: addsVia,
            logPrefix: logPrefix,
            hooks: hooks,
            cache: cache,
            rules: rules
        )
    }
}

/// Routes by scheme, host and port, looked up by bytes: no allocation for a known one.
///
/// The size is limited, because clients choose the names. Half of it holds the routes that were used last: when that half is full,
/// it takes the place of the other half, whose routes are forgotten. So a route in use stays, however many others come.
struct RouteCache {
    private final class Entry: HashTableElement {
        let hash: UInt64
        let isHTTPS: Bool
        let host: [UInt8]
        let port: UInt16
        let route: Route

        init(_ route: Route, isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) {
            self.route = route
            self.isHTTPS = isHTTPS
            self.host = Array(copying: host)
            self.port = port
            hash = RouteCache.hash(host, port, isHTTPS)
        }
    }

    private var recent = HashTable<Entry>()
    private var former = HashTable<Entry>()
    /// The size of each half.
    private static let bound = 4096

    mutating func lookup(isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) -> Route? {
        let hash = Self.hash(host, port, isHTTPS)
        if let entry = Self.entry(in: recent, hash, isHTTPS, host, port) { return entry.route }
        guard former.count > 0, let entry = Self.entry(in: former, hash, isHTTPS, host, port) else { return nil }
        keep(entry)
        return entry.route
    }

    private static func entry(
        in table: borrowing HashTable<Entry>,
        _ hash: UInt64,
        _ isHTTPS: Bool,
        _ host: borrowing Span<UInt8>,
        _ port: UInt16
    ) -> Entry? {
        for entry in table.candidates(hash) where entry.port == port && entry.isHTTPS == isHTTPS {
            let known = entry.host
            if host.equals(known.span) { return entry }
        }
        return nil
    }

    private mutating func keep(_ entry: Entry) {
        if recent.count >= Self.bound {
            former = recent
            recent = HashTable()
        }
        recent.insert(entry)
    }

    /// Stores a route. A route that was refused for its address is not stored, because the addresses of this machine
    /// change.
    mutating func insert(_ route: Route, isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) {
        if case .refused(let problem) = route.destination, problem.code == .addressDenied { return }
        keep(Entry(route, isHTTPS: isHTTPS, host: host, port: port))
    }

    /// FNV-1a that starts from a random number of this process, so that a client cannot choose names that collide.
    private static func hash(_ host: borrowing Span<UInt8>, _ port: UInt16, _ isHTTPS: Bool) -> UInt64 {
        var hash = seed ^ UInt64(port) << 1 ^ (isHTTPS ? 1 : 0)
        for index in host.indices {
            hash ^= UInt64(host[index])
            hash &*= 0x0000_0100_0000_01B3
        }
        return hash ^ hash >> 29
    }

    private static let seed = UInt64.random(in: .min ... .max)
}
