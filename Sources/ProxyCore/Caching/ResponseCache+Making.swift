// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import IOCore
import ProxyConfiguration
import SharedCaching

extension ResponseCache {
    /// Makes the cache of a configuration; nil when it has none. If the disk cannot be used, a warning is logged and
    /// the cache uses memory alone.
    static func make(_ configuration: Configuration) -> ResponseCache? {
        guard let settings = configuration.cache else { return nil }
        // RFC 9213, section 3: CDN-Cache-Control is for caches that act for the origin, as gateways do.
        let isGateway = configuration.listeners.allSatisfy { $0.mode == .gateway }
        let options = CacheOptions(
            isShared: settings.isShared,
            targets: isGateway ? [CacheOptions.ownTarget, CacheOptions.gatewayTarget] : [CacheOptions.ownTarget]
        )
        var disk: DiskStore?
        if let place = settings.disk {
            let level = configuration.log.level
            let notice: @Sendable (String) -> Void = { text in
                EventLine(event: "warning").with("code", "cache_disk").with("message", text).write(.warning, at: level)
            }
            do {
                disk = try DiskStore(.init(folder: place.path, capacity: place.size), options, notice: notice)
            } catch {
                notice("the cache in \(place.path) is off: \(error)")
            }
        }
        let store = CacheStore(memory: MemoryStore(capacity: settings.memory), disk: disk, options)
        return ResponseCache(
            store,
            patience: .milliseconds(settings.patience.count),
            completesBelow: settings.completeBelow,
            shared: settings.redis.map { SharedCache($0, settings, store, configuration.log.level) }
        )
    }

    /// Takes the place of another cache, and publishes the purges that other machines do not know yet.
    func inherit(from former: ResponseCache) {
        succeed(former)
        if let shared = former.sharedCache { sharedCache?.inherit(from: shared) }
    }

    /// What the process keeps of the level that machines share; nil without one.
    var sharedCache: SharedCache? { shared as? SharedCache }
}
