import IOCore
import Synchronization

/// Lines of the task log that could not be written: counted since the start, and told on the standard error, at once and then
/// once a minute.
package final class LogLosses: Sendable {
    private let all = Atomic<Int>(0)
    private let unreported = Atomic<Int>(0)
    /// In nanoseconds of the monotonic clock; 0 when nothing has been told.
    private let reportedAt = Atomic<UInt64>(0)

    static let pause = TimeSpan.seconds(60)

    package init() {}

    /// Since the start.
    package var count: Int { all.load(ordering: .relaxed) }

    var hasUnreported: Bool { unreported.load(ordering: .relaxed) > 0 }

    func add(_ count: Int) {
        all.add(count, ordering: .relaxed)
        unreported.add(count, ordering: .relaxed)
    }

    /// The number of lost lines to report now.
    ///
    /// - Parameter isLast: nothing will be told later.
    /// - Returns: nil when nothing is, or not yet.
    func countToReport(at now: UInt64, isLast: Bool = false) -> Int? {
        guard isLast || wait(at: now) == nil else { return nil }
        let count = unreported.exchange(0, ordering: .relaxed)
        guard count > 0 else { return nil }
        reportedAt.store(max(1, now), ordering: .relaxed)
        return count
    }

    /// How long it is until something may be told; nil when that is now.
    func wait(at now: UInt64) -> TimeSpan? {
        let last = reportedAt.load(ordering: .relaxed)
        let passed = now &- last
        guard last != 0, passed < Self.pause.nanoseconds else { return nil }
        return TimeSpan(nanoseconds: Self.pause.nanoseconds - passed)
    }
}
