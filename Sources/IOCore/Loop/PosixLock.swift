import Glibc

/// A pthread mutex, for what is locked seldom and by chance at the same time.
///
/// `Synchronization.Mutex` waits inside the standard library, where ThreadSanitizer does not see it, and reports races
/// that are none when the lock was contended. This one it knows.
///
/// `@unchecked Sendable`: the handle is made in `init` and never moves; the mutex itself is for all threads.
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

    /// For what cannot go into a closure, such as a span: `unlock` in a `defer` right behind.
    package func lock() { pthread_mutex_lock(handle) }

    package func unlock() { pthread_mutex_unlock(handle) }
}
