import IOCore
import SessionCore

/// Where the admin listener's answers come from: what others have counted or said, so that no worker is waited for.
struct AdminSource: Sendable {
    let build: ProgramBuild
    let workers: [WorkerCounters]
    let pulse: LoopPulse
    let state: ServerState
    let status: ServerStatus
    let monitor: PinMonitor
    /// Microseconds since 1970.
    let startTime = ProcessFigures.startTime()

    /// False when a restart is the only thing that helps.
    var isAlive: Bool { pulse.check() }

    /// False when new clients should go elsewhere.
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
            process: .read(),
            startTime: startTime
        )
    }
}
