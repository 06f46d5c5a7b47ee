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

    init(_ exchange: Exchange, _ clientStream: ExchangeStream, to endpoint: Endpoint, context: TLSServerContext) {
        self.context = context
        authority = InterceptedAuthority(host: endpoint.host, port: endpoint.port)
        super.init(exchange, clientStream, to: endpoint)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) {
        task.pauseReceiving()
        takeOverConnection(.opening) { exchange.writeConnectionEstablished(&$0) }
        passConnectionOn { input, output in
            transport.intercept(authority, user: exchange.proven, context, early: &input, pending: &output)
            exchange.relayDidEnd(nil)
        }
    }
}

/// The host and port of a CONNECT; every request in it has to be for them.
struct InterceptedAuthority {
    let host: Host
    let port: UInt16

    /// Whether a request's Host, or its URL, names this host and port.
    func isNamed(by head: borrowing RequestHead) -> Bool {
        guard head.hostKind != nil, head.hostBytes.equals(host.bytes.span) else { return false }
        switch head.form {
        case .absolute: return head.scheme == .https && head.port == port
        default: return (head.port ?? 443) == port
        }
    }
}
