/// The bounds of reporting. Times are milliseconds.
package struct ReportLimits: Sendable {
    /// Reports that wait or are being sent; more are dropped.
    package var queued = 128
    /// So many reports may be made at once, …
    package var burst = 60
    /// … and then one each second: whoever makes a server's certificates up anew for every connection must not fill
    /// the disk or the collector.
    package var refill: Int64 = 1000
    /// Identical reports are made once in this time.
    package var repeatAfter: Int64 = 24 * 3600 * 1000
    /// So many reports are remembered for that; beyond, the oldest is forgotten.
    package var remembered = 10_000
    /// How often a report is sent until it is given up.
    package var attempts = 6
    /// The longest wait before the second attempt; each further one is `factor` times as long: 5 s, 20 s, 80 s, 320 s,
    /// 1,280 s, half an hour together.
    package var backOff: Int64 = 5000
    package var factor: Int64 = 4
    /// Reports to one collector are sent one after another, those to several collectors at once: up to this number.
    package var collectorsAtOnce = 8
    /// One attempt: connecting, and the answer's head.
    package var connect = 10_000
    package var answer = 20_000
    /// How often the number of dropped reports is told at most.
    package var dropReportInterval: Int64 = 60_000
    /// How long a stop waits for reports that have not been sent.
    package var atStop: Int64 = 2000

    package init() {}
}

/// Why a report was not delivered.
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
