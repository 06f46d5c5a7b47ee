import Glibc

/// A pthread mutex, for locks that are rarely contended.
///
/// `Synchronization.Mutex` waits inside the standard library, where ThreadSanitizer cannot follow it and reports false
/// races after contention. ThreadSanitizer supports pthread's mutex.
///
/// `@unchecked Sendable`: the handle is made in `init` and never moves; a mutex is thread-safe.
package final class PosixLock: @unchecked Sendable {
    private let handle: UnsafeMutablePointer<pthread_mutex_t>

    package init() {
        handle = .allocate(capacity: 1)
        handle.initialize(to: pthread_mutex_t())
        pthread_mutex_init(handle, nil)
    }

    deinit {
        pthread_mutex_destroy(handle)
        handle.deinitialize(count: 1)
        handle.deallocate()
    }

    package func withLock<Result>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// For values that a closure cannot capture, such as a span; call `unlock` in a `defer` immediately after it.
    package func lock() { pthread_mutex_lock(handle) }

    package func unlock() { pthread_mutex_unlock(handle) }
}
