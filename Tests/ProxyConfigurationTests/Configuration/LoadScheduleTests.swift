// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("The schedule of loads")
struct LoadScheduleTests {
    private enum Trigger { case files, signal }

    private let second: UInt64 = 1_000_000_000
    private let millisecond: UInt64 = 1_000_000

    private func schedule() -> LoadSchedule<Trigger> { LoadSchedule(at: 0) }

    @Test("files are compared 200 ms after the last change, and not before")
    func quietPeriod() {
        var schedule = schedule()
        schedule.noteChange(at: second)
        schedule.noteChange(at: second + 100 * millisecond)
        #expect(schedule.isPending)
        #expect(schedule.deadline == second + 300 * millisecond)
        #expect(schedule.work(at: second + 299 * millisecond) == .nothing)
        #expect(schedule.work(at: second + 300 * millisecond) == .compare)
        #expect(schedule.work(at: second + 300 * millisecond) == .nothing)
        #expect(!schedule.isPending)
    }

    @Test("files that never rest are compared after five seconds")
    func constantChange() {
        var schedule = schedule()
        for step in 0..<49 as Range<UInt64> { schedule.noteChange(at: step * 100 * millisecond) }
        #expect(schedule.work(at: 4999 * millisecond) == .nothing)
        #expect(schedule.work(at: 5 * second) == .compare)
    }

    @Test("a reading of files that did not change meanwhile is concluded")
    func conclusion() {
        var schedule = schedule()
        schedule.noteChange(at: second)
        #expect(schedule.didRead(for: .files, isCurrent: true, at: second) == .conclude)
        #expect(!schedule.isPending)
    }

    @Test("a postponed reading is followed by another one")
    func putOff() {
        var schedule = schedule()
        #expect(schedule.didRead(for: .files, isCurrent: false, at: second) == .putOff)
        #expect(schedule.isPending)
        #expect(schedule.deadline == second + 200 * millisecond)
        #expect(schedule.work(at: second + 200 * millisecond) == .load(.files))
        // It is owed until a reading is concluded.
        #expect(schedule.isPending)
        #expect(schedule.didRead(for: .files, isCurrent: true, at: 2 * second) == .conclude)
        #expect(!schedule.isPending)
    }

    @Test("a signal's load keeps its trigger when it is postponed")
    func keptTrigger() {
        var schedule = schedule()
        _ = schedule.didRead(for: .signal, isCurrent: false, at: second)
        #expect(schedule.owedTrigger == .signal)
        schedule.noteChange(at: second)
        #expect(schedule.work(at: 2 * second) == .load(.signal))
    }

    @Test("every fifth postponed reading is reported, and still due")
    func report() {
        var schedule = schedule()
        for round in 1...3 {
            for _ in 1...4 { #expect(schedule.didRead(for: .files, isCurrent: false, at: second) == .putOff) }
            #expect(schedule.didRead(for: .files, isCurrent: false, at: second) == .putOffAndReport, "\(round)")
            #expect(schedule.work(at: 2 * second) == .load(.files))
        }
        #expect(schedule.didRead(for: .files, isCurrent: true, at: second) == .conclude)
        #expect(schedule.didRead(for: .files, isCurrent: false, at: second) == .putOff)
    }

    @Test("without events files are compared every ten seconds, or more rarely")
    func comparison() {
        var schedule = schedule()
        #expect(schedule.deadline == 10 * second)
        #expect(schedule.work(at: 10 * second) == .compare)
        schedule.compared(cost: .milliseconds(1), at: 10 * second)
        #expect(schedule.deadline == 20 * second)
        schedule.compared(cost: .milliseconds(100), at: 20 * second)
        #expect(schedule.deadline == 70 * second)
        schedule.compared(cost: TimeSpan(nanoseconds: .max), at: 70 * second)
        #expect(schedule.deadline > 1_000_000_000 * second)
        #expect(!schedule.isPending)
    }

    @Test("a reading that cannot be applied is tried again, ever more rarely")
    func retry() {
        var schedule = schedule()
        var now: UInt64 = 0
        for wait in [5, 10, 20, 40, 80, 160, 300, 300] as [UInt64] {
            schedule.didFail(.signal, at: now)
            schedule.compared(cost: .seconds(3600), at: now)
            #expect(schedule.deadline == now + wait * second)
            #expect(schedule.work(at: now + wait * second - 1) == .nothing)
            #expect(schedule.work(at: now + wait * second) == .load(.signal))
            #expect(schedule.owedTrigger == .signal)
            now += wait * second
        }
        schedule.didConclude()
        #expect(schedule.owedTrigger == nil)
        schedule.didFail(.files, at: now)
        #expect(schedule.work(at: now + 5 * second) == .load(.files))
    }

    @Test("a repeated load waits for a pause of changes, and keeps its trigger")
    func retryPutOff() {
        var schedule = schedule()
        schedule.didFail(.signal, at: 0)
        #expect(schedule.work(at: 5 * second) == .load(.signal))
        #expect(schedule.didRead(for: .signal, isCurrent: false, at: 5 * second) == .putOff)
        #expect(schedule.work(at: 5 * second) == .nothing)
        #expect(schedule.work(at: 5 * second + 200 * millisecond) == .load(.signal))
    }

    @Test("the last state of the files is loaded ten seconds later at most")
    func anyCourse() {
        for seed in 1...500 as ClosedRange<UInt64> {
            var random = SeededGenerator(seed: seed)
            var schedule = schedule()
            // Numbers stand for the contents of the files.
            var (disk, read, concluded) = (0, 0, 0)
            var now: UInt64 = 0
            var lastChange: UInt64 = 0
            func load(_ trigger: Trigger) {
                read = disk
                if now < 20 * second, random.next() % 2 == 0 {
                    disk += 1
                    (lastChange, now) = (now, now + random.next() % (50 * millisecond))
                }
                if schedule.didRead(for: trigger, isCurrent: read == disk, at: now) == .conclude { concluded = read }
            }
            while now < 40 * second {
                if now < 20 * second, random.next() % 4 == 0 {
                    disk += 1
                    lastChange = now
                    // One change in eight has no event.
                    if random.next() % 8 != 0 { schedule.noteChange(at: now) }
                }
                if random.next() % 16 == 0 { schedule.noteChange(at: now) }
                switch schedule.work(at: now) {
                case .nothing: break
                case .compare:
                    schedule.compared(cost: .milliseconds(1), at: now)
                    if read != disk { load(schedule.owedTrigger ?? .files) }
                case .load(let trigger): load(trigger)
                }
                if now > lastChange + 11 * second { #expect(concluded == disk, "seed \(seed) at \(now)") }
                now += random.next() % (60 * millisecond)
            }
            #expect(concluded == disk, "seed \(seed)")
        }
    }
}
