// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import SessionCore

/// The record of one sampled request that is over. A worker copies the request; everything else is made on the thread of traces.
/// URLs are masked as in the task log.
struct SpanRecord: Sendable {
    /// A request to an origin, or the connection of a tunnel.
    struct Hop: Sendable {
        /// 0: nobody was told of it.
        var span: UInt64
        var url: [UInt8]
        /// The time that the times of `metrics` count from, in microseconds since 1970.
        var origin: Int64
        /// Without the connection, whose evaluation refers to all of a host's pins.
        var metrics: TransactionMetrics
        var peer: Peer?

        init(span: UInt64, url: [UInt8], origin: Int64, metrics: TransactionMetrics) {
            self.span = span
            self.url = url
            self.origin = origin
            self.metrics = metrics
            self.metrics.connection = nil
            peer = metrics.connection.map(Peer.init)
        }
    }

    /// The parts of a connection that a span has.
    struct Peer: Sendable {
        let address: [UInt8]
        let tlsVersion: [UInt8]
        let cipher: [UInt8]
        let verdict: String?

        init(_ connection: ConnectionInfo) {
            address = Array(connection.remoteAddressText.utf8)
            tlsVersion = connection.tlsVersion?.bytes ?? []
            cipher = connection.cipher?.bytes ?? []
            verdict = connection.evaluation?.verdict.rawValue
        }
    }

    /// Longer URLs are cut.
    static let mostURLBytes = 2048

    let trace: TraceContext
    let span: UInt64
    let id: (name: [UInt8], value: [UInt8])?
    /// Microseconds since 1970.
    let start: Int64
    /// Microseconds.
    let duration: Int64
    let method: [UInt8]
    /// Of CONNECT the authority alone.
    let url: [UInt8]
    /// 10, 11 or 20.
    let protocolVersion: Int
    /// Address and port of the client.
    let client: [UInt8]
    /// 0 without a response.
    let status: Int
    /// The stable code.
    let error: String?
    let cache: String?
    let bytesFromClient: Int
    let bytesToClient: Int
    /// Whether `hops` is the connection of a tunnel.
    let isTunnel: Bool
    let hops: [Hop]
    /// Whether the proxy has sent the request by itself, to renew a stored response.
    var isRefresh = false

    /// About what it takes in memory.
    var memorySize: Int {
        hops.reduce(MemoryLayout<Self>.stride + method.count + url.count + trace.state.count + (id?.value.count ?? 0)) {
            let peer = $1.peer.map { $0.address.count + $0.tlsVersion.count + $0.cipher.count } ?? 0
            return $0 + MemoryLayout<Hop>.stride + $1.url.count + peer
        }
    }
}
