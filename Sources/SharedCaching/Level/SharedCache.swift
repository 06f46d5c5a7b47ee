// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching
package import IOCore

/// The process's part of the shared cache: purges, counts and states of all loops. For any thread.
///
/// `@unchecked Sendable`: `lock` guards `levels`; the rest is immutable and thread-safe.
package final class SharedCache: SharedPurges, @unchecked Sendable {
    package let settings: SharedCacheSettings
    private let state: SharedState
    private let lock = PosixLock()
    private var levels: [RedisLevel] = []

    /// - Parameters:
    ///   - store: the levels of this machine: purges that others have published are applied to it.
    ///   - log: gets a line for each change of a server's state and for lost purges: a code as `redis_unavailable`, a message.
    package init(
        _ settings: SharedCacheSettings,
        _ store: CacheStore,
        log: @escaping @Sendable (_ code: String, _ message: String, _ isWarning: Bool) -> Void
    ) {
        self.settings = settings
        state = SharedState(settings, store, log: log)
    }

    /// From this call on no entry in Redis that the purge fits is used. The caller applies it to the levels of this machine, and not
    /// before this call: an entry from Redis could come into memory in between.
    package func publish(_ purge: Purge, expires: Bool, _ completion: @escaping @Sendable (Bool) -> Void) {
        let publication = Publication(completion)
        state.add(SharedPurge(purge, expires: expires, time: Int(Clock.seconds)), publication)
        let levels = lock.withLock { self.levels }
        guard !levels.isEmpty else { return state.failPublications() }
        // One of them publishes it; each of the others would tell of a failure in time, should that one be stuck.
        for level in levels { level.loop.submit { level.publish(publication) } }
    }

    /// The level of one loop. Called on the loop's thread or before it runs.
    package func makeLevel(loop: EventLoop, dial: @escaping RedisDial) -> RedisLevel {
        makeLevel(loop: loop, RedisNodes.make(settings.plan, loop: loop, dial: dial))
    }

    func makeLevel(loop: EventLoop, _ nodes: RedisNodes) -> RedisLevel {
        let level = RedisLevel(state, loop, nodes) { [weak self] in self?.forget($0) }
        lock.withLock { levels.append(level) }
        return level
    }

    private func forget(_ level: RedisLevel) {
        let isLast = lock.withLock {
            levels.removeAll { $0 === level }
            return levels.isEmpty
        }
        if isLast { state.failPublications() }
    }

    /// Takes over the purges and invalidations that the shared cache which this one replaces has not published. Called before there is
    /// a level.
    package func inherit(from former: SharedCache) { state.inherit(from: former.state) }

    package var status: SharedCacheStatus { state.status }
}
