// SPDX-License-Identifier: Apache-2.0
import Glibc
import Testing

@testable import IOCore

/// A handler that runs a closure.
private final class Watching: EventHandler {
    let body: (Readiness) -> Void
    init(_ body: @escaping (Readiness) -> Void) { self.body = body }
    override func ready(_ readiness: Readiness) { body(readiness) }
}

private func socketPair() -> (Int32, Int32) {
    var pair: [Int32] = [0, 0]
    #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
    return (pair[0], pair[1])
}

@Suite("Event loop")
struct EventLoopTests {
    @Test("work for an ended loop is dropped, so that no cycle remains")
    func submissionAfterTheEnd() throws {
        weak var remains: EventLoop?
        do {
            let loop = try EventLoop()
            remains = loop
            let thread = try LoopThread(name: "loop") { loop.run() }
            loop.submit {
                loop.stop()
                loop.submit { loop.stop() }
            }
            thread.join()
            loop.submit { loop.stop() }
        }
        #expect(remains == nil)
    }

    @Test("work from other threads runs on the loop, in order")
    func submission() throws {
        let loop = try EventLoop()
        let thread = try LoopThread(name: "loop") { loop.run() }
        let done = Collected()
        for index in 0..<1000 {
            loop.submit { done.append(index) }
        }
        loop.submit { loop.stop() }
        thread.join()
        #expect(done.values == Array(0..<1000))
    }

    @Test("each thread that submits work and waits for it sees it done")
    func roundTrips() throws {
        let loop = try EventLoop()
        let thread = try LoopThread(name: "loop") { loop.run() }
        // The loop waits again and again, and a wake-up that it missed would leave it waiting.
        let submitters = try (0..<3).map { number in
            try LoopThread(name: "submitter") {
                for _ in 0..<2000 {
                    let done = Latch(count: 1)
                    if number == 0 {
                        if loop.enqueue({ done.countDown() }) { loop.wake() }
                    } else {
                        loop.submit { done.countDown() }
                    }
                    done.wait()
                }
            }
        }
        for submitter in submitters { submitter.join() }
        loop.submit { loop.stop() }
        thread.join()
    }

    @Test("work for a loop that does not wait wakes nobody, and is done")
    func enqueuing() throws {
        let loop = try EventLoop()
        let done = Collected()
        #expect(!loop.enqueue { done.append(1) })
        #expect(!loop.enqueue { done.append(2) })
        // Nothing but the work itself ends the wait.
        #expect(loop.turn(waitingAtMost: .seconds(1000)))
        #expect(done.values == [1, 2])
        #expect(!loop.turn(waitingAtMost: .milliseconds(0)))
    }

    @Test("only the thread that runs the loop is on it")
    func runningHere() throws {
        let loop = try EventLoop()
        #expect(loop.isCurrent && !loop.isRunningHere)
        let found = Collected()
        let thread = try LoopThread(name: "loop") { loop.run() }
        let hasRun = Latch(count: 1)
        loop.submit {
            found.append(loop.isCurrent && loop.isRunningHere ? 1 : 0)
            hasRun.countDown()
        }
        hasRun.wait()
        #expect(!loop.isCurrent && !loop.isRunningHere)
        loop.stop()
        thread.join()
        #expect(found.values == [1] && !loop.isRunningHere)
    }

    /// Keeps the thread for longer than a turn may take.
    private static func takeLong() {
        let begun = Clock.monotonic
        while Clock.monotonic &- begun < 4_000_000 {}
    }

    @Test("a long turn leaves events to later turns, in order, after timers")
    func longTurnOfEvents() throws {
        let loop = try EventLoop()
        var (events, turns): ([Int], [Int]) = ([], [])
        var turn = 0
        var pairs: [(Int32, Int32)] = []
        for number in 0..<12 {
            let pair = socketPair()
            pairs.append(pair)
            let handler = Watching { _ in
                events.append(number)
                turns.append(turn)
                Self.takeLong()
                loop.unregister(pair.0)
                // Each may find another one gone that was fetched with it.
                if number == 5 { loop.unregister(pairs[11].0) }
                loop.atEndOfTurn { events.append(100 + number) }
            }
            try loop.register(pair.0, .readable, handler)
            var byte: UInt8 = 1
            #expect(send(pair.1, &byte, 1, 0) == 1)
        }
        while events.count < 22, turn < 100 {
            loop.turn(waitingAtMost: .milliseconds(0))
            turn += 1
        }
        #expect(events.filter { $0 < 100 } == Array(0..<11))
        // Four handlers a turn at most, and what they put off before the next turn's handlers.
        #expect(turns.allSatisfy { number in turns.count { $0 == number } <= 4 })
        #expect(events.firstIndex(of: 100)! < events.firstIndex(of: 4)!)
        for pair in pairs {
            close(pair.0)
            close(pair.1)
        }
    }

