// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import StrictJSON

/// Applies changed configuration and pin files while the proxy serves: on SIGHUP, and when files have changed.
///
/// A load with an error changes nothing, and writes one event line for each error. Loads are blocking disk I/O and run
/// on the calling thread, never on a loop. `LoadSchedule` decides when, and sees to it that what was read is in force,
/// or that an event and the metrics say why it is not.
struct Reloader {
    enum Trigger: Equatable {
        case signal
        case files
        /// A request to the admin listener.
        case request(dropsPins: Bool)

        /// The name in events.
        var name: String {
            switch self {
            case .signal: "SIGHUP"
            case .files: "files"
            case .request: "request"
            }
        }

        /// Whether pins that are missing now are given up. Otherwise a missing file may be one that is away only for a
        /// moment.
        var dropsPins: Bool {
            switch self {
            case .signal: true
            case .files: false
            case .request(let dropsPins): dropsPins
            }
        }
    }

    private let path: String
    private let intercepting: Bool
    /// Whether warnings about single hosts are logged.
    private let warnsOfHosts: Bool
    private let proxy: ProxyServer
    /// The changes made in memory to each loaded policy.
    private let prepare: (inout PolicyParts) throws(CommandFailure) -> Void
    /// The record of the last reading, applied or not.
    private var record: FileRecord
    private var watch: FolderWatch?
    private var schedule = LoadSchedule<Trigger>(at: Clock.monotonic)
    private var files: PolicyFiles
    private var complaints: Set<String> = []
    /// The time for giving back the memory of a load: the replaced objects are released by then.
    private var tidyAt: UInt64?
    /// The allocator gives back at one call what it has found free at the call before.
    private var tidiesLeft = 0
    private static let tidyAfter: UInt64 = 2_000_000_000
    private static let tidyAgainAfter: UInt64 = 200_000_000

    /// Starts to watch the files.
    ///
    /// - Parameters:
    ///   - intercepting: as for the load that the proxy was started with (`ConfigurationLoader`).
    ///   - record: the record of that load.
    ///   - warnsOfHosts: false where most hosts of the configuration are no concern of the user.
    ///   - prepare: the changes that were made to that load's policy.
    init(
        path: String,
        intercepting: Bool = false,
        proxy: ProxyServer,
        record: FileRecord,
        warnsOfHosts: Bool = true,
        prepare: @escaping (inout PolicyParts) throws(CommandFailure) -> Void = { _ in }
    ) {
        self.path = path
        self.intercepting = intercepting
        self.warnsOfHosts = warnsOfHosts
        self.proxy = proxy
        self.record = record
        self.prepare = prepare
        files = PolicyFiles(inForce: PolicyFiles.Reading(digest: record.fingerprint, time: Self.now))
        if !watchAgain() { schedule.noteChange(at: Clock.monotonic) }
        reportFiles()
        tidyLater()
    }

    /// Descriptors that are readable when something may have changed.
    var descriptors: [Int32] { watch.map { [$0.descriptor] } ?? [] }
    /// The next time for `turn`, in nanoseconds of the monotonic clock.
    var deadline: UInt64? { min(schedule.deadline, tidyAt ?? .max) }

    /// Checks the files for changes, and loads them after a quiet period.
    mutating func turn() {
        if let due = tidyAt, Clock.monotonic >= due {
            SystemMemory.release()
            tidiesLeft -= 1
            tidyAt = tidiesLeft > 0 ? Clock.monotonic + Self.tidyAgainAfter : nil
        }
        if watch?.drainChanges() == true { schedule.noteChange(at: Clock.monotonic) }
        let isChange = schedule.isPending
        switch schedule.work(at: Clock.monotonic) {
        case .nothing:
            break
        case .compare:
            let start = Clock.monotonic
            // Links and folders may have been replaced meanwhile.
            let isCurrent = watchAgain()
            let end = Clock.monotonic
            schedule.compared(cost: TimeSpan(nanoseconds: end - start), at: end)
            guard isCurrent else {
                load(schedule.owedTrigger ?? .files)
                break
            }
            files.onDisk.time = Self.now
            guard isChange else { break }
            EventLine(event: "unchanged").with("trigger", Trigger.files.name).write(.debug, at: level)
        case .load(let trigger):
            load(trigger)
        }
        reportFiles()
    }

    /// SIGHUP: loads in any case, and reopens a task log that is a file.
    mutating func hangUp() {
        load(.signal)
    }

