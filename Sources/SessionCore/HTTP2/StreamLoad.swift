// SPDX-License-Identifier: Apache-2.0
/// The requests on one HTTP/2 connection, as a value: how many there are, and whether there is room for one more.
struct StreamLoad {
    /// The server's settings have come. Until then the dial that has led here is in the pool in the connection's stead.
    private(set) var isSettled = false
    /// Requests that begin at the end of the turn.
    private var promised = 0
    /// Requests that have a stream. There may be further streams, which nghttp2 has not been able to reset yet.
    private var attached = 0
    /// Requests that are tunnels, promised ones among them.
    private var tunnels = 0
    /// Requests that have begun since the connection was made.
    private var count = 0

    /// At most this many requests are under way at once, whatever the server allows.
    static let limit = 100

    // MARK: Room

    /// Whether no request is under way, or promised a stream.
    var isIdle: Bool { attached == 0 && promised == 0 }

    /// Whether a further request may begin.
    ///
    /// - Parameters:
    ///   - streams: those that there are.
    ///   - allowed: how many the server allows, by its settings or those of last time.
    ///   - requests: after how many the server ends a connection.
    func hasRoom(beside streams: Int, of allowed: Int, requests: @autoclosure () -> Int) -> Bool {
        streams + promised < min(allowed, Self.limit) && count + promised < requests()
    }

    /// Whether another stream may be a tunnel. They stay for long, so that half of the streams is left to requests.
    func hasRoomForTunnel(of allowed: Int) -> Bool { tunnels < min(allowed, Self.limit) / 2 }

    // MARK: Requests

    /// A request is going to begin at the end of the turn.
    mutating func promise() { promised += 1 }

    /// The request takes its stream, or gives it up at once; `end` follows.
    mutating func redeemPromise() {
        promised -= 1
        attached += 1
    }

    /// A request has gone out.
    ///
    /// - Parameter requests: after how many the server ends a connection.
    /// - Returns: whether it was the last one.
    mutating func begin(of requests: Int) -> Bool {
        count += 1
        return count >= requests
    }

    /// A request has no more use for its stream.
    mutating func end() { attached -= 1 }

    mutating func beginTunnel() { tunnels += 1 }

    /// A tunnel has ended, or does not begin.
    mutating func endTunnel() { tunnels -= 1 }

    /// The server's settings have come.
    ///
    /// - Returns: whether they are the first ones.
    mutating func settle() -> Bool {
        defer { isSettled = true }
        return !isSettled
    }
}
