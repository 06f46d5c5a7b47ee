// SPDX-License-Identifier: Apache-2.0
/// A client, as the owner of connections to origins: one that it authenticates (NTLM, Negotiate: RFC 4559) carries its requests and
/// nobody else's, and ends with it.
///
/// Belongs to the loop of the client's connection.
package final class ConnectionOwner {
    private var lanes: [OwnedLane] = []
    private var isOver = false

    package init() {}

    /// Whether requests to the endpoint go out on a connection that is the client's own.
    package func owns(_ endpoint: Endpoint) -> Bool {
        lanes.contains { !$0.isUnused && $0.endpoint.isSamePlace(as: endpoint) }
    }

    /// The client's own way to the endpoint, in the session that the host belongs to.
    func lane(_ host: ConnectionHost, to endpoint: Endpoint) -> OwnedLane? {
        lanes.first { $0.host === host && $0.endpoint.isSamePlace(as: endpoint) }
    }

    /// Makes one.
    func openLane(_ host: ConnectionHost, to endpoint: Endpoint) -> OwnedLane {
        lanes.removeAll(where: \.isUnused)
        let lane = OwnedLane(host, endpoint)
        lane.isOver = isOver
        lanes.append(lane)
        return lane
    }

    /// The client is gone: its connections end, idle ones at once.
    package func end() {
        isOver = true
        let ended = lanes
        lanes = []
        for lane in ended { lane.end() }
    }
}

/// One connection at a time that belongs to a client, and the client's requests for it: they take turns, in their order, so that a
/// handshake of several requests stays on one connection.
final class OwnedLane {
    fileprivate let host: ConnectionHost
    fileprivate let endpoint: Endpoint
    /// The client is gone.
    fileprivate(set) var isOver = false
    /// nil before it is made, and when it has ended.
    private(set) var connection: HTTP1Connection?
    private var holder: ExchangeReceiver?
    private var waiting: [ExchangeReceiver] = []

    fileprivate init(_ host: ConnectionHost, _ endpoint: Endpoint) {
        self.host = host
        self.endpoint = endpoint
    }

    fileprivate var isUnused: Bool { connection == nil && holder == nil && waiting.isEmpty }

    /// - Returns: false when another request is there: this one waits then.
    func enter(_ request: ExchangeReceiver) -> Bool {
        guard holder != nil else {
            holder = request
            return true
        }
        waiting.append(request)
        return false
    }

    /// A request has ended, or waits no longer. The next one enters again.
    func leave(_ request: ExchangeReceiver) {
        guard holder === request else { return waiting.removeAll { $0 === request } }
        holder = nil
        if !waiting.isEmpty { waiting.removeFirst().laneIsFree() }
    }

    func adopt(_ connection: HTTP1Connection) {
        self.connection = connection
        connection.lane = self
    }

    func connectionDidClose() { connection = nil }

    fileprivate func end() {
        isOver = true
        // One that carries a request ends with it.
        if holder == nil, let connection { connection.discardIdle() }
    }
}
