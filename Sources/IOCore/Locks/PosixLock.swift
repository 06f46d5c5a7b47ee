// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A pthread mutex, for locks that are rarely contended.
///
/// `Synchronization.Mutex` waits inside the standard library, where ThreadSanitizer cannot follow it and reports false
/// races after contention. ThreadSanitizer supports pthread's mutex.
///
/// `@unchecked Sendable`: the handle is made in `init` and never moves; a mutex is thread-safe.
@usableFromInline
package final class PosixLock: @unchecked Sendable {
    private let handle: UnsafeMutablePointer<pthread_mutex_t>

    package init() {
        handle = .allocate(capacity: 1)
        // All zero: PTHREAD_MUTEX_INITIALIZER, which needs no `pthread_mutex_init` (pthread_mutex_init(3)).
        handle.initialize(to: pthread_mutex_t())
    }

    deinit {
        pthread_mutex_destroy(handle)
        handle.deinitialize(count: 1)
        handle.deallocate()
    }

    /// Inlined, since a generic function of another module looks its types up at every call.
    @inlinable
    package func withLock<Result>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// For values that a closure cannot capture, such as a span; call `unlock` in a `defer` immediately after it.
    @usableFromInline
    package func lock() { pthread_mutex_lock(handle) }

    @usableFromInline
    package func unlock() { pthread_mutex_unlock(handle) }
}
