/// A thread for blocking work, which starts with its first work and does one piece after the other.
///
/// `@unchecked Sendable`: `lock` guards `state`.
package final class WorkThread: @unchecked Sendable {
    private enum State {
        case notStarted
        case running(EventLoop, LoopThread)
        case stopped
    }

    private let name: String
    private let lock = PosixLock()
    private var state = State.notStarted

    /// - Parameter name: of the thread; at most 15 bytes are shown by the system.
    package init(name: String) { self.name = name }

    /// Submits work, which is done in the order of the calls.
    ///
    /// - Returns: false when the thread was stopped or cannot be started; the work is dropped then.
    @discardableResult
    package func submit(_ work: @escaping @Sendable () -> Void) -> Bool {
        guard let loop = startedLoop() else { return false }
        loop.submit(work)
        return true
    }

    private func startedLoop() -> EventLoop? {
        lock.withLock {
            switch state {
            case .running(let loop, _): return loop
            case .stopped: return nil
            case .notStarted:
                guard let loop = try? EventLoop(), let thread = try? LoopThread(name: name, { loop.run() }) else {
                    return nil
                }
                state = .running(loop, thread)
                return loop
            }
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
