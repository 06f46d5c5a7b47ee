import HTTPCore
import IOCore

/// The HTTP/2 connections of a session. They hang on the pool of their host, so that a request finds them without a search
/// through all hosts, and each of them counts against the host's limit.
final class HTTP2ConnectionPool {
    let loop: EventLoop
    let connectionLifetime: UInt64
    /// The limits of response heads.
    var headLimits: HeadLimits { connections.headLimits }
    /// Outlives the pool, and every connection is a task of it.
    unowned let owner: LoopSession
    private let connections: OriginConnections
    private let connectionsPerHost: Int
    /// The connections that exist, whether they take requests or not.
    private var all: [ObjectIdentifier: HTTP2ClientConnection] = [:]
    /// A connection that is established after that carries the requests that wait for it, and no more.
    private(set) var isRetired = false

    /// A server that has chosen HTTP/1.1 is not asked for HTTP/2 for so long.
    private static let http1Time = TimeSpan.seconds(300)
    /// A server that ends a connection earlier does so for another reason.
    private static let leastRequests = 10

    init(owner: LoopSession, connections: OriginConnections, configuration: SessionConfiguration) {
        self.owner = owner
        self.connections = connections
        loop = owner.loop
        connectionLifetime = configuration.connectionLifetimeLimit
        connectionsPerHost = configuration.connectionsPerHost > 0 ? configuration.connectionsPerHost : Int.max
    }

    /// Whether a request to that endpoint goes over HTTP/2, as far as is known.
    func serves(_ endpoint: Endpoint) -> Bool { connections.entry(for: endpoint).http1Until <= loop.now }

    /// Finds a connection for an exchange, or makes one.
    ///
    /// - Parameter isFresh: one that is established already will not do.
    /// - Returns: nil without memory.
    func connect(_ exchange: HTTP2Exchange, to endpoint: Endpoint, isFresh: Bool) -> HTTP2ClientConnection? {
        let entry = connections.entry(for: endpoint)
        // A connection whose verdict does not hold any more leaves the list here.
        let usable = entry.http2Connections.filter {
            $0.endpoint.isSamePlace(as: endpoint) && $0.mayCarry(endpoint) && !(isFresh && $0.state == .open)
        }
        if let connection = usable.first(where: \.hasRoom) { return connection }
        // Above the streams that the server allows, requests wait for one of them, or for one further connection at a time.
        let isDialling = usable.contains { $0.state == .dialling }
        let limit = endpoint.connectionLimit.map { $0 > 0 ? $0 : Int.max } ?? connectionsPerHost
        if isDialling || entry.http2Connections.count >= limit, let least = usable.min(by: { $0.load < $1.load }) {
            return least
        }
        guard let connection = HTTP2ClientConnection(endpoint, pool: self) else { return nil }
        all[ObjectIdentifier(connection)] = connection
        entry.http2Connections.append(connection)
        return connection
    }

    /// The server has ended a connection after so many requests (nginx: `keepalive_requests`). Later ones are retired before
    /// that: a request that is refused twice fails.
    func didEndConnection(after requests: Int, _ endpoint: Endpoint) {
        let entry = connections.entry(for: endpoint)
        entry.http2Requests = (max(requests, Self.leastRequests), loop.now &+ Self.http1Time.nanoseconds)
    }

    /// The number of requests that a connection to the endpoint carries.
    func requestLimit(_ endpoint: Endpoint) -> Int {
        let known = connections.entry(for: endpoint).http2Requests
        return known.until > loop.now ? known.limit : Int.max
    }

    /// The server has chosen HTTP/1.1.
    func didChooseHTTP1(_ endpoint: Endpoint) {
        connections.entry(for: endpoint).http1Until = loop.now &+ Self.http1Time.nanoseconds
    }

    /// The connection takes no new request.
    func retire(_ connection: HTTP2ClientConnection) {
        let entry = connections.entry(for: connection.endpoint)
        entry.http2Connections.removeAll { $0 === connection }
    }

    func forget(_ connection: HTTP2ClientConnection) {
        retire(connection)
        all[ObjectIdentifier(connection)] = nil
    }

    /// Ends the tasks of which nothing has been sent with `sessionInvalidated`.
    func handBack() {
        for connection in Array(all.values) { connection.handBack() }
    }

    /// Keeps no connection any more: idle ones close now, the others with their last exchange.
    func retire() {
        isRetired = true
        for connection in Array(all.values) { connection.retire() }
    }

    /// Ends the tasks that are carried this way.
    func cancelAll() {
        for connection in Array(all.values) { connection.cancelAll() }
    }
}
