// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// Decides when the files of a running proxy are read, and when a reading is applied, so that whatever was read is either in
/// force, reported as a failure, or read again (invariant 25).
///
/// A value without a clock or files: the caller says what happened and when, in nanoseconds of the monotonic clock, and
/// does what `work` says.
package struct LoadSchedule<Trigger: Sendable & Equatable>: Sendable {
    package enum Work: Equatable {
        case nothing
        /// The files are compared with the last reading. `compared` takes the result.
        case compare
        /// The files are read, whether or not they differ from the last reading. `didRead` takes the result.
        case load(Trigger)
    }

    /// The fate of a reading.
    package enum Decision: Equatable {
        /// It is what the files hold: it takes effect, or its errors are reported.
        case conclude
        /// The files changed while they were read: old and new ones may be mixed. They are read again after a pause.
        case putOff
        /// The same, for so long that it is reported. They are read again all the same.
        case putOffAndReport
    }

    private var pause: QuietPeriod
    /// The load that was begun, and whose reading was neither applied nor reported as wrong.
    private var owed: Trigger?
    /// The number of readings in a row that were put off.
    private var putOffs = 0
    /// When a load that failed for a reason outside of the files is repeated.
    private var retry: (trigger: Trigger, at: UInt64)?
    private var failures = 0
    /// When the files are compared without an event.
    private var comparison: UInt64

    /// Files are often changed in several steps, and several files together.
    private static var quiet: TimeSpan { .milliseconds(200) }
    private static var longestPause: TimeSpan { .seconds(5) }
    /// The number of readings in a row that are put off before that is reported.
    package static var mostPutOffs: Int { 5 }
    /// Events do not tell of every change: not on network file systems, and not where the kernel's watches are used up.
    private static var comparisonInterval: TimeSpan { .seconds(10) }
    /// A comparison reads every file: it takes at most this part of a processor.
    private static var comparisonShare: UInt64 { 500 }
    private static var firstRetry: TimeSpan { .seconds(5) }
    private static var lastRetry: TimeSpan { .seconds(300) }

    package init(at now: UInt64) {
        pause = QuietPeriod(quiet: Self.quiet, limit: Self.longestPause)
        comparison = now &+ Self.comparisonInterval.nanoseconds
    }

    /// The time of the next work.
    package var deadline: UInt64 {
        [pause.deadline, retry?.at].reduce(comparison) { min($0, $1 ?? .max) }
    }

    /// Whether files have changed, or may have, and the last reading does not hold that yet.
    package var isPending: Bool { pause.deadline != nil || owed != nil }

    /// The trigger of the load that is still owed. A load for files that have changed since is one for this trigger, which
    /// may be allowed more.
    package var owedTrigger: Trigger? { owed ?? retry?.trigger }

    /// Something may have changed: an event of the watch, or a difference that was found.
    package mutating func noteChange(at now: UInt64) { pause.note(at: now) }

    /// The work that is due; asked again and again.
    package mutating func work(at now: UInt64) -> Work {
        if pause.isOver(at: now) { return owed.map { .load($0) } ?? .compare }
        if let due = retry, now >= due.at {
            // If this load is put off, it waits for the files to come to rest, as any other.
            retry = nil
            owed = due.trigger
            return .load(due.trigger)
        }
        // During a pause the comparison that follows it is enough.
        guard pause.deadline == nil, now >= comparison else { return .nothing }
        return .compare
    }

    /// The files were compared with the last reading.
    ///
    /// - Parameter cost: how long that took.
    package mutating func compared(cost: TimeSpan, at now: UInt64) {
        let (wait, isTooLong) = cost.nanoseconds.multipliedReportingOverflow(by: Self.comparisonShare)
        let interval = max(Self.comparisonInterval.nanoseconds, isTooLong ? UInt64(Int64.max) : wait)
        let (next, isBeyond) = now.addingReportingOverflow(interval)
        comparison = isBeyond ? .max : next
    }

    /// The files have been read for a trigger.
    ///
    /// - Parameter isCurrent: whether they still held the same after the reading.
    package mutating func didRead(for trigger: Trigger, isCurrent: Bool, at now: UInt64) -> Decision {
        pause.reset()
        guard !isCurrent else {
            owed = nil
            putOffs = 0
            return .conclude
        }
        owed = trigger
        pause.note(at: now)
        putOffs += 1
        return putOffs % Self.mostPutOffs == 0 ? .putOffAndReport : .putOff
    }

    /// A reading took effect, or failed by an error of the files, which only other files mend.
    package mutating func didConclude() {
        owed = nil
        retry = nil
        failures = 0
    }

    /// A reading without an error could not be put in force: it is tried again, less and less often.
    package mutating func didFail(_ trigger: Trigger, at now: UInt64) {
        let wait = min(Self.firstRetry.nanoseconds << UInt64(min(failures, 16)), Self.lastRetry.nanoseconds)
        failures += 1
        owed = nil
        retry = (trigger, now &+ wait)
    }
}
