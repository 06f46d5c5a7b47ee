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
        var isPlanned = false
    }

    private let lock = PosixLock()
    /// The program's own handler has the key nil.
    private var listeners: [String?: Listener] = [:]
    private var latest: TaskProgress?
    private var isOver: Bool

    /// - Parameter isOver: for a task that has ended: no handler is called any more.
    init(isOver: Bool = false) { self.isOver = isOver }

    /// - Parameter name: nil for the program's own handler, of which there is one.
    package func setHandler(_ handler: Handler?, on queue: CallbackQueue, name: String? = nil) {
        let listener = handler.map { Listener(handler: $0, queue: queue) }
        // The old handler is freed without the lock, since that may run code of the program.
        let old = lock.withLock { exchange(&listeners[name], with: isOver ? nil : listener) }
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
        let due: [(String?, CallbackQueue)] = lock.withLock {
            guard !listeners.isEmpty else { return [] }
            latest = progress
            let due = listeners.compactMap { name, listener in listener.isPlanned ? nil : (name, listener.queue) }
            for (name, _) in due { listeners[name]?.isPlanned = true }
            return due
        }
        for (name, queue) in due { queue.enqueue { [self] in deliver(to: name) } }
    }

    private func deliver(to name: String?) {
        let (progress, handler) = lock.withLock {
            listeners[name]?.isPlanned = false
            let handler = listeners[name]?.handler
            if isOver { listeners[name] = nil }
            return (latest, handler)
        }
        if let progress { handler?(progress) }
    }
}
