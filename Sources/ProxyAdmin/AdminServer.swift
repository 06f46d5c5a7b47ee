// SPDX-License-Identifier: Apache-2.0
import HTTPCore
package import IOCore
import ProxyConfiguration
package import ProxyCore

/// The admin listener, with a loop and a thread of its own: it responds even when the workers are busy or stuck.
///
/// `@unchecked Sendable`: `loop`, `socket`, `configuration` and `source` are immutable; `thread` belongs to the owner,
/// which alone calls `start` and `stop`; everything else is touched by the loop's thread.
package final class AdminServer: @unchecked Sendable {
    let loop: EventLoop
    let socket: ListeningSocket
    let names: OwnNames
    let source: AdminSource
    private let configuration: AdminConfiguration
    private var thread: LoopThread?

    // State of the loop's thread.
    private var acceptor: AdminAcceptor?
    /// The connections, oldest first.
    private var connections: [AdminConnection] = []
    private var lastNumber = 0
    /// The limit of connections. When it is exceeded the oldest connection is closed, so that clients cannot keep a
    /// probe out. The connections use at most half of the reserved descriptors.
    private let connectionBound: Int

    /// Starts the admin listener of a proxy. Nil when its configuration has none.
    ///
    /// - Parameters:
    ///   - build: the program's version for the metrics.
    ///   - operatorRequests: takes requests to reload and to stop; with nil these are refused.
    package init?(
        of server: ProxyServer,
        build: ProgramBuild,
        operatorRequests: OperatorRequests? = nil
    ) throws(IOFailure) {
        guard let configuration = server.snapshot.configuration.admin, let socket = server.adminSocket,
            let figures = server.figures
        else { return nil }
        loop = try EventLoop()
        self.socket = socket
        source = AdminSource(build: build, server: figures, operatorRequests: operatorRequests)
        self.configuration = configuration
        names = OwnNames(hosts: configuration.allowedHosts)
        connectionBound = min(64, figures.reservedDescriptors / 2)
        let acceptor = AdminAcceptor(self)
        try acceptor.start()
        self.acceptor = acceptor
        thread = try LoopThread(name: "admin") { [loop] in loop.run() }
    }

    /// Stops the listener, and waits for its thread.
    package func stop() {
        loop.submit { [self] in
            acceptor?.stop()
            acceptor = nil
            for connection in connections { connection.close() }
            loop.stop()
        }
        thread?.join()
        thread = nil
    }

    // MARK: The loop's thread

    func adopt(_ descriptor: Int32, from address: SocketAddress) {
        if connections.count >= connectionBound { connections[0].close() }
        lastNumber += 1
        let connection = AdminConnection(descriptor, from: address, number: lastNumber, server: self)
        connections.append(connection)
        connection.open()
    }

    /// The connection with that number; nil when it is closed.
    func connection(_ number: Int) -> AdminConnection? { connections.first { $0.number == number } }

    /// Whether another reader of a stream may be served: streams take at most half of the connections.
    var admitsStream: Bool { connections.count { $0.isStreaming } < connectionBound / 2 }

    /// Whether a large response may be made: what clients have not read yet stays in memory.
    var hasRoom: Bool { connections.reduce(0) { $0 + $1.waitingBytes } <= Self.waitingBound }

    private static let waitingBound = 8 << 20

    /// The token that clients need for reading; nil where they need none.
    var readingToken: AdminToken? { configuration.isRemote ? source.token : nil }

    /// The rights of the client that has sent a request.
    func access(_ fields: borrowing HeaderFields) -> AdminAccess {
        let token = source.token
        return AdminAccess(
            isRemote: configuration.isRemote,
            isUnixSocket: configuration.endpoint.isUnixSocket,
            needsToken: configuration.tokenFile != nil,
            hasToken: token?.admits(fields) ?? false
        )
    }

    func forget(_ connection: AdminConnection) {
        connections.removeAll { $0 === connection }
    }

    /// The current value of Date.
    var httpDate: [UInt8] { HTTPDate.format(unixSeconds: Int(loop.wallClock / 1_000_000)) }
}

/// Accepts connections of the admin listener.
private final class AdminAcceptor: EventHandler {
    private unowned let server: AdminServer
    private var retry: LoopTimer!

    init(_ server: AdminServer) {
        self.server = server
        super.init()
        retry = LoopTimer { [unowned self] in try? start() }
    }

    func start() throws(IOFailure) {
        try server.loop.register(server.socket.descriptor, .readable, self)
    }

    func stop() {
        server.socket.refuse()
        server.loop.unregister(server.socket.descriptor)
        server.loop.remove(retry)
    }

    override func ready(_ readiness: Readiness) {
        switch server.socket.accept() {
        case .connection(let descriptor, let address): server.adopt(descriptor, from: address)
        case .wouldBlock: break
        case .exhausted:
            // The socket would stay ready: it is checked again when descriptors may be free.
            server.loop.unregister(server.socket.descriptor)
            server.loop.arm(retry, after: .milliseconds(100))
        }
    }
}
