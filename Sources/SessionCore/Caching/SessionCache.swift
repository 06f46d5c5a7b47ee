import HTTPCaching
import HTTPCore
import IOCore

/// Answers that are kept for later requests, in memory and on disk: what `URLCache` is on Apple's systems, by RFC 9111.
///
/// ```swift
/// configuration.cache = try SessionCache(memoryCapacity: 32 << 20, diskCapacity: 1 << 30, diskPath: "/var/cache/app")
/// ```
///
/// Several sessions may have the same one; a folder belongs to one process at a time. An answer is used under the
/// security policy that it came under and no other, and is stored only where that policy passed in full. Every member
/// may be called on any thread.
public final class SessionCache: Sendable {
    let responses: ResponseCache

    /// The most that is kept in memory, in bytes, heads and bookkeeping included. Bodies of more than an eighth of it go
    /// to the disk alone.
    public let memoryCapacity: Int
    /// The most that is kept on disk, in bytes; 0 without a folder.
    public let diskCapacity: Int
    /// Whether answers for one user are kept from others (RFC 9111, section 3).
    public let isShared: Bool

    /// How long a request waits for the answer to another one like it, which may serve both.
    private static let patience = TimeSpan.seconds(1)

    /// - Parameters:
    ///   - memoryCapacity: in bytes.
    ///   - diskCapacity: in bytes; 0 for no disk.
    ///   - diskPath: the folder, which is made if need be; its contents belong to the cache. Given where `diskCapacity`
    ///     is.
    ///   - isShared: false: one user's cache, as `URLCache` is; it keeps what is `private`, and answers to requests with
    ///     `Authorization`. Whoever acts for several users gives each a cache, or says true; but clients that show
    ///     certificates chosen by hooks or credentials have caches of their own in any case, since no field tells them apart.
    ///   - notice: told, in words for people and at most once a minute, when the folder cannot be used and when it can
    ///     again; until then memory serves alone. It is called on a thread of the cache.
    /// - Throws: `requestInvalid` when capacity and folder do not go together, `internal` when the system has no more
    ///   threads.
    public init(
        memoryCapacity: Int = 16 << 20,
        diskCapacity: Int = 0,
        diskPath: String? = nil,
        isShared: Bool = false,
        notice: @escaping @Sendable (_ words: String) -> Void = { _ in }
    ) throws(SessionError) {
        guard memoryCapacity >= 0, diskCapacity >= 0, (diskCapacity > 0) == (diskPath != nil) else {
            throw SessionError(
                .requestInvalid,
                "A cache on disk has a diskPath and a diskCapacity above 0, one in memory has neither."
            )
        }
        self.memoryCapacity = memoryCapacity
        self.diskCapacity = diskCapacity
        self.isShared = isShared
        let options = CacheOptions(isShared: isShared)
        var disk: DiskStore?
        if let diskPath {
            do {
                disk = try DiskStore(.init(folder: diskPath, capacity: diskCapacity), options, notice: notice)
            } catch {
                throw SessionError(.internal, "The cache's threads cannot be started: \(error).")
            }
        }
        responses = ResponseCache(
            CacheStore(memory: MemoryStore(capacity: memoryCapacity), disk: disk, options),
            patience: Self.patience
        )
    }

    /// In bytes.
    public var currentMemoryUsage: Int { responses.store.memory.statistics.bytes }
    /// In bytes; what is being written counts when it is whole.
    public var currentDiskUsage: Int { responses.store.disk?.statistics.bytes ?? 0 }

    /// Drops what is stored for the URL, whatever the request's fields; a response that is on its way is not stored.
    ///
    /// - Parameter url: absolute, `http` or `https`; nothing is dropped for another one.
    public func removeCachedResponses(for url: String) {
        guard let key = CacheKey(url: url) else { return }
        responses.store.invalidate(key)
    }

    /// Drops all of it; answers that are on their way are not stored.
    public func removeAllCachedResponses() {
        responses.store.remove(.everything, deliver: { $0() }, { _ in })
    }

    /// Has the disk hold all that was given, and lets the folder go; what is left in memory is used as before. To be
    /// called before a program ends, when its sessions have.
    public func close() async {
        let store = responses.store
        await Task(executorPreference: BlockingThreads.shared) { store.close() }.value
    }
}
