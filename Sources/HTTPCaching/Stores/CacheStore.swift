// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// Stored responses in memory and optionally on disk. Small ones are in both, so that a hit seldom waits for the disk
/// and a restart loses nothing. Each level has its own limit.
///
/// `@unchecked Sendable`: `lock` guards `epochs`, `purged` and `succession`; the stores have locks of their own, and locks are never
/// nested.
public final class CacheStore: @unchecked Sendable {
    /// The responses in memory.
    public let memory: MemoryStore
    /// The responses on disk; nil without a disk.
    public let disk: DiskStore?
    package let options: CacheOptions

    private let lock = PosixLock()
    /// Guarded by `lock`. Counts removals by the low bits of a key's hash: a response that was requested before a
    /// removal is not stored after it. Nor is one of another key with the same bits, which costs a request.
    private var epochs: [UInt64]

    /// Guarded by `lock`.
    private var purged = Purged()

    /// Guarded by `lock`. A request that began before another store took this one's place may end after it, and remove here what is
    /// there.
    private var succession = Succession.open

    private enum Succession {
        case open
        /// A successor makes up for the removals since then, if there will be one.
        case closed(missed: [Removal])
        case replaced(by: CacheStore)
    }

    private enum Removal {
        case uri(CacheKey)
        case remove(Purge)
        case expire(Purge, now: Int)
    }

    private static let missedAtMost = 1000

    /// A store over these two levels.
    public convenience init(memory: MemoryStore, disk: DiskStore? = nil, _ options: CacheOptions) {
        self.init(memory: memory, disk: disk, options, epochCount: 4096)
    }

    /// - Parameter epochCount: a power of two.
    package init(memory: MemoryStore, disk: DiskStore?, _ options: CacheOptions, epochCount: Int) {
        precondition(epochCount > 0 && epochCount & (epochCount - 1) == 0, "not a power of two")
        self.memory = memory
        self.disk = disk
        self.options = options
        epochs = Array(repeating: 0, count: epochCount)
    }

    /// The index of a key's epoch, which other keys may share.
    package func epochIndex(of key: CacheKey) -> Int { Int(key.hash & UInt64(epochs.count - 1)) }

    /// The caller reads it when the request goes to the origin, and passes it to `insertion`, so that a response is not
    /// stored if its URI was invalidated or purged meanwhile.
    public func epoch(of key: CacheKey) -> UInt64 {
        lock.withLock { epochs[epochIndex(of: key)] }
    }

    // MARK: - Looking up

    /// The stored responses of a key, and the selected one.
    public struct Found: Sendable {
        /// All stored responses of the key.
        public var entries: [CachedEntry] = []
        /// The index of the response that the request selects.
        public var selected: Int?
        /// The stored parts of a response that the request selects, if it selects no complete one. They are not among
        /// the entries.
        public internal(set) var part: CachedEntry?

        /// The response that the request selects.
        public var entry: CachedEntry? { selected.map { entries[$0] } }
    }

    /// The immediate result of `find`.
    public enum Lookup: Sendable {
        /// The responses in memory; there may be none.
        case found(Found)
        /// The lookup continues on disk; the completion gets its result.
        case pending
    }

    /// Finds the stored responses of a key under this policy: immediately in memory, otherwise on disk.
    ///
    /// An entry whose body is a file has to be opened with `open(_:)` before use.
    ///
    /// - Parameters:
    ///   - key: the key of the response.
    ///   - request: the request.
    ///   - digest: the digest of the current policy of the key's host.
    ///   - deliver: runs the completion on the caller's thread or loop.
    ///   - completion: is called once, and only after `pending`.
    public func find(
        _ key: CacheKey,
        for request: CacheRequest,
        under digest: PolicyDigest,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (Found) -> Void
    ) -> Lookup {
        let found = inMemory(key, for: request, under: digest)
        if let entry = found.entry {
            entry.markUsed()
            return .found(found)
        }
        guard let disk, disk.mayHave(key) else { return .found(found) }
        let before = epoch(of: key)
        disk.entries(for: key, deliver: deliver) { [self] entries in
            let part = found.part
            var found = selection(among: entries, request, digest)
            if found.selected == nil { found.part = part }
            if let index = found.selected {
                // The same object goes into memory: an update is recognised by it.
                found.entries[index] = found.entries[index].packed(in: memory.pool)
                insert(found.entries[index], unlessRemovedSince: before)
            }
            completion(found)
        }
        return .pending
    }

