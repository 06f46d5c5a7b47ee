import Testing

@testable import SessionCore

@Suite("The queue for the connections to one origin")
struct HostQueueTests {
    private final class Waiter {
        let number: Int
        init(_ number: Int) { self.number = number }
    }

    /// A member leaves the queue, and the next one proceeds.
    private func expectNext(
        _ number: Int?,
        from queue: inout HostQueue<Waiter>,
        limit: Int,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let next = queue.leave(limit: limit)
        #expect(next?.number == number, sourceLocation: sourceLocation)
    }

    @Test("as many go at once as there are places, the others in the order in which they came")
    func order() {
        var queue = HostQueue<Waiter>()
        let all = (0..<6).map { Waiter($0) }
        let went = all.map { queue.enter($0, limit: 2) }
        #expect(went == [true, true, false, false, false, false])
        #expect(queue.active == 2 && queue.waitingCount == 4)
        for number in 2..<6 {
            expectNext(number, from: &queue, limit: 2)
        }
        #expect(queue.active == 2 && queue.waitingCount == 0)
        expectNext(nil, from: &queue, limit: 2)
        expectNext(nil, from: &queue, limit: 2)
        #expect(queue.isIdle)
    }

    @Test("nobody overtakes those who wait, although there is room for him")
    func noOvertaking() {
        var queue = HostQueue<Waiter>()
        let all = (0..<4).map { Waiter($0) }
        // The limit has been raised meanwhile.
        let went = zip(all, [1, 1, 5]).map { queue.enter($0, limit: $1) }
        #expect(went == [true, false, false])
        #expect(queue.waiters.map(\.number) == [1, 2])
        expectNext(1, from: &queue, limit: 5)
    }

    @Test("who gives up is passed over, wherever he stands")
    func withdrawal() {
        var queue = HostQueue<Waiter>()
        let all = (0..<6).map { Waiter($0) }
        for waiter in all { _ = queue.enter(waiter, limit: 1) }
        for number in [1, 3, 5] { queue.withdraw(all[number]) }
        // A member that does not wait has no place to give up.
        queue.withdraw(all[0])
        #expect(queue.waitingCount == 2)
        #expect(queue.waiters.map(\.number) == [2, 4])
        expectNext(2, from: &queue, limit: 1)
        expectNext(4, from: &queue, limit: 1)
        expectNext(nil, from: &queue, limit: 1)
        #expect(queue.isIdle)
    }

    @Test("a lowered limit is kept to as soon as enough have left")
    func loweredLimit() {
        var queue = HostQueue<Waiter>()
        let all = (0..<5).map { Waiter($0) }
        for waiter in all { _ = queue.enter(waiter, limit: 3) }
        expectNext(nil, from: &queue, limit: 1)
        expectNext(nil, from: &queue, limit: 1)
        #expect(queue.active == 1)
        expectNext(3, from: &queue, limit: 1)
    }

    @Test("a thousand that come, wait, give up and go are each let in once, in order")
    func many() {
        var queue = HostQueue<Waiter>()
        let all = (0..<1000).map { Waiter($0) }
        for waiter in all { _ = queue.enter(waiter, limit: 3) }
        for waiter in all where waiter.number % 7 == 0 && waiter.number > 2 { queue.withdraw(waiter) }
        var seen = [0, 1, 2]
        while queue.active > 0 { if let next = queue.leave(limit: 3) { seen.append(next.number) } }
        #expect(seen == (0..<1000).filter { $0 < 3 || $0 % 7 != 0 })
        #expect(queue.isIdle)
    }
}
