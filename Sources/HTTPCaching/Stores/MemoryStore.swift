// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Stored responses in memory, bounded by bytes.
///
/// Evicts by S3-FIFO (Yang and others, SOSP 2023): new entries pass through a small queue, a tenth of the capacity.
/// Entries that were used there move to the main queue. The others are evicted, and their hashes are remembered for a
/// while, so that an entry that returns goes directly to the main queue. A scan passes only through the small queue
/// and, unlike with LRU, displaces no entry in use. A hit writes one byte and moves nothing, so that the lock is held
/// only for the lookup (W-TinyLFU resists scans equally well, but each hit changes its sketches and LRU lists).
///
/// `@unchecked Sendable`: `lock` guards the whole state. The locks of the pool and of the budget are never taken
/// behind it.
public final class MemoryStore: @unchecked Sendable {
    /// *The capacity in bytes.
    public let capacity: Int
    /// The largest body that is stored, in bytes.
    public let largestBody: Int

    /// The budget for bodies in transit: half of the capacity, so that many slow transfers cannot displace all stored
    /// responses.
    let transit: TransitBudget
    /// The memory of large bodies, stored and in transit.
    let pool: ChunkPool

    private let lock = PosixLock()
    // Behind `lock`.
    private var table = KeyTable()
    private var small = MemoryQueue()
    private var main = MemoryQueue()
    private var ghosts = GhostQueue()
    private var entryCount = 0
    private var evictions = 0
    /// The memory of bodies in transit, in bytes.
    private var inTransit = 0

    /// The largest number of variants of one key; the oldest is removed.
    static let variantsAtMost = 32
    /// The largest number of keys of one URI that differ in added fields, whose values clients choose. A lookup compares
    /// all of them.
    static let fieldVariantsAtMost = 128

    /// - Parameters:
    ///   - capacity: in bytes, including heads and overhead.
    ///   - largestBody: in bytes; an eighth of the capacity unless it is given.
    ///   - stall: how long a body may stall before another one may get its space, in seconds.
    public init(capacity: Int, largestBody: Int? = nil, stall: Double = 10) {
        self.capacity = capacity
        self.largestBody = min(largestBody ?? capacity / 8, capacity)
        transit = TransitBudget(
            capacity: max(capacity / 2, self.largestBody),
            patience: TimeSpan.seconds(fractional: stall).nanoseconds
        )
        // Free chunks that keep their memory: at most a 32nd of the capacity, and 4 MB.
        pool = ChunkPool(keptAtMost: min(capacity / 32, 4 << 20) / ChunkPool.chunkSize)
    }

    /// All stored variants of the key.
    public func entries(for key: CacheKey) -> [CachedEntry] {
        lock.lock()
        defer { lock.unlock() }
        return table.find(key)?.entries ?? []
    }

    /// Stores an entry, which replaces the one with the same selecting fields.
    ///
    /// - Returns: whether it was stored: its body is in memory and not too large. Parts do not replace a complete response.
    @discardableResult
    public func insert(_ entry: CachedEntry) -> Bool {
        let size: Int? =
            switch entry.body {
            case .memory(let bytes): bytes.count
            case .parts(let parts): parts.count
            case .file: nil
            }
        guard let size, size <= largestBody else {
            removeReplaced(by: entry)
            return false
        }
        let cost = entry.cost
        guard cost <= capacity else { return false }
        // Freed after the lock.
        var evicted: [CachedEntry] = []
        lock.lock()
        defer {
            lock.unlock()
            withExtendedLifetime(evicted) {}
        }
        if !entry.key.variant.isEmpty, table.find(entry.key) == nil { limitFieldVariants(of: entry.key) }
        let resource = table.findOrInsert(entry.key)
        var isKnown = ghosts.contains(entry.key.hash)
        if let index = resource.entries.firstIndex(where: entry.replaces) {
            if entry.parts != nil, resource.entries[index].parts == nil { return false }
            isKnown = isKnown || resource.places[index].isInMain
            drop(index, of: resource)
        }
        if resource.entries.count >= Self.variantsAtMost { drop(0, of: resource) }
        let place = MemoryQueue.Place(entry, cost: cost, isInMain: isKnown)
        resource.entries.append(entry)
        resource.places.append(place)
        entryCount += 1
        if isKnown { main.append(place) } else { small.append(place) }
        evict(into: &evicted)
        return true
    }

    /// Bodies in transit have taken more memory, for which entries are evicted.
    func transitDidGrow(by bytes: Int) {
        var evicted: [CachedEntry] = []
        lock.withLock {
            inTransit += bytes
            evict(into: &evicted)
        }
    }

    func transitDidShrink(by bytes: Int) { lock.withLock { inTransit -= bytes } }

    /// Replaces `entry` by its validated response, if it is still stored. Its body stays.
    ///
    /// - Returns: the new entry, stored or not.
    @discardableResult
    public func replace(_ entry: CachedEntry, by response: StoredResponse) -> CachedEntry {
        let fresh = CachedEntry(
            key: entry.key,
            response: response,
            body: entry.body,
            tags: entry.tags(after: response),
            uses: entry.useCount
        )
        // Its cost and its selecting fields may have changed.
        if takeOut(entry) { insert(fresh) }
        return fresh
    }

    /// Removes an entry, if it is still stored.
    func remove(_ entry: CachedEntry) { _ = takeOut(entry) }