    /// A request to the admin listener: loads as SIGHUP does, but gives pins up only when it says so.
    mutating func loadNow(dropsPins: Bool) -> ReloadRecord {
        // Only a load that changed files have caused is put off.
        load(.request(dropsPins: dropsPins))
            ?? ReloadRecord(
                time: Self.now,
                trigger: Trigger.request(dropsPins: dropsPins).name,
                generation: proxy.snapshot.generation
            )
    }

    /// SIGUSR1: reopens the files that are written to, and loads nothing.
    mutating func reopenLogs() {
        guard reopenLog() else { return }
        EventLine(event: "logReopened").with("signal", "SIGUSR1").write(.info, at: level)
    }

    private mutating func tidyLater() {
        tidyAt = Clock.monotonic + Self.tidyAfter
        tidiesLeft = 2
    }

    private var level: LogConfiguration.Level { proxy.snapshot.configuration.log.level }

    // MARK: Loading

    /// - Returns: the result; nil when a load for changed files is put off, because they are still being changed.
    @discardableResult
    private mutating func load(_ trigger: Trigger) -> ReloadRecord? {
        tidyLater()
        defer { reportFiles() }
        while true {
            let outcome = ConfigurationLoader.load(path: path, intercepting: intercepting)
            record = outcome.record
            // Later events are about later changes.
            let isCurrent = watchAgain()
            files.onDisk = PolicyFiles.Reading(digest: record.fingerprint, time: Self.now)
            switch schedule.didRead(for: trigger, isCurrent: isCurrent, at: Clock.monotonic) {
            case .conclude:
                reportFiles()
                return apply(outcome, trigger)
            // The load may have mixed old and new files: a file that is renamed meanwhile can be missing under both
            // names.
            case .putOff where trigger == .files:
                return nil
            case .putOff:
                continue
            case .putOffAndReport:
                if trigger == .signal { reopenLog() }
                let issue = DocumentIssue(
                    file: path,
                    message:
                        "it, or the files that it names, changed while they were read, \(LoadSchedule<Trigger>.mostPutOffs) times",
                    remedy: "nothing needs to be done: they are read again when they have come to rest"
                )
                return fail([issue], .configuration, trigger)
            }
        }
    }

    private mutating func apply(_ outcome: ConfigurationLoader.Outcome, _ trigger: Trigger) -> ReloadRecord {
        guard var parts = outcome.parts else {
            if trigger == .signal { reopenLog() }
            schedule.didConclude()
            return fail(outcome.issues, .configuration, trigger)
        }
        do {
            try prepare(&parts)
            let dropped = DroppedPins(from: proxy.snapshot.pinnedDomains, to: parts.pinnedDomains)
            guard trigger.dropsPins || dropped.isEmpty else {
                let issue = dropped.refusal(file: parts.configuration.pins ?? path)
                schedule.didConclude()
                return fail([issue], .pins, trigger, code: DroppedPins.code)
            }
            let opened = OpenedRequests(
                from: proxy.snapshot.configuration.requests,
                to: parts.configuration.requests
            )
            if !trigger.dropsPins, let issue = opened.refusal(file: path) {
                schedule.didConclude()
                return fail([issue], .configuration, trigger, code: OpenedRequests.code)
            }
            let guarded = OpenedCredentials(
                from: proxy.snapshot.configuration.credentials,
                to: parts.configuration.credentials
            )
            if !trigger.dropsPins, let issue = guarded.refusal(file: path) {
                schedule.didConclude()
                return fail([issue], .configuration, trigger, code: OpenedCredentials.code)
            }
            MemoryGuard.hide(for: parts.configuration)
            let needs = try proxy.reload(parts, reopensLog: trigger == .signal)
            schedule.didConclude()
            files.inForce = files.onDisk
            // Before the event, so that whoever waits for it finds the files as they are now.
            reportFiles()
            EventLine(event: "reloaded")
                .with("generation", proxy.snapshot.generation)
                .with("trigger", trigger.name)
                .with("pinnedDomains", parts.pinnedDomains.domains.count)
                .with("hosts", parts.configuration.hosts.count)
                .with("warnings", outcome.warnings.count)
                .write(.info, at: level)
            proxy.noteDroppedPins(dropped.count)
            dropped.event?.write(.warning, at: level)
            LoadedConfiguration.printWarnings(warnsOfHosts ? outcome.warnings : WarningScope.general(outcome.warnings))
            DescriptorLimit.warnIfTooLow(proxy)
            for need in needs { logRestartNeed(need) }
            return record(trigger, warnings: outcome.warnings)
        } catch {
            if trigger == .signal { reopenLog() }
            schedule.didFail(trigger, at: Clock.monotonic)
            let isLog = if case ProxyServer.StartFailure.log = error { true } else { false }
            return fail([issue(error)], isLog ? .log : .system, trigger)
        }
    }

