// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore
import Synchronization

/// Sends the spans of sampled requests to one collector, on a thread of its own: carries out what `SpanQueue` decides.
///
/// `@unchecked Sendable`: `queue`, `isOver` and `figures` are made for several threads; `thread` belongs to the owner, which alone calls
/// `join`; everything else is touched by work that `loop` runs on its one thread, and by `init` before that starts.
final class SpanExporter: @unchecked Sendable {
    let collector: TraceCollector
    private let loop: EventLoop
    private var thread: LoopThread?
    private let queue: Locked<SpanQueue<SpanRecord>>
    private let limits: SpanLimits
    private let settings: TraceSettings
    /// Whether the thread has ended, or is about to.
    private let isOver = Atomic<Bool>(false)

    // State of the thread.
    private var snapshot: PolicySnapshot
    private var endpoint: Result<Endpoint, Problem>
    private var session: LoopSession?
    /// Retired sessions, until their last request is over.
    private var leaving: [ObjectIdentifier: LoopSession] = [:]
    private var timer: LoopTimer!
    private var pool = RandomPool()
    private let instance: [UInt8]
    private var stopAt: Int64?
    private var hasFinished = false
    /// The losses of which there was an event, and when the last one was.
    private var told: [SpanLoss: Int] = [:]
    private var toldAt: Int64?
    /// The reason of the last loss: a code of errors, or the status of the collector's response.
    private var reason: String?
    /// Whether there was a warning of an address that this policy denies.
    private var hasWarned = false

    init(
        _ collector: TraceCollector,
        _ snapshot: PolicySnapshot,
        _ settings: TraceSettings
    ) throws(IOFailure) {
        self.collector = collector
        self.snapshot = snapshot
        self.settings = settings
        limits = settings.limits
        queue = Locked(SpanQueue(limits: settings.limits))
        loop = try EventLoop()
        endpoint = Self.endpoint(collector, snapshot, settings.limits)
        var instance: [UInt8] = []
        instance.append(TraceContext.TraceID(high: pool.next(), low: pool.next()))
        self.instance = instance
        timer = LoopTimer { [weak self] in self?.work() }
        loop.submit { [self] in warnOfRefusal() }
        thread = try LoopThread(name: "traces") { [loop] in loop.run() }
    }

    /// The collector is asked as an origin is: under the rules and pins of the policy.
    private static func endpoint(
        _ collector: TraceCollector,
        _ snapshot: PolicySnapshot,
        _ limits: SpanLimits
    ) -> Result<Endpoint, Problem> {
        let timeouts = TaskTimeouts(
            connect: .milliseconds(limits.connect),
            firstByte: .milliseconds(limits.answer),
            stall: .milliseconds(limits.answer),
            total: .milliseconds(limits.connect + limits.answer)
        )
        return Router(snapshot: snapshot, timeouts: timeouts).endpoint(named: collector.url.origin)
    }

    // MARK: Any thread

    func add(_ records: [SpanRecord]) {
        let wakes = queue.withLock { queue in
            records.reduce(false) { queue.add($1, bytes: $1.memorySize) || $0 }
        }
        if wakes { loop.submit { [self] in work() } }
    }

    /// The fate of the requests whose spans were recorded.
    var figures: SpanFigures {
        queue.withLock { SpanFigures(delivered: $0.delivered, lost: $0.lost) }
    }

    var hasEnded: Bool { isOver.load(ordering: .acquiring) }

    /// Uses another policy's rules from now on.
    func replace(_ snapshot: PolicySnapshot) {
        loop.submit { [self] in adopt(snapshot) }
    }

    /// Sends what waits, for a short time, and then ends the thread.
    func startStopping() {
        loop.submit { [self] in
            guard stopAt == nil else { return }
            stopAt = now + limits.atStop
            queue.withLock { $0.startStopping() }
            work()
        }
    }

    /// Waits for the thread, which `startStopping` has ended.
    func join() {
        thread?.join()
        thread = nil
    }

    // MARK: The thread

    /// Milliseconds that only grow.
    private var now: Int64 { Int64(loop.now / 1_000_000) }

    private func adopt(_ next: PolicySnapshot) {
        guard !hasFinished else { return }
        snapshot = next
        hasWarned = false
        endpoint = Self.endpoint(collector, next, limits)
        retireSession()
        warnOfRefusal()
    }

