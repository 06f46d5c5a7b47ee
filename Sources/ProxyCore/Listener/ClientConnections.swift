// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The clients' connections of one worker: they begin and end here, and their requests give memory back when it is short.
///
/// `@unchecked Sendable` because it belongs to a worker, whose thread alone touches it; what is submitted to the loop runs there, too.
final class ClientConnections: TransportOwner, @unchecked Sendable {
    private let services: WorkerServices
    private let server: ServerState
    private let load: WorkerLoad
    private let exchanges: ExchangePool
    private var connections: [ClientTransport] = []
    /// The requests that are being closed because too much is held, the one last that has been idle longest.
    private var toGiveUp: [any MemoryHolder] = []
    private var lookedForIdleAt: UInt64 = 0
    private let reliefTimer = LoopTimer()

    init(_ services: WorkerServices, _ server: ServerState, _ load: WorkerLoad) {
        self.services = services
        self.server = server
        self.load = load
        let exchanges = ExchangePool(services)
        self.exchanges = exchanges
        super.init(services.loop)
        services.whenAtRest { [weak exchanges] in exchanges?.removeAll() }
        reliefTimer.whenDue { [unowned self] in relieve() }
    }

    var count: Int { connections.count }

    // MARK: The life of a connection

    func serve(_ accepted: AcceptedConnection, _ listener: ListenerRoutes) {
        let connection = ClientTransport(
            descriptor: accepted.take(),
            address: accepted.address,
            listener: listener,
            services: services,
            owner: self
        )
        services.counters.noteConnection()
        connection.slot = connections.count
        connections.append(connection)
        if !connection.open() { didClose(connection) }
    }

    /// Responds to a connection that is one too many.
    func refuse(_ descriptor: Int32, _ address: SocketAddress, _ listener: ListenerRoutes) {
        ClientTransport(descriptor: descriptor, address: address, listener: listener, services: services, owner: self)
            .refuseForLimit()
    }

    override func serveHTTP(on transport: ClientTransport) {
        let connection = ClientConnection(transport, exchanges)
        transport.handOver(to: connection)
        connection.open()
        if services.isDraining { connection.drain() }
    }

    override func serveRedirected(_ transport: ClientTransport) {
        let connection = RedirectedConnection(transport, exchanges)
        transport.handOver(to: connection)
        connection.open()
    }

    override func didClose(_ transport: ClientTransport) {
        let slot = transport.slot
        guard slot >= 0 else { return }
        transport.slot = -1
        let last = connections.removeLast()
        if last !== transport {
            connections[slot] = last
            last.slot = slot
        }
        load.remove()
        server.release()
        services.restSoon()
    }

    func drain() {
        for connection in connections { connection.drain() }
    }

    /// Ends all of them at once.
    func cancel() {
        while let connection = connections.last { connection.cancel() }
        // Each idle exchange holds the services.
        exchanges.removeAll()
    }

    // MARK: Memory that peers hold

    /// Requests in which nothing has moved for so long are closed when memory is short.
    private static let idleTimeOfHolders = TimeSpan.seconds(1)
    private static let looksForIdleEvery: UInt64 = 100_000_000
    private static let givenUpPerTurn = 100

    /// A connection holds more than its part: closes the requests that have been idle longest, a few a turn. Those in which something
    /// has just moved are looked at again until no connection holds more.
    override func relieve() {
        let loop = services.loop
        guard toGiveUp.isEmpty, loop.now &- lookedForIdleAt >= Self.looksForIdleEvery else { return }
        lookedForIdleAt = loop.now
        let limit = loop.now &- min(loop.now, Self.idleTimeOfHolders.nanoseconds)
        var isMore = false
        for connection in connections {
            let holdsMore = connection.appendIdle(since: limit, to: &toGiveUp)
            isMore = isMore || holdsMore
        }
        if isMore { loop.arm(reliefTimer, after: Self.idleTimeOfHolders) }
        guard !toGiveUp.isEmpty else { return }
        toGiveUp.sort { $0.movedAt > $1.movedAt }
        loop.submit { [self] in giveUpSome() }
    }

    private func giveUpSome() {
        let loop = services.loop
        var left = Self.givenUpPerTurn
        loop.beginPart()
        while left > 0, services.held.budget.isShort, let holder = toGiveUp.popLast() {
            holder.giveUpIdle()
            left = loop.isPartOver ? 0 : left - 1
        }
        guard services.held.budget.isShort, !toGiveUp.isEmpty else {
            toGiveUp = []
            return
        }
        loop.submit { [self] in giveUpSome() }
    }
}
