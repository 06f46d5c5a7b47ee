// SPDX-License-Identifier: Apache-2.0
/// A few threads for blocking work: reading files, and the readers, interceptors and serializers of library users. They
/// block neither a session's loop nor Swift's own pool, and do not depend on a thread of that pool. They start when there is
/// work for them, and end with this object. Work goes to any free thread, so that a blocked one delays no other work.
///
/// `@unchecked Sendable`: `lock` guards `waiting`, `idle` and `count`.
package final class BlockingThreads: TaskExecutor, @unchecked Sendable {
    package static let shared = BlockingThreads(name: "blocking")

    private let lock = PosixLock()
    private var waiting = JobQueue()
    private var idle: [WorkThread] = []
    /// The number of threads that have been started.
    private var count = 0
    private let name: String
    private static let limit = 4

    /// - Parameter name: of its threads.
    package init(name: String) { self.name = name }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Without an idle thread: each thread looks for more work before it becomes idle.
        let (thread, isLate): (WorkThread?, Bool) = lock.withLock {
            let thread = idle.popLast() ?? startThread()
            guard thread != nil || count > 0 else { return (nil, true) }
            waiting.append(job)
            return (thread, false)
        }
        // If no thread can be started, the work is done late rather than never.
        guard !isLate else { return globalConcurrentExecutor.enqueue(job) }
        if let thread { thread.submit { self.work(on: thread) } }
    }

    /// With the lock held.
    private func startThread() -> WorkThread? {
        guard count < Self.limit, let thread = try? WorkThread(starting: "\(name)-\(count)") else { return nil }
        count += 1
        return thread
    }

    private func work(on thread: WorkThread) {
        while true {
            let job: UnownedJob? = lock.withLock {
                if let job = waiting.popFirst() { return job }
                idle.append(thread)
                return nil
            }
            guard let job else { return }
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

/// A FIFO queue of jobs.
private struct JobQueue {
    private var jobs: [UnownedJob] = []
    private var first = 0

    mutating func append(_ job: UnownedJob) { jobs.append(job) }

    mutating func popFirst() -> UnownedJob? {
        guard first < jobs.count else { return nil }
        defer {
            first += 1
            // Removed jobs are dropped in large pieces, so that a removal is cheap for any length of the queue.
            if first == jobs.count || first == 1024 {
                jobs.removeFirst(first)
                first = 0
            }
        }
        return jobs[first]
    }
}
