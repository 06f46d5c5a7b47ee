// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

@Suite("The queue of spans")
struct SpanQueueTests {
    private static var limits: SpanLimits {
        var limits = SpanLimits()
        limits.queued = 6
        limits.batch = 3
        limits.attempts = 3
        return limits
    }

    private func queue(_ count: Int, limits: SpanLimits = limits) -> SpanQueue<Int> {
        var queue = SpanQueue<Int>(limits: limits)
        for number in 0..<count { _ = queue.add(number) }
        return queue
    }

    @Test("the first record wakes the thread, and so does a full batch")
    func wakes() {
        var queue = queue(0)
        #expect((0..<7).map { queue.add($0) } == [true, false, true, false, false, false, false])
        #expect(queue.lost == [.queueFull: 1])
    }

    @Test("records that take too much memory are dropped until a batch is gone")
    func bytes() {
        var limits = Self.limits
        limits.queuedBytes = 100
        var queue = queue(0, limits: limits)
        #expect(queue.add(0, bytes: 40) && !queue.add(1, bytes: 30))
        #expect(queue.add(2, bytes: 30) && !queue.add(3, bytes: 1))
        #expect(queue.lost == [.queueFull: 1])
        // What is being sent is still there.
        #expect(queue.next(now: 0) == [0, 1, 2])
        #expect(!queue.add(4, bytes: 1) && queue.lost == [.queueFull: 2])
        queue.finished(.failed(after: 0), now: 0, chance: 0)
        #expect(!queue.add(5, bytes: 1) && queue.lost == [.queueFull: 3])
        #expect(queue.next(now: 1000) == [0, 1, 2])
        queue.finished(.delivered, now: 1000, chance: 0)
        #expect(queue.add(6, bytes: 100) && queue.lost == [.queueFull: 3])
        queue.stop()
        #expect(queue.lost == [.queueFull: 3, .stopped: 1])
    }

    @Test("records wait for others a second, a full batch does not")
    func delay() {
        var few = queue(2)
        #expect(few.next(now: 100) == nil)
        #expect(few.nextDue == 1100)
        #expect(few.next(now: 1099) == nil)
        #expect(few.next(now: 1100) == [0, 1])
        var many = queue(4)
        #expect(many.next(now: 100) == [0, 1, 2])
        #expect(many.next(now: 9999) == nil)
        #expect(many.nextDue == nil)
        many.finished(.delivered, now: 200, chance: 0)
        #expect(many.delivered == 3 && !many.isEmpty)
        #expect(many.next(now: 300) == nil)
        #expect(many.next(now: 1300) == [3])
        many.finished(.delivered, now: 1400, chance: 0)
        #expect(many.isEmpty && many.delivered == 4 && many.lost.isEmpty)
    }

    @Test("a failed batch is repeated within bounds, and given up then; the next follows")
    func repeats() {
        var queue = queue(6)
        #expect(queue.next(now: 0) == [0, 1, 2])
        queue.finished(.failed(after: 0), now: 0, chance: 1)
        #expect(queue.nextDue == 1000)
        #expect(queue.next(now: 999) == nil)
        #expect(queue.next(now: 1000) == [0, 1, 2])
        queue.finished(.failed(after: 0), now: 1000, chance: 0)
        #expect(queue.nextDue == 2000)
        #expect(queue.next(now: 2000) == [0, 1, 2])
        queue.finished(.failed(after: 0), now: 2000, chance: 0)
        #expect(queue.lost == [.undelivered: 3])
        #expect(queue.next(now: 2000) == [3, 4, 5])
    }

    @Test("the wait that a collector asks for is kept, up to half a minute")
    func retryAfter() {
        var queue = queue(3)
        _ = queue.next(now: 0)
        queue.finished(.failed(after: 7000), now: 0, chance: 0)
        #expect(queue.nextDue == 7000)
        _ = queue.next(now: 7000)
        queue.finished(.failed(after: 3_600_000), now: 7000, chance: 0)
        #expect(queue.nextDue == 37_000)
    }

    @Test("a refused batch is not repeated")
    func refused() {
        var queue = queue(3)
        _ = queue.next(now: 0)
        queue.finished(.refused, now: 0, chance: 0)
        #expect(queue.isEmpty && queue.lost == [.refused: 3])
        // A late result of no attempt changes nothing.
        queue.finished(.delivered, now: 0, chance: 0)
        #expect(queue.delivered == 0)
    }

    @Test("a stop sends each batch once, takes nothing more, counts the rest")
    func stop() {
        var queue = queue(5)
        _ = queue.next(now: 0)
        queue.finished(.failed(after: 0), now: 0, chance: 1)
        queue.startStopping()
        #expect(queue.add(9) == false)
        #expect(queue.next(now: 1) == [0, 1, 2])
        queue.finished(.failed(after: 0), now: 1, chance: 1)
        #expect(queue.next(now: 1) == [3, 4])
        queue.finished(.delivered, now: 2, chance: 1)
        #expect(queue.isEmpty && queue.delivered == 2 && queue.lost == [.stopped: 4])
        var other = self.queue(5)
        _ = other.next(now: 0)
        other.stop()
        #expect(other.isEmpty && other.lost == [.stopped: 5])
    }

    @Test("back-off ends at its longest")
    func longest() {
        var limits = Self.limits
        limits.attempts = 100
        var queue = queue(3, limits: limits)
        var now: Int64 = 0
        for _ in 0..<50 {
            _ = queue.next(now: now)
            queue.finished(.failed(after: 0), now: now, chance: 1)
            let due = queue.nextDue ?? .max
            #expect(due - now <= limits.longestBackOff)
            now = due
        }
    }
}
