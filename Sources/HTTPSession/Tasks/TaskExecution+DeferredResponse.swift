import HTTPCore
import IOCore
import SessionCore

/// A 401 of which it is not known yet whether it is the task's answer: a hook answers it later. Belongs to the loop.
///
/// `@unchecked Sendable`: the thread that the hook works on hands it back to the loop, and does not touch it.
final class DeferredResponse: @unchecked Sendable {
    let head: ResponseHead
    /// What came of its body, and behind it.
    var held = ByteBuffer()
    var trailers = HTTPFields()
    /// The exchange is over: how.
    var end: SessionError??
    /// What the hook is about.
    var work: Task<Void, Never>?
    var timer: LoopTimer?

    init(_ head: ResponseHead) { self.head = head }
}

extension TaskExecution {
    /// So much of a 401's body is kept while somebody thinks; of a longer one the origin keeps the rest.
    private static let heldLimit = 64 << 10

    /// Lets a hook answer when it can.
    func wait(
        for decision: @escaping @Sendable () async -> ChallengeDisposition,
        to question: AuthenticationQuestion
    ) {
        let deferred = deferred ?? DeferredResponse(question.response)
        self.deferred = deferred
        let loop = session.loop
        deferred.work = Task(executorPreference: BlockingThreads.shared) { [self] in
            let disposition = await decision()
            loop.submit { [self] in didDecide(question, disposition, deferred) }
        }
        guard deferred.timer == nil, let left = remainingTime else { return }
        let timer = LoopTimer { [weak self] in
            self?.fail(SessionError(.responseTimeout, "Nobody answered the 401 within the task's total time."))
        }
        deferred.timer = timer
        loop.arm(timer, after: left)
    }

    /// - Returns: false when the origin shall wait with the rest.
    func hold(_ bytes: borrowing Span<UInt8>, of deferred: DeferredResponse) -> Bool {
        deferred.held.append(bytes)
        return deferred.held.count < Self.heldLimit
    }

    private func didDecide(
        _ question: AuthenticationQuestion,
        _ disposition: ChallengeDisposition,
        _ deferred: DeferredResponse
    ) {
        guard let task, deferred === self.deferred else { return }
        var step = apply(disposition, of: question, task)
        if step == nil {
            var rest = question
            rest.offers = rest.offers.dropFirst()
            step = ask(rest, of: task)
        }
        if case .wait(let question, let decision)? = step { return wait(for: decision, to: question) }
        endDeferral()
        switch step {
        case .follow(let again): followed(by: again)
        case .fail(let error): fail(error)
        default: deliver(deferred, to: task)
        }
    }

    /// The 401 is the answer after all.
    private func deliver(_ deferred: DeferredResponse, to task: SessionTask) {
        if deliver(deferred.head, to: task) == .cancel { hop?.cancel() }
        if hop == nil, deferred.end == nil { return }
        if !isDropping {
            passOn(deferred.held.bytes)
            if !deferred.trailers.isEmpty { passOn(deferred.trailers) }
        }
        if let end = deferred.end {
            exchangeEnded(end)
        } else if !isHeld {
            hop?.resumeReceiving()
        }
    }

    func endDeferral() {
        guard let deferred else { return }
        self.deferred = nil
        deferred.work?.cancel()
        if let timer = deferred.timer { session.loop.remove(timer) }
    }
}
