// SPDX-License-Identifier: Apache-2.0
import HTTPCaching

/// The counts and contents of a cache at one moment.
struct CacheFigures: Sendable {
    var isShared: Bool
    var counts: ResponseCache.Counts
    /// Bounded in number.
    var hosts: [CacheTallies.OfHost]
    var rules: [CacheTallies.OfRule]
    /// Responses that operators removed and made stale.
    var purged: CacheStore.Purged
    /// Requests that wait for another request's response.
    var waiting: Int
    var memory: MemoryStore.Statistics
    /// The capacity in bytes.
    var memoryCapacity: Int
    /// nil without a disk store.
    var disk: Disk?

    struct Disk: Sendable {
        var path: String
        var statistics: DiskStore.Statistics
        /// The capacity in bytes.
        var capacity: Int
    }

    init(_ cache: ResponseCache) {
        isShared = cache.options.isShared
        counts = cache.counts
        hosts = cache.tallies.ofHosts
        rules = cache.tallies.ofRules
        purged = cache.store.purgedCounts
        waiting = cache.waitingCount
        memory = cache.store.memory.statistics
        memoryCapacity = cache.store.memory.capacity
        disk = cache.store.disk.map { Disk(path: $0.path, statistics: $0.statistics, capacity: $0.capacity) }
    }

    /// Requests by outcome, in the words of the task log.
    var requests: [(outcome: CacheOutcome, count: Int)] { Self.requests(counts) }

    static func requests(_ counts: ResponseCache.Counts) -> [(outcome: CacheOutcome, count: Int)] {
        [
            (.hit, counts.hits), (.stale, counts.stale), (.revalidated, counts.revalidated), (.miss, counts.misses),
            (.bypass, counts.bypassed),
        ]
    }
}
