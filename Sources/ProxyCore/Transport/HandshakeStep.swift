// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust
import Synchronization

/// A step of a client's TLS handshake on a thread of its own.
///
/// `@unchecked Sendable`: the loop makes it, the thread makes the step, and submits the rest to the loop, which has it again from
/// then on; meanwhile the loop calls `drop` alone, which is atomic, and leaves the session alone (`ClientTransport.step`).
final class HandshakeStep: @unchecked Sendable {
    private let session: TLSServerSession
    private let end: (TLSServerSession.Progress) -> Void
    private let isDropped = Atomic(false)

    init(_ session: TLSServerSession, end: @escaping (TLSServerSession.Progress) -> Void) {
        self.session = session
        self.end = end
    }

    /// Makes nothing of a step that has not begun: its client has gone, and others wait for their signatures.
    func drop() { isDropped.store(true, ordering: .relaxed) }

    func make(on loop: EventLoop) {
        let progress = isDropped.load(ordering: .relaxed) ? .truncated : session.handshake()
        loop.submit { [self] in end(progress) }
    }
}
