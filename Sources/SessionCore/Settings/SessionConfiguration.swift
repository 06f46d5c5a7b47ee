package import IOCore
package import ServerTrust

/// Settings that all tasks of a manager share.
public struct SessionConfiguration: Sendable {
    /// The largest number of open connections that are kept for reuse, over all hosts.
    public var connectionPoolSize = 1024
    /// The largest number of connections to one host and port, of every kind: HTTP/1.1 and HTTP/2, streams, idle ones.
    /// Further requests wait in order. 0: no limit.
    public var connectionsPerHost = 256
    /// The largest age of a connection that is reused: at least a second, and at most ten minutes, even if more is
    /// configured, so that a server is evaluated again while traffic goes on.
    public var connectionLifetime = Duration.seconds(600)

    /// The longest head of a response, in bytes; a longer one fails with `responseInvalid`. Over HTTP/2 each field counts
    /// 32 bytes more (RFC 9113, section 6.5.2), and has at most 64 KB.
    public var responseHeadBytes = 256 << 10
    /// The largest number of fields in the head of a response.
    public var responseHeadFields = 500

    /// How names are looked up.
    public var resolver = NameResolution.dns
    /// The name servers instead of those of the operating system, as addresses with ports, separated by commas; nil outside
    /// of tests.
    package var nameServers: String?

    /// What fetches the revocation lists that policies ask for; nil: a server that needs one is refused.
    package var revocationLists: RevocationListSource?

    /// Where the steps of TLS handshakes are made.
    package var handshakes = FairThreads.handshakes

    /// Makes `ConnectionInfo.note`, once for each connection, of the evaluation of its server and the seconds since 1970.
    package var connectionNote: (@Sendable (TrustEvaluation, Int64) -> [UInt8])?

    /// An origin in memory that takes all requests, in place of connections; nil but in tests of programs.
    package var stub: StubTransport?

    /// A configuration with the defaults of each property.
    public init() {}

    /// `connectionLifetime` within its bounds, in nanoseconds.
    var connectionLifetimeLimit: UInt64 {
        min(TimeSpan(max(connectionLifetime, .seconds(1))).nanoseconds, TimeSpan.seconds(600).nanoseconds)
    }
}

/// What fetches revocation lists for sessions of any thread.
package struct RevocationListSource: Sendable {
    /// The lists that are held, which handshakes look at.
    package let store: RevocationListStore
    /// Has lists fetched, from any thread. The completion is called once, on any thread, when they are held (nil) or will not be
    /// soon, with the reason; it may be called from within the call.
    package let obtain:
        @Sendable (_ needs: [RevocationListNeed], _ completion: @escaping @Sendable (_ fault: String?) -> Void) -> Void

    package init(
        store: RevocationListStore,
        obtain: @escaping @Sendable ([RevocationListNeed], @escaping @Sendable (String?) -> Void) -> Void
    ) {
        self.store = store
        self.obtain = obtain
    }
}

/// How a session looks up names.
public enum NameResolution: String, Sendable, Hashable, CaseIterable {
    /// `/etc/hosts`, then the name servers of `/etc/resolv.conf`, on the session's loop. Results are kept for their time to
    /// live, from a second to five minutes.
    case dns
    /// What `/etc/nsswitch.conf` names (getaddrinfo(3)), on at most four threads of the process. Results are kept for 30
    /// seconds.
    case system
}

/// The time limits of a task's phases.
public struct TaskTimeouts: Sendable, Equatable {
    /// The wait for a connection when the limit of connections is reached; nil for no limit but `total`.
    package var queue: TimeSpan?
    /// The limit for name lookup, TCP and TLS together.
    package var connect = TimeSpan.seconds(10)
    /// The limit from the end of the request to the final head.
    package var firstByte = TimeSpan.seconds(60)
    /// The longest pause without a byte of a body in either direction.
    package var stall = TimeSpan.seconds(300)
    /// The limit of the whole task; nil for none.
    package var total: TimeSpan?

    /// Ten seconds to connect, a minute to the head of the response, five minutes without a byte, no limit of the whole
    /// task.
    public init() {}

    /// - Parameters:
    ///   - connect: name lookup, TCP and TLS together.
    ///   - firstByte: from the end of the request to the final head.
    ///   - stall: the longest pause without a byte of a body in either direction.
    ///   - total: the whole task; nil for no limit.
    ///   - queue: the wait for a connection when `connectionsPerHost` are in use; nil for no limit but `total`. A task
    ///     that has waited that long fails with `limitReached`.
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
    /// From a millisecond to about thirty years, so that no sum with a clock overflows.
    init(_ duration: Duration) {
        let nanoseconds = duration / .nanoseconds(1)
        self.init(nanoseconds: UInt64(min(max(nanoseconds, 1e6), 1e18)))
    }
}