    @Test("a parked descriptor is silent, and its next handler gets what has come")
    func parked() throws {
        let loop = try EventLoop()
        let pair = socketPair()
        defer {
            close(pair.0)
            close(pair.1)
        }
        var (first, second): ([Readiness], [Readiness]) = ([], [])
        let dialled = Watching { first.append($0) }
        try loop.register(pair.0, [.writable, .oneShot], dialled)
        loop.turn(waitingAtMost: .milliseconds(0))
        loop.park(pair.0, of: dialled)
        #expect(first == [.writable] && loop.registeredCount == 0)
        #expect(send(pair.1, "a", 1, 0) == 1)
        loop.turn(waitingAtMost: .milliseconds(0))
        #expect(first.count == 1)
        // The one that had it has no say any more.
        loop.park(pair.0, of: dialled)
        loop.unregister(pair.0, of: dialled)
        try loop.register(pair.0, .readable, Watching { second.append($0) })
        loop.turn(waitingAtMost: .milliseconds(0))
        #expect(second == [.readable] && first.count == 1)
        loop.unregister(pair.0)
    }

    @Test(
        "a number that was parked can be another descriptor's",
        arguments: [Readiness.readable, [.readable, .exclusive]]
    )
    func reusedNumbers(_ interest: Readiness) throws {
        let loop = try EventLoop()
        let old = socketPair()
        let other = socketPair()
        let handler = Watching { _ in }
        try loop.register(old.0, [.writable, .oneShot], handler)
        loop.turn(waitingAtMost: .milliseconds(0))
        loop.park(old.0, of: handler)
        // In one step, so that no other test gets the number.
        #expect(dup2(other.0, old.0) == old.0)
        var seen: [Readiness] = []
        try loop.register(old.0, interest, Watching { seen.append($0) })
        #expect(send(other.1, "a", 1, 0) == 1)
        loop.turn(waitingAtMost: .milliseconds(0))
        #expect(seen == [.readable] && loop.registeredCount == 1)
        loop.unregister(old.0)
        for descriptor in [old.0, old.1, other.0, other.1] { close(descriptor) }
    }

    @Test("a long turn leaves other threads' work to later ones, in order")
    func longTurnOfSubmissions() throws {
        let loop = try EventLoop()
        let done = Collected()
        for number in 0..<10 {
            loop.submit {
                done.append(number)
                Self.takeLong()
                if number == 2 { loop.submit { done.append(100) } }
            }
        }
        let timer = LoopTimer { done.append(50) }
        loop.arm(timer, after: .milliseconds(1))
        loop.run(until: { done.values.count == 12 }, atMost: .seconds(30))
        #expect(done.values.filter { $0 != 50 } == Array(0..<10) + [100])
        #expect(done.values.firstIndex(of: 50)! < done.values.firstIndex(of: 9)!)
        #expect(loop.hasNothingPlanned)
    }

    @Test("what other threads' work holds is released before the next work")
    func releaseOfSubmissions() throws {
        final class Held: Sendable {
            let done: Collected
            init(_ done: Collected) { self.done = done }
            deinit { done.append(100) }
        }
        let loop = try EventLoop()
        let done = Collected()
        for number in 0..<3 {
            let held = Held(done)
            loop.submit { held.done.append(number) }
        }
        loop.run(until: { done.values.count >= 6 }, atMost: .seconds(30))
        #expect(done.values == [0, 100, 1, 100, 2, 100])
    }

    @Test("a peer's part of a turn ends long before the turn")
    func part() throws {
        let loop = try EventLoop()
        var spans: [UInt64] = []
        // Where other processes make a turn long, the turn ends its parts.
        for _ in 0..<1000 where spans.count < 2 {
            loop.atEndOfTurn {
                let begun = Clock.monotonic
                loop.beginPart()
                while !loop.isPartOver {}
                if !loop.isTurnLong { spans.append(Clock.monotonic - begun) }
                // A long turn ends every part.
                Self.takeLong()
                loop.beginPart()
                #expect(loop.isPartOver)
            }
            loop.turn(waitingAtMost: .milliseconds(0))
        }
        #expect(spans.count == 2 && spans.allSatisfy { $0 >= 200_000 })
        let byHand = try EventLoop(clock: .byHand)
        byHand.beginPart()
        byHand.advance(by: .seconds(1))
        #expect(!byHand.isPartOver)
    }

