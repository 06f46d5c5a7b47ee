// SPDX-License-Identifier: Apache-2.0
/// The servers of the slots of a Cluster.
struct ClusterTable {
    static let nodesAtMost = 1_000
    private static let none = UInt16.max

    private(set) var nodes: [RedisAddress] = []
    /// For each slot the place of its server in `nodes`.
    private var places = [UInt16](repeating: Self.none, count: ClusterSlot.count)

    /// - Parameter server: the one that was asked: an empty name in its reply is its own.
    /// - Returns: nil for a reply to CLUSTER SLOTS in which anything is wrong, and for one without slots.
    init?(_ reply: RedisReply, from server: RedisAddress) {
        guard case .array(let ranges) = reply, 1...ClusterSlot.count ~= ranges.count else { return nil }
        var known: [RedisAddress: UInt16] = [:]
        for range in ranges {
            guard case .array(let parts) = range, parts.count >= 3, case .integer(let first) = parts[0],
                case .integer(let last) = parts[1], 0 <= first, first <= last, last < ClusterSlot.count,
                let address = Self.address(parts[2], server)
            else { return nil }
            let place = known[address] ?? UInt16(nodes.count)
            if place == nodes.count {
                guard nodes.count < Self.nodesAtMost else { return nil }
                nodes.append(address)
                known[address] = place
            }
            for slot in first...last {
                guard places[slot] == Self.none else { return nil }
                places[slot] = place
            }
        }
    }

    subscript(slot: Int) -> RedisAddress? { places[slot] == Self.none ? nil : nodes[Int(places[slot])] }

    /// Notes that one slot has another server. When there are too many servers, the next table tells of it.
    mutating func move(_ slot: Int, to address: RedisAddress) {
        let place = nodes.firstIndex(of: address) ?? nodes.count
        if place == nodes.count {
            guard nodes.count < Self.nodesAtMost else { return }
            nodes.append(address)
        }
        places[slot] = UInt16(place)
    }

    private static func address(_ node: RedisReply, _ server: RedisAddress) -> RedisAddress? {
        guard case .array(let parts) = node, parts.count >= 2, case .integer(let port) = parts[1] else { return nil }
        switch parts[0] {
        case .bytes(let name) where !name.isEmpty: return RedisAddress(name: name, port: port)
        case .bytes, .null: return RedisAddress(name: Array(server.host.utf8), port: port)
        default: return nil
        }
    }
}
