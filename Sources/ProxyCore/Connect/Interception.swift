import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// A CONNECT whose TLS ends here: the requests in it go the way of all others, to the host that the CONNECT has named.
///
/// The origin comes first: it is dialled and held to its pins on a connection of this CONNECT's own, before the client is
/// told anything. (That connection carries nothing and is given up: each request is judged again on the one that carries it,
/// which belongs to the session.) A client never completes a handshake for an origin that does not pass.
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
        exchange.writeConnectionEstablished(&output)
        takeOverConnection(.opening)
        phase = .closed
        var early = ByteBuffer()
        swap(&early, &input)
        var pending = ByteBuffer()
        swap(&pending, &output)
        transport.intercept(authority, user: exchange.proven, context, early: &early, pending: &pending)
        exchange.relayDidEnd(nil)
        letGo()
    }
}

/// The host and port of a CONNECT: what every request in it has to be for.
struct InterceptedAuthority {
    let host: Host
    let port: UInt16

    /// Whether a request's Host, or its URL, names it.
    func isNamed(by head: borrowing RequestHead) -> Bool {
        guard head.hostKind != nil, head.hostBytes.equals(host.bytes.span) else { return false }
        switch head.form {
        case .absolute: return head.scheme == .https && head.port == port
        default: return (head.port ?? 443) == port
        }
    }
}
