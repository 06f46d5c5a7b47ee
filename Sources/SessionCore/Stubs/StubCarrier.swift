// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// Carries a task in a session with an origin in memory: what an `OriginRequest` is in a session with connections.
final class StubCarrier: TaskExchange {
    private let transport: StubTransport
    private let limits: HeadLimits
    private let didEnd: (LoopTask) -> Void
    private var exchange: StubExchange?
    private var isContinuePlanned = false
    /// A handler of the origin makes the response.
    private var isWorking = false

    /// - Parameter didEnd: called once, with the task.
    init(
        _ task: LoopTask,
        _ transport: StubTransport,
        limits: HeadLimits,
        loop: EventLoop,
        didEnd: @escaping (LoopTask) -> Void
    ) {
        self.transport = transport
        self.limits = limits
        self.didEnd = didEnd
        super.init(loop: loop, limits: limits)
        self.task = task
    }

    override func start() {
        guard let task else { return }
        timings.begin(at: task.startedAt)
        let timeouts = task.request.timeouts ?? task.request.endpoint.timeouts
        clock = TransferClock(timeouts, taskStart: task.startedAt, now: loop.now)
        armTimer()
        guard task.taker == nil else {
            return task.finish(
                SessionError(.requestInvalid, "A session with a stub origin makes no connections, and so no streams.")
            )
        }
        guard task.guarded == nil else { return task.finish(task.guarded?.refusal(of: task.request.endpoint, nil)) }
        let exchange = StubExchange(task.request, self, limits: limits)
        self.exchange = exchange
        transport.begin(exchange)
    }

    override func stubDidAccept() -> Bool {
        guard let task, exchange != nil else { return false }
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        guard exchange != nil else { return false }
        timings.requestStart = elapsed
        return true
    }

    override func continueLater() {
        guard !isContinuePlanned else { return }
        isContinuePlanned = true
        loop.atEndOfTurn { [weak self] in
            self?.isContinuePlanned = false
            self?.exchange?.proceed()
        }
    }

    override func end() {
        guard let ended = task.take() else { return }
        invalidate()
        exchange.take()?.detach()
        didEnd(ended)
    }

    // MARK: Time

    override func holdDidChange() {
        if isHeldBack || isWorking { clock.suspend() } else { clock.resume(at: loop.now) }
        armTimer()
    }

    /// The origin is a part of a test, and shares its threads with other tests: only the limit of the whole runs while it works.
    override func stubIsWorking(_ isWorking: Bool) {
        guard task != nil, isWorking != self.isWorking else { return }
        self.isWorking = isWorking
        if !isHeldBack { holdDidChange() }
    }

    override func timerDidFire() {
        guard let task else { return }
        switch clock.judge(at: loop.now) {
        case .wait, .look: armTimer()
        case .expired(let expiry): task.finish(expiry.error(task.request.endpoint, at: .connection))
        }
    }

    override func collectMetrics(into metrics: inout TaskMetrics) {
        metrics.transaction = TransactionMetrics()
        timings.write(into: &metrics.transaction, isOnReusedConnection: false, pendingBytes: 0, now: elapsed)
    }
}
