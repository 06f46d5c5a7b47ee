import HTTPCore

/// The transfers to one host and port.
final class HostLane {
    var queue = HostQueue<Transfer>()
    fileprivate let host: Host
    fileprivate let port: UInt16
    fileprivate let hash: UInt64
    /// As the endpoint that was asked for last says.
    var limit: Int

    fileprivate init(host: Host, port: UInt16, hash: UInt64, limit: Int) {
        self.host = host
        self.port = port
        self.hash = hash
        self.limit = limit
    }
}

/// The lanes of a session, found by host and port without an allocation. Clients choose the hosts: those that carry
/// nothing are forgotten when there are many.
struct HostLanes {
    private var slots: [HostLane?] = Array(repeating: nil, count: 64)
    private var count = 0

    mutating func lane(to endpoint: Endpoint, limit: Int) -> HostLane {
        let hash = endpoint.laneHash
        var index = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        while let lane = slots[index] {
            if lane.hash == hash, lane.port == endpoint.port, lane.host == endpoint.host {
                lane.limit = limit
                return lane
            }
            index = (index + 1) & (slots.count - 1)
        }
        let lane = HostLane(host: endpoint.host, port: endpoint.port, hash: hash, limit: limit)
        if count * 2 >= slots.count { rebuild() }
        place(lane)
        count += 1
        return lane
    }

    /// All that wait, over all hosts.
    var waiters: [Transfer] { slots.flatMap { $0?.queue.waiters ?? [] } }

    private mutating func rebuild() {
        let busy = slots.compactMap { $0 }.filter { !$0.queue.isIdle }
        var size = 64
        while busy.count * 4 > size { size *= 2 }
        slots = Array(repeating: nil, count: size)
        count = busy.count
        for lane in busy { place(lane) }
    }

    private mutating func place(_ lane: HostLane) {
        var index = Int(truncatingIfNeeded: lane.hash) & (slots.count - 1)
        while slots[index] != nil { index = (index + 1) & (slots.count - 1) }
        slots[index] = lane
    }
}
