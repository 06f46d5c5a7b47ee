import IOCore

/// The room that a store has for bodies that are on their way, in bytes.
///
/// A body whose length is known takes its room at the beginning, so that what is said of it at its head comes true; another
/// one takes it piece by piece. A transfer that stands still must not keep all others out: where there is no room, those
/// that have come no further for a while lose theirs, the one that stands longest first.
///
/// `@unchecked Sendable`: everything that changes, that of the shares too, is behind `lock`, which is held while nothing
/// else is called.
final class TransitBudget: @unchecked Sendable {
    /// The room of one body.
    final class Share: @unchecked Sendable {
        // Behind the budget's lock.
        fileprivate var bytes: Int
        /// The bytes of the body that have come, and their number when the time was last taken.
        fileprivate var received = 0
        fileprivate var receivedAtMark = 0
        fileprivate var mark: UInt64
        /// Its index among the shares; nil when its room is given back.
        fileprivate var index: Int?

        fileprivate let revoke: @Sendable () -> Void

        fileprivate init(_ bytes: Int, now: UInt64, _ revoke: @escaping @Sendable () -> Void) {
            self.bytes = bytes
            mark = now
            self.revoke = revoke
        }
    }

    /// In bytes.
    let capacity: Int
    /// How long a transfer may stand still, in nanoseconds.
    private let patience: UInt64
    /// So many bytes more are a step: one that takes longer for them stands still.
    private static let step = 64 << 10

    private let lock = PosixLock()
    // Behind `lock`.
    private var taken = 0
    private var shares: [Share] = []

    /// - Parameters:
    ///   - capacity: in bytes.
    ///   - patience: how long a transfer may stand still before others may have its room, in nanoseconds.
    init(capacity: Int, patience: UInt64) {
        self.capacity = capacity
        self.patience = patience
    }

    /// How much is taken, in bytes.
    var used: Int { lock.withLock { taken } }

    /// Begins with a body.
    ///
    /// - Parameters:
    ///   - length: of the body; nil where it is not known.
    ///   - revoke: is called once at most, on any thread: another body has the room from now on.
    /// - Returns: nil where there is no room.
    func begin(length: Int?, now: UInt64, revoke: @escaping @Sendable () -> Void) -> Share? {
        let share = Share(length ?? 0, now: now, revoke)
        let (hasRoom, revoked) = lock.withLock {
            let revoked = makeRoom(for: length ?? 1, now: now)
            guard taken + (length ?? 1) <= capacity else { return (false, revoked) }
            taken += share.bytes
            share.index = shares.count
            shares.append(share)
            return (true, revoked)
        }
        for share in revoked { share.revoke() }
        return hasRoom ? share : nil
    }

    /// A piece of the body has come.
    ///
    /// - Returns: false where there is no room for it, or the share's own has been given to another.
    func consume(_ count: Int, for share: Share, now: UInt64) -> Bool {
        let (hasRoom, revoked) = lock.withLock {
            guard share.index != nil else { return (false, [Share]()) }
            share.received += count
            if share.received - share.receivedAtMark >= Self.step {
                share.receivedAtMark = share.received
                share.mark = now
            }
            let more = max(0, share.received - share.bytes)
            guard more > 0 else { return (true, []) }
            let revoked = makeRoom(for: more, now: now, sparing: share)
            guard taken + more <= capacity else { return (false, revoked) }
            share.bytes += more
            taken += more
            return (true, revoked)
        }
        for share in revoked { share.revoke() }
        return hasRoom
    }

    /// The body has ended, or was given up.
    func end(_ share: Share) { lock.withLock { remove(share) } }

    /// Behind the lock.
    private func makeRoom(for count: Int, now: UInt64, sparing share: Share? = nil) -> [Share] {
        guard taken + count > capacity, count <= capacity else { return [] }
        var standing = shares.filter { $0 !== share && $0.bytes > 0 && now >= $0.mark && now - $0.mark >= patience }
        // No share is taken where all of them together are not enough.
        guard taken + count - standing.reduce(0, { $0 + $1.bytes }) <= capacity else { return [] }
        standing.sort { $0.mark < $1.mark }
        var revoked: [Share] = []
        for share in standing where taken + count > capacity {
            remove(share)
            revoked.append(share)
        }
        return revoked
    }

    /// Behind the lock.
    private func remove(_ share: Share) {
        guard let index = share.index else { return }
        share.index = nil
        taken -= share.bytes
        let last = shares.removeLast()
        if last !== share {
            shares[index] = last
            last.index = index
        }
    }
}
