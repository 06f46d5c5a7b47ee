/// A verified connection that the pool of a host keeps for requests. A class to inherit from.
class PooledConnection: ConnectionUser {
    final let connection: VerifiedConnection
    /// The pool that counts the connection.
    final let entry: HostEntry
    // The place in the session's list of idle connections, which owns these three.
    final fileprivate var newerIdle: PooledConnection?
    final fileprivate unowned(unsafe) var olderIdle: PooledConnection?
    /// When the connection became idle, in nanoseconds of the loop's clock; nil when it is not in the list.
    final fileprivate(set) var idleSince: UInt64?

    init(_ connection: VerifiedConnection, _ entry: HostEntry) {
        self.connection = connection
        self.entry = entry
        super.init()
        connection.user = self
    }

    deinit { connection.user = nil }

    /// The connection is idle from now on.
    func rest() {}

    /// Closes the connection, which is idle and not in the list any more.
    func discard() {}
}

/// The idle connections of a session, of all hosts and both protocols, in the order in which they became idle.
struct IdleConnections {
    private var newest: PooledConnection?
    private(set) unowned(unsafe) var oldest: PooledConnection?
    private(set) var count = 0

    /// When the oldest became idle, in nanoseconds of the loop's clock.
    var oldestSince: UInt64? { oldest?.idleSince }

    mutating func append(_ connection: PooledConnection, at now: UInt64) {
        guard connection.idleSince == nil else { return }
        connection.idleSince = now
        if let newest {
            connection.olderIdle = newest
            newest.newerIdle = connection
        } else {
            oldest = connection
        }
        newest = connection
        count += 1
    }

    mutating func remove(_ connection: PooledConnection) {
        guard connection.idleSince != nil else { return }
        connection.idleSince = nil
        count -= 1
        // Usually it is the only one.
        guard count > 0 else {
            newest = nil
            oldest = nil
            return
        }
        connection.newerIdle?.olderIdle = connection.olderIdle
        connection.olderIdle?.newerIdle = connection.newerIdle
        if newest === connection { newest = connection.olderIdle }
        if oldest === connection { oldest = connection.newerIdle }
        connection.newerIdle = nil
        connection.olderIdle = nil
    }
}
