// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// A CONNECT whose TLS ends in the proxy: the requests in it are treated like all others, and go to the host of the
/// CONNECT.
///
/// The origin is dialled and its pins are checked on a connection for this CONNECT alone, before the client gets a
/// response. (That connection carries no request and is closed: each request is evaluated again on the session's
/// connection that carries it.) A client never completes a handshake for an origin that fails the policy.
final class Interception: Relay {
    private let context: TLSServerContext
    private let authority: InterceptedAuthority

    init(_ owner: any RelayOwner, _ clientStream: ExchangeStream, to endpoint: Endpoint, context: TLSServerContext) {
        self.context = context
        authority = InterceptedAuthority(scheme: .https, host: endpoint.host, port: endpoint.port)
        super.init(owner, clientStream, to: endpoint)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) {
        task.pauseReceiving()
        takeOverConnection(checksFirstBytes: true) { owner.writeConnectionEstablished(&$0) }
        passConnectionOn { input, output in
            // It has shown the origin's key, and carries nothing.
            task.cancel()
            transport.intercept(authority, user: owner.authenticatedUser, context, early: &input, pending: &output) {
                // The owner has the relay, which has the task for the log.
                [owner] in owner.relayDidEnd($0)
            }
        }
    }
}
