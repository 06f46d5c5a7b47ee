// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Blocks one thread until a number of others have arrived.
///
/// `@unchecked Sendable`: the mutex guards `left`; the handles are made in `init`, never move, and are for all threads.
/// It uses pthread's functions for the reason given in `PosixLock`.
package final class Latch: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var left: Int

    package init(count: Int) {
        left = count
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        condition = .allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        pthread_cond_init(condition, nil)
    }

    deinit {
        pthread_cond_destroy(condition)
        condition.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Records an arrival.
    package func countDown() {
        pthread_mutex_lock(mutex)
        left -= 1
        if left <= 0 { pthread_cond_broadcast(condition) }
        pthread_mutex_unlock(mutex)
    }

    /// Waits until all have arrived.
    package func wait() {
        pthread_mutex_lock(mutex)
        while left > 0 { pthread_cond_wait(condition, mutex) }
        pthread_mutex_unlock(mutex)
    }
}
