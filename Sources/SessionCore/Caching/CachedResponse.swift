public import HTTPCore

/// An answer that is about to be stored, as `dataTaskWillCacheResponse` is shown it; its body follows, and is stored as
/// it comes.
public struct CachedResponse: Sendable {
    /// Where it may be stored; the names are those of `URLCache.StoragePolicy`.
    public enum StoragePolicy: Sendable, Hashable {
        /// In memory, and on disk where the cache has a folder.
        case allowed
        /// In memory alone.
        case allowedInMemoryOnly
        /// Not at all: the same as no response.
        case notAllowed
    }

    /// What the origin answered with.
    public let status: Int
    /// Stored with the answer, and read for how long it may be used: a changed `Cache-Control` counts. What forbids
    /// storing is heeded in these as in those that came.
    public var fields: HTTPFields
    /// Where it may be stored.
    public var storagePolicy = StoragePolicy.allowed

    init(status: Int, fields: HTTPFields) {
        self.status = status
        self.fields = fields
    }
}
