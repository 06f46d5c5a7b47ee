// SPDX-License-Identifier: Apache-2.0
import IOCore
import Synchronization

/// The revocation lists that were fetched: shared by the handshakes of all threads and by what fetches them. Every list in it
/// has been read and verified with the key of its issuer.
///
/// One lock guards all of it, and is held for a look-up or a replacement, never while a list is read.
package final class RevocationListStore: Sendable {
    /// The bounds of what is held in memory.
    package struct Limits: Sendable {
        package var lists = 256
        package var bytes = 256 << 20

        package init() {}
    }

    private struct Entry {
        var list: RevocationList
        /// Seconds since 1970.
        var lastUse: Int64
    }

    private let limits: Limits
    private let entries = Locked<[RevocationListNeed.Key: Entry]>([:])
    private let changes = Atomic<UInt64>(0)

    package init(limits: Limits = Limits()) { self.limits = limits }

    /// It increases with each list that is replaced or goes, so that a verdict can tell whether it still rests on the same ones.
    var generation: UInt64 { changes.load(ordering: .acquiring) }

    /// A list that is held, in force or not.
    ///
    /// - Parameter now: seconds since 1970 of a use in a handshake; nil does not count as one.
    package func list(for key: RevocationListNeed.Key, usedAt now: Int64?) -> RevocationList? {
        entries.withLock { entries in
            if let now { entries[key]?.lastUse = now }
            return entries[key]?.list
        }
    }

    /// Holds a list that `RevocationListNeed.read` has accepted.
    ///
    /// - Returns: the keys of the lists that had to make room: those that were not used for the longest time. The new one may be
    ///   among them.
    package func hold(
        _ list: RevocationList,
        for key: RevocationListNeed.Key,
        at now: Int64
    ) -> [RevocationListNeed.Key] {
        let dropped = entries.withLock { entries in
            entries[key] = Entry(list: list, lastUse: entries[key]?.lastUse ?? now)
            var dropped: [RevocationListNeed.Key] = []
            var bytes = entries.values.reduce(0) { $0 + $1.list.byteCount }
            while entries.count > limits.lists || bytes > limits.bytes,
                let oldest = entries.min(by: { ($0.value.lastUse, $0.key) < ($1.value.lastUse, $1.key) })
            {
                bytes -= oldest.value.list.byteCount
                entries[oldest.key] = nil
                dropped.append(oldest.key)
            }
            return dropped
        }
        changes.add(1, ordering: .releasing)
        return dropped
    }

    /// Drops the lists that no handshake has used since then.
    ///
    /// - Parameter then: seconds since 1970.
    /// - Returns: their keys.
    package func dropUnused(since then: Int64) -> [RevocationListNeed.Key] {
        let dropped = entries.withLock { entries in
            let unused = entries.filter { $0.value.lastUse < then }.map(\.key)
            for key in unused { entries[key] = nil }
            return unused
        }
        if !dropped.isEmpty { changes.add(1, ordering: .releasing) }
        return dropped
    }

    /// Figures for people and metrics.
    package struct Figures: Sendable {
        /// Lists that are in force, and lists whose end is over.
        package var current = 0
        package var expired = 0
        package var bytes = 0

        package init() {}
    }

    /// - Parameter now: seconds since 1970.
    package func figures(at now: Int64) -> Figures {
        entries.withLock { entries in
            var figures = Figures()
            for entry in entries.values {
                if entry.list.nextUpdate > now { figures.current += 1 } else { figures.expired += 1 }
                figures.bytes += entry.list.byteCount
            }
            return figures
        }
    }
}

extension RevocationListNeed {
    /// Whether a list is held that decides about the certificate.
    ///
    /// - Parameter now: seconds since 1970.
    package func isMet(by store: RevocationListStore, at now: Int64) -> Bool {
        guard let list = store.list(for: key, usedAt: nil) else { return false }
        return list.objection(to: certificate, issuer: issuer, at: now) == nil
    }
}

/// What a verdict has taken from a store: that these certificates are not revoked.
final class RevocationRecord: Sendable {
    private let store: RevocationListStore
    private let needs: [RevocationListNeed]
    private let checked: Atomic<UInt64>

    /// - Parameter generation: of the store, before the lists were asked.
    init(_ store: RevocationListStore, needs: [RevocationListNeed], generation: UInt64) {
        self.store = store
        self.needs = needs
        checked = Atomic(generation)
    }

    /// Whether the lists that are held now say the same. Without a change since the last call that is one comparison.
    var holds: Bool {
        let generation = store.generation
        if checked.load(ordering: .relaxed) == generation { return true }
        let isRevoked = needs.contains { store.list(for: $0.key, usedAt: nil)?.revokes($0.certificate) ?? false }
        guard !isRevoked else { return false }
        checked.store(generation, ordering: .relaxed)
        return true
    }
}
