// SPDX-License-Identifier: Apache-2.0
import IOCore
package import SessionCore

extension TaskTimeouts {
    /// These limits with another one for each wait: for the connection (unless the present limit is shorter), for the
    /// response, and for each of its bytes.
    package func waiting(atMost interval: Duration) -> TaskTimeouts {
        let limits = TaskTimeouts(connect: interval, firstByte: interval, stall: interval).spans
        var result = self
        result.spans.connect = min(spans.connect, limits.connect)
        result.spans.firstByte = limits.firstByte
        result.spans.stall = limits.stall
        return result
    }

    /// The rest of the whole task's limit after so much time, at least a nanosecond; nil without a limit.
    func remaining(after spent: @autoclosure () -> TimeSpan) -> TimeSpan? {
        guard let total = spans.total else { return nil }
        let spent = spent()
        return TimeSpan(nanoseconds: total > spent ? total.nanoseconds - spent.nanoseconds : 1)
    }

    /// The limits of a hop that begins after so much time.
    ///
    /// - Throws: `stalled` when the task has no time left.
    func next(after spent: @autoclosure () -> TimeSpan) throws(SessionError) -> TaskTimeouts {
        guard let total = spans.total, let rest = remaining(after: spent()) else { return self }
        var timeouts = self
        timeouts.spans.total = rest
        if rest.nanoseconds == 1 {
            throw SessionError(.stalled, "The task took longer than its limit of \(total.milliseconds) ms.")
        }
        return timeouts
    }
}
