// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// What carries a task: a request on its way to the origin, or one that the session's cache takes part in. It is its task's alone until
/// it ends. A class to inherit from.
class TaskCarrier {
    /// The delegate wants no more of the response for now.
    final var isPausedByDelegate = false
    /// The task is suspended.
    final var isHeldBack = false

    /// Whether bytes of the response are taken now.
    @inline(__always)
    final var takesResponse: Bool { !isPausedByDelegate && !isHeldBack }

    /// Begins. It may end the task before it returns.
    func start() {}

    /// The task was suspended, or resumed.
    func holdDidChange() {}

    /// The task has bytes of the body, or takes bytes of the response again: goes on at the end of the turn.
    func continueLater() {}

    /// Bytes have moved on the connection that was given to the task's taker.
    func takerDidMoveBytes() {}

    /// The response has begun an authentication of the connection: from now on it carries the requests of the task's owner alone.
    func giveConnectionToOwner() {}

    /// The number of bytes of the body that a connection has taken and not sent.
    var pendingBytes: Int { 0 }

    /// The evaluation of the server, also of one that was refused.
    var evaluation: TrustEvaluation? { nil }

    /// Fills in what is known by now. Calls nobody.
    func collectMetrics(into metrics: inout TaskMetrics) {}

    /// The task is over.
    func end() {}
}
