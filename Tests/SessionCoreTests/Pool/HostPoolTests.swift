import Testing

@testable import SessionCore

@Suite("The pool of one host's connections")
struct HostPoolTests {
    private final class Waiter {
        let number: Int
        init(_ number: Int) { self.number = number }
    }

    private final class Connection {}

    private typealias Pool = HostPool<Connection, Waiter>

    /// What a request was told, in short.
    private func enter(_ pool: inout Pool, _ waiter: Waiter, isUsable: Bool = true) -> String {
        switch pool.enter(waiter, isUsable: { _ in isUsable }) {
        case .use: "use"
        case .make: "make"
        case .replace: "replace"
        case .wait: "wait"
        }
    }

    private func leave(_ pool: inout Pool, keeping connection: Connection? = nil, isUsable: Bool = true) -> String {
        switch pool.leave(keeping: connection, isUsable: { _, _ in isUsable }) {
        case .none: "none"
        case .idle: "idle"
        case .use(let waiter, _): "use \(waiter.number)"
        case .make(let waiter): "make \(waiter.number)"
        case .replace(let waiter, _): "replace \(waiter.number)"
        }
    }

    @Test("as many connections are made as the limit allows; further requests wait in their order")
    func order() {
        var pool = Pool(limit: 2)
        let all = (0..<6).map { Waiter($0) }
        #expect(all.map { enter(&pool, $0) } == ["make", "make", "wait", "wait", "wait", "wait"])
        #expect(pool.activeCount == 2 && pool.waiters.map(\.number) == [2, 3, 4, 5])
        #expect((2..<6).map { _ in leave(&pool) } == ["make 2", "make 3", "make 4", "make 5"])
        #expect(leave(&pool) == "none" && leave(&pool) == "none")
        #expect(pool.isEmpty)
    }

    @Test("a connection that has become free goes to the request that has waited longest, otherwise it is idle")
    func handOver() {
        var pool = Pool(limit: 1)
        let connection = Connection()
        #expect(enter(&pool, Waiter(0)) == "make")
        #expect(enter(&pool, Waiter(1)) == "wait")
        #expect(leave(&pool, keeping: connection) == "use 1")
        #expect(leave(&pool, keeping: connection) == "idle")
        #expect(pool.idleCount == 1 && pool.activeCount == 0 && !pool.isEmpty)
        #expect(enter(&pool, Waiter(2)) == "use")
        #expect(pool.idleCount == 0 && pool.activeCount == 1)
    }

    @Test("the connection that was used last is used first")
    func newestFirst() {
        var pool = Pool(limit: 3)
        let connections = (0..<3).map { _ in Connection() }
        for number in 0..<3 { _ = enter(&pool, Waiter(number)) }
        for connection in connections { _ = leave(&pool, keeping: connection) }
        guard case .use(let first) = pool.enter(Waiter(3), isUsable: { _ in true }) else {
            Issue.record("no idle connection was used")
            return
        }
        #expect(first === connections[2])
    }

    @Test("idle connections count: one that a request cannot use is closed for one that it can")
    func replacement() {
        var pool = Pool(limit: 2)
        let connections = [Connection(), Connection()]
        for number in 0..<2 { _ = enter(&pool, Waiter(number)) }
        for connection in connections { _ = leave(&pool, keeping: connection) }
        guard case .replace(let closed) = pool.enter(Waiter(2), isUsable: { _ in false }) else {
            Issue.record("there is no room for another connection")
            return
        }
        #expect(closed === connections[0], "the one that was used longest ago")
        #expect(pool.activeCount == 1 && pool.idleCount == 1)
        #expect(enter(&pool, Waiter(3), isUsable: false) == "replace")
        #expect(enter(&pool, Waiter(4), isUsable: false) == "wait")
        #expect(leave(&pool, keeping: Connection(), isUsable: false) == "replace 4")
    }

    @Test("no request overtakes those that wait, although there is room for it")
    func noOvertaking() {
        var pool = Pool(limit: 1)
        let all = (0..<3).map { Waiter($0) }
        #expect(enter(&pool, all[0]) == "make" && enter(&pool, all[1]) == "wait")
        pool.limit = 5
        #expect(enter(&pool, all[2]) == "wait")
        #expect(leave(&pool) == "make 1")
    }

    @Test("a request that gives up is passed over, wherever it stands")
    func withdrawal() {
        var pool = Pool(limit: 1)
        let all = (0..<6).map { Waiter($0) }
        for waiter in all { _ = enter(&pool, waiter) }
        for number in [1, 3, 5] { pool.withdraw(all[number]) }
        // One that does not wait has nothing to give up.
        pool.withdraw(all[0])
        #expect(pool.waiters.map(\.number) == [2, 4])
        #expect(leave(&pool) == "make 2" && leave(&pool) == "make 4" && leave(&pool) == "none")
        #expect(pool.isEmpty)
    }

    @Test("a lowered limit holds as soon as enough connections have ended")
    func loweredLimit() {
        var pool = Pool(limit: 3)
        for number in 0..<5 { _ = enter(&pool, Waiter(number)) }
        pool.limit = 1
        #expect(leave(&pool) == "none" && leave(&pool) == "none")
        #expect(pool.activeCount == 1)
        #expect(leave(&pool) == "make 3")
    }

    @Test("an idle connection that ends is forgotten, and one that was to be used gives its place back")
    func endOfIdle() {
        var pool = Pool(limit: 1)
        let connection = Connection()
        _ = enter(&pool, Waiter(0))
        _ = leave(&pool, keeping: connection)
        let first = pool.remove(connection)
        let second = pool.remove(connection)
        #expect(first && !second && pool.isEmpty)
        _ = enter(&pool, Waiter(1))
        _ = leave(&pool, keeping: connection)
        #expect(enter(&pool, Waiter(2)) == "use")
        pool.giveUpPlace()
        #expect(pool.isEmpty && enter(&pool, Waiter(2)) == "make")
    }

    @Test("a thousand requests that come, wait, give up and go get a connection once each, in order")
    func many() {
        var pool = Pool(limit: 3)
        let all = (0..<1000).map { Waiter($0) }
        for waiter in all { _ = enter(&pool, waiter) }
        for waiter in all where waiter.number % 7 == 0 && waiter.number > 2 { pool.withdraw(waiter) }
        var seen = [0, 1, 2]
        let connection = Connection()
        while pool.activeCount > 0 {
            switch pool.leave(keeping: seen.count % 2 == 0 ? connection : nil, isUsable: { _, _ in true }) {
            case .use(let waiter, _), .make(let waiter), .replace(let waiter, _): seen.append(waiter.number)
            case .none: break
            case .idle: pool.remove(connection)
            }
        }
        #expect(seen == (0..<1000).filter { $0 < 3 || $0 % 7 != 0 })
        #expect(pool.isEmpty)
    }
}
