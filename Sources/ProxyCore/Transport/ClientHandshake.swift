// SPDX-License-Identifier: Apache-2.0
import IOCore
import ProxyConfiguration
import ServerTrust

/// A client's connection during its TLS handshake.
///
/// A refused client, or one that violates the protocol, gets a TLS alert and no HTTP response.
final class ClientHandshake: TransportUser {
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
        transport.services.loop.arm(timer, after: transport.services.generation.headTime)
        pump()
    }

    var isHandshake: Bool { true }

    /// Nothing waits here: each step writes what it makes.
    func flush() {}

    func hasRoomForOutput() { pump() }

    /// Continues the handshake as far as the received bytes allow.
    func pump() {
        guard !isOver else { return }
        transport.services.loop.noteWork(.handshake)
        conclude(transport.shakeHands { [self] outcome in if !isOver { conclude(outcome) } })
    }

    private func conclude(_ outcome: TransferCount) {
        switch outcome {
        case .wouldBlock:
            break
        case .bytes:
            isOver = true
            transport.services.loop.remove(timer)
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
        transport.services.loop.remove(timer)
        transport.close()
        failed(failure)
    }
}

// MARK: - What a connection begins with

extension ClientTransport {
    /// Begins with TLS, or with HTTP; false when the system refuses.
    func open() -> Bool {
        guard register() else { return false }
        switch listener.security.tls {
        case .none: if listener.isTransparent { owner.serveRedirected(self) } else { owner.serveHTTP(on: self) }
        case .context(let context):
            var early = ByteBuffer()
            var pending = ByteBuffer()
            startTLS(context, early: &early, pending: &pending) { _ in
            } then: { transport in
                transport.identifyClient()
                transport.owner.serveHTTP(on: transport)
            }
        case .unusable: close()
        }
        return true
    }

    /// Starts TLS inside the tunnel of a CONNECT.
    ///
    /// - Parameters:
    ///   - user: the user of the CONNECT, and the credentials that it was authenticated with.
    ///   - early: bytes that the client has sent behind the CONNECT.
    ///   - pending: the unwritten part of the response to the CONNECT.
    ///   - ended: called at the end of the client's handshake, with the problem if it has failed.
    func intercept(
        _ authority: InterceptedAuthority,
        user: (name: [UInt8], credentials: ClientCredentials)?,
        _ context: TLSServerContext,
        early: inout ByteBuffer,
        pending: inout ByteBuffer,
        ended: @escaping (Problem?) -> Void
    ) {
        enter(authority, user: user)
        let limit = services.generation.headTime.milliseconds
        startTLS(context, early: &early, pending: &pending) { [services, unowned self] failure in
            // A client that has refused the certificate has done so also where its alert is read during a stop.
            if services.isDraining, !peerHasEnded, case .fault(.ended) = failure {
                return ended(Problem(.cancelled, "The connection was ended because pinproxy stops."))
            }
            switch failure {
            case .late: ended(InterceptedHandshake.isLate(limit, with: authority.host))
            case .fault(let fault): ended(InterceptedHandshake.problem(fault, with: authority.host))
            }
        } then: { transport in
            ended(nil)
            transport.owner.serveHTTP(on: transport)
        }
    }

    /// Starts TLS inside of the current protocol.
    ///
    /// - Parameters:
    ///   - early: bytes of the handshake that were already read.
    ///   - pending: bytes that have to be written before the handshake.
    ///   - failed: called when the handshake has failed, and the connection is closed.
    ///   - next: called when the handshake is complete; hands the connection to its next user.
    private func startTLS(
        _ context: TLSServerContext,
        early: inout ByteBuffer,
        pending: inout ByteBuffer,
        failed: @escaping (ClientHandshake.Failure) -> Void,
        then next: @escaping (ClientTransport) -> Void
    ) {
        do throws(OpenSSLError) {
            enterTLS(try context.session(), early: &early, pending: &pending)
        } catch {
            close()
            return failed(.fault(.other(error.description)))
        }
        let handshake = ClientHandshake(self, failed: failed, then: next)
        handOver(to: handshake)
        handshake.open()
    }
}
