// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The place where completion and progress handlers run: a dispatch queue, an executor, or a thread.
///
/// It has to run its work serially and in order; otherwise handlers are called in any order. A handler must therefore not wait for
/// another one of the same queue.
public struct CallbackQueue: Sendable {
    package let enqueue: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// - Parameter enqueue: runs its argument once, now or later.
    public init(_ enqueue: @escaping @Sendable (_ work: @escaping @Sendable () -> Void) -> Void) {
        self.enqueue = enqueue
    }

    /// A Swift executor, which has to be serial (see above).
    public static func executor(_ executor: any TaskExecutor) -> CallbackQueue {
        CallbackQueue { work in Task(executorPreference: executor) { work() } }
    }
}

/// Work that waits for the end of a task, and then runs in the order in which it was added: the counterpart of the
/// suspended operation queue in AFNetworking and Alamofire.
///
/// `@unchecked Sendable`: `waiting`, `isOpen` and `isDraining` are behind `lock`.
public final class CompletionQueue: @unchecked Sendable {
    private let target: CallbackQueue
    private let lock = PosixLock()
    private var waiting: [@Sendable () -> Void] = []
    private var isOpen = false
    private var isDraining = false

    init(_ target: CallbackQueue) { self.target = target }

    /// Runs `work` on the session's callback queue: at the end of the task, or now if it has ended.
    public func add(_ work: @escaping @Sendable () -> Void) {
        lock.withLock { waiting.append(work) }
        drain()
    }

    func open() {
        lock.withLock { isOpen = true }
        drain()
    }

    /// Only one thread at a time hands work over, without the lock: the queue may run work at once, and that work may
    /// add more.
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
