// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A store's budget for bodies in transit, in bytes.
///
/// A body with a known length reserves its share at the beginning, so that the decision at its head remains valid;
/// other bodies reserve piece by piece. Stalled transfers must not block all others: when there is no space, transfers
/// without progress for a while lose their shares, the one that has stalled longest first.
///
/// `@unchecked Sendable`: `lock` guards all mutable state, that of the shares included, and is never held during other
/// calls.
final class TransitBudget: @unchecked Sendable {
    /// The share of one body.
    final class Share: @unchecked Sendable {
        // Behind the budget's lock.
        fileprivate var bytes: Int
        /// The received bytes of the body, and their number at the last time stamp.
        fileprivate var received = 0
        fileprivate var receivedAtMark = 0
        fileprivate var mark: UInt64
        /// Its index among the shares; nil when it was released.
        fileprivate var index: Int?

        /// It is complete, and no other body may have it.
        fileprivate var isPinned = false
        fileprivate let revoke: @Sendable () -> Void

        fileprivate init(_ bytes: Int, now: UInt64, _ revoke: @escaping @Sendable () -> Void) {
            self.bytes = bytes
            mark = now
            self.revoke = revoke
        }
    }

    /// *The capacity in bytes.
    let capacity: Int
    /// The time after which a transfer counts as stalled, in nanoseconds.
    private let patience: UInt64
    /// A transfer counts as stalled when it receives fewer bytes than this within that time.
    private static let step = 64 << 10

    private let lock = PosixLock()
    // Behind `lock`. Never more than the capacity: `capacity - taken` is what is left, and a length, which a peer chooses, is
    // compared with it and added only then.
    private var taken = 0
    private var shares: [Share] = []

    /// - Parameters:
    ///   - capacity: in bytes.
    ///   - patience: how long a transfer may stall before others may get its share, in nanoseconds.
    init(capacity: Int, patience: UInt64) {
        self.capacity = capacity
        self.patience = patience
    }

    /// The reserved space, in bytes.
    var used: Int { lock.withLock { taken } }

    /// Reserves a share for a body.
    ///
    /// - Parameters:
    ///   - length: the length of the body; nil when unknown.
    ///   - revoke: is called at most once, on any thread, when another body gets the share.
    /// - Returns: nil when there is no space.
    func begin(length: Int?, now: UInt64, revoke: @escaping @Sendable () -> Void) -> Share? {
        let share = Share(length ?? 0, now: now, revoke)
        let (hasRoom, revoked) = lock.withLock {
            let revoked = makeRoom(for: length ?? 1, now: now)
            guard length ?? 1 <= capacity - taken else { return (false, revoked) }
            taken += share.bytes
            share.index = shares.count
            shares.append(share)
            return (true, revoked)
        }
        for share in revoked { share.revoke() }
        return hasRoom ? share : nil
    }

    /// Accounts for a piece of the body.
    ///
    /// - Returns: false when there is no space for it, or when the share was revoked.
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
            guard more <= capacity - taken else { return (false, revoked) }
            share.bytes += more
            taken += more
            return (true, revoked)
        }
        for share in revoked { share.revoke() }
        return hasRoom
    }

    /// Keeps the share of a complete body from being revoked, until its end.
    func pin(_ share: Share) { lock.withLock { share.isPinned = true } }

    /// Releases the share of a body that has ended or was given up.
    func end(_ share: Share) { lock.withLock { remove(share) } }

    /// Behind the lock.
    private func makeRoom(for count: Int, now: UInt64, sparing share: Share? = nil) -> [Share] {
        guard count > capacity - taken, count <= capacity else { return [] }
        var standing = shares.filter {
            $0 !== share && !$0.isPinned && $0.bytes > 0 && now >= $0.mark && now - $0.mark >= patience
        }
        // No share is revoked if all stalled ones together would not suffice.
        guard count <= capacity - (taken - standing.reduce(0) { $0 + $1.bytes }) else { return [] }
        standing.sort { $0.mark < $1.mark }
        var revoked: [Share] = []
        for share in standing where count > capacity - taken {
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
