// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A thread for blocking work, which starts with its first work and does one piece after the other. It ends with this
/// object, or with `stop`.
///
/// `@unchecked Sendable`: `lock` guards `state`.
package final class WorkThread: @unchecked Sendable {
    private enum State {
        case notStarted
        case running(EventLoop, LoopThread)
        case stopped
    }

    private let name: String
    private let nice: Int32
    private let lock = PosixLock()
    private var state = State.notStarted

    /// - Parameters:
    ///   - name: of the thread; at most 15 bytes are shown by the system.
    ///   - nice: how far it gives way to other threads for the processors: added to its nice value, at most 19 (sched(7)).
    package init(name: String, nice: Int32 = 0) {
        self.name = name
        self.nice = nice
    }

    /// A thread that starts now.
    package init(starting name: String) throws(IOFailure) {
        self.name = name
        nice = 0
        _ = try startedLoop()
    }

    deinit {
        guard case .running(let loop, let thread) = state else { return }
        loop.stop()
        thread.detach()
    }

    /// Submits work, which is done in the order of the calls.
    ///
    /// - Returns: false when the thread was stopped or cannot be started; the work is dropped then.
    @discardableResult
    package func submit(_ work: @escaping @Sendable () -> Void) -> Bool {
        guard let loop = lock.withLock({ try? startedLoop() }) else { return false }
        loop.submit(work)
        return true
    }

    /// Called with the lock held.
    private func startedLoop() throws(IOFailure) -> EventLoop? {
        switch state {
        case .running(let loop, _): return loop
        case .stopped: return nil
        case .notStarted:
            let loop = try EventLoop()
            let thread = try LoopThread(name: name) { [nice] in
                // On Linux each thread has a nice value of its own (nice(2), C library/kernel differences).
                if nice > 0 { _ = Glibc.nice(nice) }
                loop.run()
            }
            state = .running(loop, thread)
            return loop
        }
    }

    /// Waits for the work that is being done, and drops the rest. No work is accepted afterwards.
    package func stop() {
        let former = lock.withLock {
            defer { state = .stopped }
            return state
        }
        guard case .running(let loop, let thread) = former else { return }
        loop.stop()
        thread.join()
    }
}
