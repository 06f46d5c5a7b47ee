// SPDX-License-Identifier: Apache-2.0
import HTTPCore
package import IOCore
package import ProxyConfiguration
import ServerTrust
import SessionCore
import Synchronization

/// Everything about pins apart from single requests: reports to collectors and to a file, warnings, and the usage of
/// pins. It has a thread of its own, so that it delays no request; the workers' warnings about themselves go there, too.
///
/// `@unchecked Sendable`: `loop` and `settings` are immutable, `waiting` and `refused` atomic, `shown`, `otherFailures`, `lost` and
/// `lostAt` are touched behind `shownLock`; `thread` belongs to the owner, which alone calls `stop`; everything else is touched by
/// work that `loop` runs on its one thread, and by `init` before that starts.
package final class PinMonitor: @unchecked Sendable {
    /// Receives event lines, with their severity and the level of the snapshot.
    package typealias LogHandler =
        @Sendable (
            EventLine, _ severity: LogConfiguration.Level, _ level: LogConfiguration.Level
        ) -> Void

    package struct Settings: Sendable {
        package var reports = ReportLimits()
        /// The interval, in milliseconds, of the events about expiring pin sets and about the usage of pins.
        package var daily = PinNotices.day
        /// Whether there are events about expiring pin sets and about the usage of pins; false for commands that end
        /// soon.
        package var reportsRegularly = true
        package var log: LogHandler = { $0.write($1, at: $2) }
        /// With `.byHand` there is no thread, and `turn` does the work.
        package var clock = LoopClock.system

        package init() {}

        /// For a command that has already printed the warnings of its configuration, and ends soon.
        package static var command: Settings {
            var settings = Settings()
            settings.reportsRegularly = false
            return settings
        }
    }

    let loop: EventLoop
    private let settings: Settings
    private var thread: LoopThread?
    /// The number of failed handshakes on their way to the thread; those beyond a limit are counted in `refused` and
    /// dropped.
    private let waiting = Atomic<Int>(0)
    private let refused = Atomic<Int>(0)
    private static let waitingBound = 256

    private let shownLock = PosixLock()
    /// Behind `shownLock`: the verdicts of the usage, for other threads.
    private var shown: [PinUsage.Verdicts] = []
    /// Behind `shownLock`: what went wrong since the start with hosts without pins.
    private var otherFailures = DomainFailures()
    /// Behind `shownLock`: the reports that were lost since the start, as far as they were reported.
    private var lost: [ReportLoss: Int] = [:]
    /// Behind `shownLock`: when they were reported last, in seconds since 1970; nil before the first.
    private var lostAt: Int64?

    // State of the thread.
    private var snapshot: PolicySnapshot
    private var sender: ReportSender
    private var usage = PinUsage()
    private var notices = PinNotices()
    private var turnNotices = LongTurnNotices()
    private var nextDaily: Int64
    private var timer: LoopTimer!
    private var stopAt: Int64?

    /// Starts the thread.
    ///
    /// - Throws: when the file of `reports` cannot be opened, or the system has no more threads.
    package init(snapshot: PolicySnapshot, settings: Settings = Settings()) throws(MonitoringFailure) {
        let loop: EventLoop
        do {
            loop = try EventLoop(clock: settings.clock)
            sender = try ReportSender(loop: loop, snapshot: snapshot, limits: settings.reports)
        } catch let failure as MonitoringFailure {
            throw failure
        } catch {
            throw .system("\(error)")
        }
        self.loop = loop
        self.settings = settings
        self.snapshot = snapshot
        nextDaily = Int64(loop.now / 1_000_000) + settings.daily
        // Weak: if the start fails after this, the thread is not waited for.
        timer = LoopTimer { [weak self] in self?.work() }
        sender.whenChanged = { [weak self] in self?.work() }
        usage.setPins(of: snapshot.pinnedDomains)
        shown = usage.verdicts
        do {
            if settings.clock == .system { thread = try LoopThread(name: "pins") { loop.run() } }
        } catch {
            throw .system("\(error)")
        }
        loop.submit { [self] in
            logPinSets()
            logUnreachableCollectors()
            work()
        }
    }

    deinit {
        // After a failed start there is no thread to wait for.
        guard let thread else { return }
        loop.stop()
        thread.detach()
    }

    // MARK: Any thread

    /// Reports a failed evaluation; the number of reports on their way to the thread is bounded.
    ///
    /// - Parameter time: seconds since 1970.
    func report(_ trust: ConnectionTrust, port: UInt16, at time: Int64) {
        guard waiting.wrappingAdd(1, ordering: .relaxed).newValue <= Self.waitingBound else {
            waiting.wrappingSubtract(1, ordering: .relaxed)
            refused.wrappingAdd(1, ordering: .relaxed)
            return
        }
        loop.submit { [self] in
            waiting.wrappingSubtract(1, ordering: .relaxed)
            guard let report = PinValidationReport(trust, port: port, at: time) else { return }
            sender.add(report, to: trust.policy.configuration.reportUris, now: now)
            work()
        }
    }

    /// Warns of a turn of a worker's loop that was too long.
    func report(_ turn: LongTurn, ofWorker index: Int) {
        loop.submit { [self] in
            if let line = turnNotices.note(turn, ofWorker: index, now: now) { warn(line) }
        }
    }

    /// Adds the counts of a loop.
    ///
    /// - Parameter others: what went wrong with hosts without pins.
    func account(_ entries: [HandshakeTally.Entry], others: DomainFailures = DomainFailures()) {
        loop.submit { [self] in
            for entry in entries { count(entry) }
            show()
            shownLock.withLock { otherFailures += others }
        }
    }

    /// The verdicts and the last handshake of each pinned domain, as far as the loops have handed them over.
    package var verdicts: [PinUsage.Verdicts] { shownLock.withLock { shown } }

    /// What went wrong since the start with all hosts that have no pins, together.
    package var failuresOfOthers: DomainFailures { shownLock.withLock { otherFailures } }

    /// The number of lost reports since the start, by reason; at most a minute old.
    package var lostReports: [ReportLoss: Int] { shownLock.withLock { lost } }

    /// When lost reports were told of last, in seconds since 1970; nil before the first.
    package var lastLossOfReports: Int64? { shownLock.withLock { lostAt } }

    /// Uses another snapshot after a reload. Counts and remembered reports are kept; waiting reports are sent under the
    /// new snapshot's rules.
    package func replace(_ snapshot: PolicySnapshot) {
        loop.submit { [self] in
            logUsage()
            self.snapshot = snapshot
            usage.setPins(of: snapshot.pinnedDomains)
            showAll()
            notices.keepOnly(snapshot.pinnedDomains)
            if let failure = sender.replace(snapshot) { logFileFailure(failure) }
            logPinSets()
            logUnreachableCollectors()
            work()
        }
    }

    /// Closes the file of reports, which may have been moved away, and opens the one at its path.
    func reopenReportFile() {
        loop.submit { [self] in
            if let failure = sender.reopenFile() { logFileFailure(failure) }
        }
    }

    /// Sends waiting reports for a short time, logs the usage of pins, and ends the thread. Blocks until the thread has
    /// ended.
    package func stop() {
        loop.submit { [self] in
            stopAt = now + settings.reports.atStop
            sender.startStopping()
            work()
        }
        // Without a thread of its own, this thread does the remaining work.
        if settings.clock == .byHand { loop.run() }
        thread?.join()
        thread = nil
    }

    /// Does the waiting work when there is no thread.
    func turn() { loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0)) }

    // MARK: The thread

    /// Milliseconds that only grow.
    private var now: Int64 { Int64(loop.now / 1_000_000) }
    /// Seconds since 1970.
    private var date: Int64 { loop.wallClock / 1_000_000 }

    /// Does the work that is due, and sets the timer for the next.
    private func work() {
        let now = now
        sender.count(.queueFull, refused.exchange(0, ordering: .relaxed))
        sender.send(now: now)
        if now >= nextDaily {
            nextDaily = now + settings.daily
            logPinSets()
            logUsage()
        }
        if let stopAt, sender.isIdle || now >= stopAt {
            finish()
            return
        }
        logLosses()
        let next = [nextDaily, sender.nextDue, stopAt].compactMap { $0 }.min() ?? nextDaily
        // One millisecond is added, so that the deadline has passed for certain.
        loop.arm(timer, at: UInt64(max(next, now) + 1) * 1_000_000)
    }

    private func finish() {
        guard stopAt != .max else { return }
        stopAt = .max
        sender.stop()
        logLosses()
        logUsage()
        loop.remove(timer)
        sender.close { [loop] in loop.stop() }
    }

    private func showAll() {
        let verdicts = usage.verdicts
        shownLock.withLock { shown = verdicts }
    }

    /// The domains with new counts alone: there may be ten thousand others.
    private func show() {
        let changes = usage.takeChanges()
        shownLock.withLock { for (place, verdicts) in changes { shown[place] = verdicts } }
    }

    private func count(_ entry: HandshakeTally.Entry) {
        let matched = zip(entry.keys, entry.matched).map { (pin: $0, count: $1) }
        usage.count(
            entry.handshakes,
            of: entry.domain,
            matched: matched,
            verdicts: entry.verdicts,
            failures: entry.failures,
            last: entry.last.map { LastHandshake($0.evaluation, at: $0.time) }
        )
        if let pin = entry.backupOnly, notices.isDue(.backupOnly, of: entry.domain, now: now) {
            warn(PinEvents.backupOnly(entry.domain, pin))
        }
        if let expiry = entry.certificate, let share = expiry.share,
            notices.isDue(.certificateExpiry(share), of: entry.domain, now: now)
        {
            warn(PinEvents.certificateExpiry(entry.domain, expiry))
        }
    }

    // MARK: Event lines

    private func log(_ line: EventLine, _ severity: LogConfiguration.Level) {
        settings.log(line, severity, snapshot.configuration.log.level)
    }

    private func warn(_ line: EventLine) { log(line, .warning) }

    private func logPinSets() {
        guard settings.reportsRegularly else { return }
        for line in PinEvents.pinSets(snapshot.pinnedDomains, at: date) { warn(line) }
    }

    private func logUsage() {
        guard settings.reportsRegularly else { return }
        for account in usage.accounts { log(PinEvents.account(account), .info) }
    }

    private func logLosses() {
        guard let losses = sender.lossesToReport(now: now) else { return }
        let date = date
        shownLock.withLock {
            lost.merge(losses) { $0 + $1 }
            lostAt = date
        }
        warn(PinEvents.losses(losses))
    }

    private func logFileFailure(_ failure: MonitoringFailure) {
        guard case .file(let path, let cause) = failure else { return }
        warn(
            EventLine(event: "warning")
                .with("code", "report_file")
                .with("message", "cannot open the file of reports \(path): \(cause.reason)")
        )
    }

    /// Warns about collectors that this snapshot's rules forbid, before there is a report for them.
    private func logUnreachableCollectors() {
        for (uri, problem) in sender.refusedCollectors {
            warn(
                EventLine(event: "warning")
                    .with("code", "report_uri_denied")
                    .with("message", "reports cannot go to \(uri.url.origin): \(problem.details)")
            )
        }
    }
}
