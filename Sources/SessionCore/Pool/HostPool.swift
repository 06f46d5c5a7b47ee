// SPDX-License-Identifier: Apache-2.0
/// A request that wants a connection, as the pool of its host sees it.
package protocol PoolRequest: AnyObject {
    /// A connection that carries one exchange after another (HTTP/1.1).
    associatedtype Connection: AnyObject
    associatedtype SharedConnection: SharedPlace
    /// A dial that several requests wait for, because the connection may become a shared one. It is over when the number of streams
    /// that the server allows is known.
    associatedtype SharedDial: SharedPlace

    /// The request goes out on a shared connection, as far as is known.
    var isShareable: Bool { get }
    /// The request can go out on an idle connection. False for each when it is shareable.
    func canUse(_ connection: Connection) -> Bool
    /// The connection leads to the request's destination; asked of one that has room.
    func canShare(_ connection: SharedConnection) -> Bool
    /// The dial is one for the request's endpoint, whether it has room or not: no further connection is made for the request.
    func canAwait(_ dial: SharedDial) -> Bool
    /// The request may go out on the dial's connection as soon as that is established.
    func canJoin(_ dial: SharedDial) -> Bool
}

/// The connections to one host and port, and the requests that wait for one.
///
/// A value: an event goes in, and the action to carry out comes out. Every connection has a place, and there are only as many
/// places as the limit allows: for those that are being made, that carry something, and that are idle.
///
/// Requests wait in two queues, first come, first served: those that need a place, and those that need a stream of a shared
/// connection. Above the streams that the server allows, one further connection at a time is made.
package struct HostPool<Request: PoolRequest> {
    package typealias Connection = Request.Connection
    package typealias SharedConnection = Request.SharedConnection
    package typealias SharedDial = Request.SharedDial

    /// The action for a request.
    package enum Decision {
        /// Send the request on this connection, which was idle.
        case use(Connection)
        /// Send the request on this connection, beside others.
        case share(SharedConnection)
        /// The request waits for this dial, with others.
        case await(SharedDial)
        /// Make a connection: there is a place for it. A dial for a shareable request is announced with `add`.
        case make
        /// Close this idle connection, and make another in its place.
        case replace(Connection)
        /// The same for a shared connection that carries nothing.
        case replaceShared(SharedConnection)
        /// The request waits. Ask for `next`: another one may be served instead.
        case wait
    }

    /// The number of places in use, without those of idle connections.
    package private(set) var activeCount = 0
    /// The connection that was used last is the last.
    private var idle: [Connection] = []
    /// The shared connections that take requests.
    private var shared: [SharedConnection] = []
    private var dials: [SharedDial] = []
    /// Requests that need a place.
    private var queue = WaitingQueue<Request>()
    /// Shareable requests.
    private var sharers = WaitingQueue<Request>()
    private var arrivals = 0
    /// The number of connections that there may be.
    package var limit: Int

    package init(limit: Int) { self.limit = limit }

    package var idleCount: Int { idle.count }
    /// The idle connections, and the shared ones that take requests.
    package var available: (idle: [Connection], shared: [SharedConnection]) { (idle, shared) }
    /// The requests that wait; of each queue, the longest first.
    package var waiters: [Request] { queue.elements + sharers.elements }
    /// Whether requests wait.
    package var isAwaited: Bool { !queue.isEmpty || !sharers.isEmpty }
    /// There is no connection and no request.
    package var isEmpty: Bool { activeCount == 0 && idle.isEmpty && !isAwaited }
    // MARK: Requests

    /// A request wants a connection.
    package mutating func enter(_ request: Request) -> Decision {
        if !isAwaited, let decision = decide(request) { return decision }
        arrivals += 1
        if request.isShareable {
            sharers.append(request, number: arrivals)
        } else {
            queue.append(request, number: arrivals)
        }
        return .wait
    }

    /// The next request that waits and can be served; asked after each event, until there is none.
    package mutating func next() -> (Request, Decision)? {
        guard isAwaited else { return nil }
        if let served = nextToShare() { return served }
        // A shareable request needs a place only if no dial for it is under way.
        let sharer = sharers.first.flatMap { first in dials.contains { first.canAwait($0) } ? nil : first }
        let isSharerFirst = queue.isEmpty || sharer != nil && sharers.firstNumber < queue.firstNumber
        guard let request = isSharerFirst ? sharer : queue.first, let decision = decide(request) else { return nil }
        if isSharerFirst { _ = sharers.popFirst() } else { _ = queue.popFirst() }
        return (request, decision)
    }

    private mutating func nextToShare() -> (Request, Decision)? {
        guard !sharers.isEmpty, shared.contains(where: \.hasRoom) || dials.contains(where: \.hasRoom) else {
            return nil
        }
        // The first one, unless there is only room on connections to other destinations behind the same host and port.
        for request in sharers.lazyElements {
            guard let decision = room(for: request) else { continue }
            sharers.withdraw(request)
            return (request, decision)
        }
        return nil
    }

    private mutating func decide(_ request: Request) -> Decision? {
        if request.isShareable {
            if let decision = room(for: request) { return decision }
            if dials.contains(where: { request.canAwait($0) }) { return nil }
        } else if let connection = reuse(request) {
            activeCount += 1
            return .use(connection)
        }
        return makeRoom()
    }

    private func room(for request: Request) -> Decision? {
        if let connection = shared.first(where: { $0.hasRoom && request.canShare($0) }) { return .share(connection) }
        if let dial = dials.first(where: { $0.hasRoom && request.canJoin($0) }) { return .await(dial) }
        return nil
    }

    private mutating func makeRoom() -> Decision? {
        guard activeCount + idle.count >= limit else {
            activeCount += 1
            return .make
        }
        if !idle.isEmpty, activeCount < limit {
            activeCount += 1
            return .replace(idle.removeFirst())
        }
        guard activeCount <= limit, let index = shared.firstIndex(where: \.isIdle) else { return nil }
        return .replaceShared(shared.remove(at: index))
    }

    /// Another idle connection for a request that has a place, because the one that it was to use has ended.
    package mutating func reuse(_ request: Request) -> Connection? {
        // The one that was used last, which usually suits.
        if let last = idle.last, request.canUse(last) { return idle.removeLast() }
        return idle.lastIndex(where: request.canUse).map { idle.remove(at: $0) }
    }

    /// A request takes this connection, before all that wait.
    ///
    /// - Returns: whether it was idle.
    package mutating func claim(_ connection: Connection) -> Bool {
        guard remove(connection) else { return false }
        activeCount += 1
        return true
    }

    /// A request waits no longer.
    package mutating func withdraw(_ request: Request) {
        queue.withdraw(request)
        sharers.withdraw(request)
    }

    /// Removes the shareable requests that wait: the server has turned out to speak HTTP/1.1, and they enter again.
    package mutating func removeSharers() -> [Request] {
        let all = sharers.elements
        sharers = WaitingQueue()
        return all
    }

    // MARK: Connections

    /// A connection gives its place up, or becomes idle.
    ///
    /// - Parameter connection: the connection, if it can carry a further request; nil when it was closed or never made.
    package mutating func leave(keeping connection: Connection?) {
        activeCount -= 1
        if let connection { idle.append(connection) }
    }

    /// An idle connection was closed.
    ///
    /// - Returns: whether it was there.
    @discardableResult
    package mutating func remove(_ connection: AnyObject) -> Bool {
        guard let index = idle.lastIndex(where: { $0 === connection }) else { return false }
        idle.remove(at: index)
        return true
    }

    /// A dial for shareable requests has begun in the place that a decision gave.
    package mutating func add(_ dial: SharedDial) { dials.append(dial) }

    /// A dial is over.
    ///
    /// - Parameter connection: takes the place over, and requests; nil when the place is given up with `leave`.
    package mutating func remove(_ dial: SharedDial, for connection: SharedConnection?) {
        dials.removeAll { $0 === dial }
        if let connection { shared.append(connection) }
    }

    /// A shared connection takes no more requests. It keeps its place until `leave`.
    package mutating func retire(_ connection: SharedConnection) { shared.removeAll { $0 === connection } }
}
