// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A few threads for work that would hold up a loop, shared by the loops of a program. They start when there is work for
/// them. `FairQueue` says whose work is next: one party has at most half of the threads.
///
/// Idle threads wait at a semaphore: handing work over costs two system calls, one on each side. With a condition variable it
/// was three or four.
///
/// `@unchecked Sendable`: `mutex` guards all variables; the handles are made in `init` and never move. It uses pthread's
/// functions for the reason given in `PosixLock`.
package final class FairThreads: @unchecked Sendable {
    /// For the TLS handshakes of sessions that have no threads of their own.
    package static let handshakes = FairThreads(forHandshakes: ())

    /// As many threads as processors, for TLS handshakes.
    package convenience init(forHandshakes: Void) {
        self.init(name: "tls", count: SystemProcessors.count, nice: 5)
    }

    private let name: String
    private let limit: Int
    private let nice: Int32
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let semaphore: UnsafeMutablePointer<sem_t>
    private var queue: FairQueue<@Sendable () -> Void>
    private var threads: [LoopThread] = []
    /// The threads that wait at the semaphore, and those that were called from there and have not come yet.
    private var idle = 0
    private var called = 0
    private var isStopped = false
    /// How often `rest` was called.
    private var restCount = 0

    /// - Parameters:
    ///   - name: of the threads; at most 15 bytes are shown by the system.
    ///   - count: the number of threads, at least two, so that half of them is less than all.
    ///   - nice: how far they give way to other threads (see `WorkThread`).
    package init(name: String, count: Int, nice: Int32) {
        self.name = name
        self.nice = nice
        limit = max(2, count)
        queue = FairQueue(share: limit / 2)
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        semaphore = .allocate(capacity: 1)
        semaphore.initialize(to: sem_t())
        sem_init(semaphore, 0, 0)
    }

    /// Running threads keep this object, so that there are none any more.
    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Submits work of a party.
    ///
    /// - Returns: false when the threads are stopped, or none can be started; the work is not kept then.
    package func submit(for party: UInt64, _ work: @escaping @Sendable () -> Void) -> Bool {
        pthread_mutex_lock(mutex)
        let isTaken = take(work, of: party)
        let isAwaited = isTaken && idle > 0
        if isAwaited { call(1) }
        pthread_mutex_unlock(mutex)
        // Behind the lock, which the thread takes first.
        if isAwaited { sem_post(semaphore) }
        return isTaken
    }

    /// Called with the lock held, before as many posts of the semaphore.
    private func call(_ count: Int) {
        idle -= count
        called += count
    }

    private func callAll() {
        let count = idle
        call(count)
        for _ in 0..<count { sem_post(semaphore) }
    }

    /// Called with the lock held.
    private func take(_ work: @escaping @Sendable () -> Void, of party: UInt64) -> Bool {
        guard !isStopped else { return false }
        if queue.waitingCount - called >= idle, threads.count < limit {
            if let thread = try? LoopThread(name: name, { [self] in run() }) { threads.append(thread) }
            guard !threads.isEmpty else { return false }
        }
        queue.append(work, of: party)
        return true
    }

    /// Whether no work waits for a thread.
    package var hasNoWaiting: Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return queue.waitingCount == 0
    }

    private func run() {
        // On Linux each thread has a nice value of its own (nice(2), C library/kernel differences).
        if nice > 0 { _ = Glibc.nice(nice) }
        pthread_mutex_lock(mutex)
        var rested = restCount
        while !isStopped {
            guard let next = queue.popNext() else {
                if rested != restCount {
                    rested = restCount
                    pthread_mutex_unlock(mutex)
                    SystemMemory.release()
                    pthread_mutex_lock(mutex)
                    continue
                }
                idle += 1
                pthread_mutex_unlock(mutex)
                while sem_wait(semaphore) != 0 {}
                pthread_mutex_lock(mutex)
                called -= 1
                continue
            }
            pthread_mutex_unlock(mutex)
            next.element()
            pthread_mutex_lock(mutex)
            queue.didEnd(of: next.party)
        }
        pthread_mutex_unlock(mutex)
    }

    /// Makes the threads give unused memory back to the system when they are idle: only a thread itself can do so with what it
    /// has allocated, wherever that was freed.
    package func rest() {
        pthread_mutex_lock(mutex)
        restCount += 1
        callAll()
        pthread_mutex_unlock(mutex)
    }

    /// Waits for the work that is being done, and drops the rest. No work is accepted afterwards.
    package func stop() {
        pthread_mutex_lock(mutex)
        isStopped = true
        let running = threads
        threads = []
        let dropped = queue
        queue = FairQueue(share: limit / 2)
        callAll()
        pthread_mutex_unlock(mutex)
        for thread in running { thread.join() }
        // Released outside the lock, because the deinit of a captured object may submit more work.
        withExtendedLifetime(dropped) {}
    }
}
