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
    private let lock = PosixLock()
    private var state = State.notStarted

    /// - Parameter name: of the thread; at most 15 bytes are shown by the system.
    package init(name: String) { self.name = name }

    /// A thread that starts now.
    package init(starting name: String) throws(IOFailure) {
        self.name = name
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
            state = .running(loop, try LoopThread(name: name) { loop.run() })
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
