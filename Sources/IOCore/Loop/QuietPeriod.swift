// SPDX-License-Identifier: Apache-2.0
/// The time to react to a change that has several steps: after a period without events, and at the latest some time
/// after the first event.
package struct QuietPeriod: Sendable {
    private let quiet: TimeSpan
    private let limit: TimeSpan
    private var first: UInt64?
    private var last: UInt64 = 0

    package init(quiet: TimeSpan, limit: TimeSpan) {
        self.quiet = quiet
        self.limit = limit
    }

    /// The end of the period, in nanoseconds of the monotonic clock; nil without an event.
    package var deadline: UInt64? {
        first.map { min(last + quiet.nanoseconds, $0 + limit.nanoseconds) }
    }

    /// Records an event.
    package mutating func note(at now: UInt64) {
        if first == nil { first = now }
        last = now
    }

    /// Whether the period is over; true only once.
    package mutating func isOver(at now: UInt64) -> Bool {
        guard let deadline, now >= deadline else { return false }
        first = nil
        return true
    }

    /// Resets it, because the change was handled.
    package mutating func reset() { first = nil }
}
