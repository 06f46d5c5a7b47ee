import IOCore

/// A few threads for what may block: reading files, and the readers, interceptors and serializers of library users.
/// Neither a session's loop nor Swift's own pool is held up by them, nor are they by a pool whose threads all wait. They
/// start with the first use and stay.
final class BlockingThreads: TaskExecutor {
    static let shared = BlockingThreads()
    private let loops: [EventLoop]
    private let turn = TurnCounter()

    private init() {
        loops = (0..<4).compactMap { number in
            guard let loop = try? EventLoop(),
                let thread = try? LoopThread(name: "SessionCore-\(number)", { loop.run() })
            else { return nil }
            thread.detach()
            return loop
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Without a thread of its own the work is done late rather than never.
        guard !loops.isEmpty else { return globalConcurrentExecutor.enqueue(job) }
        loops[turn.next() % loops.count].submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Counts, for all threads.
///
/// `@unchecked Sendable`: `value` is behind `lock`.
private final class TurnCounter: @unchecked Sendable {
    private let lock = PosixLock()
    private var value = 0

    func next() -> Int {
        lock.withLock {
            value = (value + 1) & 0xFFFF
            return value
        }
    }
}
