// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SessionCore

@Suite("The pool of one host's connections")
struct HostPoolTests {
    private final class Connection {}

    /// A shared connection, or a dial for one.
    private final class Shared: SharedPlace {
        let destination: Int
        var room: Int
        var load = 0
        init(room: Int, destination: Int = 0) { (self.room, self.destination) = (room, destination) }
        var hasRoom: Bool { load < room }
        var isIdle: Bool { load == 0 }
    }

    private final class Request: PoolRequest {
        let number: Int
        var isShareable: Bool
        let destination: Int
        /// Whether it can use idle connections.
        var isUsable: Bool
        var wasRefused = false
        init(_ number: Int, isShareable: Bool = false, destination: Int = 0, isUsable: Bool = true) {
            self.number = number
            self.isShareable = isShareable
            self.destination = destination
            self.isUsable = isUsable && !isShareable
        }
        func canUse(_ connection: Connection) -> Bool { isUsable }
        func canShare(_ connection: Shared) -> Bool { connection.destination == destination }
        func canAwait(_ dial: Shared) -> Bool { dial.destination == destination }
        func canJoin(_ dial: Shared) -> Bool { dial.destination == destination && !wasRefused }
    }

    private typealias Pool = HostPool<Request>

    private static func words(_ decision: Pool.Decision) -> String {
        switch decision {
        case .use: return "use"
        case .share(let connection):
            connection.load += 1
            return "share"
        case .await(let dial):
            dial.load += 1
            return "await"
        case .make: return "make"
        case .replace: return "replace"
        case .replaceShared: return "replace shared"
        case .wait: return "wait"
        }
    }

    private func enter(_ pool: inout Pool, _ request: Request) -> String { Self.words(pool.enter(request)) }

    /// The requests that are served now, each with its action.
    private func served(_ pool: inout Pool) -> [String] {
        var all: [String] = []
        while let (request, decision) = pool.next() { all.append("\(Self.words(decision)) \(request.number)") }
        return all
    }

    private func leave(_ pool: inout Pool, keeping connection: Connection? = nil) -> [String] {
        pool.leave(keeping: connection)
        return served(&pool)
    }

    // MARK: One exchange at a time

    @Test("connections are made up to the limit; further requests wait in order")
    func order() {
        var pool = Pool(limit: 2)
        let all = (0..<6).map { Request($0) }
        #expect(all.map { enter(&pool, $0) } == ["make", "make", "wait", "wait", "wait", "wait"])
        #expect(pool.activeCount == 2 && pool.waiters.map(\.number) == [2, 3, 4, 5] && served(&pool).isEmpty)
        #expect((2..<6).flatMap { _ in leave(&pool) } == ["make 2", "make 3", "make 4", "make 5"])
        #expect(leave(&pool).isEmpty && leave(&pool).isEmpty)
        #expect(pool.isEmpty)
    }

    @Test("a free connection goes to the longest waiting request")
    func handOver() {
        var pool = Pool(limit: 1)
        let connection = Connection()
        #expect(enter(&pool, Request(0)) == "make")
        #expect(enter(&pool, Request(1)) == "wait")
        #expect(leave(&pool, keeping: connection) == ["use 1"])
        #expect(leave(&pool, keeping: connection).isEmpty)
        #expect(pool.idleCount == 1 && pool.activeCount == 0 && !pool.isEmpty)
        #expect(enter(&pool, Request(2)) == "use")
        #expect(pool.idleCount == 0 && pool.activeCount == 1)
    }

    @Test("the connection used last is used first")
    func newestFirst() {
        var pool = Pool(limit: 3)
        let connections = (0..<3).map { _ in Connection() }
        for number in 0..<3 { _ = enter(&pool, Request(number)) }
        for connection in connections { _ = leave(&pool, keeping: connection) }
        let request = Request(3)
        guard case .use(let first) = pool.enter(request) else {
            Issue.record("no idle connection was used")
            return
        }
        #expect(first === connections[2])
        #expect(pool.reuse(request) === connections[1] && pool.reuse(request) === connections[0])
        #expect(pool.reuse(request) == nil && pool.activeCount == 1 && pool.idleCount == 0)
    }

    @Test("an unsuitable idle connection is closed for a suitable one")
    func replacement() {
        var pool = Pool(limit: 2)
        let connections = [Connection(), Connection()]
        for number in 0..<2 { _ = enter(&pool, Request(number)) }
        for connection in connections { _ = leave(&pool, keeping: connection) }
        guard case .replace(let closed) = pool.enter(Request(2, isUsable: false)) else {
            Issue.record("there is no room for another connection")
            return
        }
        #expect(closed === connections[0], "the one that was used longest ago")
        #expect(pool.activeCount == 1 && pool.idleCount == 1)
        #expect(enter(&pool, Request(3, isUsable: false)) == "replace")
        #expect(enter(&pool, Request(4, isUsable: false)) == "wait")
        #expect(leave(&pool, keeping: Connection()) == ["replace 4"])
    }

