import IOCore

/// Hands one value, of whatever type, from the one who makes it to the one who takes it.
///
/// `@unchecked Sendable`: `value` is behind `lock`, was sent in and is sent out, and nobody keeps it here.
final class HandOver<Value>: @unchecked Sendable {
    private let lock = PosixLock()
    private var value: Value?

    func put(_ value: sending Value) {
        lock.lock()
        defer { lock.unlock() }
        self.value = value
    }

    /// What was put, once.
    func consume() -> sending Value {
        lock.lock()
        defer { lock.unlock() }
        guard let taken = value else { preconditionFailure("taken before it was put, or twice") }
        value = nil
        nonisolated(unsafe) let sent = taken
        return sent
    }
}
