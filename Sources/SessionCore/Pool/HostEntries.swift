// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The pool of one host and port, in the table of a session.
final class HostEntry<Request: PoolRequest>: ConnectionHost, HashTableElement {
    var pool: HostPool<Request>
    /// Requests that wait are being served.
    var isServing = false
    let host: Host
    let port: UInt16
    let hash: UInt64

    fileprivate init(_ endpoint: Endpoint, limit: Int) {
        host = endpoint.host
        port = endpoint.port
        hash = endpoint.hostHash
        pool = HostPool(limit: limit)
    }

    override func remove(_ connection: AnyObject) -> Bool { pool.remove(connection) }

    /// Whether nothing would be lost with the entry.
    fileprivate func isForgettable(at now: UInt64) -> Bool { pool.isEmpty && isUnknown(at: now) }
}

/// The pools of a session, found by host and port without an allocation. Clients choose the hosts: pools without
/// connections and requests are forgotten when there are many.
struct HostEntries<Request: PoolRequest> {
    private var table = HashTable<HostEntry<Request>>()

    /// - Parameters:
    ///   - limit: the number of connections that the endpoint asked for last allows.
    ///   - now: in nanoseconds of the loop's clock.
    mutating func entry(for endpoint: Endpoint, limit: Int, at now: UInt64) -> HostEntry<Request> {
        if let entry = table.first(
            endpoint.hostHash,
            where: { $0.port == endpoint.port && $0.host == endpoint.host }
        ) {
            entry.pool.limit = limit
            return entry
        }
        let entry = HostEntry<Request>(endpoint, limit: limit)
        if table.isFull {
            table.rebuild { !$0.isForgettable(at: now) }
        }
        table.insert(entry)
        return entry
    }

    /// The requests that wait, over all hosts.
    var waiters: [Request] { table.all.flatMap(\.pool.waiters) }
}
