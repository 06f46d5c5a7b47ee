// SPDX-License-Identifier: Apache-2.0
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
        var metrics: TransactionMetrics
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

    /// About what it takes in memory. What connections have in common is not counted.
    var memorySize: Int {
        hops.reduce(MemoryLayout<Self>.stride + method.count + url.count + trace.state.count + (id?.value.count ?? 0)) {
            $0 + MemoryLayout<Hop>.stride + $1.url.count
        }
    }
}
