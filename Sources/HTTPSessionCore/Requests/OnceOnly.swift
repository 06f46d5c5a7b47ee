// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Returns true for the first call, on any thread.
///
/// `@unchecked Sendable`: `isTaken` is behind `lock`.
final class OnceOnly: @unchecked Sendable {
    private let lock = PosixLock()
    private var isTaken = false

    func claim() -> Bool {
        lock.withLock {
            defer { isTaken = true }
            return !isTaken
        }
    }
}
