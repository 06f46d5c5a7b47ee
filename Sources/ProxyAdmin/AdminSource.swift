// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import SessionCore
import SharedCaching

/// The data for the admin listener's responses: it was collected by other threads, so no worker has to be waited for.
struct AdminSource: Sendable {
    let build: ProgramBuild
    let server: ServerFigures
    /// nil where nothing reloads or stops the proxy at a request.
    let operatorRequests: OperatorRequests?
    /// Microseconds since 1970.
    let startTime = ProcessFigures.startTime()

    /// False when new clients should use another instance.
    var isReady: Bool { !server.status.isDraining }

    var metrics: MetricsPage {
        MetricsPage(
            build: build,
            workers: server.turns.count,
            work: server.work,
            turns: turnFigures,
            connections: server.connections,
            heldBytes: server.heldBytes,
            status: server.status,
            verdicts: server.monitor.verdicts,
            otherFailures: server.monitor.failuresOfOthers,
            lostReports: server.monitor.lostReports,
            lists: server.lists.figures(at: Clock.seconds),
            credentials: server.credentials.figures,
            date: Clock.seconds,
            traces: server.traces.figures,
            lostLogLines: server.logLosses.count,
            cache: server.cache.map { CacheFigures($0) },
            sharedCache: server.sharedCache,
            process: .read(),
            startTime: startTime
        )
    }

    /// The level of the cache that several machines share; nil without one.
    var sharedCache: SharedCacheStatus? { server.sharedCache }

    var turnFigures: TurnFigures { TurnFigures(server.turns, at: Clock.monotonic) }

    /// The latest lines of the task log. The first call starts their recording where no log is written.
    func wantedTasks() -> RecentTasks {
        if server.recentTasks.want() { server.recordTasks() }
        return server.recentTasks
    }

    /// - Parameter since: seconds since 1970; nil for all domains.
    func policy(since: Int64?) -> String {
        PolicyDocuments.policy(
            server.status,
            server.monitor.verdicts,
            credentials: server.credentials.figures,
            since: since,
            at: Clock.seconds
        )
    }

    var figures: String {
        let date = Clock.seconds
        return StatusDocument(
            build: build,
            isAlive: server.isAlive,
            status: server.status,
            startTime: startTime,
            date: date,
            work: server.work,
            connections: server.connections,
            heldBytes: server.heldBytes,
            process: .read(),
            turns: turnFigures,
            lostLogLines: server.logLosses.count,
            logLossAge: server.logLosses.reportAge(at: Clock.monotonic),
            lostReports: server.monitor.lostReports.values.reduce(0, +),
            reportLoss: server.monitor.lastLossOfReports,
            hasCache: server.cache != nil,
            lists: server.lists.figures(at: date)
        ).text
    }

    var configuration: String { PolicyDocuments.configuration(server.status.snapshot) }

    var reloads: String { PolicyDocuments.reloads(server.status) }

    /// The token of `admin.tokenFile`, as the last reload has read it.
    var token: AdminToken? { server.status.snapshot.parts.adminToken }

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
        guard let cache = server.cache else { return false }
        switch request {
        case .figures:
            let figures = CacheFigures(cache)
            let shared = server.sharedCache
            deliver { completion(CacheAdministration.document(figures, shared)) }
        case .entries(let host, let limit):
            let masking = TaskLogLine(redacting: server.status.snapshot.configuration.log.redact)
            cache.store.list(host: host?.authorityText, atMost: limit, deliver: deliver) { entries in
                completion(CacheAdministration.document(entries, masking: masking))
            }
        case .purge(let purges, let softly):
            let snapshot = server.status.snapshot
            let all = purges.flatMap { CacheAdministration.widened($0, under: snapshot) }
            CachePurge(softly: softly, in: cache, deliver: deliver) { [server] document in
                server.didPurge()
                completion(document)
            }.perform(all[...])
        }
        return true
    }
}
