import Synchronization

/// What the workers share: how many client connections there are, and a thread that waits for the disk.
final class ServerState: Sendable {
    private let count = Atomic<Int>(0)
    let files = FileThread()

    /// Counts a connection in, unless the limit is reached.
    func admit(limit: Int) -> Bool {
        if count.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
        count.wrappingSubtract(1, ordering: .relaxed)
        return false
    }

    func release() {
        count.wrappingSubtract(1, ordering: .relaxed)
    }

    var connections: Int { count.load(ordering: .relaxed) }
}
