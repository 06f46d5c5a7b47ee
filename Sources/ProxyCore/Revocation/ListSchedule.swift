// SPDX-License-Identifier: Apache-2.0
/// When which revocation list is fetched, as a value: without a clock, random numbers and sockets. Times are milliseconds that
/// only grow.
struct ListSchedule<Key: Hashable & Sendable>: Sendable {
    private struct Entry: Sendable {
        /// The next fetch in the background.
        var due: Int64
        var isUnderWay = false
        /// A connection waits for the list.
        var isWanted = false
        var wantedAt: Int64
        /// The start of the last fetch that failed, and why; nil after a success.
        var failedAt: Int64?
        var fault = ""
        var failures = 0
        /// In the order in which the lists became known, so that each has its turn.
        let number: Int
    }

    private let limits: ListFetchLimits
    private var entries: [Key: Entry] = [:]
    private var lastNumber = 0
    /// The time between two fetches of a list.
    var every: Int64

    init(every: Int64, limits: ListFetchLimits = ListFetchLimits()) {
        self.every = every
        self.limits = limits
    }

    /// The number of lists that are known.
    var count: Int { entries.count }

    /// What becomes of a connection that lacks a list.
    enum Demand: Equatable {
        /// The list is fetched now, or already.
        case wait
        /// It was not to be had a short time ago.
        case refuse(fault: String)
    }

    mutating func want(_ key: Key, at now: Int64) -> Demand {
        if entries[key] == nil {
            guard makeRoom() else { return .refuse(fault: "\(limits.known) other lists are fetched already") }
            lastNumber += 1
            entries[key] = Entry(due: .max, wantedAt: now, number: lastNumber)
        }
        guard var entry = entries[key] else { return .refuse(fault: "") }
        entry.wantedAt = now
        defer { entries[key] = entry }
        if entry.isUnderWay { return .wait }
        if let failedAt = entry.failedAt, now < failedAt + limits.retry {
            let seconds = (failedAt + limits.retry - now + 999) / 1000
            return .refuse(fault: "\(entry.fault); the next attempt is made in \(seconds) s")
        }
        entry.isWanted = true
        return .wait
    }

    /// A list that could not be fetched makes room for another one.
    private mutating func makeRoom() -> Bool {
        guard entries.count >= limits.known else { return true }
        let failed = entries.filter { $0.value.failedAt != nil && !$0.value.isUnderWay && !$0.value.isWanted }
        guard let oldest = failed.min(by: { $0.value.wantedAt < $1.value.wantedAt }) else { return false }
        entries[oldest.key] = nil
        return true
    }

    /// The next list to fetch now. Call it until it returns nil, and `didFetch` or `didFail` after each.
    mutating func next(at now: Int64) -> Key? {
        guard entries.values.count(where: \.isUnderWay) < limits.atOnce else { return nil }
        let ready = entries.filter { !$0.value.isUnderWay && ($0.value.isWanted || $0.value.due <= now) }
        let first = ready.min { one, other in
            if one.value.isWanted != other.value.isWanted { return one.value.isWanted }
            return (one.value.due, one.value.number) < (other.value.due, other.value.number)
        }
        guard let key = first?.key else { return nil }
        entries[key]?.isUnderWay = true
        entries[key]?.isWanted = false
        return key
    }

    /// The time at which `next` may return a list; nil when only another call can lead to one.
    var nextDue: Int64? {
        guard entries.values.count(where: \.isUnderWay) < limits.atOnce else { return nil }
        return entries.values.filter { !$0.isUnderWay }.map { $0.isWanted ? .min : $0.due }.min().flatMap {
            $0 == .max ? nil : $0
        }
    }

    /// A list is held, or has turned out to be the one that is.
    ///
    /// - Parameters:
    ///   - remaining: until its end.
    ///   - chance: a number from 0 to 1, which spreads the fetches by a tenth in either direction.
    mutating func didFetch(_ key: Key, at now: Int64, remaining: Int64, chance: Double) {
        let spread = Int64(Double(every) * (0.9 + 0.2 * min(max(chance, 0), 1)))
        finish(key, due: now + max(limits.least, min(spread, max(0, remaining) / 3 * 2)))
    }

    /// A list of an earlier process is held: when it was fetched is not known.
    mutating func didLoad(_ key: Key, at now: Int64) { finish(key, due: now + limits.least) }

    private mutating func finish(_ key: Key, due: Int64) {
        guard var entry = entries[key] else { return }
        entry.isUnderWay = false
        entry.isWanted = false
        entry.failedAt = nil
        entry.failures = 0
        entry.due = due
        entries[key] = entry
    }

    /// A list could not be had.
    mutating func didFail(_ key: Key, at now: Int64, fault: String) {
        guard var entry = entries[key] else { return }
        entry.isUnderWay = false
        entry.failedAt = now
        entry.fault = fault
        entry.failures += 1
        let wait = entry.failures > 20 ? every : min(every, limits.retry << Int64(entry.failures - 1))
        entry.due = now + max(wait, limits.retry)
        entries[key] = entry
    }

    func contains(_ key: Key) -> Bool { entries[key] != nil }

    mutating func remove(_ key: Key) { entries[key] = nil }

    /// Forgets lists that are not held any more.
    mutating func forget(_ keys: [Key]) {
        for key in keys where entries[key]?.isUnderWay == false { entries[key] = nil }
    }

    /// The lists that are not held, and that no connection has wanted since then.
    func unwanted(since then: Int64, isHeld: (Key) -> Bool) -> [Key] {
        entries.filter { !$0.value.isUnderWay && $0.value.wantedAt < then && !isHeld($0.key) }.map(\.key)
    }

    /// Another policy is in force, under which a list may be had that was refused.
    mutating func retryAll() {
        for key in entries.keys { entries[key]?.failedAt = nil }
    }
}
