// SPDX-License-Identifier: Apache-2.0
import IOCore
public import SessionCore

/// An event loop on a thread of its own, for one session, or for several sessions that share a thread.
///
/// The thread ends when the last reference is released.
///
/// `@unchecked Sendable`: `isJoined` is behind `lock`; all else is immutable.
public final class SessionLoop: @unchecked Sendable {
    let loop: EventLoop
    private let thread: LoopThread
    private let lock = PosixLock()
    private var isJoined = false

    /// Starts the thread.
    ///
    /// - Parameter name: the thread's name for the system, which shows 15 bytes of it.
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
        // A loop keeps work that is submitted after its end; here that work would retain the loop itself.
        guard !isJoined else { return }
        // The stop is the last work of the loop.
        loop.submit { [loop] in loop.stop() }
        thread.detach()
    }

    /// Ends the thread and waits for its end. Not to be called on that thread.
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