    @Test("no request overtakes waiting ones, after a raised limit either")
    func noOvertaking() {
        var pool = Pool(limit: 1)
        let all = (0..<3).map { Request($0) }
        #expect(enter(&pool, all[0]) == "make" && enter(&pool, all[1]) == "wait")
        pool.limit = 5
        #expect(enter(&pool, all[2]) == "wait")
        #expect(served(&pool) == ["make 1", "make 2"])
    }

    @Test("a cancelled request is skipped, wherever it stands")
    func withdrawal() {
        var pool = Pool(limit: 1)
        let all = (0..<6).map { Request($0) }
        for request in all { _ = enter(&pool, request) }
        for number in [1, 3, 5] { pool.withdraw(all[number]) }
        // One that does not wait has nothing to give up.
        pool.withdraw(all[0])
        #expect(pool.waiters.map(\.number) == [2, 4])
        #expect(leave(&pool) == ["make 2"] && leave(&pool) == ["make 4"] && leave(&pool).isEmpty)
        #expect(pool.isEmpty)
    }

    @Test("a lowered limit holds as soon as enough connections have ended")
    func loweredLimit() {
        var pool = Pool(limit: 3)
        for number in 0..<5 { _ = enter(&pool, Request(number)) }
        pool.limit = 1
        #expect(leave(&pool).isEmpty && leave(&pool).isEmpty)
        #expect(pool.activeCount == 1)
        #expect(leave(&pool) == ["make 3"])
    }

    @Test("an idle connection that ends is forgotten")
    func endOfIdle() {
        var pool = Pool(limit: 1)
        let connection = Connection()
        _ = enter(&pool, Request(0))
        _ = leave(&pool, keeping: connection)
        let first = pool.remove(connection)
        let second = pool.remove(connection)
        #expect(first && !second && pool.isEmpty)
        #expect(enter(&pool, Request(1)) == "make")
    }

    @Test("a thousand requests get a connection once each, in order")
    func many() {
        var pool = Pool(limit: 3)
        let all = (0..<1000).map { Request($0) }
        for request in all { _ = enter(&pool, request) }
        for request in all where request.number % 7 == 0 && request.number > 2 { pool.withdraw(request) }
        var seen = [0, 1, 2]
        let connection = Connection()
        while pool.activeCount > 0 {
            pool.leave(keeping: seen.count % 2 == 0 ? connection : nil)
            while let (request, _) = pool.next() { seen.append(request.number) }
            pool.remove(connection)
        }
        #expect(seen == (0..<1000).filter { $0 < 3 || $0 % 7 != 0 })
        #expect(pool.isEmpty)
    }

    // MARK: Shared connections

    private func sharer(_ number: Int, _ destination: Int = 0) -> Request {
        Request(number, isShareable: true, destination: destination)
    }

    @Test("requests share one dial, and its connection as far as it has room")
    func sharing() {
        var pool = Pool(limit: 3)
        #expect(enter(&pool, sharer(0)) == "make")
        let dial = Shared(room: 2)
        pool.add(dial)
        #expect(enter(&pool, sharer(1)) == "await" && enter(&pool, sharer(2)) == "await")
        // The dial's connection is awaited, although there are places: one further connection at a time is made.
        #expect(enter(&pool, sharer(3)) == "wait" && served(&pool).isEmpty && pool.activeCount == 1)
        let connection = Shared(room: 1)
        pool.remove(dial, for: connection)
        #expect(served(&pool) == ["share 3"] && pool.activeCount == 1)
        #expect(enter(&pool, sharer(4)) == "make" && pool.activeCount == 2)
        connection.load = 0
        #expect(enter(&pool, sharer(5)) == "share")
    }

    @Test("without a free stream or connection, requests wait in order")
    func streams() {
        var pool = Pool(limit: 1)
        let dial = Shared(room: 1)
        let connection = Shared(room: 1)
        _ = enter(&pool, sharer(0))
        pool.add(dial)
        pool.remove(dial, for: connection)
        connection.load = 1
        #expect((1..<4).map { enter(&pool, sharer($0)) } == ["wait", "wait", "wait"] && served(&pool).isEmpty)
        connection.load = 0
        #expect(served(&pool) == ["share 1"])
        connection.room = 5
        #expect(served(&pool) == ["share 2", "share 3"] && pool.activeCount == 1)
    }

