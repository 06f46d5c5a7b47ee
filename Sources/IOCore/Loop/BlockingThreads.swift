/// A few threads for what may block: reading files, and the readers, interceptors and serializers of library users.
/// Neither a session's loop nor Swift's own pool is held up by them, nor are they by a pool whose threads all wait. They
/// start with the first use and stay. Work goes to whichever of them is free, so that one that blocks holds up no other.
///
/// `@unchecked Sendable`: `waiting` and `idle` are behind `lock`.
package final class BlockingThreads: TaskExecutor, @unchecked Sendable {
    package static let shared = BlockingThreads()

    private let lock = PosixLock()
    private var waiting = JobQueue()
    /// The loops of threads that have nothing to do.
    private var idle: [EventLoop]
    private let hasThreads: Bool

    private init() {
        idle = (0..<4).compactMap { number in
            guard let loop = try? EventLoop(),
                let thread = try? LoopThread(name: "blocking-\(number)", { loop.run() })
            else { return nil }
            thread.detach()
            return loop
        }
        hasThreads = !idle.isEmpty
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Without a thread of its own the work is done late rather than never.
        guard hasThreads else { return globalConcurrentExecutor.enqueue(job) }
        // Where none is idle, each looks for more before it rests.
        let loop: EventLoop? = lock.withLock {
            waiting.append(job)
            return idle.popLast()
        }
        loop?.submit { self.work(on: loop) }
    }

    private func work(on loop: EventLoop?) {
        while true {
            let job: UnownedJob? = lock.withLock {
                if let job = waiting.popFirst() { return job }
                if let loop { idle.append(loop) }
                return nil
            }
            guard let job else { return }
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

/// Jobs in their order.
private struct JobQueue {
    private var jobs: [UnownedJob] = []
    private var first = 0

    mutating func append(_ job: UnownedJob) { jobs.append(job) }

    mutating func popFirst() -> UnownedJob? {
        guard first < jobs.count else { return nil }
        defer {
            first += 1
            // What has been taken goes in large pieces, so that taking one costs little however many wait.
            if first == jobs.count || first == 1024 {
                jobs.removeFirst(first)
                first = 0
            }
        }
        return jobs[first]
    }
}