    /// Counts and logs a failed load; the former policy stays.
    private func fail(
        _ issues: [DocumentIssue],
        _ failure: ReloadFailure,
        _ trigger: Trigger,
        code: String? = nil
    ) -> ReloadRecord {
        proxy.noteReload(failure)
        for issue in issues { logFailure(issue, trigger, code: code) }
        return record(trigger, issues: issues)
    }

    /// Keeps the result for the admin listener.
    private func record(
        _ trigger: Trigger,
        issues: [DocumentIssue] = [],
        warnings: [DocumentIssue] = []
    ) -> ReloadRecord {
        let record = ReloadRecord(
            time: Self.now,
            trigger: trigger.name,
            generation: proxy.snapshot.generation,
            issues: issues,
            warnings: warnings
        )
        proxy.note(record)
        return record
    }

    /// The issue that prevents a loaded policy from being applied.
    private func issue(_ error: any Error) -> DocumentIssue {
        switch error {
        case ProxyServer.StartFailure.log(let log, let cause):
            DocumentIssue(
                file: path,
                pointer: "/log/tasks",
                message: "the task log \(log) cannot be opened: \(cause.reason)",
                remedy: "name a file that the user of this process may write"
            )
        case let failure as CommandFailure:
            DocumentIssue(file: path, message: failure.message, remedy: failure.remedy)
        default:
            DocumentIssue(
                file: path,
                message: "it could not be put in place: \(error)",
                remedy: "it is tried again by itself; send SIGHUP to try at once"
            )
        }
    }

    /// - Returns: false when the task log was not changed.
    @discardableResult
    private func reopenLog() -> Bool {
        do {
            try proxy.reopenLogs()
            return true
        } catch {
            EventLine(event: "warning").with("message", issue(error).message).write(.warning, at: level)
            return false
        }
    }

    private func logRestartNeed(_ need: RestartNeed) {
        EventLine(event: "restartNeeded")
            .with("key", need.rawValue)
            .with("message", "\(need.rawValue) has changed in \(path), and stays as it was until pinproxy is restarted")
            .write(.warning, at: level)
    }

    /// Logs a reason of a failed load.
    private func logFailure(_ issue: DocumentIssue, _ trigger: Trigger, code: String? = nil) {
        var line = EventLine(event: "reloadFailed")
        if let code { line = line.with("code", code) }
        line = line.with("generation", proxy.snapshot.generation)
            .with("trigger", trigger.name)
            .with("file", issue.file)
        if !issue.pointer.isEmpty { line = line.with("pointer", issue.pointer) }
        line = line.with("message", issue.message)
        if !issue.remedy.isEmpty { line = line.with("remedy", issue.remedy) }
        if let place = issue.line { line = line.with("line", place) }
        if let column = issue.column { line = line.with("column", column) }
        line.write(.error, at: level)
    }

    // MARK: Watching

    /// Watches the current folders.
    ///
    /// - Returns: whether the files hold what was read last. Later changes bring about events.
    private mutating func watchAgain() -> Bool {
        do throws(IOFailure) {
            let next = try FolderWatch(record.watchedFolders)
            watch = next
            for (folder, failure) in next.failures where failure.code != EACCES {
                complain("changes in \(folder) are noticed late: \(failure.reason)")
            }
        } catch {
            watch = nil
            complain("changed files are noticed late: \(error)")
        }
        return record.isCurrent
    }

    /// Tells the admin listener what is known of the files.
    private mutating func reportFiles() {
        files.isPending = schedule.isPending
        proxy.note(files)
    }

    private static var now: Int64 { Clock.seconds }

    /// Logs each problem once.
    private mutating func complain(_ message: String) {
        guard complaints.insert(message).inserted else { return }
        EventLine(event: "warning")
            .with("message", "\(message); they are compared from time to time, and read on SIGHUP")
            .write(.warning, at: level)
    }
}
