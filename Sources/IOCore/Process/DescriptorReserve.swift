import Glibc
import Synchronization

/// The last descriptors that the system lets this process have: connections leave them alone, so that an admin listener, logs
/// and files find one when clients take all that they can get.
///
/// The kernel always gives the lowest number that is free. One in the reserve says that all below it are taken: nothing
/// needs to be counted, and what a library opens is taken into account.
package enum DescriptorReserve {
    private static let first = Atomic<Int32>(.max)

    /// Sets the reserve: all numbers from this one on.
    package static func start(at number: Int) { first.store(Int32(clamping: number), ordering: .relaxed) }

    /// Whether a descriptor that was just opened is of the reserve.
    package static func holds(_ descriptor: Int32) -> Bool { descriptor >= first.load(ordering: .relaxed) }
}

/// How the descriptors that the system allows (getrlimit(2)) are shared out.
package struct DescriptorShares: Equatable, Sendable {
    /// The soft limit.
    package let limit: Int
    /// The number of descriptors set apart for the admin listener, logs and files.
    package let reserve: Int
    /// Idle connections to origins that each worker may keep.
    package let idleOrigins: Int
    /// Client connections, each of which may need one to its origin.
    package let clients: Int

    /// - Parameters:
    ///   - limit: of open files.
    ///   - opened: how many are open before the first connection.
    ///   - workers: loops that keep idle connections.
    package init(limit: Int, opened: Int, workers: Int) {
        self.limit = limit
        reserve = min(max(16, limit / 8), 128)
        idleOrigins = max(1, limit / (16 * max(1, workers)))
        clients = max(1, (limit - reserve - opened - idleOrigins * workers) / 2)
    }

    /// The first number of the reserve.
    package var firstReserved: Int { limit - reserve }
}
