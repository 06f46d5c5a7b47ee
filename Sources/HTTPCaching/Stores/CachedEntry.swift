// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Synchronization

/// A stored response with its key and its body. It is immutable, apart from its use count; a validation makes a new
/// one.
public final class CachedEntry: Sendable {
    /// The key that it is found by.
    public let key: CacheKey
    /// The head, with the conditions for its use.
    public let response: StoredResponse
    /// The place of its body.
    public let body: CachedBody
    /// The tags for purging it together with others.
    package let tags: [[UInt8]]
    /// The number of uses since the store's last check, at most 3.
    private let uses: Atomic<UInt8>

    /// - Parameters:
    ///   - key: the key of the response.
    ///   - response: the response.
    ///   - body: the body of the response.
    ///   - tags: the tags for purging it (`SurrogateKeys.tags(of:)`).
    public convenience init(key: CacheKey, response: StoredResponse, body: CachedBody, tags: [[UInt8]] = []) {
        self.init(key: key, response: response, body: body, tags: tags, uses: 0)
    }

    init(key: CacheKey, response: StoredResponse, body: CachedBody, tags: [[UInt8]], uses: UInt8) {
        self.key = key
        self.response = response
        self.body = body
        self.tags = tags
        self.uses = Atomic(uses)
    }

    /// The same entry with its body in the memory of a pool.
    func packed(in pool: ChunkPool) -> CachedEntry {
        guard case .memory(let bytes) = body else { return self }
        return CachedEntry(key: key, response: response, body: .memory(bytes.packed(in: pool)), tags: tags)
    }

    /// The same entry with its lifetime ended at `now`, in seconds since 1970.
    func expired(now: Int) -> CachedEntry {
        var stale = response
        stale.expire(now: now)
        return CachedEntry(key: key, response: stale, body: body, tags: tags, uses: useCount)
    }

    /// Records a use for the eviction: a write of one byte, for any thread.
    public func markUsed() {
        let known = uses.load(ordering: .relaxed)
        if known < 3 { uses.store(known + 1, ordering: .relaxed) }
    }

    var useCount: UInt8 { uses.load(ordering: .relaxed) }

    /// Subtracts one use, after an entry that was used has been due for eviction.
    func forgetUse() {
        let known = uses.load(ordering: .relaxed)
        if known > 0 { uses.store(known - 1, ordering: .relaxed) }
    }

    /// Whether both have the same key and the same selecting fields, so that the later replaces the earlier.
    func replaces(_ other: CachedEntry) -> Bool {
        key == other.key && response.selecting == other.response.selecting
    }

    /// The tags for purging it after its response was updated: those that a validation has brought, then the former ones.
    func tags(after updated: StoredResponse) -> [[UInt8]] {
        let fresh = SurrogateKeys.tags(of: updated.fields)
        guard !fresh.allSatisfy(tags.contains) else { return tags }
        return Array((fresh + tags.filter { !fresh.contains($0) }).prefix(SurrogateKeys.most))
    }

    /// The parts of its body, if it is not complete.
    var parts: StoredParts? {
        if case .parts(let parts) = body { parts } else { nil }
    }

    /// The entry with the parts of an older one too, if both are of the same representation (RFC 9111 3.4). Its head is
    /// that of the later response.
    ///
    /// - Parameter limit: of the number of bytes.
    /// - Returns: this entry alone, if there is any doubt.
    func combined(with older: CachedEntry, in pool: ChunkPool, atMost limit: Int) -> CachedEntry {
        guard let own = parts, let others = older.parts, response.digest == older.response.digest,
            response.isShared == older.response.isShared, older.response.isSame(as: response.fields),
            let both = others.adding(own, in: pool, atMost: limit)
        else { return self }
        return CachedEntry(
            key: key,
            response: response.isOlder(than: older.response) ? older.response : response,
            body: .parts(both),
            tags: tags + older.tags.filter { !tags.contains($0) },
            uses: older.useCount
        )
    }

    /// Its cost in memory, in bytes.
    var cost: Int {
        // The objects, and their places in tables and queues.
        var cost = 600 + key.uri.footprint + key.partition.footprint + key.variant.footprint + response.footprint
        for tag in tags { cost += tag.footprint }
        var pooled = 0
        switch body {
        case .memory(let bytes): if bytes.isPooled { pooled = bytes.footprint } else { cost += bytes.footprint }
        case .parts(let parts):
            pooled = parts.pooledFootprint
            cost += parts.footprint
        case .file: break
        }
        // The allocator's gaps, measured with mimalloc (`make bench-cache-memory`); a pool has hardly any.
        return cost + cost * 3 / 8 + pooled
    }

    /// Finds the entry to use: `StoredResponse.select`.
    ///
    /// - Returns: its index in `entries`.
    public static func select(
        among entries: [CachedEntry],
        for request: CacheRequest,
        under digest: PolicyDigest,
        _ options: CacheOptions
    ) -> Int? {
        var found: Int?
        for index in entries.indices where entries[index].response.matches(request, under: digest, options) {
            if let known = found, entries[index].response.isOlder(than: entries[known].response) { continue }
            found = index
        }
        return found
    }
}

/// The location of a stored body.
public enum CachedBody: Sendable {
    /// In memory.
    case memory(StoredBytes)
    /// A file that its store has to open.
    case file(StoredFile)
    /// Only parts of it, in memory. Such an entry is never used as a complete response.
    case parts(StoredParts)

    /// The length of the complete body, in bytes.
    public var count: Int {
        switch self {
        case .memory(let bytes): bytes.count
        case .file(let file): file.length
        case .parts(let parts): parts.total
        }
    }
}

/// A body in a file of a disk store.
public struct StoredFile: Hashable, Sendable {
    /// The number in its name.
    let number: UInt64
    /// The length in bytes.
    public let length: Int
    /// XXH64 of the whole file.
    let checksum: UInt64
}

/// A function that runs a store's callback on the thread or loop that the caller wants.
public typealias Delivery = @Sendable (@escaping @Sendable () -> Void) -> Void

/// The entries that an operator removes from a store.
public enum Purge: Sendable {
    /// All entries.
    case everything
    /// All responses of the key's URI, in every partition.
    case uri(CacheKey)
    /// All responses of URIs that begin with the key's, in every partition.
    case prefix(CacheKey)
    /// A host in its normal form; IPv6 in brackets.
    case host(String)
    /// A tag of Surrogate-Key or Cache-Tag.
    case tag(String)

    package func fits(_ entry: CachedEntry) -> Bool {
        switch self {
        case .everything: true
        case .uri(let key): entry.key.uri == key.uri
        case .prefix(let key): entry.key.uri.starts(with: key.uri)
        case .host(let host): entry.key.host.elementsEqual(host.utf8)
        case .tag(let tag): entry.tags.contains { $0.elementsEqual(tag.utf8) }
        }
    }
}
