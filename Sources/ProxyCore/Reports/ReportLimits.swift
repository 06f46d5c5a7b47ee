// SPDX-License-Identifier: Apache-2.0
/// The bounds of reporting. Times are milliseconds.
package struct ReportLimits: Sendable {
    /// The limit of reports that wait or are being sent; more are dropped.
    package var queued = 128
    /// The number of reports that may be made at once, …
    package var burst = 60
    /// … and the milliseconds after which one more may be made: a server with a new certificate for each connection
    /// must not fill the disk or overload the collector.
    package var refill: Int64 = 1000
    /// Identical reports are made once in this time.
    package var repeatAfter: Int64 = 24 * 3600 * 1000
    /// The number of reports that are remembered for this; the oldest is forgotten first.
    package var remembered = 10_000
    /// The number of attempts before a report is given up.
    package var attempts = 6
    /// The longest wait before the second attempt; each further one is `factor` times as long: 5 s, 20 s, 80 s, 320 s,
    /// 1,280 s, half an hour together.
    package var backOff: Int64 = 5000
    package var factor: Int64 = 4
    /// The number of collectors that reports are sent to at once; reports to the same collector are sent one after
    /// another.
    package var collectorsAtOnce = 8
    /// The limits of one attempt: for connecting, and for the response's head.
    package var connect = 10_000
    package var answer = 20_000
    /// The least interval between two events about dropped reports.
    package var dropReportInterval: Int64 = 60_000
    /// How long a stop waits for unsent reports.
    package var atStop: Int64 = 2000

    package init() {}
}

/// The reason why a report was not delivered.
package enum ReportLoss: String, Sendable, CaseIterable {
    /// Too many reports waited.
    case queueFull
    /// Too many reports were made in a short time.
    case rateLimited
    /// The collector could not be reached, or refused the report, or may not be reached.
    case undelivered
    /// The program was stopped.
    case stopped
}
