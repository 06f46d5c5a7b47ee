// SPDX-License-Identifier: Apache-2.0
import CShims
import IOCore
import Synchronization

/// Verifies passwords against their hashes on a separate thread, because the hashes are slow on purpose and must not
/// delay a loop. The thread starts with the first password.
///
/// Passwords are verified one at a time, and few may wait, so that guessing is slow and uses at most one core.
final class PasswordVerifier: Sendable {
    /// The largest number of passwords that wait.
    static let queueLimit = 32

    /// It gives way to the loops: a hash takes a processor for 50 ms and more, and there may be only one.
    private let thread = WorkThread(name: "passwords", nice: 10)
    private let waiting = Atomic<Int>(0)

    /// - Parameter then: called on the verifier's thread, with whether the password matches the hash.
    /// - Returns: false when it cannot be verified now; `then` is not called then.
    func verify(_ password: [UInt8], _ hash: String, then: @escaping @Sendable (Bool) -> Void) -> Bool {
        let isTaken =
            waiting.wrappingAdd(1, ordering: .relaxed).newValue <= Self.queueLimit
            && thread.submit { [self] in
                let isRight = Self.matches(password, hash)
                waiting.wrappingSubtract(1, ordering: .relaxed)
                then(isRight)
            }
        if !isTaken { waiting.wrappingSubtract(1, ordering: .relaxed) }
        return isTaken
    }

    static func matches(_ password: [UInt8], _ hash: String) -> Bool {
        // C would end the password at its first NUL.
        let isWhole = !password.contains(0)
        let matches = pinproxy_password_matches(password.map { CChar(bitPattern: $0) } + [0], hash)
        return isWhole && matches
    }

    /// Waits for the password that is being verified. No password is verified afterwards.
    func stop() { thread.stop() }
}
