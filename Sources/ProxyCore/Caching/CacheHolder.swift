import HTTPCaching
import IOCore

/// The cache that is in use now, for threads that only ask after it: a reload may put another one in its place.
///
/// `@unchecked Sendable`: `held` is touched behind `lock` alone. No worker's loop comes here for a request.
final class CacheHolder: @unchecked Sendable {
    private let lock = PosixLock()
    private var held: ResponseCache?

    init(_ cache: ResponseCache? = nil) { held = cache }

    /// nil without a cache.
    var current: ResponseCache? {
        get { lock.withLock { held } }
        set { lock.withLock { held = newValue } }
    }
}
