// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The phases of a task's execution, as a value: what happens goes in, the next step comes out.
///
/// It holds no hop, sink or timer: `TaskExecution` reports what happens, and does what the value says.
struct ExecutionFlow {
    enum Step {
        case nothing
        /// The end of the present hop is reported by `hopDidEnd`, and leads to the next step.
        case cancelHop
        /// The next hop begins, with this request.
        case send(HTTPSessionRequest)
        /// The task waits for the network if its absence explains the error, and ends with the error otherwise.
        case awaitNetwork(SessionError)
        case finish(SessionError?)
    }

    /// The use of bytes or trailers of the present response.
    enum PieceUse {
        case deliver
        /// A hook decides whether the response is delivered.
        case hold
        case drop
        /// Too much is dropped: the hop is cancelled.
        case cancel
    }

    private enum Phase {
        /// Before the first hop, and between two hops.
        case idle
        case hop
        /// The hop whose response is held back has ended like this.
        case ended(SessionError?)
        case finishing
    }

    private var phase = Phase.idle
    private(set) var isSuspended = false
    private var isCancelled = false
    /// The consumer of a stream is slow; the limits of the phases do not count meanwhile.
    private var isHeldByReader = false
    /// A hook decides about the response.
    private var isHeldBack = false
    /// The request behind the present response (redirect or authentication); nil when the response is final.
    private var next: HTTPSessionRequest?
    /// The body of a response that is not final.
    private var unwanted = UnwantedBody()
    /// The error that the task ends with.
    private var failure: SessionError?
    private let awaitsNetwork: Bool

    /// - Parameter awaitsNetwork: whether a task waits for the network instead of failing.
    init(awaitsNetwork: Bool) { self.awaitsNetwork = awaitsNetwork }

    // MARK: The task

    /// The task is suspended, or goes on.
    ///
    /// - Returns: false for a task that was cancelled, for which this has no meaning.
    mutating func setSuspended(_ isSuspended: Bool) -> Bool {
        guard !isCancelled else { return false }
        self.isSuspended = isSuspended
        return true
    }

    mutating func cancel() -> Step {
        if case .finishing = phase { return .nothing }
        isCancelled = true
        return stop(with: .taskCancelled)
    }

    /// The task has failed; the first failure counts.
    @discardableResult
    mutating func fail(_ error: SessionError) -> Step {
        failure = failure ?? error
        return stop(with: failure)
    }

    private mutating func stop(with error: SessionError?) -> Step {
        isHeldBack = false
        switch phase {
        case .hop: return .cancelHop
        case .idle, .ended: return .finish(error)
        case .finishing: return .nothing
        }
    }

    /// - Returns: false when the task has ended already.
    mutating func finish() -> Bool {
        if case .finishing = phase { return false }
        phase = .finishing
        isHeldBack = false
        next = nil
        return true
    }

    var isFinishing: Bool { if case .finishing = phase { true } else { false } }

    // MARK: The consumer

    /// Whether the hop's limits run, and its response is received.
    var isRunning: Bool { !isSuspended && !isHeldByReader }

    /// The consumer of a stream has as much as it takes for now, or takes more.
    mutating func setHeldByReader(_ isHeld: Bool) { isHeldByReader = isHeld }

    // MARK: Hops

    mutating func beginHop() {
        phase = .hop
        unwanted = UnwantedBody()
    }

    mutating func hopDidEnd(_ error: SessionError?) -> Step {
        phase = .ended(error)
        return isHeldBack ? .nothing : leaveHop()
    }

    /// The step after a hop that has ended; nothing while the hop goes on.
    mutating func leaveHop() -> Step {
        guard case .ended(let error) = phase else { return .nothing }
        phase = .idle
        if isCancelled || failure != nil { return .finish(failure ?? error) }
        if let next = next.take() { return .send(next) }
        return if awaitsNetwork, let error { .awaitNetwork(error) } else { .finish(error) }
    }

    // MARK: The response

    /// Another request follows the response, which is not delivered.
    ///
    /// - Parameter framing: of the body, which is read to its end if it is short.
    mutating func follow(_ request: HTTPSessionRequest, after framing: BodyFraming) -> ResponseDisposition {
        next = request
        return UnwantedBody.isWorthReading(framing) ? .allow : .cancel
    }

    /// A hook decides later whether the response is delivered.
    mutating func holdBack() { isHeldBack = true }

    /// The hook has decided: the response that was held back is delivered, if there is one still.
    mutating func release() { isHeldBack = false }

    /// The hook has decided: another request follows the response that was held back. Nothing more of that is read.
    mutating func followHeldBack(_ request: HTTPSessionRequest) -> Step {
        isHeldBack = false
        next = request
        if case .hop = phase { return .cancelHop }
        return leaveHop()
    }

    /// Whether the present response has not led to the next step yet.
    var hasResponse: Bool {
        switch phase {
        case .hop, .ended: true
        case .idle, .finishing: false
        }
    }

    /// Bytes of the body, or trailers (with a count of 0), have come.
    mutating func receive(_ count: Int) -> PieceUse {
        if isCancelled { return .drop }
        if isHeldBack { return .hold }
        guard next != nil else { return .deliver }
        return unwanted.didReceive(count) ? .drop : .cancel
    }
}
