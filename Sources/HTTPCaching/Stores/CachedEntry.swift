import HTTPCore
import IOCore
import Synchronization

/// A stored response with its key and its body. It never changes; a validation makes another one.
public final class CachedEntry: Sendable {
    public let key: CacheKey
    public let response: StoredResponse
    public let body: CachedBody
    /// By which it may be purged together with others.
    let tags: [[UInt8]]
    /// How often it was used since the store last looked, at most 3.
    private let uses: Atomic<UInt8>

    /// - Parameter tags: by which it may be purged (`SurrogateKeys.tags(of:)`).
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

    /// Tells the store that it was worth keeping: a store of one byte, for any thread.
    public func markUsed() {
        let known = uses.load(ordering: .relaxed)
        if known < 3 { uses.store(known + 1, ordering: .relaxed) }
    }

    var useCount: UInt8 { uses.load(ordering: .relaxed) }

    /// One use less, when its turn to go has come and it was used.
    func forgetUse() {
        let known = uses.load(ordering: .relaxed)
        if known > 0 { uses.store(known - 1, ordering: .relaxed) }
    }

    /// Whether the two are of one key and for the same requests, so that the later takes the earlier one's place.
    func replaces(_ other: CachedEntry) -> Bool {
        key == other.key && response.selecting == other.response.selecting
    }

    /// What it costs to keep in memory, in bytes.
    var cost: Int {
        var cost = 512 + key.uri.count + key.partition.count + response.storedSize
        for tag in tags { cost += tag.count + 32 }
        if case .memory(let bytes) = body { cost += bytes.count }
        return cost
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

/// Where the body of a stored response is.
public enum CachedBody: Sendable {
    case memory([UInt8])
    /// To be opened by the store that has it.
    case file(StoredFile)

    /// In bytes.
    public var count: Int {
        switch self {
        case .memory(let bytes): bytes.count
        case .file(let file): file.length
        }
    }
}

/// A body in a file of a disk store.
public struct StoredFile: Hashable, Sendable {
    /// By which it is named.
    let number: UInt64
    /// In bytes.
    public let length: Int
    /// XXH64 of all its bytes.
    let checksum: UInt64
}

/// How a store calls back: it is given work and has it done where the caller wants it.
public typealias Delivery = @Sendable (@escaping @Sendable () -> Void) -> Void

/// What is to be removed from a store.
public enum Purge: Sendable {
    case everything
    /// All that is stored for the key's URI, in every partition.
    case uri(CacheKey)
    /// A host in its normal form; IPv6 in brackets.
    case host(String)
    /// A tag of Surrogate-Key or Cache-Tag.
    case tag(String)

    func fits(_ entry: CachedEntry) -> Bool {
        switch self {
        case .everything: true
        case .uri(let key): entry.key.uri == key.uri
        case .host(let host): entry.key.host.elementsEqual(host.utf8)
        case .tag(let tag): entry.tags.contains { $0.elementsEqual(tag.utf8) }
        }
    }
}
