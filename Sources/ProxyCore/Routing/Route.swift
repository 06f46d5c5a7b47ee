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
/// The size is limited, because clients choose the names. When it is full, a new route takes the place of an old one: of the next one
/// round the clock that was not used since the clock's hand has passed it (second chance). So a route in use stays, however many others
/// come, and each costs the same: there is no turn in which thousands of them are freed.
struct RouteCache {
    private final class Entry: HashTableElement {
        private(set) var hash: UInt64 = 0
        private var isHTTPS = false
        private var host: [UInt8] = []
        private var port: UInt16 = 0
        private(set) var route: Route
        var isUsed = false

        init(_ route: Route) { self.route = route }

        /// Gives the entry, which is in no table, another route. Its memory stays.
        func hold(_ route: Route, isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) {
            self.route = route
            self.isHTTPS = isHTTPS
            self.port = port
            self.host.removeAll(keepingCapacity: true)
            self.host.append(host)
            isUsed = false
            hash = RouteCache.hash(host, port, isHTTPS)
        }

        func isFor(isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) -> Bool {
            guard self.port == port, self.isHTTPS == isHTTPS else { return false }
            let known = self.host
            return host.equals(known.span)
        }
    }

    private var table = HashTable<Entry>()
    /// The entries of the table, in the order in which the clock's hand passes them.
    private var clock: [Entry] = []
    private var hand = 0
    /// How many routes there are at most.
    static let bound = 8192

    mutating func lookup(isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) -> Route? {
        for entry in table.candidates(Self.hash(host, port, isHTTPS))
        where entry.isFor(isHTTPS: isHTTPS, host: host, port: port) {
            entry.isUsed = true
            return entry.route
        }
        return nil
    }

    /// Stores a route. A route that was refused for its address is not stored, because the addresses of this machine
    /// change.
    mutating func insert(_ route: Route, isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) {
        if case .refused(let problem) = route.destination, problem.code == .addressDenied { return }
        let entry: Entry
        if clock.count < Self.bound {
            entry = Entry(route)
            clock.append(entry)
        } else {
            entry = nextUnused()
            table.remove(entry)
        }
        entry.hold(route, isHTTPS: isHTTPS, host: host, port: port)
        table.insert(entry)
    }

    /// Moves the hand behind the next entry that was not used; in one round it finds one.
    private mutating func nextUnused() -> Entry {
        while true {
            let entry = clock[hand]
            hand = hand + 1 == clock.count ? 0 : hand + 1
            if !entry.isUsed { return entry }
            entry.isUsed = false
        }
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
