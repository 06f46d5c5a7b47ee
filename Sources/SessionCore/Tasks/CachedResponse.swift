// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// A response that is about to be stored, as the hook `dataTaskWillCacheResponse` sees it. Its body follows, and is
/// stored as it arrives.
public struct CachedResponse: Sendable {
    /// The permitted places; the names are those of `URLCache.StoragePolicy`.
    public enum StoragePolicy: Sendable, Hashable {
        /// In memory, and on disk if the cache has a folder.
        case allowed
        /// In memory alone.
        case allowedInMemoryOnly
        /// Nowhere: the same as no response.
        case notAllowed
    }

    /// The status of the response.
    public let status: Int
    /// The stored fields. They also decide how long the response may be used: a changed `Cache-Control` counts. If the
    /// original fields or these forbid storing, nothing is stored.
    public var fields: HeaderFields
    /// The permitted places.
    public var storagePolicy = StoragePolicy.allowed

    init(status: Int, fields: HeaderFields) {
        self.status = status
        self.fields = fields
    }
}
