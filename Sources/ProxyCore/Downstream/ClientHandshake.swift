// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust

/// A client's connection during its TLS handshake.
///
/// A refused client, or one that violates the protocol, gets a TLS alert and no HTTP response.
final class ClientHandshake {
    private let transport: ClientTransport
    /// Takes the connection over when the handshake is complete.
    private let next: (ClientTransport) -> Void
    /// Takes the reason when the handshake fails.
    private let failed: (Failure) -> Void
    private var timer: LoopTimer!
    private var isOver = false

    enum Failure {
        /// Not complete within `timeouts.head`.
        case late
        case fault(TLSClientFault)
    }

    init(
        _ transport: ClientTransport,
        failed: @escaping (Failure) -> Void,
        then next: @escaping (ClientTransport) -> Void
    ) {
        self.transport = transport
        self.failed = failed
        self.next = next
        timer = LoopTimer { [unowned self] in close(.late) }
    }

    func open() {
        transport.worker.loop.arm(timer, after: transport.worker.generation.headTime)
        resume()
    }

    /// Continues the handshake as far as the received bytes allow.
    func resume() {
        guard !isOver else { return }
        transport.worker.loop.noteWork(.handshake)
        conclude(transport.shakeHands { [self] outcome in if !isOver { conclude(outcome) } })
    }

    private func conclude(_ outcome: TransferCount) {
        switch outcome {
        case .wouldBlock:
            break
        case .bytes:
            isOver = true
            transport.worker.loop.remove(timer)
            next(transport)
            // The first request may have come with the end of the handshake.
            transport.pump()
        case .end, .failed:
            close()
        }
    }

    func close() { close(.fault(transport.handshakeFault)) }

    private func close(_ failure: Failure) {
        guard !isOver else { return }
        isOver = true
        transport.worker.loop.remove(timer)
        transport.close()
        failed(failure)
    }
}
