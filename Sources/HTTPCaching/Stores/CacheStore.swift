import HTTPCore
import IOCore

/// Stored responses in memory and, where there is a disk store, on disk: what is small enough is in both, so that a hit
/// seldom waits for the disk and a restart loses nothing. Each level has its own bound.
///
/// `@unchecked Sendable`: `epochs` is behind `lock`; the stores have locks of their own, and no lock is held while another
/// is taken.
public final class CacheStore: @unchecked Sendable {
    public let memory: MemoryStore
    public let disk: DiskStore?
    let options: CacheOptions

    private let lock = PosixLock()
    /// Behind `lock`. Counts removals, by the low bits of a key's hash: what was fetched before one is not stored after.
    private var epochs = [UInt64](repeating: 0, count: 4096)

    public init(memory: MemoryStore, disk: DiskStore? = nil, _ options: CacheOptions) {
        self.memory = memory
        self.disk = disk
        self.options = options
    }

    /// Remember it when the request goes to the origin, and give it to `insertion`: an answer that was on its way while
    /// its URI was invalidated or purged is not stored.
    public func epoch(of key: CacheKey) -> UInt64 {
        lock.withLock { epochs[Int(key.hash & 4095)] }
    }

    // MARK: - Looking up

    /// What is stored for a key, and which of it answers the request.
    public struct Found: Sendable {
        public var entries: [CachedEntry] = []
        /// The index of the one that the request selects.
        public var selected: Int?

        public var entry: CachedEntry? { selected.map { entries[$0] } }
    }

    /// What `find` knows at once.
    public enum Lookup: Sendable {
        case found(Found)
        /// The disk is asked; the completion tells.
        case pending
    }

    /// Finds what is stored for a key under this policy. What memory has answers at once; else the disk is asked.
    ///
    /// An entry whose body is a file is opened with `open(_:)` before it answers.
    ///
    /// - Parameters:
    ///   - digest: of the policy that holds now for the key's host.
    ///   - deliver: has the completion called where the caller wants it.
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
            let found = selection(among: entries, request, digest)
            if let entry = found.entry { insert(entry, unlessRemovedSince: before) }
            completion(found)
        }
        return .pending
    }

    /// What memory has, without a look at the disk.
    func inMemory(_ key: CacheKey, for request: CacheRequest, under digest: PolicyDigest) -> Found {
        selection(among: memory.entries(for: key), request, digest)
    }

    /// Entries of another policy are as if they were not there.
    private func selection(among entries: [CachedEntry], _ request: CacheRequest, _ digest: PolicyDigest) -> Found {
        var found = Found(entries: entries)
        if entries.contains(where: { $0.response.digest != digest }) {
            found.entries = entries.filter { $0.response.digest == digest }
        }
        found.selected = CachedEntry.select(among: found.entries, for: request, under: digest, options)
        return found
    }

    // MARK: - Storing

    /// Begins to store a response.
    ///
    /// - Parameters:
    ///   - epoch: of the key, from when the request was sent.
    ///   - tags: by which it may be purged (`SurrogateKeys.tags(of:)`).
    ///   - length: of the body, where it is known, in bytes.
    ///   - maximumBytes: larger bodies are not stored.
    ///   - inMemoryOnly: whether nothing of it goes to the disk.
    /// - Returns: nil when neither store takes a body of that length, or has room for it just now.
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

    /// The same, and says why a body is not taken.
    func beginning(
        for key: CacheKey,
        _ response: StoredResponse,
        epoch: UInt64,
        tags: [[UInt8]] = [],
        length: Int? = nil,
        maximumBytes: Int? = nil,
        inMemoryOnly: Bool = false
    ) throws(InsertionRefusal) -> CacheInsertion {
        if let length, let maximumBytes, length > maximumBytes { throw .tooLarge }
        var refusal = InsertionRefusal.tooLarge
        var onDisk: DiskInsertion?
        // Credentials and cookies of clients are not written to a disk.
        if !inMemoryOnly, !response.selecting.hasSecrets, let disk {
            do throws(InsertionRefusal) {
                onDisk = try disk.beginning(for: key, response, tags: tags, length: length) { [self] in
                    self.epoch(of: key) == epoch
                }
            } catch { refusal = error }
        }
        var inMemory: TransitBody?
        if length ?? 0 <= memory.largestBody {
            inMemory = TransitBody(in: memory.transit, length: length)
            if inMemory == nil { refusal = .noRoom }
        }
        guard onDisk != nil || inMemory != nil else { throw refusal }
        return CacheInsertion(
            self,
            key,
            response,
            epoch: epoch,
            tags: tags,
            length: length,
            maximumBytes: maximumBytes,
            disk: onDisk,
            inMemory: inMemory
        )
    }

    /// Stores an entry after a validation, and gives it back with its new head.
    @discardableResult
    public func update(_ entry: CachedEntry, by response: StoredResponse) -> CachedEntry {
        if !response.selecting.hasSecrets {
            disk?.update(entry, by: response)
        } else if !entry.response.selecting.hasSecrets {
            disk?.remove(.uri(entry.key), deliver: { $0() }, { _ in })
        }
        return memory.replace(entry, by: response)
    }

    /// Has memory keep an entry, unless its key was removed since the epoch was that.
    ///
    /// A removal counts the epoch first and takes what is in memory then. So one that the look behind the insertion does
    /// not see finds the entry.
    func insert(_ entry: CachedEntry, unlessRemovedSince epoch: UInt64) {
        guard self.epoch(of: entry.key) == epoch else { return }
        memory.insert(entry)
        if self.epoch(of: entry.key) != epoch { memory.remove(sameAs: entry.key, entry.response) }
    }

    // MARK: - Removing

    /// Removes all that is stored for the key's URI, in every partition (RFC 9111 4.4).
    public func invalidate(_ key: CacheKey) {
        lock.withLock { epochs[Int(key.hash & 4095)] += 1 }
        memory.remove(.uri(key))
        disk?.remove(.uri(key), deliver: { $0() }, { _ in })
    }

    /// The same for several, and tells when the disk has let go of them.
    ///
    /// - Parameter completion: is called once the last of them is gone, and only where this returns true.
    /// - Returns: whether there is something to wait for.
    func invalidate(
        _ keys: [CacheKey],
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable () -> Void
    ) -> Bool {
        for key in keys {
            lock.withLock { epochs[Int(key.hash & 4095)] += 1 }
            memory.remove(.uri(key))
        }
        guard let disk else { return false }
        let stored = keys.filter { disk.mayHave($0) }
        guard let last = stored.last else { return false }
        // The disk removes them in this order.
        for key in stored.dropLast() { disk.remove(.uri(key), deliver: { $0() }, { _ in }) }
        disk.remove(.uri(last), deliver: deliver) { _ in completion() }
        return true
    }

    /// Removes what `purge` names, for an operator.
    ///
    /// - Parameter completion: gets how many entries went, counted by the level that had more of them.
    public func remove(
        _ purge: Purge,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (Int) -> Void
    ) {
        lock.withLock {
            for index in epochs.indices { epochs[index] += 1 }
        }
        let inMemory = memory.remove(purge)
        guard let disk else { return deliver { completion(inMemory) } }
        disk.remove(purge, deliver: deliver) { completion(max($0, inMemory)) }
    }

    /// Ends the threads of the disk store.
    public func close() { disk?.close() }
}
