// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import Synchronization

/// The number of a worker's client connections, which the other workers compare with their own.
final class WorkerLoad: Sendable {
    private let connections = Atomic<Int>(0)
    /// How many connections are on their way here, and since when none has come.
    private let coming = Atomic<Int>(0)
    private let progress = Atomic<UInt64>(0)

    var count: Int { connections.load(ordering: .relaxed) }

    func add() { connections.wrappingAdd(1, ordering: .relaxed) }

    /// A connection that another worker has accepted is on its way here.
    ///
    /// - Parameter now: nanoseconds of the system's monotonic clock, which all loops have.
    func addComing(at now: UInt64) {
        add()
        if coming.wrappingAdd(1, ordering: .relaxed).oldValue == 0 { progress.store(now, ordering: .relaxed) }
    }

    /// It has come.
    func removeComing(at now: UInt64) {
        progress.store(now, ordering: .relaxed)
        coming.wrappingSubtract(1, ordering: .relaxed)
    }

    /// Whether connections are on their way, and none has come for so long.
    func isHeldUp(for limit: TimeSpan, at now: UInt64) -> Bool {
        guard coming.load(ordering: .relaxed) > 0 else { return false }
        let since = progress.load(ordering: .relaxed)
        return now > since && now - since > limit.nanoseconds
    }

    func remove() { connections.wrappingSubtract(1, ordering: .relaxed) }
}

/// A descriptor on its way to the worker that serves it, closed if it does not get there.
///
/// `@unchecked Sendable` because one thread after the other has it: the one that accepted it, then the loop that it was
/// submitted to, or the thread that drops the loop's submitted work.
final class AcceptedConnection: @unchecked Sendable {
    let address: SocketAddress
    private var descriptor: Int32

    init(_ descriptor: Int32, _ address: SocketAddress) {
        self.descriptor = descriptor
        self.address = address
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Gives the descriptor away.
    func take() -> Int32 {
        defer { descriptor = -1 }
        return descriptor
    }
}
