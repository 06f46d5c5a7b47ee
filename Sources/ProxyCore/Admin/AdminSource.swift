import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// The data for the admin listener's responses: it was collected by other threads, so no worker has to be waited for.
struct AdminSource: Sendable {
    let build: ProgramBuild
    let workers: [WorkerCounters]
    let watchdog: LoopWatchdog
    let state: ServerState
    let status: ServerStatus
    let monitor: PinMonitor
    let cache: CacheHolder
    let logLosses: LogLosses
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
            connections: state.connections,
            status: status.current,
            verdicts: monitor.verdicts,
            lostReports: monitor.lostReports,
            lostLogLines: logLosses.count,
            cache: cache.current.map { CacheFigures($0) },
            process: .read(),
            startTime: startTime
        )
    }

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
        case .purge(let purges): Self.purge(purges[...], in: cache.store, removed: 0, deliver: deliver, completion)
        }
        return true
    }

    /// Removes one after the other.
    private static func purge(
        _ purges: ArraySlice<Purge>,
        in store: CacheStore,
        removed: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable (String) -> Void
    ) {
        guard let first = purges.first else { return completion(CacheAdministration.document(removed: removed)) }
        store.remove(first, deliver: deliver) { count in
            purge(purges.dropFirst(), in: store, removed: removed + count, deliver: deliver, completion)
        }
    }
}
