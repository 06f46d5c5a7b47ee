// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@Suite("Work of many parties for a few threads", .onOwnThreads)
struct FairQueueTests {
    private func take(_ queue: inout FairQueue<String>) -> String? { queue.popNext()?.element }

    @Test("one party's work runs in order, up to its share")
    func share() {
        var queue = FairQueue<String>(share: 2)
        for name in ["a", "b", "c"] { queue.append(name, of: 1) }
        #expect(queue.waitingCount == 3)
        #expect(take(&queue) == "a")
        #expect(take(&queue) == "b")
        #expect(take(&queue) == nil)
        #expect(queue.waitingCount == 1)
        queue.didEnd(of: 1)
        #expect(take(&queue) == "c")
        queue.didEnd(of: 1)
        queue.didEnd(of: 1)
        #expect(queue.isIdle)
    }

    @Test("parties take turns: much work of one does not delay another's")
    func turns() {
        var queue = FairQueue<String>(share: 1)
        for index in 0..<1000 { queue.append("much \(index)", of: 1) }
        queue.append("little", of: 2)
        #expect(take(&queue) == "much 0")
        #expect(take(&queue) == "little")
        queue.didEnd(of: 1)
        #expect(take(&queue) == "much 1")
    }

    @Test("an end without a beginning does no harm")
    func strayEnd() {
        var queue = FairQueue<String>(share: 1)
        queue.didEnd(of: 1)
        #expect(queue.isIdle)
        #expect(take(&queue) == nil)
    }

    @Test("each element runs once, in order, within its party's share")
    func anyCourse() {
        for seed in 1...50 as ClosedRange<UInt64> {
            var random = SeededGenerator(seed: seed)
            var queue = FairQueue<Int>(share: 3)
            var (appended, taken) = ([UInt64: Int](), [UInt64: Int]())
            var running: [UInt64: Int] = [:]
            for _ in 0..<3000 {
                let party = UInt64.random(in: 0..<5, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0:
                    queue.append(appended[party, default: 0], of: party)
                    appended[party, default: 0] += 1
                case 1:
                    guard let next = queue.popNext() else { break }
                    #expect(next.element == taken[next.party, default: 0])
                    taken[next.party, default: 0] += 1
                    running[next.party, default: 0] += 1
                    #expect(running[next.party, default: 0] <= 3)
                default:
                    guard running[party, default: 0] > 0 else { break }
                    running[party, default: 0] -= 1
                    queue.didEnd(of: party)
                }
            }
            while true {
                for (party, count) in running {
                    for _ in 0..<count { queue.didEnd(of: party) }
                }
                running = [:]
                guard let next = queue.popNext() else { break }
                taken[next.party, default: 0] += 1
                running[next.party] = 1
            }
            #expect(taken == appended)
            #expect(queue.isIdle && queue.waitingCount == 0)
        }
    }

    @Test("work that blocks all of a party's threads leaves threads for the others")
    func threads() {
        let threads = FairThreads(name: "test", count: 2, nice: 0)
        let gate = Gate()
        let (blocked, other) = (Latch(count: 3), Latch(count: 1))
        for _ in 0..<3 {
            #expect(
                threads.submit(for: 1) {
                    gate.hold()
                    blocked.countDown()
                }
            )
        }
        #expect(threads.submit(for: 2) { other.countDown() })
        other.wait()
        gate.open()
        blocked.wait()
        threads.stop()
        #expect(!threads.submit(for: 2) {})
    }
}
