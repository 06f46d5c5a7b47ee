// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// A TLS origin inside this process. Its certificate authority, key and certificate exist only in memory. It listens on
/// a free port of loopback, sends short responses, and counts the bytes that it receives.
final class DemoOrigin: Sendable {
    /// The certificate of its authority, which is trusted by the demo alone.
    let anchor: Certificate
    /// The pin of its key.
    let pin: PublicKeyPin
    var address: SocketAddress { listener.address }

    private let listener: ListeningSocket
    private let loop: EventLoop
    private let thread: LoopThread
    private let counts: RequestByteCounts

    /// - Parameter hosts: the names in its certificate.
    init(hosts: [String]) throws {
        let now = Clock.seconds
        let validity = (now - 3600)..<(now + 365 * 86_400)
        let authority = try CertificateBuilder.authority("pinproxy demo CA", validity: validity).identity()
        let identity = try CertificateBuilder.server(hosts: hosts, validity: validity).identity(issuer: authority)
        anchor = authority.certificate
        pin = identity.key.pin
        listener = try ListeningSocket(.loopback(port: 0))
        counts = RequestByteCounts()
        let loop = try EventLoop()
        let acceptor = DemoOriginAcceptor(
            socket: listener,
            loop: loop,
            context: try TLSServerContext(ServerIdentity(identity)),
            counts: counts
        )
        try loop.register(listener.descriptor, .readable, acceptor)
        self.loop = loop
        thread = try LoopThread(name: "demo origin") { loop.run() }
    }

    /// The number of request bytes received inside TLS on connections for `host`.
    func requestBytes(for host: String) -> Int { counts[host] }

    func stop() {
        loop.stop()
        thread.join()
    }
}

/// Application bytes by the host that the client named in the handshake.
final class RequestByteCounts: Sendable {
    /// Written by the origin's thread, read by the thread that shows the numbers.
    private let counts = Locked<[String: Int]>([:])

    subscript(_ host: String) -> Int { counts.withLock { $0[host] ?? 0 } }

    func add(_ count: Int, for host: String) { counts.withLock { $0[host, default: 0] += count } }
}

private final class DemoOriginAcceptor: EventHandler {
    private let socket: ListeningSocket
    private unowned let loop: EventLoop
    private let context: TLSServerContext
    private let counts: RequestByteCounts

    init(socket: ListeningSocket, loop: EventLoop, context: TLSServerContext, counts: RequestByteCounts) {
        self.socket = socket
        self.loop = loop
        self.context = context
        self.counts = counts
        super.init()
    }

    override func ready(_ readiness: Readiness) {
        guard case .connection(let descriptor, _) = socket.accept() else { return }
        let stream = StreamSocket(adopting: descriptor)
        guard let session = try? context.session() else { return }
        DemoOriginConnection(stream: stream, session: session, loop: loop, counts: counts).open()
    }
}
