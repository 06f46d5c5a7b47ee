// SPDX-License-Identifier: Apache-2.0
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

/// The share of the process's descriptors that bodies of a cache may take: clients decide how many files are open, and
/// they must leave connections and logs theirs.
package enum FileShare {
    private static let limit = Atomic<Int>(.max)
    private static let taken = Atomic<Int>(0)

    /// Sets the number of files; unlimited before.
    package static func start(_ count: Int) { limit.store(count, ordering: .relaxed) }

    fileprivate static func take() -> Bool {
        if taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit.load(ordering: .relaxed) { return true }
        giveBack()
        return false
    }

    fileprivate static func giveBack() { taken.wrappingSubtract(1, ordering: .relaxed) }
}

/// An open file of a cache, within the share of these. Closed at its end.
package struct SharedFile: ~Copyable, Sendable {
    package let descriptor: Int32

    /// Opens a regular path (open(2)), with O_CLOEXEC, O_NOFOLLOW, and O_NONBLOCK, so that a FIFO in its place is opened
    /// at once, too. A share that is used up is an EMFILE.
    package init(_ path: String, _ flags: Int32, mode: UInt32 = 0) throws(IOFailure) {
        descriptor = try Self.open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode)
    }

    private static func open(_ path: String, _ flags: Int32, _ mode: UInt32) throws(IOFailure) -> Int32 {
        guard FileShare.take() else { throw IOFailure(code: EMFILE, during: "open") }
        let descriptor = Glibc.open(path, flags, mode)
        guard descriptor < 0 else { return descriptor }
        let code = errno
        FileShare.giveBack()
        throw IOFailure(code: code, during: "open")
    }

    deinit {
        close(descriptor)
        FileShare.giveBack()
    }
}

extension IOFailure {
    /// Whether the process or the system has no descriptor left: the file may be as it should be.
    package var isWantOfDescriptor: Bool { code == EMFILE || code == ENFILE }
}

/// The division of the permitted descriptors (getrlimit(2)).
package struct DescriptorShares: Equatable, Sendable {
    /// The soft limit.
    package let limit: Int
    /// The number of descriptors set apart for the admin listener, logs and files.
    package let reserve: Int
    /// Idle connections to origins that each worker may keep.
    package let idleOrigins: Int
    /// Files of bodies in a cache on the disk (`FileShare`).
    package let files: Int
    /// Client connections, each of which may need one to its origin.
    package let clients: Int

    /// - Parameters:
    ///   - limit: of open files.
    ///   - opened: the number of open descriptors before the first connection.
    ///   - workers: loops that keep idle connections.
    ///   - hasFiles: whether there is a cache on the disk.
    package init(limit: Int, opened: Int, workers: Int, hasFiles: Bool = false) {
        self.limit = limit
        reserve = min(max(16, limit / 8), 128)
        idleOrigins = max(1, limit / (16 * max(1, workers)))
        files = max(4, limit / 8)
        clients = max(1, (limit - reserve - opened - idleOrigins * workers - (hasFiles ? files : 0)) / 2)
    }

    /// The first number of the reserve.
    package var firstReserved: Int { limit - reserve }
}
