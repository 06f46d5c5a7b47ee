/// When to look at what changes in several steps: once nothing more has happened for a while, and at the latest some
/// time after the first step.
package struct QuietPeriod: Sendable {
    private let quiet: TimeSpan
    private let limit: TimeSpan
    private var first: UInt64?
    private var last: UInt64 = 0

    package init(quiet: TimeSpan, limit: TimeSpan) {
        self.quiet = quiet
        self.limit = limit
    }

    /// When it is over, in nanoseconds of the monotonic clock; nil when nothing has happened.
    package var deadline: UInt64? {
        first.map { min(last + quiet.nanoseconds, $0 + limit.nanoseconds) }
    }

    /// Something has happened.
    package mutating func note(at now: UInt64) {
        if first == nil { first = now }
        last = now
    }

    /// Whether it is over, which is said once.
    package mutating func isOver(at now: UInt64) -> Bool {
        guard let deadline, now >= deadline else { return false }
        first = nil
        return true
    }

    /// Forgets what has happened: somebody has looked.
    package mutating func reset() { first = nil }
}
