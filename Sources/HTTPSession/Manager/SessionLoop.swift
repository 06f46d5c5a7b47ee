import IOCore
public import SessionCore

/// An event loop on a thread of its own, for the tasks of one session, or of several that shall share a thread.
///
/// The thread ends when nobody holds the value any more.
///
/// `@unchecked Sendable`: `isJoined` is behind `lock`; all else is immutable.
public final class SessionLoop: @unchecked Sendable {
    let loop: EventLoop
    private let thread: LoopThread
    private let lock = PosixLock()
    private var isJoined = false

    /// Starts the thread.
    ///
    /// - Parameter name: for the system's lists of threads; 15 bytes of it are shown.
    /// - Throws: `internal` when the system has no more threads or descriptors.
    public init(name: String = "SessionCore") throws(SessionError) {
        do {
            let loop = try EventLoop()
            self.loop = loop
            thread = try LoopThread(name: name) { loop.run() }
        } catch {
            throw SessionError(.internal, "A session's thread could not be started: \(error).")
        }
    }

    deinit {
        // What a loop is given after its end it keeps, and that would be itself.
        guard !isJoined else { return }
        // Behind all that has been handed over.
        loop.submit { [loop] in loop.stop() }
        thread.detach()
    }

    /// Ends the thread and waits for its end. Not from the thread itself.
    func stopAndJoin() {
        let isFirst = lock.withLock {
            defer { isJoined = true }
            return !isJoined
        }
        guard isFirst else { return }
        loop.submit { [loop] in loop.stop() }
        thread.join()
    }
}