    @Test("a failed dial gives its slot to the longest waiting request")
    func failedDial() {
        var pool = Pool(limit: 1)
        let dial = Shared(room: 0)
        _ = enter(&pool, sharer(0))
        pool.add(dial)
        #expect(
            enter(&pool, sharer(1)) == "wait" && enter(&pool, Request(2)) == "wait" && enter(&pool, sharer(3)) == "wait"
        )
        pool.remove(dial, for: nil)
        #expect(leave(&pool) == ["make 1"])
        let second = Shared(room: 0)
        pool.add(second)
        pool.remove(second, for: nil)
        #expect(leave(&pool) == ["make 2"])
        #expect(leave(&pool) == ["make 3"])
    }

    @Test("a connection of HTTP/1.1 serves requests that waited for a stream")
    func fallBack() {
        var pool = Pool(limit: 1)
        let dial = Shared(room: 0)
        _ = enter(&pool, sharer(0))
        pool.add(dial)
        let waiting = [sharer(1), sharer(2)]
        for request in waiting { _ = enter(&pool, request) }
        pool.remove(dial, for: nil)
        let removed = pool.removeSharers()
        #expect(removed.map(\.number) == [1, 2] && !pool.isAwaited)
        pool.leave(keeping: Connection())
        for request in waiting {
            request.isShareable = false
            request.isUsable = true
        }
        #expect(enter(&pool, waiting[0]) == "use" && enter(&pool, waiting[1]) == "wait")
    }

    @Test("a refused request waits for the end of a shared dial")
    func refused() {
        var pool = Pool(limit: 2)
        let dial = Shared(room: 5)
        _ = enter(&pool, sharer(0))
        pool.add(dial)
        let refused = sharer(1)
        refused.wasRefused = true
        #expect(enter(&pool, refused) == "wait" && served(&pool).isEmpty)
        #expect(enter(&pool, sharer(2)) == "wait" && served(&pool) == ["await 2"])
        pool.remove(dial, for: Shared(room: 5))
        #expect(served(&pool) == ["share 1"] && pool.activeCount == 1)
    }

    @Test("requests for a connection do not wait behind those for a stream")
    func places() {
        var pool = Pool(limit: 2)
        _ = enter(&pool, sharer(0))
        pool.add(Shared(room: 0))
        #expect(enter(&pool, sharer(1)) == "wait")
        #expect(enter(&pool, Request(2)) == "wait" && served(&pool) == ["make 2"])
    }

    @Test("an idle shared connection makes room for a request that cannot use it")
    func idleShared() {
        var pool = Pool(limit: 1)
        let dial = Shared(room: 1)
        let connection = Shared(room: 1)
        _ = enter(&pool, sharer(0))
        pool.add(dial)
        pool.remove(dial, for: connection)
        connection.load = 1
        #expect(enter(&pool, Request(1)) == "wait" && served(&pool).isEmpty)
        connection.load = 0
        #expect(served(&pool) == ["replace shared 1"] && pool.activeCount == 1)
        #expect(enter(&pool, sharer(2)) == "wait", "it is gone")
    }

    @Test("a connection to another destination is not shared, and blocks no request")
    func destinations() {
        var pool = Pool(limit: 2)
        for destination in 0..<2 {
            _ = enter(&pool, sharer(destination, destination))
            let dial = Shared(room: 1, destination: destination)
            pool.add(dial)
            let connection = Shared(room: 1, destination: destination)
            connection.load = 1
            pool.remove(dial, for: connection)
            if destination == 1 {
                #expect(enter(&pool, sharer(2, 0)) == "wait" && enter(&pool, sharer(3, 1)) == "wait")
                connection.load = 0
                #expect(served(&pool) == ["share 3"] && pool.waiters.map(\.number) == [2])
            }
        }
    }

    @Test("a retired connection takes no request, and counts until it closes")
    func retired() {
        var pool = Pool(limit: 1)
        let dial = Shared(room: 1)
        let connection = Shared(room: 5)
        _ = enter(&pool, sharer(0))
        pool.add(dial)
        pool.remove(dial, for: connection)
        connection.load = 1
        pool.retire(connection)
        #expect(enter(&pool, sharer(1)) == "wait" && served(&pool).isEmpty && pool.activeCount == 1)
        #expect(leave(&pool) == ["make 1"])
    }

    @Test("a claimed connection is no other request's, and a gone one cannot be claimed")
    func claimed() {
        var pool = Pool(limit: 1)
        let connection = Connection()
        _ = pool.enter(Request(0))
        pool.leave(keeping: connection)
        #expect(pool.claim(connection) && pool.activeCount == 1 && pool.idleCount == 0)
        #expect(Self.words(pool.enter(Request(1))) == "wait")
        #expect(!pool.claim(connection) && pool.activeCount == 1)
    }
}
