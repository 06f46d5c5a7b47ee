// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The first of several outcomes, for one waiting task.
///
/// `@unchecked Sendable`: what changes is behind `lock`.
final class FirstOutcome<Value: Sendable>: @unchecked Sendable {
    private let lock = PosixLock()
    private var outcome: Result<Value, any Error>?
    private var waiting: CheckedContinuation<Value, any Error>?

    /// Sets the outcome; later calls have no effect.
    func resolve(_ result: Result<Value, any Error>) {
        let waiting: CheckedContinuation<Value, any Error>? = lock.withLock {
            guard outcome == nil else { return nil }
            outcome = result
            defer { self.waiting = nil }
            return self.waiting
        }
        waiting?.resume(with: result)
    }

    /// Waits for the outcome. It must be called only once.
    func value() async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let known = lock.withLock {
                if outcome == nil { waiting = continuation }
                return outcome
            }
            if let known { continuation.resume(with: known) }
        }
    }
}
