// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Reports progress on queues: the latest figure, with at most one pending call for each listener, however fast bytes
/// arrive. The last figure is always reported.
///
/// `@unchecked Sendable`: what changes is behind `lock`.
package final class ProgressRelay: @unchecked Sendable {
    package typealias Handler = @Sendable (TaskProgress) -> Void
    typealias Present = @Sendable () -> TaskProgress?

    private struct Listener {
        let handler: Handler
        let queue: CallbackQueue
        /// Tells it from those that had its name before: a delivery is for one of them, on its own queue.
        let number: UInt64
        var isPlanned = false
        /// What had come before the listener, if there is anything; nil as soon as it has got that, or a later figure has come.
        var present: Present?
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
        replace(handler, on: queue, name, present: nil)
    }

    /// Adds a listener that also gets the figure that has come before it, even at the end.
    ///
    /// - Parameter present: reads that figure; nil when there is none. Called on the queue.
    func addListener(_ handler: @escaping Handler, on queue: CallbackQueue, name: String, present: @escaping Present) {
        replace(handler, on: queue, name, present: present)
    }

    private func replace(_ handler: Handler?, on queue: CallbackQueue, _ name: String?, present: Present?) {
        let (old, due) = lock.withLock { () -> (Listener?, Listener?) in
            lastNumber += 1
            var listener: Listener?
            if let handler, !isOver || present != nil {
                let known = listeners[name]
                listener = Listener(
                    handler: handler,
                    queue: queue,
                    number: lastNumber,
                    // It gets the figure that its predecessor has not got yet.
                    isPlanned: present != nil || known?.isPlanned ?? false,
                    present: present ?? known?.present
                )
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
            // The task that `present` captures is the one that reports: it is not freed here.
            for (name, listener) in listeners where listener.present != nil { listeners[name]?.present = nil }
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
        let present: Present? = lock.withLock { listeners[name].flatMap { $0.number == number ? $0.present : nil } }
        // Read before it is known whether a figure has come meanwhile, which is later than this one.
        let counted = present?()
        let (listener, progress) = lock.withLock { () -> (Listener?, TaskProgress?) in
            guard let listener = listeners[name], listener.number == number else { return (nil, nil) }
            listeners[name]?.isPlanned = false
            listeners[name]?.present = nil
            if isOver { listeners[name] = nil }
            return (listener, listener.present == nil ? latest : counted)
        }
        if let progress { listener?.handler(progress) }
        withExtendedLifetime((present, listener)) {}
    }
}
