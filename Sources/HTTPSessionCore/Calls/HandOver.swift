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

/// Waits for a value that another thread gives.
///
/// A continuation that is resumed before it is awaited passes its value by atomic operations of Swift's runtime, which
/// ThreadSanitizer does not see; so the value goes behind a lock.
///
/// - Parameter begin: is given what takes the value, to be called once.
func handedOver<Value>(
    isolation: isolated (any Actor)? = #isolation,
    _ begin: (@escaping @Sendable (sending Value) -> Void) -> Void
) async -> sending Value {
    let box = HandOver<Value>()
    await withCheckedContinuation { continuation in
        begin { value in
            box.put(value)
            continuation.resume()
        }
    }
    return box.consume()
}