    @Test("after long work of other threads, a turn handles one event")
    func eventsBehindSubmissions() throws {
        let loop = try EventLoop()
        let done = Collected()
        var pairs: [(Int32, Int32)] = []
        for number in 0..<3 {
            let pair = socketPair()
            pairs.append(pair)
            try loop.register(
                pair.0,
                .readable,
                Watching { _ in
                    done.append(100 + number)
                    loop.unregister(pair.0)
                }
            )
        }
        for number in 0..<8 {
            loop.submit {
                done.append(number)
                Self.takeLong()
            }
        }
        // The submissions are fetched before the sockets are ready.
        loop.turn(waitingAtMost: .milliseconds(0))
        for pair in pairs {
            var byte: UInt8 = 1
            #expect(send(pair.1, &byte, 1, 0) == 1)
        }
        var turns: [[Int]] = []
        while done.values.count < 11, turns.count < 100 {
            let before = done.values.count
            loop.turn(waitingAtMost: .milliseconds(0))
            turns.append(Array(done.values[before...]))
        }
        #expect(done.values.count == 11)
        #expect(turns.allSatisfy { turn in !turn.contains { $0 < 100 } || turn.count { $0 >= 100 } <= 1 }, "\(turns)")
        for pair in pairs {
            close(pair.0)
            close(pair.1)
        }
    }

    @Test("unfinished work is put before what came since")
    func putBack() {
        final class Element {
            let number: Int
            init(_ number: Int) { self.number = number }
        }
        for came in 0..<3 {
            var queue = TurnQueue<Element>()
            for number in 0..<4 { queue.append(Element(number)) }
            let taken = queue.take()
            for number in 0..<came { queue.append(Element(10 + number)) }
            queue.putBack(taken[1...])
            #expect(queue.take().map(\.number) == [1, 2, 3] + (0..<came).map { 10 + $0 })
            queue.putBack([])
            #expect(queue.isEmpty)
        }
    }

    @Test("a registration is not affected by its descriptor's earlier handler")
    func numberOfAnother() throws {
        let loop = try EventLoop()
        let (former, _) = socketPair()
        let first = Watching { _ in }
        try loop.register(former, .readable, first)
        // Another owner closes it, and the number is reused.
        let (next, peer) = socketPair()
        #expect(dup2(next, former) == former)
        var count = 0
        let second = Watching { _ in count += 1 }
        try loop.register(former, .readable, second)
        #expect(!loop.modify(former, [], of: first))
        loop.unregister(former, of: first)
        var byte: UInt8 = 1
        #expect(send(peer, &byte, 1, 0) == 1)
        loop.turn(waitingAtMost: .milliseconds(100))
        #expect(count == 1)
        // Its own registration can be changed.
        #expect(loop.modify(former, [], of: second))
        loop.turn(waitingAtMost: .milliseconds(0))
        #expect(count == 1)
        loop.unregister(former, of: second)
        #expect(!loop.modify(former, .readable, of: second))
        for descriptor in [former, next, peer] { close(descriptor) }
    }

    @Test("a loop that is late calls timers in the order of their deadlines, too")
    func lateTimers() {
        var heap = TimerHeap()
        let timers = (0..<4).map { _ in LoopTimer() }
        heap.arm(timers[0], at: 1)
        heap.arm(timers[1], at: 12)
        heap.arm(timers[2], at: 4)
        heap.arm(timers[3], at: 2)
        heap.arm(timers[0], at: 20)
        timers[3].disarm()
        var order: [Int] = []
        while let timer = heap.popDue(100) { order.append(timers.firstIndex { $0 === timer } ?? -1) }
        #expect(order == [2, 1, 0])
        #expect(!heap.holdsArmed)
    }

