import HTTPCore
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
        case refused(Problem)
    }

    let destination: Destination
    /// The client requested http, and the origin is reached over https.
    let isUpgraded: Bool
    /// Whether responses are rewritten so that an upgraded client stays with the proxy.
    let rewritesUpgraded: Bool
    /// The origin in the log's form: `https://api.example.com`.
    let logPrefix: [UInt8]
    /// Changes to requests and responses beyond forwarding; nil for most hosts.
    let hooks: HostHooks?
    /// The terms of the cache; nil without a cache.
    let cache: CacheTerms?

    init(
        destination: Destination,
        isUpgraded: Bool,
        rewritesUpgraded: Bool,
        logPrefix: [UInt8],
        hooks: HostHooks? = nil,
        cache: CacheTerms? = nil
    ) {
        self.hooks = hooks
        self.cache = cache
        self.destination = destination
        self.isUpgraded = isUpgraded
        self.rewritesUpgraded = rewritesUpgraded
        self.logPrefix = logPrefix
    }
}

/// Routes by scheme, host and port, looked up by bytes: no allocation for a known one.
///
/// The size is limited, because clients choose the names: a full cache is emptied, and fills again with the routes in
/// use.
struct RouteCache {
    private struct Entry {
        var hash: UInt64
        var isHTTPS: Bool
        var port: UInt16
        var host: [UInt8]
        var route: Route
    }

    private var slots: [Entry?]
    private var count = 0
    private static let bound = 8192

    init() {
        slots = Array(repeating: nil, count: 64)
    }

    func lookup(isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) -> Route? {
        let hash = Self.hash(host, port, isHTTPS)
        let mask = slots.count - 1
        var index = Int(truncatingIfNeeded: hash) & mask
        while let entry = slots[index] {
            if entry.hash == hash, entry.port == port, entry.isHTTPS == isHTTPS, host.equals(entry.host.span) {
                return entry.route
            }
            index = (index + 1) & mask
        }
        return nil
    }

    /// Stores a route. A route that was refused for its address is not stored, because the addresses of this machine
    /// change.
    mutating func insert(_ route: Route, isHTTPS: Bool, host: borrowing Span<UInt8>, port: UInt16) {
        if case .refused(let problem) = route.destination, problem.code == .addressDenied { return }
        if count >= Self.bound {
            slots = Array(repeating: nil, count: 64)
            count = 0
        }
        if count * 2 >= slots.count { grow() }
        place(
            Entry(
                hash: Self.hash(host, port, isHTTPS),
                isHTTPS: isHTTPS,
                port: port,
                host: Array(copying: host),
                route: route
            )
        )
        count += 1
    }

    private mutating func place(_ entry: Entry) {
        let mask = slots.count - 1
        var index = Int(truncatingIfNeeded: entry.hash) & mask
        while slots[index] != nil { index = (index + 1) & mask }
        slots[index] = entry
    }

    private mutating func grow() {
        let old = slots
        slots = Array(repeating: nil, count: old.count * 2)
        for entry in old { if let entry { place(entry) } }
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
