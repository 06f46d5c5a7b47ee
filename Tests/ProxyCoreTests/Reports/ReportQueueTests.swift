// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyCore

@Suite("Which reports are made, and when each is sent")
struct ReportQueueTests {
    /// The queue behind a reference, as the expectations of a test want it.
    private final class Queue {
        private var queue: ReportQueue<String, String>

        init(_ limits: ReportLimits) { queue = ReportQueue(limits: limits) }

        var count: Int { queue.count }
        var nextDue: Int64? { queue.nextDue }
        var lossesDue: Int64? { queue.lossesDue }

        func add(_ number: UInt8, to collector: String = "c", now: Int64 = 0) -> ReportAdmission {
            queue.add(digest: [number], to: collector, now: now, content: "report \(number)")
        }

        func admitToFile(_ number: UInt8, now: Int64) -> ReportAdmission {
            queue.admitToFile(digest: [number], now: now)
        }

        func next(now: Int64) -> ReportQueue<String, String>.Entry? { queue.next(now: now) }

        func finished(_ number: Int, _ outcome: ReportOutcome, now: Int64, chance: Double) {
            queue.finished(number, outcome, now: now, chance: chance)
        }

        func count(_ loss: ReportLoss, _ number: Int) { queue.count(loss, number) }
        func lossesToReport(now: Int64) -> [ReportLoss: Int]? { queue.lossesToReport(now: now) }
        func startStopping() { queue.startStopping() }
        func stop() { queue.stop() }
    }

    private static let hour: Int64 = 3600 * 1000

    private static func queue(_ change: (inout ReportLimits) -> Void = { _ in }) -> Queue {
        var limits = ReportLimits()
        change(&limits)
        return Queue(limits)
    }

    @Test("a report is sent at once, and dropped after delivery")
    func delivered() throws {
        let queue = Self.queue()
        #expect(queue.next(now: 0) == nil && queue.nextDue == nil)
        #expect(queue.add(1, now: 5) == .accepted)
        #expect(queue.nextDue == 5)
        let entry = try #require(queue.next(now: 5))
        #expect(entry.collector == "c" && entry.content == "report 1")
        #expect(queue.next(now: 5) == nil && queue.nextDue == nil, "it is under way")
        queue.finished(entry.number, .delivered, now: 6, chance: 0)
        #expect(queue.count == 0 && queue.lossesToReport(now: 6) == nil)
    }

    @Test("78 identical reports are made once in 24 hours for each collector")
    func identical() {
        let queue = Self.queue()
        #expect(queue.add(1) == .accepted)
        #expect(queue.add(1, now: 24 * Self.hour - 1) == .repeated)
        #expect(queue.add(1, to: "other", now: 1) == .accepted)
        #expect(queue.admitToFile(1, now: 2) == .accepted)
        #expect(queue.admitToFile(1, now: 3) == .repeated)
        #expect(queue.add(2, now: 4) == .accepted)
        #expect(queue.add(1, now: 24 * Self.hour) == .accepted)
        #expect(queue.admitToFile(1, now: 24 * Self.hour + 2) == .accepted)
        #expect(queue.count == 4)
        #expect(queue.lossesToReport(now: 25 * Self.hour) == nil, "a repeated report is no lost one")
    }

