import Glibc
import Synchronization

/// The highest descriptors that this process may open. Connections do not use them, so that the admin listener, logs
/// and files can still open one when clients exhaust the others.
///
/// The kernel always assigns the lowest free number. A descriptor in the reserve therefore means that all lower numbers
/// are in use: no count is needed, and descriptors of libraries are included.
package enum DescriptorReserve {
    private static let first = Atomic<Int32>(.max)

    /// Sets the first number of the reserve.
    package static func start(at number: Int) { first.store(Int32(clamping: number), ordering: .relaxed) }

    /// Whether a new descriptor belongs to the reserve.
    package static func holds(_ descriptor: Int32) -> Bool { descriptor >= first.load(ordering: .relaxed) }
}

/// The division of the permitted descriptors (getrlimit(2)).
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
    ///   - opened: the number of open descriptors before the first connection.
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