    @Test("timers run in the order of their deadlines, also of postponed ones")
    func timers() throws {
        let loop = try EventLoop()
        var order: [String] = []
        let late = LoopTimer { order.append("late") }
        let early = LoopTimer { order.append("early") }
        let putOff = LoopTimer { order.append("put off") }
        let never = LoopTimer { order.append("never") }
        loop.arm(putOff, after: .milliseconds(1))
        loop.arm(late, after: .milliseconds(12))
        loop.arm(early, after: .milliseconds(4))
        loop.arm(never, after: .milliseconds(2))
        loop.arm(putOff, after: .milliseconds(20))
        loop.disarm(never)
        // Deadlines count from the loop's clock, which stands still between turns.
        let start = loop.now
        loop.run { order.count == 3 }
        #expect(order == ["early", "late", "put off"])
        #expect(Clock.monotonic - start >= 20_000_000)
    }

    @Test("a condition that postponed work fulfils is seen before the loop waits")
    func putOffCondition() throws {
        for depth in 0..<12 {
            let loop = try EventLoop()
            var isFulfilled = false
            func putOff(_ left: Int) {
                if left == 0 { isFulfilled = true } else { loop.atEndOfTurn { putOff(left - 1) } }
            }
            putOff(depth)
            // Nothing else would wake it.
            loop.run { isFulfilled }
            #expect(loop.run(until: { isFulfilled }, atMost: .seconds(100)))
        }
    }

    @Test("a condition of another thread is seen after its work, or times out")
    func otherConditions() throws {
        let loop = try EventLoop()
        let done = Collected()
        let thread = try LoopThread(name: "other") { loop.submit { done.append(1) } }
        loop.run { done.values == [1] }
        thread.join()
        #expect(!loop.run(until: { false }, atMost: .milliseconds(5)))
        loop.stop()
        loop.run { false }
    }

    @Test("a removed timer releases its action")
    func removal() throws {
        final class Held {}
        let loop = try EventLoop()
        weak var held: Held?
        do {
            let strong = Held()
            held = strong
            let timer = LoopTimer { _ = strong }
            loop.arm(timer, after: .seconds(100))
            loop.remove(timer)
        }
        #expect(held == nil)
    }

    @Test("an event fetched for a closed descriptor does not reach its successor")
    func staleEvents() throws {
        let loop = try EventLoop()
        let (first, firstPeer) = socketPair()
        let (second, secondPeer) = socketPair()
        defer { [firstPeer, secondPeer].forEach { _ = close($0) } }
        var stale = 0
        var reused: Int32 = -1
        var freshEnds: [Int32] = []
        defer { freshEnds.forEach { _ = close($0) } }
        // Both are ready in one turn; the first one that is notified replaces the other's socket by a new one with the
        // same number. dup2(2) does that in one step: between a close and an open another test's thread may take the
        // number.
        func replace(_ other: Int32) {
            guard reused < 0 else {
                stale += 1
                return
            }
            loop.unregister(other)
            let (fresh, freshPeer) = socketPair()
            freshEnds = [fresh, freshPeer]
            reused = dup2(fresh, other)
            #expect(reused == other)
            try? loop.register(other, .readable, Watching { _ in stale += 1 })
        }
        try loop.register(first, .readable, Watching { _ in replace(second) })
        try loop.register(second, .readable, Watching { _ in replace(first) })
        _ = write(firstPeer, "x", 1)
        _ = write(secondPeer, "x", 1)
        loop.run(until: { reused >= 0 }, atMost: .milliseconds(100))
        #expect(reused >= 0)
        #expect(stale == 0)
        // The handlers reference the loop, which references them.
        for descriptor in [first, second] {
            loop.unregister(descriptor)
            close(descriptor)
        }
    }

    @Test("postponed work runs when no handler is on the stack")
    func endOfTurn() throws {
        let loop = try EventLoop()
        let (end, peer) = socketPair()
        defer {
            _ = close(end)
            _ = close(peer)
        }
        var order: [String] = []
        try loop.register(
            end,
            .readable,
            Watching { _ in
                loop.atEndOfTurn { order.append("later") }
                order.append("handler")
                loop.unregister(end)
            }
        )
        _ = write(peer, "x", 1)
        loop.run(until: { order.count == 2 }, atMost: .milliseconds(100))
        #expect(order == ["handler", "later"])
    }
}

/// Values collected across threads.
private final class Collected: Sendable {
    private let state = Locked<[Int]>([])
    func append(_ value: Int) { state.withLock { $0.append(value) } }
    var values: [Int] { state.withLock { $0 } }
}