    @Test("a bounded number of reports is remembered, the oldest forgotten")
    func remembered() {
        let queue = Self.queue { $0.remembered = 2 }
        for number in 1...3 { #expect(queue.add(UInt8(number), now: Int64(number)) == .accepted) }
        #expect(queue.add(3, now: 4) == .repeated)
        #expect(queue.add(1, now: 5) == .accepted)
    }

    @Test("a burst is accepted, then one a second")
    func rate() {
        let queue = Self.queue {
            $0.burst = 3
            $0.refill = 1000
        }
        let admissions = (1...5).map { queue.add($0) }
        #expect(admissions == [.accepted, .accepted, .accepted, .lost(.rateLimited), .lost(.rateLimited)])
        #expect(queue.add(6, now: 999) == .lost(.rateLimited))
        #expect(queue.add(7, now: 1000) == .accepted)
        #expect(queue.add(8, now: 1500) == .lost(.rateLimited))
        #expect(queue.add(4, now: 3000) == .accepted, "one that was dropped is not held to be made")
        #expect(queue.add(9, now: 3000) == .accepted)
        #expect(queue.add(10, now: 3000) == .lost(.rateLimited))
        // The allowance never grows beyond the burst.
        let later = (11...15).map { queue.add($0, now: 100_000) }
        #expect(later.filter { $0 == .accepted }.count == 3)
        #expect(queue.lossesToReport(now: 100_000) == [.rateLimited: 7])
    }

    @Test("a full queue drops and counts")
    func full() throws {
        let queue = Self.queue { $0.queued = 2 }
        #expect(queue.add(1) == .accepted)
        #expect(queue.add(2) == .accepted)
        let first = try #require(queue.next(now: 0))
        #expect(queue.add(3) == .lost(.queueFull))
        queue.finished(first.number, .delivered, now: 1, chance: 0)
        #expect(queue.add(3, now: 1) == .accepted)
        #expect(queue.lossesToReport(now: 1) == [.queueFull: 1])
    }

    @Test("a failed report is repeated with growing delays, then dropped")
    func backOff() throws {
        for (chance, share) in [(0.0, 0.5), (1.0, 1.0), (0.5, 0.75), (7.0, 1.0), (-1.0, 0.5)] {
            let queue = Self.queue()
            #expect(queue.add(1) == .accepted)
            var now: Int64 = 0
            var waits: [Int64] = []
            while let entry = queue.next(now: now) {
                queue.finished(entry.number, .failed, now: now, chance: chance)
                guard let due = queue.nextDue else { break }
                #expect(queue.next(now: due - 1) == nil)
                waits.append(due - now)
                now = due
            }
            #expect(waits == [5000, 20_000, 80_000, 320_000, 1_280_000].map { Int64(Double($0) * share) })
            #expect(queue.count == 0)
            #expect(queue.lossesToReport(now: now) == [.undelivered: 1])
            #expect(queue.add(1, now: now) == .accepted, "what never arrived may be reported again")
        }
    }

    @Test("a refused report is not sent again")
    func refused() throws {
        let queue = Self.queue()
        #expect(queue.add(1) == .accepted)
        let entry = try #require(queue.next(now: 0))
        queue.finished(entry.number, .refused, now: 0, chance: 0)
        #expect(queue.count == 0 && queue.lossesToReport(now: 0) == [.undelivered: 1])
        #expect(queue.add(1, now: 1) == .repeated)
    }

    @Test("a stalled collector delays its own reports alone")
    func stalling() throws {
        let queue = Self.queue { $0.collectorsAtOnce = 2 }
        for number in 1...2 { #expect(queue.add(UInt8(number), to: "slow") == .accepted) }
        for number in 3...4 { #expect(queue.add(UInt8(number), to: "quick") == .accepted) }
        #expect(queue.add(5, to: "third") == .accepted)
        let slow = try #require(queue.next(now: 0))
        let quick = try #require(queue.next(now: 0))
        #expect([slow.collector, quick.collector] == ["slow", "quick"])
        #expect(queue.next(now: 0) == nil && queue.nextDue == nil, "two collectors at once")
        queue.finished(quick.number, .delivered, now: 1, chance: 0)
        #expect(queue.nextDue == 0)
        let next = try #require(queue.next(now: 1))
        #expect(next.collector == "quick")
        queue.finished(next.number, .delivered, now: 2, chance: 0)
        #expect(queue.next(now: 2)?.collector == "third")
    }

    @Test("losses are reported once a minute at most, and completely")
    func tellingLosses() {
        let queue = Self.queue { $0.queued = 0 }
        #expect(queue.lossesDue == nil)
        _ = queue.add(1)
        #expect(queue.lossesToReport(now: 10) == [.queueFull: 1])
        _ = queue.add(2, now: 20)
        queue.count(.undelivered, 3)
        #expect(queue.lossesToReport(now: 20) == nil)
        #expect(queue.lossesDue == 60_010)
        #expect(queue.lossesToReport(now: 60_010) == [.queueFull: 1, .undelivered: 3])
        #expect(queue.lossesDue == nil)
    }

    @Test("at a stop each report gets one last attempt")
    func stopping() throws {
        let queue = Self.queue()
        for (number, collector) in [(1, "a"), (2, "b"), (3, "c")] as [(UInt8, String)] {
            #expect(queue.add(number, to: collector) == .accepted)
        }
        let a = try #require(queue.next(now: 0))
        queue.finished(a.number, .failed, now: 0, chance: 1)
        queue.startStopping()
        #expect(queue.add(4) == .lost(.stopped))
        let b = try #require(queue.next(now: 1))
        let c = try #require(queue.next(now: 1))
        #expect([b.collector, c.collector] == ["a", "b"], "back-off or not")
        queue.finished(b.number, .failed, now: 1, chance: 0)
        queue.stop()
        #expect(queue.count == 0)
        #expect(queue.lossesToReport(now: 1) == [.stopped: 4])
    }

    @Test(
        "2xx delivers; 408, 429 and 5xx are repeated; other statuses are final",
        arguments: [200, 204, 299, 301, 302, 307, 400, 401, 404, 408, 413, 429, 500, 503, 599]
    )
    func statuses(status: Int) {
        let outcome = ReportOutcome(status: status)
        switch status {
        case 200..<300: #expect(outcome == .delivered)
        case 408, 429, 500...: #expect(outcome == .failed)
        default: #expect(outcome == .refused)
        }
    }
}
