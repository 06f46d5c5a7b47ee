// SPDX-License-Identifier: Apache-2.0
/// Commands that wait until it is known where they go, each at most until its deadline.
struct WaitingErrands {
    static let atMost = 1_024
    private var errands: [RedisErrand] = []
    /// The earliest deadline; nil when none waits.
    private(set) var earliest: UInt64?

    var isEmpty: Bool { errands.isEmpty }

    /// - Returns: whether there was room.
    mutating func add(_ errand: RedisErrand) -> Bool {
        guard errands.count < Self.atMost else { return false }
        errands.append(errand)
        earliest = min(errand.deadline, earliest ?? .max)
        return true
    }

    /// Takes those whose deadline has come; all with `UInt64.max`.
    mutating func take(until now: UInt64) -> [RedisErrand] {
        let due = errands.filter { $0.deadline <= now }
        errands.removeAll { $0.deadline <= now }
        earliest = errands.lazy.map(\.deadline).min()
        return due
    }
}
