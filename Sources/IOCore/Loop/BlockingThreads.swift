/// A few threads for blocking work: reading files, and the readers, interceptors and serializers of library users. They
/// block neither a session's loop nor Swift's own pool, and do not depend on a thread of that pool. They start with the
/// first use and stay. Work goes to any free thread, so that a blocked one delays no other work.
///
/// `@unchecked Sendable`: `lock` guards `waiting` and `idle`.
package final class BlockingThreads: TaskExecutor, @unchecked Sendable {
    package static let shared = BlockingThreads(name: "blocking")

    private let lock = PosixLock()
    private var waiting = JobQueue()
    private var idle: [WorkThread]
    private let hasThreads: Bool

    /// - Parameter name: of its threads.
    package init(name: String) {
        idle = (0..<4).compactMap { try? WorkThread(starting: "\(name)-\($0)") }
        hasThreads = !idle.isEmpty
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // If no thread can be started, the work is done late rather than never.
        guard hasThreads else { return globalConcurrentExecutor.enqueue(job) }
        // Without an idle thread: each thread looks for more work before it becomes idle.
        let thread: WorkThread? = lock.withLock {
            waiting.append(job)
            return idle.popLast()
        }
        if let thread { thread.submit { self.work(on: thread) } }
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
