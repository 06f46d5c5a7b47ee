// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The server of one host and port: what the session has learned about it. A class to inherit from, for the pool of its connections.
class ConnectionHost {
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

    /// Whether nothing would be lost with the facts.
    func isUnknown(at now: UInt64) -> Bool {
        http1Until <= now && http2Requests.until <= now && http2Streams.until <= now
    }

    /// An idle connection has ended.
    ///
    /// - Returns: whether it was among those that requests get.
    func remove(_ connection: AnyObject) -> Bool { false }
}
