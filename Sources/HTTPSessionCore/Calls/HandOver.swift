// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Passes one value of any type from its producer to its consumer.
///
/// `@unchecked Sendable`: `value` is accessed with `lock` held; it was sent in, is sent out, and no reference to it
/// stays here.
final class HandOver<Value>: @unchecked Sendable {
    private let lock = PosixLock()
    private var value: Value?

    func put(_ value: sending Value) {
        lock.lock()
        defer { lock.unlock() }
        self.value = value
    }

    /// Returns the value, once.
    func consume() -> sending Value {
        lock.lock()
        defer { lock.unlock() }
        guard let taken = value else { preconditionFailure("taken before it was put, or twice") }
        value = nil
        nonisolated(unsafe) let sent = taken
        return sent
    }
}