    /// The part of `find` that needs no disk.
    ///
    /// - Returns: nil when the disk has to be asked.
    func findAtOnce(_ key: CacheKey, for request: CacheRequest, under digest: PolicyDigest) -> Found? {
        let found = inMemory(key, for: request, under: digest)
        if let entry = found.entry {
            entry.markUsed()
            return found
        }
        if let disk, disk.mayHave(key) { return nil }
        return found
    }

    /// The lookup in memory only.
    func inMemory(_ key: CacheKey, for request: CacheRequest, under digest: PolicyDigest) -> Found {
        selection(among: memory.entries(for: key), request, digest)
    }

    /// Entries of another policy are ignored.
    private func selection(among entries: [CachedEntry], _ request: CacheRequest, _ digest: PolicyDigest) -> Found {
        var found = Found(entries: entries)
        if entries.contains(where: { $0.response.digest != digest || $0.parts != nil }) {
            found.entries = entries.filter { $0.response.digest == digest && $0.parts == nil }
        }
        found.selected = CachedEntry.select(among: found.entries, for: request, under: digest, options)
        if found.selected == nil, found.entries.count < entries.count {
            let parts = entries.filter { $0.parts != nil }
            found.part = CachedEntry.select(among: parts, for: request, under: digest, options).map { parts[$0] }
        }
        return found
    }

    // MARK: - Storing

    /// Starts to store a response.
    ///
    /// - Parameters:
    ///   - key: the key of the response.
    ///   - response: the response.
    ///   - epoch: the epoch of the key when the request was sent.
    ///   - tags: the tags for purging it (`SurrogateKeys.tags(of:)`).
    ///   - length: the length of the body in bytes, if known.
    ///   - maximumBytes: larger bodies are not stored.
    ///   - inMemoryOnly: whether it must not be written to the disk.
    /// - Returns: nil when no store accepts a body of that length, or has space for it now.
    public func insertion(
        for key: CacheKey,
        _ response: StoredResponse,
        epoch: UInt64,
        tags: [[UInt8]] = [],
        length: Int? = nil,
        maximumBytes: Int? = nil,
        inMemoryOnly: Bool = false
    ) -> CacheInsertion? {
        try? beginning(
            for: key,
            response,
            epoch: epoch,
            tags: tags,
            length: length,
            maximumBytes: maximumBytes,
            inMemoryOnly: inMemoryOnly
        )
    }

    /// The same, with the reason for a refusal.
    ///
    /// - Parameter part: the part of a representation that the response has; nil for a complete one. Parts are stored in
    ///   memory only.
    func beginning(
        for key: CacheKey,
        _ response: StoredResponse,
        epoch: UInt64,
        tags: [[UInt8]] = [],
        length: Int? = nil,
        maximumBytes: Int? = nil,
        inMemoryOnly: Bool = false,
        part: PartialContent? = nil
    ) throws(InsertionRefusal) -> CacheInsertion {
        if let length, let maximumBytes, length > maximumBytes { throw .tooLarge }
        var refusal = InsertionRefusal.tooLarge
        var onDisk: DiskInsertion?
        // Clients' credentials and cookies are never written to a disk.
        if !inMemoryOnly, part == nil, !response.selecting.hasSecrets, let disk {
            do throws(InsertionRefusal) {
                onDisk = try disk.beginning(for: key, response, tags: tags, length: length) { [self] in
                    self.epoch(of: key) == epoch
                }
            } catch { refusal = error }
        }
        let fits = length ?? 0 <= memory.largestBody
        let body = GrowingBody(in: memory, keeps: fits, length: length)
        let isInMemory = body.isInMemory
        if fits, !isInMemory { refusal = .noRoom }
        guard onDisk != nil || isInMemory else { throw refusal }
        return CacheInsertion(
            self,
            key,
            response,
            epoch: epoch,
            tags: tags,
            length: length,
            maximumBytes: maximumBytes,
            disk: onDisk,
            body,
            part: part.map {
                CacheInsertion.Part(
                    start: $0.range.lowerBound,
                    total: $0.total,
                    isCompletable: mayHold($0.total),
                    isInMemoryOnly: inMemoryOnly
                )
            }
        )
    }

