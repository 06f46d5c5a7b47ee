/// The connections to one host and port, and the requests that wait for one, first come, first served.
///
/// A value: an event goes in, and the action to carry out comes out. Every connection counts against the limit: those that are
/// being made, that carry requests, and that are idle.
package struct HostPool<Connection: AnyObject, Waiter: AnyObject> {
    /// The action for a request that wants a connection.
    package enum Decision {
        /// Send the request on this connection, which was idle.
        case use(Connection)
        /// Make a connection.
        case make
        /// Close this idle connection, and make another in its place.
        case replace(Connection)
        /// As many connections are in use as there may be: the request waits.
        case wait
    }

    /// The action for the connection, or the place, that a request has given up.
    package enum Succession {
        case none
        /// The connection is idle now, and expects nothing.
        case idle
        /// The request has waited longest and can use the connection.
        case use(Waiter, Connection)
        /// Make a connection for the request that has waited longest.
        case make(Waiter)
        /// The same; the connection that has become free is of no use to the request and has to be closed.
        case replace(Waiter, Connection)
    }

    /// The number of connections that carry something or are being made.
    package private(set) var activeCount = 0
    /// The connection that was used last is the last.
    private var idle: [Connection] = []
    private var queue = WaitingQueue<Waiter>()
    /// The number of connections that there may be.
    package var limit: Int

    package init(limit: Int) { self.limit = limit }

    package var idleCount: Int { idle.count }
    /// The requests that wait, the longest first.
    package var waiters: [Waiter] { queue.elements }
    /// There is no connection and no request.
    package var isEmpty: Bool { activeCount == 0 && idle.isEmpty && queue.isEmpty }

    /// A request wants a connection.
    ///
    /// - Parameter isUsable: whether the request can use an idle connection.
    package mutating func enter(_ waiter: Waiter, isUsable: (Connection) -> Bool) -> Decision {
        guard queue.isEmpty else { return wait(waiter) }
        if let index = idle.lastIndex(where: isUsable) {
            activeCount += 1
            return .use(idle.remove(at: index))
        }
        if activeCount + idle.count < limit {
            activeCount += 1
            return .make
        }
        guard !idle.isEmpty, activeCount < limit else { return wait(waiter) }
        activeCount += 1
        return .replace(idle.removeFirst())
    }

    private mutating func wait(_ waiter: Waiter) -> Decision {
        queue.append(waiter)
        return .wait
    }

    /// A request needs its connection no longer.
    ///
    /// - Parameters:
    ///   - connection: the connection, if it can carry a further request; nil when it was closed or never made.
    ///   - isUsable: whether a waiting request can use the connection.
    package mutating func leave(keeping connection: Connection?, isUsable: (Waiter, Connection) -> Bool) -> Succession {
        activeCount -= 1
        if let connection {
            guard let next = next() else {
                idle.append(connection)
                return .idle
            }
            return isUsable(next, connection) ? .use(next, connection) : .replace(next, connection)
        }
        guard activeCount + idle.count < limit, let next = next() else { return .none }
        return .make(next)
    }

    /// The connection that a request was to use has ended. The request enters again.
    package mutating func giveUpPlace() { activeCount -= 1 }

    private mutating func next() -> Waiter? {
        guard activeCount < limit, let next = queue.popFirst() else { return nil }
        activeCount += 1
        return next
    }

    /// A request waits no longer.
    package mutating func withdraw(_ waiter: Waiter) { queue.withdraw(waiter) }

    /// An idle connection was closed.
    ///
    /// - Returns: whether it was there.
    @discardableResult
    package mutating func remove(_ connection: Connection) -> Bool {
        guard let index = idle.lastIndex(where: { $0 === connection }) else { return false }
        idle.remove(at: index)
        return true
    }
}
