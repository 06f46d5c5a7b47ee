import IOCore
import Synchronization

/// What the workers share: how many client connections there are, how many of them drain, and a thread that waits for the disk.
final class ServerState: Sendable {
    private let count = Atomic<Int>(0)
    private let drains = Atomic<Int>(0)
    let files = FileThread()
    /// How many descriptors connections may have, and which.
    let descriptors: DescriptorShares

    init(descriptors: DescriptorShares) {
        self.descriptors = descriptors
    }

    /// Counts a connection in, unless the limit is reached, or the one that the descriptors set.
    func admit(limit: Int) -> Bool {
        let limit = min(limit, descriptors.clients)
        if count.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
        count.wrappingSubtract(1, ordering: .relaxed)
        return false
    }

    func release() {
        count.wrappingSubtract(1, ordering: .relaxed)
    }

    var connections: Int { count.load(ordering: .relaxed) }

    /// A worker takes no new connections any more, and has counted in what waited for it.
    func noteDrain() { drains.wrappingAdd(1, ordering: .releasing) }

    /// Workers that take no new connections.
    var drainingWorkers: Int { drains.load(ordering: .acquiring) }
}
