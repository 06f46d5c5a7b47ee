package import IOCore

/// What all tasks of a manager share.
public struct SessionConfiguration: Sendable {
    /// Connections kept open for reuse, over all hosts.
    public var connectionPoolSize = 1024
    /// Connections in use to one host and port; further requests wait, in the order in which they came. Requests that
    /// share a connection of HTTP/2 count only until they have it. 0: no limit.
    public var connectionsPerHost = 256
    /// How old a connection may be that carries one more request: at most ten minutes, also where more is asked for,
    /// and at least a second. A verdict on a server is not to live as long as traffic goes on.
    public var connectionLifetime = Duration.seconds(600)

    /// The defaults that stand with each property.
    public init() {}

    /// Nanoseconds.
    var connectionLifetimeLimit: UInt64 {
        min(TimeSpan(max(connectionLifetime, .seconds(1))).nanoseconds, TimeSpan.seconds(600).nanoseconds)
    }
}

/// How long a task may take in each of its phases.
public struct TaskTimeouts: Sendable, Equatable {
    /// For a connection, where as many are in use as there may be; nil: as long as the whole may take.
    package var queue: TimeSpan?
    /// Name lookup, TCP and TLS together.
    package var connect = TimeSpan.seconds(10)
    /// From the end of the request to the final head.
    package var firstByte = TimeSpan.seconds(60)
    /// Without a byte of a body in either direction.
    package var stall = TimeSpan.seconds(300)
    /// All of it; nil: no limit.
    package var total: TimeSpan?

    /// Ten seconds to connect, a minute to the head of the answer, five minutes without a byte, no bound on all of it.
    public init() {}

    /// - Parameters:
    ///   - connect: name lookup, TCP and TLS together.
    ///   - firstByte: from the end of the request to the final head.
    ///   - stall: without a byte of a body in either direction.
    ///   - total: all of it; nil for no limit.
    ///   - queue: the wait for a connection, where as many are in use as `connectionsPerHost` allows; nil for no limit
    ///     but `total`. A task that has waited that long fails with `limitReached`.
    public init(
        connect: Duration = .seconds(10),
        firstByte: Duration = .seconds(60),
        stall: Duration = .seconds(300),
        total: Duration? = nil,
        queue: Duration? = nil
    ) {
        self.connect = TimeSpan(connect)
        self.firstByte = TimeSpan(firstByte)
        self.stall = TimeSpan(stall)
        self.total = total.map { TimeSpan($0) }
        self.queue = queue.map { TimeSpan($0) }
    }
}

extension TimeSpan {
    /// At least a millisecond, at most about thirty years, so that no sum with a clock overflows.
    init(_ duration: Duration) {
        let nanoseconds = duration / .nanoseconds(1)
        self.init(nanoseconds: UInt64(min(max(nanoseconds, 1e6), 1e18)))
    }
}
