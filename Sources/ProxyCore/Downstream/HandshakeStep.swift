import IOCore
import ServerTrust

/// A step of a client's TLS handshake on a thread of its own.
///
/// `@unchecked Sendable`: the loop makes it, the thread makes the step, and submits the rest to the loop, which has it again from
/// then on; nothing else refers to it, and the loop leaves the session alone meanwhile (`ClientTransport.isSigning`).
final class HandshakeStep: @unchecked Sendable {
    private let session: TLSServerSession
    private let end: (TLSServerSession.Progress) -> Void

    init(_ session: TLSServerSession, end: @escaping (TLSServerSession.Progress) -> Void) {
        self.session = session
        self.end = end
    }

    func make(on loop: EventLoop) {
        let progress = session.handshake()
        loop.submit { [self] in end(progress) }
    }
}
