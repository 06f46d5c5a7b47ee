// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching
package import IOCore
package import SharedCaching

/// What any thread may read of a running proxy: it was collected by other threads, so no worker has to be waited for.
package struct ServerFigures: Sendable {
    let workers: [WorkerCounters]
    /// How long the turns of the workers' loops have taken.
    package let turns: [TurnRecord]
    let watchdog: LoopWatchdog
    let state: ServerState
    let serverStatus: ServerStatus
    package let monitor: PinMonitor
    package let lists: RevocationListFetcher
    package let credentials: CredentialRenewals
    package let traces: TraceExport
    let cacheHolder: CacheHolder
    package let logLosses: LogLosses
    package let recentTasks: RecentTasks
    /// Has the workers make lines for `recentTasks` where no task log is written.
    package let recordTasks: @Sendable () -> Void
    /// Is called after a purge, so that the workers return the freed memory.
    package let didPurge: @Sendable () -> Void

    /// False when only a restart helps.
    package var isAlive: Bool { watchdog.check() }

    package var status: ServerStatus.Values { serverStatus.current }

    /// The sums of all workers.
    package var work: WorkerCounters.Reading {
        var work = WorkerCounters.Reading()
        for worker in workers { worker.add(to: &work) }
        return work
    }

    /// The number of open client connections.
    package var connections: Int { state.connections }

    /// The bytes that clients and origins make the process hold.
    package var heldBytes: Int { state.heldBytes.used }

    /// The descriptors that no client connection uses.
    package var reservedDescriptors: Int { state.descriptors.reserve }

    /// nil without a cache.
    package var cache: ResponseCache? { cacheHolder.current }

    /// The level of the cache that several machines share; nil without one.
    package var sharedCache: SharedCacheStatus? { cache?.sharedCache?.status }
}
