// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The kind of a cache and its settings for decisions.
public struct CacheOptions: Hashable, Sendable {
    /// Whether it serves several users (RFC 9111 1.1).
    public var isShared: Bool
    /// The names of the targeted fields that are obeyed, in lower case, in order of precedence (RFC 9213 2.2).
    package private(set) var targets: [[UInt8]]
    /// The upper limit of heuristic lifetimes, in seconds (RFC 9111 4.2.2).
    public var heuristicLimit: Int
    /// How long a stale response may be served while the origin cannot be reached, without a directive that allows it,
    /// in seconds (RFC 9111 4.2.4 leaves this to the configuration).
    public var staleWhenDisconnected: Int

    /// The targeted field with this program's name.
    public static let ownTarget = "Pinproxy-Cache-Control"
    /// For caches that work on behalf of an origin, such as gateways (RFC 9213 3).
    public static let gatewayTarget = "CDN-Cache-Control"

    /// - Parameters:
    ///   - isShared: whether it serves several users.
    ///   - targets: names of targeted fields. `CDN-Cache-Control` is for caches that act for the origin: a gateway
    ///     lists it too, a forward proxy does not.
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

/// The directives that apply to a response in one cache: those of its targeted field, otherwise of Cache-Control.
struct GoverningControl {
    let control: CacheControl
    /// Whether they come from a targeted field; Expires is ignored then, like Cache-Control (RFC 9213 2.2).
    let isTargeted: Bool

    /// Whether they explicitly allow storage in shared caches.
    var isForAll: Bool { control.isPublic || control.sharedMaxAge != nil || isTargeted }

    init(_ fields: HeaderFields, _ options: CacheOptions) {
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
