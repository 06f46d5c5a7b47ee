// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust
import SessionCore

/// Counts the evaluations of one loop's handshakes, for `PinMonitor`. Belongs to the loop.
final class HandshakeObserver {
    private let loop: EventLoop
    private let monitor: PinMonitor
    private let counters: WorkerCounters
    private var tally = HandshakeTally()
    private var timer: LoopTimer!

    /// How long counts are collected before they are handed over.
    private static let age = TimeSpan.seconds(1)

    init(loop: EventLoop, monitor: PinMonitor, counters: WorkerCounters) {
        self.loop = loop
        self.monitor = monitor
        self.counters = counters
        timer = LoopTimer { [unowned self] in flush() }
    }

    /// Observes the handshakes of a session.
    func observe(_ manager: LoopSession) {
        manager.sessionDidEvaluateServerTrust = { [unowned self] trust, endpoint in count(trust, endpoint) }
    }

    private func count(_ trust: ConnectionTrust, _ endpoint: Endpoint) {
        let time = loop.wallClock / 1_000_000
        counters.noteHandshake(trust.evaluation.verdict, trust.tlsGroup)
        if trust.evaluation.isPinFailure { monitor.report(trust, port: endpoint.port, at: time) }
        tally.note(trust.evaluation, of: trust.policy, at: time)
        handOverSoon()
    }

    /// Counts a request that got no connection to its origin.
    ///
    /// - Parameter policy: of its host and port; nil where no pin file names these.
    func count(_ error: Problem.Code, of policy: SecurityPolicy?) {
        tally.note(error, of: policy, at: loop.wallClock / 1_000_000)
        handOverSoon()
    }

    private func handOverSoon() {
        if !tally.isEmpty, !timer.isArmed { loop.arm(timer, after: Self.age) }
    }

    /// Hands over the collected counts.
    func flush() {
        loop.disarm(timer)
        if !tally.isEmpty { monitor.account(tally.drain(), others: tally.drainOthers()) }
    }

    /// Hands over the last counts.
    func stop() {
        flush()
        loop.remove(timer)
    }
}
