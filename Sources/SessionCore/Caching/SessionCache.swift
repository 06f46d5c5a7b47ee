// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// Responses that are stored for later requests, in memory and on disk: the counterpart of Apple's `URLCache`, by RFC
/// 9111.
///
/// ```swift
/// configuration.cache = try SessionCache(memoryCapacity: 32 << 20, diskCapacity: 1 << 30, diskPath: "/var/cache/app")
/// ```
///
/// Several sessions may share a cache; a folder belongs to one process at a time. A response is used only under the
/// security policy under which it was received, and is stored only if the policy accepted its server completely. Every
/// member may be called on any thread.
public final class SessionCache: Sendable {
    let responses: ResponseCache

    /// The limit of memory in bytes, with heads and bookkeeping. A body of more than an eighth of it is stored on disk
    /// alone.
    public let memoryCapacity: Int
    /// The limit of disk space in bytes; 0 without a folder.
    public let diskCapacity: Int
    /// Whether responses for one user are withheld from others (RFC 9111, section 3).
    public let isShared: Bool

    /// How long a request waits for the response to a similar one, which may serve both.
    private static let patience = TimeSpan.seconds(1)

    /// - Parameters:
    ///   - memoryCapacity: in bytes.
    ///   - diskCapacity: in bytes; 0 for no disk.
    ///   - diskPath: the folder, which is made if it is missing; its contents belong to the cache. Required if
    ///     `diskCapacity` is above 0.
    ///   - isShared: false: the cache of one user, as `URLCache` is; it stores `private` responses, and responses to
    ///     requests with `Authorization`. A program that acts for several users gives each a cache, or passes true.
    ///     Clients with certificates that hooks or credentials choose need caches of their own in any case, since no
    ///     field distinguishes them.
    ///   - notice: called with a text for people, at most once a minute, when the folder cannot be used and when it can
    ///     again; in between the cache uses memory alone. It is called on a thread of the cache.
    /// - Throws: `requestInvalid` when capacity and folder do not match, `internal` when the system has no more
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
            patience: Self.patience,
            // A cancelled task receives nothing more, unless others read along.
            completesBelow: 0
        )
    }

    /// A cache of one user in memory, with another time that requests wait for the response to a similar one.
    init(memoryCapacity: Int, patience: TimeSpan) {
        self.memoryCapacity = memoryCapacity
        diskCapacity = 0
        isShared = false
        responses = ResponseCache(
            CacheStore(memory: MemoryStore(capacity: memoryCapacity), CacheOptions(isShared: false)),
            patience: patience,
            completesBelow: 0
        )
    }

    /// The memory in use, in bytes.
    public var currentMemoryUsage: Int { responses.store.memory.statistics.bytes }
    /// The disk space in use, in bytes, without bodies that are still being written.
    public var currentDiskUsage: Int { responses.store.disk?.statistics.bytes ?? 0 }

    /// Removes the stored responses for a URL, whatever the fields of the request. A response that is still being
    /// received is not stored.
    ///
    /// - Parameter url: absolute, `http` or `https`; other URLs have no effect.
    public func removeCachedResponses(for url: String) {
        guard let key = CacheKey(url: url) else { return }
        responses.store.invalidate(key)
    }

    /// Removes all stored responses. Responses that are still being received are not stored.
    public func removeAllCachedResponses() {
        responses.store.remove(.everything, deliver: { $0() }, { _ in })
    }

    /// Writes everything to disk, and releases the folder; the cache in memory can still be used. To be called before a
    /// program ends, after the end of its sessions.
    public func close() async {
        let store = responses.store
        await Task(executorPreference: BlockingThreads.shared) { store.close() }.value
    }
}