    /// - Returns: whether it was stored.
    private func takeOut(_ entry: CachedEntry) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        guard let resource = table.find(entry.key), let index = resource.entries.firstIndex(where: { $0 === entry })
        else { return false }
        drop(index, of: resource)
        if resource.entries.isEmpty { table.remove(resource) }
        return true
    }

    /// Removes the entry with the same selecting fields, when a newer one is too large for memory.
    func remove(sameAs key: CacheKey, _ response: StoredResponse) {
        removeReplaced(by: CachedEntry(key: key, response: response, body: .memory([])))
    }

    private func removeReplaced(by entry: CachedEntry) {
        lock.lock()
        defer { lock.unlock() }
        guard let resource = table.find(entry.key),
            let index = resource.entries.firstIndex(where: entry.replaces)
        else { return }
        drop(index, of: resource)
        if resource.entries.isEmpty { table.remove(resource) }
    }

    /// Removes the entries that `purge` names.
    ///
    /// - Returns: the number of removed entries.
    @discardableResult
    public func remove(_ purge: Purge) -> Int {
        // They are freed after the lock.
        return lock.withLock { takeOut(purge) }.count
    }

    private func takeOut(_ purge: Purge) -> [CachedEntry] {
        var removed: [CachedEntry] = []
        for resource in resources(of: purge) {
            for index in resource.entries.indices.reversed() where purge.fits(resource.entries[index]) {
                removed.append(resource.entries[index])
                drop(index, of: resource)
            }
            if resource.entries.isEmpty { table.remove(resource) }
        }
        return removed
    }

    /// Ends the lifetime of the entries that `purge` names, at `now` in seconds since 1970.
    ///
    /// - Returns: the number of these entries.
    func expire(_ purge: Purge, now: Int) -> Int {
        lock.withLock {
            var count = 0
            for resource in resources(of: purge) {
                for index in resource.entries.indices where purge.fits(resource.entries[index]) {
                    let expired = resource.entries[index].expired(now: now)
                    resource.entries[index] = expired
                    resource.places[index].entry = expired
                    count += 1
                }
            }
            return count
        }
    }

    /// The resources that may have entries of a purge. Behind the lock.
    private func resources(of purge: Purge) -> [KeyTable.Resource] {
        if case .uri(let key) = purge { table.all(ofURI: key) } else { table.all }
    }

    /// The state of a store in numbers.
    public struct Statistics: Hashable, Sendable {
        /// The number of entries.
        public var entries = 0
        /// Their cost, in bytes.
        public var bytes = 0
        /// The number of evicted entries.
        public var evictions = 0
    }

    /// The numbers at this moment.
    public var statistics: Statistics {
        lock.withLock { Statistics(entries: entryCount, bytes: small.cost + main.cost, evictions: evictions) }
    }

    /// Every entry, unordered: for operators.
    public var allEntries: [CachedEntry] {
        lock.lock()
        defer { lock.unlock() }
        return table.all.flatMap(\.entries)
    }

    // MARK: - Behind the lock

    private func drop(_ index: Int, of resource: KeyTable.Resource) {
        let place = resource.places.remove(at: index)
        resource.entries.remove(at: index)
        entryCount -= 1
        if place.isInMain { main.remove(place) } else { small.remove(place) }
    }

    /// Makes room for another key of the URI with added fields.
    private func limitFieldVariants(of key: CacheKey) {
        let all = table.all(ofURI: key).filter { !$0.key.variant.isEmpty }
        func latest(_ resource: KeyTable.Resource) -> Int { resource.entries.map(\.response.responseTime).max() ?? 0 }
        guard all.count >= Self.fieldVariantsAtMost, let oldest = all.min(by: { latest($0) < latest($1) }) else {
            return
        }
        for index in oldest.entries.indices.reversed() { drop(index, of: oldest) }
        table.remove(oldest)
    }

    /// Evicts entries until the others and bodies in transit fit.
    private func evict(into evicted: inout [CachedEntry]) {
        while small.cost + main.cost + inTransit > capacity, entryCount > 0 {
            if let entry = evictNext() { evicted.append(entry) }
        }
    }

    /// Evicts one entry, or moves one to the main queue.
    ///
    /// - Returns: the evicted one.
    private func evictNext() -> CachedEntry? {
        if small.cost > capacity / 10 || main.cost == 0 {
            guard let place = small.popFirst(), let entry = place.entry else { return nil }
            if entry.useCount > 0 {
                place.isInMain = true
                main.append(place)
            } else {
                ghosts.append(entry.key.hash, atMost: entryCount)
                forget(entry, place)
                return entry
            }
        } else {
            guard let place = main.popFirst(), let entry = place.entry else { return nil }
            if entry.useCount > 0 {
                entry.forgetUse()
                main.append(place)
            } else {
                forget(entry, place)
                return entry
            }
        }
        return nil
    }

    private func forget(_ entry: CachedEntry, _ place: MemoryQueue.Place) {
        place.entry = nil
        entryCount -= 1
        evictions += 1
        guard let resource = table.find(entry.key),
            let index = resource.entries.firstIndex(where: { $0 === entry })
        else { return }
        resource.entries.remove(at: index)
        resource.places.remove(at: index)
        if resource.entries.isEmpty { table.remove(resource) }
    }
}
