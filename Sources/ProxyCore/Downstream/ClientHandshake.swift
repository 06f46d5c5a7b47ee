import IOCore

/// A client's connection during its TLS handshake.
///
/// A refused client, or one that violates the protocol, gets a TLS alert and no HTTP response.
final class ClientHandshake {
    private let transport: ClientTransport
    /// Takes the connection over when the handshake is complete.
    private let next: (ClientTransport) -> Void
    private var timer: LoopTimer!
    private var isOver = false

    init(_ transport: ClientTransport, then next: @escaping (ClientTransport) -> Void) {
        self.transport = transport
        self.next = next
        timer = LoopTimer { [unowned self] in close() }
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

    func close() {
        guard !isOver else { return }
        isOver = true
        transport.worker.loop.remove(timer)
        transport.close()
    }
}