    /// Sends what is due, and sets the timer for the next.
    private func work() {
        guard !hasFinished else { return }
        let now = now
        while let records = queue.withLock({ $0.next(now: now) }) { send(records) }
        tellOfLosses(now)
        if let stopAt, now >= stopAt || queue.withLock({ $0.isEmpty }) { return finish() }
        let due = queue.withLock { $0.nextDue }
        let untold = queue.withLock { $0.lost } != told ? toldAt.map { $0 + limits.lossInterval } : nil
        guard let next = [due, stopAt, untold].compactMap({ $0 }).min() else { return loop.disarm(timer) }
        // One millisecond is added, so that the deadline has passed for certain.
        loop.arm(timer, at: UInt64(max(next, now) + 1) * 1_000_000)
    }

    private func send(_ records: [SpanRecord]) {
        let endpoint: Endpoint
        switch self.endpoint {
        case .success(let found): endpoint = found
        case .failure(let problem): return finished(.refused, problem.code.rawValue)
        }
        guard let session = currentSession() else { return finished(.refused, Problem.Code.internal.rawValue) }
        var spans: [OTLPSpan] = []
        for record in records { spans += SpanTree.spans(of: record) { self.pool.next() } }
        let bytes = OTLPMessage.request(spans, version: settings.version, instance: instance)
        let tracing = snapshot.configuration.tracing ?? TracingConfiguration()
        let message = SpanDelivery.Message(bytes, tracing.compression)
        SpanDelivery.start(message, to: collector, tracing.headers, at: endpoint, on: session) {
            [weak self] outcome, failure in
            guard let self else { return }
            if case .error(let error) = failure { warnOfRefusal(error) }
            finished(outcome, failure?.reason)
            // libcurl may be on the stack.
            loop.atEndOfTurn { [weak self] in self?.work() }
        }
    }

    private func finished(_ outcome: SpanQueue<SpanRecord>.Outcome, _ reason: String?) {
        if outcome != .delivered { self.reason = reason }
        queue.withLock { $0.finished(outcome, now: now, chance: .random(in: 0...1)) }
    }

    private func finish() {
        hasFinished = true
        queue.withLock { $0.stop() }
        toldAt = nil
        tellOfLosses(now)
        loop.remove(timer)
        retireSession()
        guard !leaving.isEmpty else { return end() }
        for session in leaving.values { session.invalidateSession(cancelingTasks: true) }
    }

    private func end() {
        isOver.store(true, ordering: .releasing)
        loop.stop()
    }

    private func currentSession() -> LoopSession? {
        if session == nil {
            var configuration = SessionConfiguration()
            configuration.resolver = snapshot.configuration.resolver
            configuration.connectionPoolSize = 1
            configuration.responseHeadBytes = min(snapshot.configuration.limits.responseHeadBytes, 64 << 10)
            configuration.revocationLists = settings.lists
            session = try? LoopSession(loop: loop, configuration: configuration)
        }
        return session
    }

    private func retireSession() {
        guard let retired = session else { return }
        session = nil
        let identifier = ObjectIdentifier(retired)
        leaving[identifier] = retired
        retired.sessionDidBecomeInvalid = { [unowned self] in
            leaving[identifier] = nil
            if hasFinished, leaving.isEmpty { end() }
        }
        retired.invalidateSession(cancelingTasks: false)
    }

    // MARK: Events

    private func warnOfRefusal() {
        if case .failure(let problem) = endpoint { warnOfRefusal(problem.details) }
    }

    /// Warns once under each policy of an address that may not be dialled: a name shows it only when it is looked up.
    private func warnOfRefusal(_ error: SessionError) {
        guard error.code == .addressDenied, !hasWarned else { return }
        hasWarned = true
        warnOfRefusal(error.details)
    }

    private func warnOfRefusal(_ details: String) {
        log(
            EventLine(event: "warning")
                .with("code", "trace_collector_denied")
                .with("message", "spans cannot go to \(collector.url.origin): \(details)")
        )
    }

    private func tellOfLosses(_ now: Int64) {
        if let toldAt, now - toldAt < limits.lossInterval { return }
        let lost = queue.withLock { $0.lost }
        guard lost != told else { return }
        var line = EventLine(event: "traces_dropped")
            .with("count", lost.values.reduce(0, +) - told.values.reduce(0, +))
        for loss in SpanLoss.allCases {
            let count = (lost[loss] ?? 0) - (told[loss] ?? 0)
            if count > 0 { line = line.with(loss.rawValue, count) }
        }
        if let reason { line = line.with("reason", reason) }
        told = lost
        toldAt = now
        log(line)
    }

    private func log(_ line: EventLine) {
        settings.log(line, .warning, snapshot.configuration.log.level)
    }
}
