// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The session's connections as each of them sees it: a connection notifies it of its own end, and of the end of its idleness. A class
/// to inherit from.
class PooledConnectionOwner: EndOfTurnHandler {
    final let loop: EventLoop
    final let headLimits: HeadLimits
    /// The account of what origins make this process hold; nil where nothing is counted.
    final var held: HeldBytes?

    init(loop: EventLoop, headLimits: HeadLimits) {
        self.loop = loop
        self.headLimits = headLimits
        super.init()
    }

    /// A connection carries nothing from now on.
    func didBecomeIdle(_ connection: PooledConnection) {}

    /// An idle connection is going to carry a request, or has ended.
    func didEndIdleness(_ connection: PooledConnection) {}

    /// Closes an idle connection.
    func discard(_ connection: PooledConnection) {}

    /// A new connection has ended before anything came on it.
    func didEndUnanswered(_ connection: VerifiedConnection) {}

    /// Calls `flush` of the connection at the end of the turn.
    func flushLater(_ connection: PooledConnection) {}

    /// Whether a response may hold so many bytes, beside those of the other requests.
    func mayHold(_ bytes: Int) -> Bool { true }
}

/// A verified connection that the pool of a host keeps for requests. A class to inherit from.
class PooledConnection: ConnectionUser {
    final let connection: VerifiedConnection
    /// The host whose pool counts the connection.
    final let host: ConnectionHost
    final let owner: PooledConnectionOwner
    // The place in the session's list of idle connections, which owns these three.
    final fileprivate var newerIdle: PooledConnection?
    final fileprivate unowned(unsafe) var olderIdle: PooledConnection?
    /// When the connection became idle, in nanoseconds of the loop's clock; nil when it is not in the list.
    final fileprivate(set) var idleSince: UInt64?

    init(_ connection: VerifiedConnection, _ host: ConnectionHost, owner: PooledConnectionOwner) {
        self.connection = connection
        self.host = host
        self.owner = owner
        super.init()
        connection.user = self
    }

    deinit { connection.user = nil }

    /// The connection is idle from now on.
    func rest() {}

    /// Closes the connection, which is idle and not in the list any more.
    func discard() {}

    /// The end of the turn: writes what was put together in it.
    func flush() {}
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
