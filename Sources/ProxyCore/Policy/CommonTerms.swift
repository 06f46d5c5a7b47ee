// SPDX-License-Identifier: Apache-2.0
import IOCore

/// What the routes of the hosts under one entry have in common, made for the first of them: an entry with `includeSubdomains`, and the
/// defaults, are for any number of hosts, and a client may name another one in each request.
///
/// `@unchecked Sendable`: everything is behind `lock`.
final class CommonTerms: @unchecked Sendable {
    /// One for all entries, of which there may be very many.
    private static let lock = PosixLock()
    private var plain = OfScheme()
    private var secure = OfScheme()

    private struct OfScheme {
        /// `Endpoint.placeDigest`.
        var placeDigest: [UInt8]?
        var ground: CacheGround?
    }

    func placeDigest(isHTTPS: Bool) -> [UInt8]? {
        Self.lock.withLock { isHTTPS ? secure.placeDigest : plain.placeDigest }
    }

    func setPlaceDigest(_ digest: [UInt8], isHTTPS: Bool) {
        Self.lock.withLock { if isHTTPS { secure.placeDigest = digest } else { plain.placeDigest = digest } }
    }

    /// The ground of the cache's terms. Two threads may make one at the same time; they are equal.
    func ground(isHTTPS: Bool, _ make: () -> CacheGround) -> CacheGround {
        if let known = Self.lock.withLock({ isHTTPS ? secure.ground : plain.ground }) { return known }
        let made = make()
        Self.lock.withLock { if isHTTPS { secure.ground = made } else { plain.ground = made } }
        return made
    }
}
