// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import SessionCore

/// Connects to pinned servers under their own policies, many at once on one loop, and sends no request.
struct PinVerification {
    /// The number of simultaneous connections: small enough for every limit of open files.
    static let width = 32

    var snapshot: PolicySnapshot

    /// - Parameter progress: called with the number of finished servers, whenever it grows.
    /// - Returns: one check for each server, in their order.
    func check(_ servers: [PinnedServer], progress: (Int) -> Void) throws(CommandFailure) -> [PinCheck] {
        var checks = [PinCheck?](repeating: nil, count: servers.count)
        var done = 0
        var next = 0
        do {
            let loop = try EventLoop()
            var configuration = SessionConfiguration()
            configuration.resolver = snapshot.configuration.resolver
            configuration.revocationLists = RevocationListFetcher.forCommand(snapshot)
            let manager = try LoopSession(loop: loop, configuration: configuration)
            var running: [(index: Int, task: LoopTask, delegate: VerifyingDelegate)] = []
            while done < servers.count {
                while running.count < Self.width, next < servers.count {
                    let index = next
                    next += 1
                    switch servers[index].endpoint(snapshot) {
                    case .failure(let error):
                        checks[index] = finished(servers[index], .unreachable(error), nil)
                        done += 1
                        progress(done)
                    case .success(let endpoint):
                        let request = SessionRequest(
                            endpoint: endpoint,
                            method: .head,
                            target: Array("/".utf8),
                            fields: HeaderFields()
                        )
                        let delegate = VerifyingDelegate()
                        let task = manager.dataTask(with: request, delegate: delegate)
                        running.append((index, task, delegate))
                        task.resume()
                    }
                }
                // If all servers have failed at once, there is nothing to wait for.
                if !running.isEmpty { loop.run { running.contains { $0.task.state == .completed } } }
                for (index, task, delegate) in running where task.state == .completed {
                    checks[index] = finished(
                        servers[index],
                        Self.outcome(task, delegate),
                        task.metrics.transaction.connection
                    )
                    done += 1
                    progress(done)
                }
                running.removeAll { $0.task.state == .completed }
            }
            manager.invalidateSession(cancelingTasks: true)
            loop.run(atMost: .milliseconds(0))
        } catch {
            throw CommandFailure(.internal, "\(error)")
        }
        return checks.compactMap { $0 }
    }

    private func finished(
        _ server: PinnedServer,
        _ outcome: PinCheck.Outcome,
        _ connection: ConnectionInfo?
    ) -> PinCheck {
        PinCheck(
            server: server,
            outcome: outcome,
            connection: connection,
            anchors: snapshot.trustAnchors,
            time: Clock.seconds
        )
    }

    private static func outcome(_ task: LoopTask, _ delegate: VerifyingDelegate) -> PinCheck.Outcome {
        // Without `taskDidConnect` an accepted chain proves nothing: the server proves possession of its key after it.
        if let accepted = delegate.evaluation { return .evaluated(accepted) }
        if let refused = task.error?.serverEvaluation, !refused.isAccepted { return .evaluated(refused) }
        let error = task.error ?? SessionError(.internal, "The connection ended without a verdict.")
        return .unreachable(.init(code: error.code.rawValue, reason: error.details))
    }
}

/// Ends the task when the connection is established; nothing has been sent by then.
private final class VerifyingDelegate: LoopTaskDelegate {
    private(set) var evaluation: TrustEvaluation?

    override func taskDidConnect(_ task: LoopTask) {
        evaluation = task.evaluation
        task.cancel()
    }
}
