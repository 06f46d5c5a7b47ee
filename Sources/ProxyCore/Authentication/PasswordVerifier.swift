import CShims
import IOCore
import Synchronization

/// Verifies passwords against their hashes on a thread of its own: hashing is slow on purpose, and must not block a
/// loop.
///
/// One verification runs at a time, and few may wait: clients that guess passwords are slowed down, and use at most one
/// core.
///
/// `@unchecked Sendable`: the one property that changes and is not atomic is touched behind its lock alone.
final class PasswordVerifier: @unchecked Sendable {
    /// The largest number of waiting verifications.
    static let queueLimit = 32

    private struct Running: Sendable {
        let loop: EventLoop
        let thread: LoopThread
    }

    private enum State: Sendable {
        case notStarted
        case running(Running)
        case stopped
    }

    /// The thread starts with the first password. Behind `lock`, which each verification takes once; ThreadSanitizer
    /// knows this lock.
    private var state = State.notStarted
    private let lock = PosixLock()
    private let waiting = Atomic<Int>(0)

    /// - Parameter then: receives on the verifier's thread whether the password matches the hash.
    /// - Returns: false when the password cannot be verified now; `then` is not called.
    func verify(_ password: [UInt8], _ hash: String, then: @escaping @Sendable (Bool) -> Void) -> Bool {
        guard waiting.wrappingAdd(1, ordering: .relaxed).newValue <= Self.queueLimit, let loop = loop() else {
            waiting.wrappingSubtract(1, ordering: .relaxed)
            return false
        }
        loop.submit { [self] in
            let isRight = Self.matches(password, hash)
            waiting.wrappingSubtract(1, ordering: .relaxed)
            then(isRight)
        }
        return true
    }

    static func matches(_ password: [UInt8], _ hash: String) -> Bool {
        // In C the password would end at the first zero byte.
        let isWhole = !password.contains(0)
        let matches = pinproxy_password_matches(password.map { CChar(bitPattern: $0) } + [0], hash)
        return isWhole && matches
    }

    private func loop() -> EventLoop? {
        lock.withLock {
            switch state {
            case .running(let running): return running.loop
            case .stopped: return nil
            case .notStarted:
                guard let loop = try? EventLoop(), let thread = try? LoopThread(name: "passwords", { loop.run() })
                else {
                    return nil
                }
                state = .running(Running(loop: loop, thread: thread))
                return loop
            }
        }
    }

    /// Waits for the current verification. Nothing is verified afterwards.
    func stop() {
        let former = lock.withLock {
            defer { state = .stopped }
            return state
        }
        guard case .running(let running) = former else { return }
        running.loop.stop()
        running.thread.join()
    }
}
