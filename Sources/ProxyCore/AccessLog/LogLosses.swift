// SPDX-License-Identifier: Apache-2.0
import IOCore
import Synchronization

/// Counts lines of the task log that could not be written. They are reported on the standard error, at first at once
/// and then once a minute.
package final class LogLosses: Sendable {
    private let all = Atomic<Int>(0)
    private let unreported = Atomic<Int>(0)
    /// The time of the last report in nanoseconds of the monotonic clock; 0 before the first.
    private let reportedAt = Atomic<UInt64>(0)

    static let pause = TimeSpan.seconds(60)

    package init() {}

    /// The number of lines since the start.
    package var count: Int { all.load(ordering: .relaxed) }

    /// The seconds since the last report, which is at most a minute younger than the loss; nil before the first.
    ///
    /// - Parameter now: nanoseconds of the monotonic clock.
    package func reportAge(at now: UInt64) -> Int? {
        let last = reportedAt.load(ordering: .relaxed)
        return last == 0 || now < last ? nil : Int((now - last) / 1_000_000_000)
    }

    var hasUnreported: Bool { unreported.load(ordering: .relaxed) > 0 }

    func add(_ count: Int) {
        all.add(count, ordering: .relaxed)
        unreported.add(count, ordering: .relaxed)
    }

    /// The number of lost lines to report now.
    ///
    /// - Parameter isLast: there will be no later report.
    /// - Returns: nil when there is nothing to report, or when it is too early.
    func countToReport(at now: UInt64, isLast: Bool = false) -> Int? {
        guard isLast || wait(at: now) == nil else { return nil }
        let count = unreported.exchange(0, ordering: .relaxed)
        guard count > 0 else { return nil }
        reportedAt.store(max(1, now), ordering: .relaxed)
        return count
    }

    /// The time until the next report may be made; nil when it may be made now.
    func wait(at now: UInt64) -> TimeSpan? {
        let last = reportedAt.load(ordering: .relaxed)
        let passed = now &- last
        guard last != 0, passed < Self.pause.nanoseconds else { return nil }
        return TimeSpan(nanoseconds: Self.pause.nanoseconds - passed)
    }
}
