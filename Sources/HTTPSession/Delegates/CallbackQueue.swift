import IOCore

/// Where completion handlers and progress handlers run: a dispatch queue, an executor, a thread of one's own.
///
/// It has to run what it is given one after the other, in the order in which it was given; otherwise handlers come in
/// whatever order it makes of them.
public struct CallbackQueue: Sendable {
    package let enqueue: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// - Parameter enqueue: has its argument run, now or later, once.
    public init(_ enqueue: @escaping @Sendable (_ work: @escaping @Sendable () -> Void) -> Void) {
        self.enqueue = enqueue
    }

    /// A Swift executor, which has to be a serial one: for a concurrent one, see above.
    public static func executor(_ executor: any TaskExecutor) -> CallbackQueue {
        CallbackQueue { work in Task(executorPreference: executor) { work() } }
    }
}

/// Work that waits for a task's end, and then runs in the order in which it was added: what a suspended operation queue
/// is to AFNetworking and Alamofire.
///
/// `@unchecked Sendable`: `waiting`, `isOpen` and `isDraining` are behind `lock`.
public final class CompletionQueue: @unchecked Sendable {
    private let target: CallbackQueue
    private let lock = PosixLock()
    private var waiting: [@Sendable () -> Void] = []
    private var isOpen = false
    private var isDraining = false

    init(_ target: CallbackQueue) { self.target = target }

    /// Has `work` run on the session's callback queue: at the task's end, or now if it has ended.
    public func add(_ work: @escaping @Sendable () -> Void) {
        lock.withLock { waiting.append(work) }
        drain()
    }

    func open() {
        lock.withLock { isOpen = true }
        drain()
    }

    /// One at a time hands over, and not under the lock: the queue may run what it gets at once, and that may add more.
    private func drain() {
        while true {
            let next: (@Sendable () -> Void)? = lock.withLock {
                guard isOpen, !isDraining, !waiting.isEmpty else { return nil }
                isDraining = true
                return waiting.removeFirst()
            }
            guard let next else { return }
            target.enqueue(next)
            lock.withLock { isDraining = false }
        }
    }
}
