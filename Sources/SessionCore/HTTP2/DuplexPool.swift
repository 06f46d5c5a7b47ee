import IOCore

/// The connections of a session that carry HTTP/2 in both directions at once, by endpoint: none is shared by two.
final class DuplexPool {
    let loop: EventLoop
    let connectionLifetime: UInt64
    /// Outlives the pool, and every connection is a task of it.
    unowned let owner: LoopSession
    private let connectionsPerHost: Int

    private struct Origin {
        let endpoint: Endpoint
        var connections: [DuplexConnection] = []
        /// Until when it is not asked for HTTP/2 again; 0 when it is.
        var lacksHTTP2Until: UInt64 = 0
    }

    /// Looked through one by one: few endpoints are asked for this.
    private var origins: [Origin] = []
    /// Those that take nothing new, and carry something still.
    private var retired: [DuplexConnection] = []
    /// A connection that comes to stand after that carries what waits for it, and no more.
    private(set) var isRetired = false

    private static let lackTime = TimeSpan.seconds(300)
    /// Of endpoints that are remembered without a connection.
    private static let memory = 256

    init(owner: LoopSession, configuration: SessionConfiguration) {
        self.owner = owner
        loop = owner.loop
        connectionLifetime = configuration.connectionLifetimeLimit
        connectionsPerHost = configuration.connectionsPerHost > 0 ? configuration.connectionsPerHost : Int.max
    }

    private func place(of endpoint: Endpoint) -> Int? { origins.firstIndex { $0.endpoint === endpoint } }

    /// Whether a request to that endpoint is to go this way.
    func serves(_ endpoint: Endpoint) -> Bool {
        guard let place = place(of: endpoint) else { return true }
        return origins[place].lacksHTTP2Until <= loop.now
    }

    /// Finds a connection for an exchange, or makes one.
    ///
    /// - Parameter isFresh: one that stands already will not do.
    func connect(_ transfer: HTTP2Transfer, to endpoint: Endpoint, isFresh: Bool) -> DuplexConnection? {
        let known = place(of: endpoint).map { origins[$0].connections } ?? []
        // Those of which the verdict does not hold any more leave the list here.
        let usable = known.filter { $0.mayCarry && !(isFresh && $0.state == .open) }
        if let connection = usable.first(where: \.hasRoom) { return connection }
        let count = place(of: endpoint).map { origins[$0].connections.count } ?? 0
        if count >= connectionsPerHost, let least = usable.min(by: { $0.load < $1.load }) { return least }
        guard let connection = DuplexConnection(endpoint, pool: self) else { return nil }
        if let place = place(of: endpoint) {
            origins[place].connections.append(connection)
        } else {
            if origins.count >= Self.memory { origins.removeAll { $0.connections.isEmpty } }
            origins.append(Origin(endpoint: endpoint, connections: [connection]))
        }
        return connection
    }

    /// The server has chosen another protocol.
    func lacksHTTP2(_ endpoint: Endpoint) {
        guard let place = place(of: endpoint) else { return }
        origins[place].lacksHTTP2Until = loop.now &+ Self.lackTime.nanoseconds
    }

    /// It takes nothing new.
    func retire(_ connection: DuplexConnection) {
        forget(connection)
        retired.append(connection)
    }

    func forget(_ connection: DuplexConnection) {
        retired.removeAll { $0 === connection }
        guard let place = place(of: connection.endpoint) else { return }
        origins[place].connections.removeAll { $0 === connection }
        if origins[place].connections.isEmpty, origins[place].lacksHTTP2Until == 0 { origins.remove(at: place) }
    }

    /// Ends the tasks of which nothing has been sent with `sessionInvalidated`.
    func handBack() {
        for connection in origins.flatMap(\.connections) { connection.handBack() }
    }

    /// Keeps no connection any more: idle ones close now, the others with their last exchange.
    func retire() {
        isRetired = true
        for connection in origins.flatMap(\.connections) { connection.retire() }
    }

    /// Ends the tasks that are carried this way.
    func cancelAll() {
        for connection in origins.flatMap(\.connections) + retired { connection.cancelAll() }
    }
}
