import HTTPCore
import IOCore

/// The pool of one host and port, in the table of a session.
final class HostEntry: HashTableElement {
    var pool: HostPool<HTTP1Connection, OriginRequest>
    /// The HTTP/2 connections that take requests. Each has a place in `pool` for its stream task.
    var http2Connections: [HTTP2ClientConnection] = []
    /// The number of requests after which the server ends an HTTP/2 connection, as its last GOAWAY showed, and until when this
    /// is believed.
    var http2Requests = (limit: Int.max, until: UInt64(0))
    /// Until when the server is known to choose HTTP/1.1, in nanoseconds of the loop's clock; 0 when nothing is known.
    var http1Until: UInt64 = 0
    /// An HTTP/2 connection that carries nothing.
    var idleHTTP2Connection: HTTP2ClientConnection? { http2Connections.first { $0.state == .open && $0.isIdle } }
    let host: Host
    let port: UInt16
    let hash: UInt64

    fileprivate init(_ endpoint: Endpoint, limit: Int) {
        host = endpoint.host
        port = endpoint.port
        hash = endpoint.laneHash
        pool = HostPool(limit: limit)
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
        for entry in table.candidates(endpoint.laneHash)
        where entry.port == endpoint.port && entry.host == endpoint.host {
            entry.pool.limit = limit
            return entry
        }
        let entry = HostEntry(endpoint, limit: limit)
        if table.isFull {
            table.rebuild { !$0.pool.isEmpty || !$0.http2Connections.isEmpty || $0.http1Until > now }
        }
        table.insert(entry)
        return entry
    }

    /// An HTTP/2 connection that carries nothing, to any host.
    var idleHTTP2Connection: HTTP2ClientConnection? { table.all.lazy.compactMap(\.idleHTTP2Connection).first }

    /// The requests that wait, over all hosts.
    var waiters: [OriginRequest] { table.all.flatMap(\.pool.waiters) }
}
