package import HTTPCaching
package import HTTPCore

/// The cache of a process: `cache` of the configuration. Without that there is none.
package struct CacheConfiguration: Hashable, Sendable {
    /// Whether it serves several users (RFC 9111, section 1.1).
    package var isShared = true
    /// Bytes in memory.
    package var memory = 64 << 20
    /// How long a request waits for the answer to another one like it.
    package var patience = Milliseconds(5000)
    /// nil: nothing outlives a restart.
    package var disk: DiskCacheConfiguration?

    package init() {}
}

package struct DiskCacheConfiguration: Hashable, Sendable {
    /// A folder of its own, ready to open; made when it is not there.
    package var path: String
    /// Bytes on disk.
    package var size = 1 << 30

    package init(path: String) { self.path = path }
}

/// What the cache does with a host's requests and answers: `cache` of `defaults` and of a host's entry.
package struct CacheRules: Hashable, Sendable {
    /// What is asked of the cache before the origin is asked, where none of `requestRules` fits.
    package var requestPolicy = RequestPolicy.useProtocolCachePolicy
    /// The first that fits a request decides.
    package var requestRules: [CacheRequestRule] = []
    /// The first that fits an answer decides what is stored.
    package var rules: [CacheRule] = []

    package init() {}

    package var isTrivial: Bool { self == CacheRules() }

    /// What is asked of the cache for a request.
    ///
    /// - Parameter target: path and query.
    func requestPolicy(for method: HTTPMethod, target: borrowing Span<UInt8>) -> RequestPolicy {
        for rule in requestRules where rule.fits(method, target: target) { return rule.requestPolicy }
        return requestPolicy
    }
}

/// A rule of `cache.rules` with `requestPolicy` in the place of `then`.
package struct CacheRequestRule: Hashable, Sendable {
    /// Of the target's path, without its query; nil for every target.
    package var path: PathPattern?
    /// nil for every method.
    package var method: HTTPMethod?
    package var requestPolicy: RequestPolicy

    package init(path: PathPattern? = nil, method: HTTPMethod? = nil, _ requestPolicy: RequestPolicy) {
        self.path = path
        self.method = method
        self.requestPolicy = requestPolicy
    }

    func fits(_ method: HTTPMethod, target: borrowing Span<UInt8>) -> Bool {
        if let wanted = self.method, wanted != method { return false }
        return path?.matches(target) ?? true
    }
}
