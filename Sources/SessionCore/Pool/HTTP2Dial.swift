// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust

/// The making of a connection to an endpoint that may speak HTTP/2. The requests for the endpoint wait for it together; the one
/// that has waited longest answers for the others when the handshake has a question.
///
/// It stays in the pool until the server's settings have come. Until then the connection takes as many requests as the server
/// allowed last time, or 100 (RFC 9113, section 6.5.2, recommends no less), and no request that a server has refused already.
final class HTTP2Dial: HTTP2ConnectionOwner, SharedPlace {
    let endpoint: Endpoint
    private let entry: OriginConnections.Entry
    private let connections: OriginConnections
    private let loop: EventLoop
    private var requests: [OriginRequest] = []
    private var attempt: ConnectionAttempt!
    private var timer: LoopTimer!
    /// The request whose delegate has refused a server that the policy accepts.
    private var refusing: OriginRequest?
    private var hasMadeRoom = false
    private var isOver = false
    /// The connection, as long as its server's settings have not come.
    private(set) var connection: HTTP2ClientConnection?

    init(_ endpoint: Endpoint, entry: OriginConnections.Entry, connections: OriginConnections) {
        self.endpoint = endpoint
        self.entry = entry
        self.connections = connections
        loop = connections.loop
        super.init()
        timer = LoopTimer { [unowned self] in timerDidFire() }
    }

    /// Begins. The requests hear of the result later, never from within this call.
    func start() {
        attempt = connections.makeAttempt(to: endpoint, offering: [.http2, .http1], owner: self)
        loop.arm(timer, after: endpoint.timeouts.spans.connect)
        attempt.start()
    }

    // MARK: Requests

    var hasRoom: Bool {
        if let connection { return connection.hasRoom }
        let limit = min(entry.streamLimit(at: loop.now), entry.requestLimit(at: loop.now))
        return !isOver && requests.count < min(StreamLoad.limit, limit)
    }

    var isIdle: Bool { false }

    /// When the attempt began, in nanoseconds of the loop's clock.
    var startedAt: UInt64 { attempt.startedAt }
    var times: ConnectionTimes { attempt.times }
    var stage: ConnectionStage { attempt.stage }
    /// The evaluation of the server, also of one that was refused.
    var evaluation: TrustEvaluation? { attempt.evaluation }

    /// The request waits for the connection.
    func join(_ request: OriginRequest) { requests.append(request) }

    /// A request waits no longer. Without requests the attempt is given up.
    func leave(_ request: OriginRequest) {
        requests.removeAll { $0 === request }
        guard requests.isEmpty, !isOver else { return }
        attempt.cancel()
        end()
        connections.dialDidEnd(self, entry, keeping: nil)
    }

    // MARK: Result

    private func end() {
        isOver = true
        loop.remove(timer)
    }

    override func attemptDidConnect(_ attempt: ConnectionAttempt, _ connection: VerifiedConnection) {
        end()
        let waiting = requests
        requests = []
        guard connection.applicationProtocol == .http2 else {
            // The connection is kept for requests over HTTP/1.1, those that have waited among them.
            entry.didChooseHTTP1(at: loop.now)
            // They have waited longest.
            for request in waiting where request.isAwaiting(self) { request.enterAgain() }
            return connections.dialDidEnd(
                self,
                entry,
                keeping: HTTP1Connection(connection, entry, owner: connections)
            )
        }
        let made = HTTP2ClientConnection(connection, entry, streamOwner: self, owner: connections)
        guard let shared = made else {
            connection.close(isWhole: true)
            let error = SessionError(.internal, "nghttp2 has no memory for a session.")
            return fail(ConnectionFailure(error: error), waiting)
        }
        self.connection = shared
        connections.dialDidConnect(shared)
        for request in waiting where request.isAwaiting(self) { request.share(shared) }
        shared.start()
        // It carries these requests and no more.
        if connections.isRetired { shared.retire() }
    }

    override func attemptDidFail(_ attempt: ConnectionAttempt, _ failure: ConnectionFailure) {
        if failure.isDescriptorMissing {
            if !hasMadeRoom, connections.makeRoom() {
                hasMadeRoom = true
                return start()
            }
            return end(with: ConnectionFailure(error: .noDescriptor(for: endpoint.host)))
        }
        end(with: failure)
    }

    private func end(with failure: ConnectionFailure) {
        end()
        let waiting = requests
        requests = []
        fail(failure, waiting)
    }

    private func fail(_ failure: ConnectionFailure, _ waiting: [OriginRequest]) {
        connections.dialDidEnd(self, entry, keeping: nil)
        // A delegate that is notified of a failure may end other requests, whose objects other tasks get.
        for request in waiting where request.isAwaiting(self) {
            // A server that one task's delegate refuses may be accepted by another's.
            if let refusing, refusing !== request {
                request.enterAgain()
            } else {
                request.dialDidFail(self, failure)
            }
        }
        refusing = nil
    }

    private func timerDidFire() {
        guard !isOver else { return }
        let expiry = TransferClock.Expiry(phase: .connecting, isTotal: false, limit: endpoint.timeouts.spans.connect)
        var failure = ConnectionFailure(error: attempt.pendingError ?? expiry.error(endpoint, at: stage))
        failure.times = times
        attempt.cancel()
        end(with: failure)
    }

    // MARK: Handshake

    override func attemptNeedsClientIdentity(_ attempt: ConnectionAttempt) -> ClientIdentityDecision {
        requests.first?.needsClientIdentity() ?? .none
    }

    override func attempt(_ attempt: ConnectionAttempt, mayTrust trust: ConnectionTrust) -> SessionError? {
        guard let asked = requests.first, let refusal = asked.mayTrust(trust) else { return nil }
        refusing = asked
        return refusal
    }

    override func attempt(_ attempt: ConnectionAttempt, didEvaluate trust: ConnectionTrust, of endpoint: Endpoint) {
        connections.didEvaluateTrust?(trust, endpoint)
    }

    // MARK: The connection

    override func connectionDidReceiveSettings(_ connection: HTTP2ClientConnection) { leavePool(to: connection) }

    override func connectionDidRetire(_ connection: HTTP2ClientConnection) {
        entry.pool.retire(connection)
        leavePool(to: nil)
    }

    /// The connection has taken the dial's place in the pool until now; it gets its own, or takes no more requests.
    private func leavePool(to successor: HTTP2ClientConnection?) {
        guard connection != nil else { return }
        entry.pool.remove(self, for: successor)
        connection = nil
        attempt = nil
    }

    override func connectionMayHaveRoom(_ connection: HTTP2ClientConnection) { connections.serveLater(entry) }

    override func connectionDidClose(_ connection: HTTP2ClientConnection, isReplaced: Bool) {
        connections.forget(connection)
        if !isReplaced { connections.leave(entry, keeping: nil) }
    }
}
