import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// What a server shows of itself: a TLS handshake through the session core, and not a byte of a request.
struct ServerProbe {
    /// The chain, and whether it is valid for the host.
    var evaluation: TrustEvaluation
    /// The address and the TLS version, where the handshake was finished.
    var connection: ConnectionInfo?

    /// Connects, and judges the chain by no pins: chain and host alone.
    init(_ server: ServerAddress, anchors: TrustAnchors) throws(CommandFailure) {
        let endpoint = Endpoint(
            scheme: .https,
            host: server.host,
            port: server.port,
            policy: .unpinned,
            anchors: anchors,
            generation: 1
        )
        let delegate = ProbeDelegate()
        let error: SessionError?
        do {
            let loop = try EventLoop()
            let manager = try LoopSession(loop: loop)
            let request = SessionRequest(endpoint: endpoint, method: .head, target: Array("/".utf8), fields: .init())
            let task = manager.dataTask(with: request, delegate: delegate)
            task.resume()
            while task.state != .completed { loop.turn() }
            error = task.error
            connection = task.metrics.transaction.connection
            manager.invalidateSession(cancelingTasks: true)
            loop.turn(waitingAtMost: .milliseconds(0))
        } catch {
            throw CommandFailure(.internal, "\(error)")
        }
        // A chain that is refused comes with the error, for the handshake ends there.
        guard let evaluation = delegate.evaluation ?? error?.evaluation else {
            throw CommandFailure(.failed, error?.details ?? "\(server) showed no certificate")
        }
        self.evaluation = evaluation
    }
}

/// Ends the task when the connection is there: nothing has been sent by then.
private final class ProbeDelegate: LoopTaskDelegate {
    private(set) var evaluation: TrustEvaluation?

    override func taskDidConnect(_ task: LoopTask) {
        evaluation = task.evaluation
        task.cancel()
    }
}
