// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// The data for the admin listener's responses: it was collected by other threads, so no worker has to be waited for.
struct AdminSource: Sendable {
    let build: ProgramBuild
    let workers: [WorkerCounters]
    /// How long the turns of the workers' loops have taken.
    let turns: [TurnRecord]
    let watchdog: LoopWatchdog
    let state: ServerState
    let status: ServerStatus
    let monitor: PinMonitor
    let lists: RevocationListFetcher
    let credentials: CredentialRenewals
    let traces: TraceExport
    let cache: CacheHolder
    let logLosses: LogLosses
    let recentTasks: RecentTasks
    /// Has the workers make lines for `recentTasks` where no task log is written.
    let recordTasks: @Sendable () -> Void
    /// nil where nothing reloads or stops the proxy at a request.
    let operatorRequests: OperatorRequests?
    /// Is called after a purge, so that the workers return the freed memory.
    let didPurge: @Sendable () -> Void
    /// Microseconds since 1970.
    let startTime = ProcessFigures.startTime()

    /// False when only a restart helps.
    var isAlive: Bool { watchdog.check() }

    /// False when new clients should use another instance.
    var isReady: Bool { !status.current.isDraining }

    var metrics: MetricsPage {
        var work = WorkerCounters.Reading()
        for worker in workers { worker.add(to: &work) }
        return MetricsPage(
            build: build,
            workers: workers.count,
            work: work,
            turns: turnFigures,
            connections: state.connections,
            heldBytes: state.heldBytes.used,
            status: status.current,
            verdicts: monitor.verdicts,
            otherFailures: monitor.failuresOfOthers,
            lostReports: monitor.lostReports,
            lists: lists.figures(at: Clock.realtime / 1_000_000),
            credentials: credentials.figures,
            date: Clock.realtime / 1_000_000,
            traces: traces.figures,
            lostLogLines: logLosses.count,
            cache: cache.current.map { CacheFigures($0) },
            process: .read(),
            startTime: startTime
        )
    }

    var turnFigures: TurnFigures { TurnFigures(turns, at: Clock.monotonic) }

    /// The latest lines of the task log. The first call starts their recording where no log is written.
    func wantedTasks() -> RecentTasks {
        if recentTasks.want() { recordTasks() }
        return recentTasks
    }

    /// - Parameter since: seconds since 1970; nil for all domains.
    func policy(since: Int64?) -> String {
        PolicyDocuments.policy(
            status.current,
            monitor.verdicts,
            credentials: credentials.figures,
            since: since,
            at: Clock.realtime / 1_000_000
        )
    }

    var figures: String {
        var work = WorkerCounters.Reading()
        for worker in workers { worker.add(to: &work) }
        let date = Clock.realtime / 1_000_000
        return StatusDocument(
            build: build,
            isAlive: isAlive,
            status: status.current,
            startTime: startTime,
            date: date,
            work: work,
            connections: state.connections,
            heldBytes: state.heldBytes.used,
            process: .read(),
            turns: turnFigures,
            lostLogLines: logLosses.count,
            logLossAge: logLosses.reportAge(at: Clock.monotonic),
            lostReports: monitor.lostReports.values.reduce(0, +),
            reportLoss: monitor.lastLossOfReports,
            hasCache: cache.current != nil,
            lists: lists.figures(at: date)
        ).text
    }

    var configuration: String { PolicyDocuments.configuration(status.current.snapshot) }

    var reloads: String { PolicyDocuments.reloads(status.current) }

    /// The token of `admin.tokenFile`, as the last reload has read it.
    var token: AdminToken? { status.current.snapshot.parts.adminToken }

    /// Performs a request about the cache.
    ///
    /// - Parameters:
    ///   - deliver: calls the completion on the caller's thread.
    ///   - completion: receives the document for the response.
    /// - Returns: false without a cache; nothing is called then.
    func perform(
        _ request: CacheAdministration.Request,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (String) -> Void
    ) -> Bool {
        guard let cache = cache.current else { return false }
        switch request {
        case .figures:
            let figures = CacheFigures(cache)
            deliver { completion(CacheAdministration.document(figures)) }
        case .entries(let host, let limit):
            let masking = TaskLogLine(redacting: status.current.snapshot.configuration.log.redact)
            cache.store.list(host: host?.authorityText, atMost: limit, deliver: deliver) { entries in
                completion(CacheAdministration.document(entries, masking: masking))
            }
        case .purge(let purges, let softly):
            let snapshot = status.current.snapshot
            let all = purges.flatMap { CacheAdministration.widened($0, under: snapshot) }
            Self.purge(all[...], softly: softly, in: cache.store, done: 0, deliver: deliver) { [didPurge] document in
                didPurge()
                completion(document)
            }
        }
        return true
    }

    /// Performs one after the other.
    private static func purge(
        _ purges: ArraySlice<Purge>,
        softly: Bool,
        in store: CacheStore,
        done: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (String) -> Void
    ) {
        guard let first = purges.first else {
            return completion(CacheAdministration.document(purged: done, softly: softly))
        }
        let next: @Sendable (Int) -> Void = { count in
            purge(
                purges.dropFirst(),
                softly: softly,
                in: store,
                done: done + count,
                deliver: deliver,
                completion
            )
        }
        guard softly else { return store.remove(first, deliver: deliver, next) }
        store.expire(first, now: Int(Clock.realtime / 1_000_000), deliver: deliver, next)
    }
}
