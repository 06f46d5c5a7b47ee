import HTTPCore

/// What kind of cache it is: the same for all decisions of one cache.
public struct CacheOptions: Hashable, Sendable {
    /// Whether it serves several users (RFC 9111 1.1).
    public var isShared: Bool
    /// The names of the targeted fields that are obeyed, in lower case, the first of them first (RFC 9213 2.2).
    package private(set) var targets: [[UInt8]]
    /// The longest lifetime that may be guessed, in seconds (RFC 9111 4.2.2).
    public var heuristicLimit: Int
    /// How long a stale response may stand in for an origin that cannot be reached where neither origin nor client says
    /// so, in seconds (RFC 9111 4.2.4 leaves that to a cache's owner).
    public var staleWhenDisconnected: Int

    /// The field of this program's own name.
    public static let ownTarget = "Pinproxy-Cache-Control"
    /// For caches that work on behalf of an origin, such as gateways (RFC 9213 3).
    public static let gatewayTarget = "CDN-Cache-Control"

    /// - Parameters:
    ///   - isShared: whether it serves several users.
    ///   - targets: names of targeted fields. `CDN-Cache-Control` speaks to caches that act for the origin: a gateway
    ///     names it too, a forward proxy does not.
    ///   - heuristicLimit: in seconds.
    ///   - staleWhenDisconnected: in seconds.
    public init(
        isShared: Bool = true,
        targets: [String] = [CacheOptions.ownTarget],
        heuristicLimit: Int = 86_400,
        staleWhenDisconnected: Int = 0
    ) {
        self.isShared = isShared
        self.targets = targets.map { $0.utf8.map(ASCII.lowercased) }
        self.heuristicLimit = heuristicLimit
        self.staleWhenDisconnected = staleWhenDisconnected
    }
}

/// The directives that govern a response for one cache: of its targeted field, else of Cache-Control.
struct GoverningControl {
    let control: CacheControl
    /// Whether a targeted field gave them: then Expires is ignored like Cache-Control (RFC 9213 2.2).
    let isTargeted: Bool

    /// Whether it is meant for shared caches, in so many words.
    var isForAll: Bool { control.isPublic || control.sharedMaxAge != nil || isTargeted }

    init(_ fields: HTTPFields, _ options: CacheOptions) {
        for target in options.targets {
            if let control = CacheControl(targeted: target, in: fields) {
                self.control = control
                isTargeted = true
                return
            }
        }
        control = CacheControl(fields)
        isTargeted = false
    }
}
