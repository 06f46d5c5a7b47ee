// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Reports progress on queues: the latest figure, with at most one pending call for each listener, however fast bytes
/// arrive. The last figure is always reported.
///
/// `@unchecked Sendable`: what changes is behind `lock`.
package final class ProgressRelay: @unchecked Sendable {
    package typealias Handler = @Sendable (TaskProgress) -> Void

    private struct Listener {
        let handler: Handler
        let queue: CallbackQueue
        /// Tells it from those that had its name before: a delivery is for one of them, on its own queue.
        let number: UInt64
        var isPlanned = false
    }

    private let lock = PosixLock()
    /// The program's own handler has the key nil.
    private var listeners: [String?: Listener] = [:]
    private var lastNumber: UInt64 = 0
    private var latest: TaskProgress?
    private var isOver: Bool

    /// - Parameter isOver: for a task that has ended: no handler is called any more.
    init(isOver: Bool = false) { self.isOver = isOver }

    /// - Parameter name: nil for the program's own handler, of which there is one.
    package func setHandler(_ handler: Handler?, on queue: CallbackQueue, name: String? = nil) {
        let (old, due) = lock.withLock { () -> (Listener?, Listener?) in
            lastNumber += 1
            var listener: Listener?
            if let handler, !isOver {
                // It gets the figure that its predecessor has not got yet.
                let isPlanned = listeners[name]?.isPlanned ?? false
                listener = Listener(handler: handler, queue: queue, number: lastNumber, isPlanned: isPlanned)
            }
            let old = exchange(&listeners[name], with: listener)
            return (old, listener?.isPlanned == true ? listener : nil)
        }
        if let due { plan(due, name) }
        // The old handler is freed without the lock, since that may run code of the program.
        withExtendedLifetime(old) {}
    }

    /// Ends the reports: a handler is kept only until it has got the last figure.
    func end() {
        let done = lock.withLock {
            isOver = true
            defer { if !listeners.isEmpty { listeners = listeners.filter(\.value.isPlanned) } }
            return listeners
        }
        withExtendedLifetime(done) {}
    }

    func report(_ progress: TaskProgress) {
        let due: [(String?, Listener)] = lock.withLock {
            guard !listeners.isEmpty else { return [] }
            latest = progress
            let due = listeners.compactMap { name, listener in listener.isPlanned ? nil : (name, listener) }
            for (name, _) in due { listeners[name]?.isPlanned = true }
            return due
        }
        for (name, listener) in due { plan(listener, name) }
    }

    private func plan(_ listener: Listener, _ name: String?) {
        let number = listener.number
        listener.queue.enqueue { [self] in deliver(to: name, number) }
    }

    /// - Parameter number: of the listener that the call was planned for; another one of the same name is not called.
    private func deliver(to name: String?, _ number: UInt64) {
        let (progress, handler) = lock.withLock { () -> (TaskProgress?, Handler?) in
            guard let listener = listeners[name], listener.number == number else { return (nil, nil) }
            listeners[name]?.isPlanned = false
            if isOver { listeners[name] = nil }
            return (latest, listener.handler)
        }
        if let progress { handler?(progress) }
    }
}
