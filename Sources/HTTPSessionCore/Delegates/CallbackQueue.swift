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
/// `@unchecked Sendable`: `first`, `others`, `isOpen` and `isDraining` are behind `lock`.
public final class CompletionQueue: @unchecked Sendable {
    private typealias Work = @Sendable () -> Void

    private let target: CallbackQueue
    private let lock: PosixLock
    /// Most tasks have one handler.
    private var first: Work?
    private var others: [Work] = []
    private var isOpen = false
    private var isDraining = false

    /// - Parameter lock: not held by those who call the queue.
    init(_ target: CallbackQueue, lock: PosixLock = PosixLock()) {
        self.target = target
        self.lock = lock
    }

    /// Runs `work` on the session's callback queue: at the end of the task, or now if it has ended.
    public func add(_ work: @escaping @Sendable () -> Void) {
        let isDue = lock.withLock {
            if first == nil { first = work } else { others.append(work) }
            return isOpen
        }
        if isDue { drain(lock.withLock { begin() }) }
    }

    func open() {
        let first = lock.withLock {
            isOpen = true
            return begin()
        }
        drain(first)
    }

    /// The first work, unless another thread hands work over. Behind the lock.
    private func begin() -> Work? {
        guard !isDraining else { return nil }
        isDraining = first != nil
        return takeFirst()
    }

    /// Only one thread at a time hands work over, without the lock: the queue may run work at once, and that work may
    /// add more.
    private func drain(_ work: Work?) {
        var next = work
        while let work = next {
            target.enqueue(work)
            next = lock.withLock {
                isDraining = first != nil
                return takeFirst()
            }
        }
    }

    private func takeFirst() -> Work? {
        defer { if !others.isEmpty { first = others.removeFirst() } }
        return first.take()
    }
}
