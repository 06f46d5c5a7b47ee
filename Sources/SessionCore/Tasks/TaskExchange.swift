// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// The exchange of a task with its origin: what comes of the response goes to the task's delegate. A class to inherit from.
class TaskExchange: ExchangeReceiver {
    /// nil when there is none, or it has ended.
    final var task: LoopTask?
    /// The budget for informational heads of the response that comes.
    final var informational: InformationalBudget

    init(loop: EventLoop, limits: HeadLimits) {
        informational = InformationalBudget(headBytes: limits.headBytes)
        super.init(loop: loop)
    }

    override var method: HTTPMethod { task?.request.method ?? .get }

    /// The request goes out, or goes out again.
    final func beginExchange(_ limits: HeadLimits) {
        repetition.beginExchange()
        timings.beginExchange()
        informational = InformationalBudget(headBytes: limits.headBytes)
    }

    // MARK: Request

    override var hasBody: Bool { task.map { !$0.upload.isEmpty } ?? false }

    override var isBodyComplete: Bool { task.map { $0.uploadEnded && $0.upload.isEmpty } ?? true }

    override var bodyTrailers: HeaderFields { task?.uploadTrailers ?? HeaderFields() }

    override func takeBody(into piece: inout ByteBuffer, upTo limit: Int) {
        guard let task else { return }
        guard task.upload.count > limit else { return swap(&piece, &task.upload) }
        var body = ByteBuffer()
        swap(&body, &task.upload)
        piece.append(body.bytes.extracting(0..<limit))
        body.consume(limit)
        swap(&body, &task.upload)
    }

    override func needsBodyData() {
        guard let task else { return }
        // A body that is sent in parts: the next one goes behind the work of others.
        guard task.upload.isEmpty else { return continueLater() }
        task.delegate.taskNeedsBodyData(task)
    }

    // MARK: Handshake

    final func needsClientIdentity() -> ClientIdentityDecision {
        task.map { $0.delegate.taskNeedsClientIdentity($0) } ?? .none
    }

    final func mayTrust(_ trust: ConnectionTrust) -> SessionError? {
        task.flatMap { $0.delegate.task($0, mayTrust: trust) }
    }

    // MARK: Response

    final override func didReceiveInformational(_ head: borrowing ResponseHead) {
        guard let task else { return }
        noteHead(byteCount: head.byteCount)
        clock.originIsAlive(at: loop.now)
        switch informational.receive(status: head.status, byteCount: head.byteCount, at: loop.now) {
        case .relay:
            if let masked = task.guarded?.masked(head) {
                task.delegate.task(task, didReceiveInformational: masked)
            } else {
                task.delegate.task(task, didReceiveInformational: head)
            }
        case .drop: break
        case .excessive(let why): fail(SessionError(.responseInvalid, why))
        }
    }

    override func didReceiveHead(_ head: borrowing ResponseHead) {
        guard let task else { return }
        noteHead(byteCount: head.byteCount)
        timings.status = head.status
        timings.protocolVersion = Int(head.majorVersion) * 10 + Int(head.minorVersion)
        enter(.receiving)
        let disposition = task.guarded == nil ? task.received(head) : receivedMasked(head, task)
        if disposition == .cancel, self.task === task { task.cancel() }
    }

    /// The same for a request with fields whose values the client must not see. Out of line: others would pay for it.
    @inline(never)
    private func receivedMasked(_ head: borrowing ResponseHead, _ task: LoopTask) -> ResponseDisposition {
        task.guarded?.masked(head).map { task.received($0) } ?? task.received(head)
    }

    override func didReceiveBody(_ bytes: borrowing Span<UInt8>) {
        guard let task else { return }
        timings.responseBodyBytes += bytes.count
        // The task may have ended within the call, and this carry another one by now.
        if task.delegate.task(task, didReceive: bytes) == .pause, self.task === task { isPausedByDelegate = true }
    }

    final override func didReceiveEnd(trailers: borrowing HeaderFields) {
        guard let task else { return }
        if timings.responseEnd == TransactionMetrics.absent { timings.responseEnd = elapsed }
        if trailers.count > 0 {
            var trailers = copy trailers
            task.guarded?.mask(&trailers)
            task.delegate.task(task, didReceiveTrailers: trailers)
        }
        if self.task === task { didReceiveEnd() }
    }

    override func didReceiveEnd() {
        guard let task else { return }
        if timings.responseEnd == TransactionMetrics.absent { timings.responseEnd = elapsed }
        task.finish(nil)
    }

    // MARK: The end

    override func fail(_ error: SessionError) { task?.finish(error) }
}