    /// Whether a body of that length, in bytes, is not too large for the store.
    private func mayHold(_ length: Int) -> Bool {
        length <= memory.largestBody || disk.map { length <= $0.configuration.largestBody } ?? false
    }

    /// Stores an entry after a validation, and returns it with its new head.
    @discardableResult
    public func update(_ entry: CachedEntry, by response: StoredResponse) -> CachedEntry {
        if !response.selecting.hasSecrets {
            disk?.update(entry, by: response)
        } else if !entry.response.selecting.hasSecrets {
            disk?.remove(.uri(entry.key), deliver: { $0() }, { _ in })
        }
        return memory.replace(entry, by: response)
    }

    /// Keeps an entry in memory, unless its key was removed since that epoch.
    ///
    /// A removal first increments the epoch, and then removes the entries in memory. Therefore, a removal that the
    /// check after the insertion does not see finds the entry.
    func insert(_ entry: CachedEntry, unlessRemovedSince epoch: UInt64) {
        guard self.epoch(of: entry.key) == epoch else { return }
        memory.insert(entry)
        if self.epoch(of: entry.key) != epoch { memory.remove(sameAs: entry.key, entry.response) }
    }

    /// Stores parts of a body, together with those of the same representation that are stored. If that makes them
    /// complete, they are stored as a complete response.
    ///
    /// - Parameter epoch: as in `insert(_:unlessRemovedSince:)`.
    /// - Returns: whether they were stored.
    func insert(part: CachedEntry, unlessRemovedSince epoch: UInt64) -> Bool {
        guard self.epoch(of: part.key) == epoch else { return false }
        var entry = part
        if let known = memory.entries(for: part.key).first(where: { $0.replaces(part) }) {
            guard known.parts != nil else { return false }
            entry = part.combined(with: known, in: memory.pool, atMost: memory.largestBody)
        }
        guard let parts = entry.parts else { return false }
        if let whole = parts.whole, store(entry, whole, epoch: epoch, inMemoryOnly: parts.isInMemoryOnly) {
            return true
        }
        guard memory.insert(entry) else { return false }
        if self.epoch(of: part.key) != epoch { memory.remove(sameAs: part.key, entry.response) }
        return true
    }

    /// Stores a complete response of parts.
    private func store(_ entry: CachedEntry, _ whole: StoredBytes, epoch: UInt64, inMemoryOnly: Bool) -> Bool {
        let insertion = insertion(
            for: entry.key,
            entry.response,
            epoch: epoch,
            tags: entry.tags,
            length: whole.count,
            inMemoryOnly: inMemoryOnly
        )
        guard let insertion else { return false }
        whole.forEachPiece(of: 0..<whole.count) { insertion.append($0) }
        return insertion.finish()
    }

    // MARK: - Removing

    /// Removes all stored responses of the key's URI, in every partition (RFC 9111 4.4).
    public func invalidate(_ key: CacheKey) {
        let successor = begin(.uri(key))
        memory.remove(.uri(key))
        if let successor { return successor.invalidate(key) }
        disk?.remove(.uri(key), deliver: { $0() }, { _ in })
    }

    /// The same for several keys, with a notification when the disk has removed them.
    ///
    /// - Parameter completion: is called when the last one is removed, and only if this returns true.
    /// - Returns: whether the completion will be called.
    func invalidate(
        _ keys: [CacheKey],
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable () -> Void
    ) -> Bool {
        var successor: CacheStore?
        for key in keys {
            successor = begin(.uri(key))
            memory.remove(.uri(key))
        }
        if let successor { return successor.invalidate(keys, deliver: deliver, completion) }
        guard let disk else { return false }
        let stored = keys.filter { disk.mayHave($0) }
        guard let last = stored.last else { return false }
        // The disk removes the keys in this order.
        for key in stored.dropLast() { disk.remove(.uri(key), deliver: { $0() }, { _ in }) }
        disk.remove(.uri(last), deliver: deliver) { _ in completion() }
        return true
    }

