// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import IOCore

/// The current cache for threads that read its state: a reload may replace it.
///
/// `@unchecked Sendable`: `held` is touched behind `lock` alone. Workers do not use it for requests.
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
