// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// The making of a connection for one request: over HTTP/1.1, or for the taker of a task. The request answers the questions of the
/// handshake.
final class RequestDial: ConnectionAttemptOwner {
    private unowned let request: OriginRequest
    private let connections: OriginConnections
    private let endpoint: Endpoint
    /// Takes the connection in place of a request.
    private let taker: ConnectionTaker?
    private var attempt: ConnectionAttempt!
    private var hasMadeRoom = false

    init(_ endpoint: Endpoint, for request: OriginRequest, _ taker: ConnectionTaker?, _ connections: OriginConnections)
    {
        self.endpoint = endpoint
        self.request = request
        self.taker = taker
        self.connections = connections
        super.init()
        makeAttempt()
    }

    private func makeAttempt() {
        attempt = connections.makeAttempt(
            to: endpoint,
            offering: taker?.applicationProtocols ?? [.http1],
            isTunnelled: taker != nil,
            owner: self
        )
    }

    /// Begins. The request hears of the result later, never from within this call.
    func start() { attempt.start() }

    /// Gives the attempt up; the request hears nothing more.
    func cancel() { attempt.cancel() }

    /// When the attempt began, in nanoseconds of the loop's clock.
    var startedAt: UInt64 { attempt.startedAt }
    var times: ConnectionTimes { attempt.times }
    var stage: ConnectionStage { attempt.stage }
    /// The evaluation of the server, also of one that was refused.
    var evaluation: TrustEvaluation? { attempt.evaluation }
    var pendingError: SessionError? { attempt.pendingError }

    override func attemptDidConnect(_ attempt: ConnectionAttempt, _ connection: VerifiedConnection) {
        guard taker != nil || !connection.hasEarlyBytes else {
            connection.close(isWhole: false)
            let error = SessionError.earlyBytes(of: connection.endpoint)
            let failure = ConnectionFailure(error: error, info: connection.info, times: connection.times)
            return request.dialDidFail(self, failure)
        }
        request.dialDidConnect(self, connection, for: taker)
    }

    override func attemptDidFail(_ attempt: ConnectionAttempt, _ failure: ConnectionFailure) {
        guard failure.isDescriptorMissing else { return request.dialDidFail(self, failure) }
        guard !hasMadeRoom, connections.makeRoom() else {
            var failure = failure
            failure.error = .noDescriptor(for: endpoint.host)
            return request.dialDidFail(self, failure)
        }
        hasMadeRoom = true
        makeAttempt()
        request.dialDidBegin(self)
        start()
    }

    override func attemptNeedsClientIdentity(_ attempt: ConnectionAttempt) -> ClientIdentityDecision {
        request.needsClientIdentity()
    }

    override func attempt(_ attempt: ConnectionAttempt, mayTrust trust: ConnectionTrust) -> SessionError? {
        request.mayTrust(trust)
    }

    override func attempt(_ attempt: ConnectionAttempt, didEvaluate trust: ConnectionTrust, of endpoint: Endpoint) {
        connections.didEvaluateTrust?(trust, endpoint)
    }
}
