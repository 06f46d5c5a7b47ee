// SPDX-License-Identifier: Apache-2.0
/// The rules of sending reports, as a value: which reports are made, when each is sent, and what follows from its
/// result. It has no clock, no random numbers and no socket: each call passes the time, in milliseconds that only grow.
///
/// `Collector` is the destination of a report; `Content` is the report itself.
package struct ReportQueue<Collector: Hashable & Sendable, Content: Sendable>: Sendable {
    /// One report on its way to one collector.
    package struct Entry: Sendable {
        package let number: Int
        package let collector: Collector
        package let content: Content
        fileprivate let key: Key
        fileprivate var attempts = 0
        fileprivate var due: Int64
        fileprivate var isUnderWay = false
    }

    /// The properties that make two reports identical.
    fileprivate struct Key: Hashable, Sendable {
        var digest: [UInt8]
        var collector: Collector?
    }

    private let limits: ReportLimits
    private var entries: [Entry] = []
    private var lastNumber = 0
    /// The time at which each report was made.
    private var made: [Key: Int64] = [:]
    private var order: [(key: Key, time: Int64)] = []
    private var allowance: RateAllowance
    private var isStopping = false
    /// Losses since the last event about them, by reason.
    private var losses: [ReportLoss: Int] = [:]
    private var reportedAt: Int64?

    package init(limits: ReportLimits = ReportLimits()) {
        self.limits = limits
        allowance = RateAllowance(burst: limits.burst, refill: limits.refill)
    }

    /// Reports that wait or are being sent.
    package var count: Int { entries.count }

    // MARK: Reports come in

    /// Whether a report for the file alone is made now.
    package mutating func admitToFile(digest: [UInt8], now: Int64) -> ReportAdmission {
        let key = Key(digest: digest, collector: nil)
        if isRepeated(key, now) { return .repeated }
        guard allowance.consume(now: now) else { return lose(.rateLimited) }
        remember(key, now)
        return .accepted
    }

    /// Adds a report for a collector.
    ///
    /// - Parameter content: evaluated when the report is accepted.
    package mutating func add(
        digest: [UInt8],
        to collector: Collector,
        now: Int64,
        content: @autoclosure () -> Content
    ) -> ReportAdmission {
        let key = Key(digest: digest, collector: collector)
        if isRepeated(key, now) { return .repeated }
        if isStopping { return lose(.stopped) }
        guard entries.count < limits.queued else { return lose(.queueFull) }
        guard allowance.consume(now: now) else { return lose(.rateLimited) }
        remember(key, now)
        lastNumber += 1
        entries.append(Entry(number: lastNumber, collector: collector, content: content(), key: key, due: now))
        return .accepted
    }

    /// Counts reports that were lost before they reached the queue.
    package mutating func count(_ loss: ReportLoss, _ number: Int = 1) {
        if number > 0 { losses[loss, default: 0] += number }
    }

    private mutating func lose(_ loss: ReportLoss) -> ReportAdmission {
        count(loss)
        return .lost(loss)
    }

    private mutating func isRepeated(_ key: Key, _ now: Int64) -> Bool {
        while let oldest = order.first, now - oldest.time >= limits.repeatAfter || order.count > limits.remembered {
            order.removeFirst()
            // The report may have been forgotten and made again meanwhile.
            if made[oldest.key] == oldest.time { made[oldest.key] = nil }
        }
        return made[key] != nil
    }

    private mutating func remember(_ key: Key, _ now: Int64) {
        made[key] = now
        order.append((key, now))
    }

    // MARK: Reports go out

    /// The next report to send now. Call it until it returns nil, and `finished` after each attempt.
    package mutating func next(now: Int64) -> Entry? {
        let busy = Set(entries.lazy.filter(\.isUnderWay).map(\.collector))
        guard busy.count < limits.collectorsAtOnce else { return nil }
        let ready = entries.indices.first {
            !entries[$0].isUnderWay && !busy.contains(entries[$0].collector) && (entries[$0].due <= now || isStopping)
        }
        guard let ready else { return nil }
        entries[ready].isUnderWay = true
        entries[ready].attempts += 1
        return entries[ready]
    }

    /// The time at which `next` may return a further report; nil when only `add` or `finished` can lead to one.
    package var nextDue: Int64? {
        let busy = Set(entries.lazy.filter(\.isUnderWay).map(\.collector))
        guard busy.count < limits.collectorsAtOnce else { return nil }
        return entries.lazy.filter { !$0.isUnderWay && !busy.contains($0.collector) }.map(\.due).min()
    }

    /// An attempt is over.
    ///
    /// - Parameter chance: a number from 0 to 1 that spreads the repeats: the wait is between half and all of the
    ///   back-off.
    package mutating func finished(_ number: Int, _ outcome: ReportOutcome, now: Int64, chance: Double) {
        guard let index = entries.firstIndex(where: { $0.number == number }) else { return }
        entries[index].isUnderWay = false
        let isLast = entries[index].attempts >= limits.attempts || isStopping
        switch outcome {
        case .delivered:
            entries.remove(at: index)
        case .failed where !isLast:
            var wait = limits.backOff
            for _ in 1..<entries[index].attempts { wait *= limits.factor }
            entries[index].due = now + wait / 2 + Int64(Double(wait) / 2 * min(max(chance, 0), 1))
        case .failed:
            // The next identical report may be made.
            made[entries[index].key] = nil
            entries.remove(at: index)
            count(isStopping ? .stopped : .undelivered)
        case .refused:
            entries.remove(at: index)
            count(.undelivered)
        }
    }

    /// Drops and counts unwanted reports. A current attempt continues, and is not repeated.
    package mutating func withdraw(where isUnwanted: (Collector, Content) -> Bool) {
        let before = entries.count
        entries.removeAll { entry in
            guard isUnwanted(entry.collector, entry.content) else { return false }
            made[entry.key] = nil
            return true
        }
        count(.undelivered, before - entries.count)
    }

    // MARK: The end

    /// Gives every waiting report one last attempt at once, and accepts no further reports.
    package mutating func startStopping() { isStopping = true }

    /// Drops all remaining reports.
    package mutating func stop() {
        isStopping = true
        count(.stopped, entries.count)
        entries = []
    }

    // MARK: Losses

    /// The losses since the last call that returned any; nil when there are none, or within `dropReportInterval` of
    /// that call.
    package mutating func lossesToReport(now: Int64) -> [ReportLoss: Int]? {
        guard !losses.isEmpty else { return nil }
        if let reportedAt, now - reportedAt < limits.dropReportInterval, !isStopping { return nil }
        reportedAt = now
        defer { losses = [:] }
        return losses
    }

    /// The time at which losses can be reported; nil when there are none.
    package var lossesDue: Int64? {
        losses.isEmpty ? nil : reportedAt.map { $0 + limits.dropReportInterval } ?? .min
    }
}

/// The decision about a new report.
package enum ReportAdmission: Equatable, Sendable {
    case accepted
    /// An identical report was made within `repeatAfter`.
    case repeated
    case lost(ReportLoss)
}

/// The result of an attempt to deliver a report.
package enum ReportOutcome: Sendable {
    case delivered
    /// A repeat may succeed: no connection, no response, 408, 429, 5xx.
    case failed
    /// A repeat cannot succeed: refused by policy, a failed pin, any other response.
    case refused
}

/// Allows a number at once, and then one in each span of time.
struct RateAllowance: Sendable {
    let burst: Int
    /// Milliseconds.
    let refill: Int64
    private var left: Int
    private var refilledAt: Int64?

    init(burst: Int, refill: Int64) {
        self.burst = burst
        self.refill = refill
        left = burst
    }

    mutating func consume(now: Int64) -> Bool {
        let last = refilledAt ?? now
        let gained = (now - last) / refill
        if Int64(left) + gained >= Int64(burst) {
            left = burst
            refilledAt = now
        } else {
            left += Int(gained)
            refilledAt = last + gained * refill
        }
        guard left > 0 else { return false }
        left -= 1
        return true
    }
}
