// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// The pool of one host's connections: each byte of an input is an event.
enum PoolProperties {
    private final class Connection {}

    private final class Shared: SharedPlace {
        let destination: Bool
        var room: Int
        var load = 0
        init(_ destination: Bool, room: Int) { (self.destination, self.room) = (destination, room) }
        var hasRoom: Bool { load < room }
        var isIdle: Bool { load == 0 }
    }

    private final class Request: PoolRequest {
        let isShareable: Bool
        let destination: Bool
        init(isShareable: Bool, _ destination: Bool) {
            (self.isShareable, self.destination) = (isShareable, destination)
        }
        func canUse(_ connection: Connection) -> Bool { !isShareable && destination }
        func canShare(_ connection: Shared) -> Bool { connection.destination == destination }
        func canAwait(_ dial: Shared) -> Bool { dial.destination == destination }
        func canJoin(_ dial: Shared) -> Bool { dial.destination == destination }
    }

    /// Never are there more connections than the limit allows; no request waits that could be served, and each is served once, in
    /// the order in which those of its kind and destination came.
    static func events(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let first = bytes.first else { return }
        var model = Model(limit: 1 + Int(first) % 5)
        for byte in bytes.dropFirst() { try model.event(byte) }
    }

    private struct Model {
        let limit: Int
        var pool: HostPool<Request>
        /// Connections of one exchange at a time that are being made or used.
        var active = 0
        var idle: [Connection] = []
        var dials: [Shared] = []
        var shared: [Shared] = []
        var retired: [Shared] = []
        var waiting: [Request] = []

        init(limit: Int) {
            self.limit = limit
            pool = HostPool(limit: limit)
        }

        mutating func event(_ byte: UInt8) throws(FuzzFinding) {
            let flag = byte & 0x80 != 0
            let place = Int(byte & 0x7F) / 10
            switch byte % 10 {
            case 0, 1, 2:
                let request = Request(isShareable: byte % 10 != 0, flag || place % 3 > 0)
                waiting.append(request)
                let decision = pool.enter(request)
                if case .wait = decision { break }
                guard waiting.count == 1 else { throw FuzzFinding("a request overtakes those that wait") }
                try carryOut(decision, request)
            case 3, 4:
                guard active > 0 else { break }
                active -= 1
                let connection = byte % 10 == 3 ? Connection() : nil
                if let connection { idle.append(connection) }
                pool.leave(keeping: connection)
            case 5:
                guard !dials.isEmpty else { break }
                let dial = dials.remove(at: place % dials.count)
                if flag {
                    pool.remove(dial, for: nil)
                    pool.leave(keeping: nil)
                } else {
                    let connection = Shared(dial.destination, room: 1 + place % 4)
                    shared.append(connection)
                    pool.remove(dial, for: connection)
                }
            case 6:
                guard !shared.isEmpty else { break }
                let connection = shared[place % shared.count]
                if flag { connection.room += 1 } else { connection.load = max(0, connection.load - 1) }
            case 7:
                if let connection = retired.popLast() {
                    _ = connection
                    pool.leave(keeping: nil)
                } else if !shared.isEmpty {
                    let connection = shared.remove(at: place % shared.count)
                    pool.retire(connection)
                    retired.append(connection)
                }
            case 8:
                guard !waiting.isEmpty else { break }
                pool.withdraw(waiting.remove(at: place % waiting.count))
            default:
                guard !idle.isEmpty else { break }
                guard pool.remove(idle.remove(at: place % idle.count)) else {
                    throw FuzzFinding("an idle connection is not there")
                }
            }
            while let (request, decision) = pool.next() { try carryOut(decision, request) }
            try check()
        }

        private mutating func carryOut(_ decision: HostPool<Request>.Decision, _ request: Request) throws(FuzzFinding) {
            guard let index = waiting.firstIndex(where: { $0 === request }) else {
                throw FuzzFinding("a request is served that does not wait")
            }
            let isOvertaking = waiting[..<index].contains {
                $0.isShareable == request.isShareable && $0.destination == request.destination
            }
            guard !isOvertaking else { throw FuzzFinding("a request overtakes another one of its kind") }
            waiting.remove(at: index)
            switch decision {
            case .wait: throw FuzzFinding("a request that is served waits")
            case .use(let connection):
                guard request.canUse(connection), let index = idle.firstIndex(where: { $0 === connection }) else {
                    throw FuzzFinding("a connection is used that is not idle, or not usable")
                }
                idle.remove(at: index)
                active += 1
            case .share(let connection):
                guard request.isShareable, connection.destination == request.destination, connection.hasRoom,
                    shared.contains(where: { $0 === connection })
                else { throw FuzzFinding("a connection is shared that is not there, or has no room") }
                connection.load += 1
            case .await(let dial):
                guard request.isShareable, dial.destination == request.destination, dial.hasRoom,
                    dials.contains(where: { $0 === dial })
                else { throw FuzzFinding("a dial is awaited that is not there, or has no room") }
                dial.load += 1
            case .make: make(for: request)
            case .replace(let connection):
                guard idle.first === connection else { throw FuzzFinding("not the oldest connection is closed") }
                idle.removeFirst()
                make(for: request)
            case .replaceShared(let connection):
                guard connection.isIdle, let index = shared.firstIndex(where: { $0 === connection }) else {
                    throw FuzzFinding("a connection is closed that is in use")
                }
                shared.remove(at: index)
                make(for: request)
            }
        }

        private mutating func make(for request: Request) {
            guard request.isShareable else {
                active += 1
                return
            }
            let dial = Shared(request.destination, room: 3)
            dial.load = 1
            dials.append(dial)
            pool.add(dial)
        }

        private func check() throws(FuzzFinding) {
            let count = active + dials.count + shared.count + retired.count
            guard pool.activeCount == count, pool.idleCount == idle.count else {
                throw FuzzFinding("the pool miscounts")
            }
            guard count + idle.count <= limit else { throw FuzzFinding("more connections than the limit") }
            guard Set(pool.waiters.map { ObjectIdentifier($0) }) == Set(waiting.map { ObjectIdentifier($0) }) else {
                throw FuzzFinding("a request is lost")
            }
            let others = waiting.filter { !$0.isShareable }
            guard others.isEmpty || count == limit && !shared.contains(where: \.isIdle) else {
                throw FuzzFinding("a request waits that could have a place")
            }
            let room = (shared + dials).filter(\.hasRoom).map(\.destination)
            guard !waiting.contains(where: { $0.isShareable && room.contains($0.destination) }) else {
                throw FuzzFinding("a request waits for a stream in vain")
            }
            guard waiting.isEmpty || count == limit || !dials.isEmpty else {
                throw FuzzFinding("a request waits in vain")
            }
            guard pool.isEmpty == (count == 0 && idle.isEmpty && waiting.isEmpty) else {
                throw FuzzFinding("the pool does not know that it is empty")
            }
        }
    }
}
