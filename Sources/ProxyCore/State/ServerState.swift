// SPDX-License-Identifier: Apache-2.0
import IOCore
import Synchronization

/// State that the workers share: the number of client connections, the number of draining workers, and the thread for
/// files.
final class ServerState: Sendable {
    private let count = Atomic<Int>(0)
    private let drains = Atomic<Int>(0)
    let files = FileThread()
    /// The threads for the TLS handshakes with clients and origins.
    let handshakes = FairThreads(forHandshakes: ())
    /// The descriptors that connections may use.
    let descriptors: DescriptorShares
    /// The bytes that clients and origins may make the process hold.
    let heldBytes: HeldBytesBudget

    init(descriptors: DescriptorShares, heldBytes: Int) {
        self.descriptors = descriptors
        self.heldBytes = HeldBytesBudget(limit: heldBytes)
    }

    /// Counts a new connection, unless the limit or the number of descriptors is reached.
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

    /// A worker has stopped accepting, and has counted the connections that were waiting for it.
    func noteDrain() { drains.wrappingAdd(1, ordering: .releasing) }

    /// The number of workers that have stopped accepting.
    var drainingWorkers: Int { drains.load(ordering: .acquiring) }
}
