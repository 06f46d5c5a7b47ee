import IOCore

/// True for the first who asks, on whatever thread.
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
