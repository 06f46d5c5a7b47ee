// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import StrictJSON

/// `/status`: the figures of one moment in a document of a few hundred bytes, whatever the number of hosts.
///
/// All of them are counted anyway: a reader costs the workers nothing.
struct StatusDocument {
    var build: ProgramBuild
    /// Whether every worker's loop responds.
    var isAlive: Bool
    var status: ServerStatus.Values
    /// Microseconds since 1970.
    var startTime: Int64
    /// Seconds since 1970.
    var date: Int64
    /// The sums of all workers.
    var work: WorkerCounters.Reading
    /// The number of open client connections.
    var connections: Int
    /// The bytes that clients and origins make the process hold.
    var heldBytes: Int
    var process: ProcessFigures
    var turns: TurnFigures
    var lostLogLines: Int
    /// Seconds since the last report of lost lines; nil before the first.
    var logLossAge: Int?
    var lostReports: Int
    /// When lost reports were told of last, in seconds since 1970; nil before the first.
    var reportLoss: Int64?
    /// Whether there is a cache; its figures are those of `/cache`.
    var hasCache: Bool
    var lists: (counts: RevocationListFetcher.Counts, held: RevocationListStore.Figures)

    var text: String {
        let limits = status.snapshot.configuration.limits
        var line = JSONLine()
        line.add("version", build.version)
        line.add("time", Timestamp.text(unixSeconds: date))
        line.add("started", Timestamp.text(unixSeconds: startTime / 1_000_000))
        line.add("live", isAlive)
        line.add("draining", status.isDraining)
        line.add("generation", status.snapshot.generation)
        line.add("requests", work.tasks.reduce(0, +))
        line.add("connections", connections)
        line.add("connectionsRefused", work.refusedConnections)
        if work.lastRefusal > 0 {
            line.add("lastConnectionRefused", Timestamp.text(unixSeconds: Int64(work.lastRefusal)))
        }
        line.add("residentBytes", process.residentBytes)
        line.add("heldBytes", heldBytes)
        line.add("heldBytesLimit", limits.heldBytes)
        line.add("openFiles", process.openDescriptors)
        line.add("openFilesLimit", process.maximalDescriptors)
        if let turn = turns.longest.compactMap({ $0 }).max(by: { $0.microseconds < $1.microseconds }) {
            line.add("longestTurn", TurnFigures.json(turn))
        }
        line.add("cache", hasCache)
        line.add("logLinesLost", lostLogLines)
        if let logLossAge { line.add("logLossReported", Timestamp.text(unixSeconds: date - Int64(logLossAge))) }
        line.add("reportsLost", lostReports)
        if let reportLoss { line.add("reportLossReported", Timestamp.text(unixSeconds: reportLoss)) }
        var held = JSONLine()
        held.add("current", lists.held.current)
        held.add("expired", lists.held.expired)
        held.add("failedFetches", lists.counts.failed)
        line.add("revocationLists", held)
        return line.text
    }
}
