import HTTPCore
import IOCore

/// The pool of one host and port, in the table of a session, and the facts that the session has learned about the server.
final class HostEntry: HashTableElement {
    var pool: HostPool<OriginRequest>
    /// Requests that wait are being served.
    var isServing = false
    let host: Host
    let port: UInt16
    let hash: UInt64
    /// The number of requests after which the server ends an HTTP/2 connection, as its last GOAWAY showed, and until when this
    /// is believed.
    private var http2Requests = (limit: Int.max, until: UInt64(0))
    /// The number of streams that the server allowed last, and until when this is believed.
    private var http2Streams = (limit: Int.max, until: UInt64(0))
    /// Until when the server is known to choose HTTP/1.1, in nanoseconds of the loop's clock; 0 when nothing is known.
    private var http1Until: UInt64 = 0

    /// The session believes for so long what it has learned.
    private static let validity = TimeSpan.seconds(300)
    /// The same for a number of requests that one GOAWAY alone has shown: a server that is restarted ends connections at any.
    private static let firstValidity = TimeSpan.seconds(10)
    /// A server that ends a connection earlier does so for another reason.
    private static let leastRequests = 10

    fileprivate init(_ endpoint: Endpoint, limit: Int) {
        host = endpoint.host
        port = endpoint.port
        hash = endpoint.hostHash
        pool = HostPool(limit: limit)
    }

    /// Whether the server may speak HTTP/2, as far as is known.
    func maySpeakHTTP2(at now: UInt64) -> Bool { http1Until <= now }

    /// The server has chosen HTTP/1.1.
    func didChooseHTTP1(at now: UInt64) { http1Until = now &+ Self.validity.nanoseconds }

    /// The server has failed over HTTP/1.1: it may speak HTTP/2 alone now.
    func didFailOverHTTP1() { http1Until = 0 }

    /// The number of requests that an HTTP/2 connection carries.
    func requestLimit(at now: UInt64) -> Int { http2Requests.until > now ? http2Requests.limit : Int.max }

    /// The server has ended an HTTP/2 connection after so many requests (nginx: `keepalive_requests`). Later ones are retired
    /// before that: a request that is refused twice fails.
    func didEndConnection(after requests: Int, at now: UInt64) {
        let limit = max(requests, Self.leastRequests)
        let isConfirmed = requests >= Self.leastRequests && limit == http2Requests.limit
        let validity = isConfirmed ? Self.validity : Self.firstValidity
        http2Requests = (limit, now &+ validity.nanoseconds)
    }

    /// The number of streams that a new connection is expected to take.
    func streamLimit(at now: UInt64) -> Int { http2Streams.until > now ? http2Streams.limit : Int.max }

    /// The server has said how many streams it allows.
    func didLimitStreams(to limit: Int, at now: UInt64) {
        http2Streams = (max(limit, 1), now &+ Self.validity.nanoseconds)
    }

    /// Whether nothing would be lost with the entry.
    fileprivate func isForgettable(at now: UInt64) -> Bool {
        pool.isEmpty && http1Until <= now && http2Requests.until <= now && http2Streams.until <= now
    }
}

/// The pools of a session, found by host and port without an allocation. Clients choose the hosts: pools without
/// connections and requests are forgotten when there are many.
struct HostEntries {
    private var table = HashTable<HostEntry>()

    /// - Parameters:
    ///   - limit: the number of connections that the endpoint asked for last allows.
    ///   - now: in nanoseconds of the loop's clock.
    mutating func entry(for endpoint: Endpoint, limit: Int, at now: UInt64) -> HostEntry {
        if let entry = table.first(
            endpoint.hostHash,
            where: { $0.port == endpoint.port && $0.host == endpoint.host }
        ) {
            entry.pool.limit = limit
            return entry
        }
        let entry = HostEntry(endpoint, limit: limit)
        if table.isFull {
            table.rebuild { !$0.isForgettable(at: now) }
        }
        table.insert(entry)
        return entry
    }

    /// The requests that wait, over all hosts.
    var waiters: [OriginRequest] { table.all.flatMap(\.pool.waiters) }
}