    /// Removes the entries that `purge` names, for an operator.
    ///
    /// - Parameters:
    ///   - purge: which entries.
    ///   - deliver: runs the completion on the thread that the caller wants.
    ///   - completion: gets the number of removed entries, of the level that had more.
    public func remove(
        _ purge: Purge,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (Int) -> Void
    ) {
        let successor = begin(.remove(purge))
        let inMemory = memory.remove(purge)
        memory.pool.release()
        if let successor { return successor.remove(purge, deliver: deliver, completion) }
        let finish: @Sendable (Int) -> Void = { [self] onDisk in
            let count = max(onDisk, inMemory)
            lock.withLock { purged.removed += count }
            completion(count)
        }
        guard let disk else { return deliver { finish(0) } }
        disk.remove(purge, deliver: deliver, finish)
    }

    /// Makes the entries that `purge` names stale, for an operator: they are used after a validation, or as far as they
    /// may be used stale.
    ///
    /// - Parameters:
    ///   - purge: which entries.
    ///   - now: in seconds since 1970.
    ///   - deliver: runs the completion on the thread that the caller wants.
    ///   - completion: gets the number of these entries, of the level that had more.
    public func expire(
        _ purge: Purge,
        now: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (Int) -> Void
    ) {
        // Neither a response that is on its way, nor an entry that is being read from the disk, is stored as fresh.
        let successor = begin(.expire(purge, now: now))
        let inMemory = memory.expire(purge, now: now)
        if let successor { return successor.expire(purge, now: now, deliver: deliver, completion) }
        let finish: @Sendable (Int) -> Void = { [self] onDisk in
            let count = max(onDisk, inMemory)
            lock.withLock { purged.expired += count }
            completion(count)
        }
        guard let disk else { return deliver { finish(0) } }
        disk.expire(purge, now: now, deliver: deliver, finish)
    }

    /// From now on a response that was requested before is not stored.
    ///
    /// - Returns: the store that has this one's place, which then makes the removal. One that will have it is told later.
    private func begin(_ removal: Removal) -> CacheStore? {
        lock.withLock {
            if case .uri(let key) = removal {
                epochs[epochIndex(of: key)] += 1
            } else {
                for index in epochs.indices { epochs[index] += 1 }
            }
            switch succession {
            case .open: return nil
            case .replaced(let successor): return successor
            case .closed(let missed):
                succession = .closed(
                    missed: missed.count < Self.missedAtMost ? missed + [removal] : [.remove(.everything)]
                )
                return nil
            }
        }
    }

    /// The numbers of responses that operators removed and made stale.
    package struct Purged: Hashable, Sendable {
        package var removed = 0
        package var expired = 0

        package init() {}
    }

    package var purgedCounts: Purged { lock.withLock { purged } }

    // MARK: - The end

    /// Ends the threads of the disk store. What is removed from now on is removed from a successor, too.
    public func close() {
        lock.withLock {
            if case .open = succession { succession = .closed(missed: []) }
        }
        disk?.close()
    }

    /// Makes up for what was removed from a closed store whose place this one has taken, and is told of what will be: requests that
    /// have begun with it may still invalidate what this one has.
    package func succeed(_ former: CacheStore) {
        let missed: [Removal] = former.lock.withLock {
            defer { former.succession = .replaced(by: self) }
            guard case .closed(let missed) = former.succession else { return [] }
            return missed
        }
        for removal in missed {
            switch removal {
            case .uri(let key): invalidate(key)
            case .remove(let purge): remove(purge, deliver: { $0() }, { _ in })
            case .expire(let purge, let now): expire(purge, now: now, deliver: { $0() }, { _ in })
            }
        }
    }
}
