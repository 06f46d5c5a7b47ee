// SPDX-License-Identifier: Apache-2.0
import IOCore
import Testing

@Suite("Quiet periods")
struct QuietPeriodTests {
    private let millisecond: UInt64 = 1_000_000

    private func period() -> QuietPeriod { QuietPeriod(quiet: .milliseconds(200), limit: .milliseconds(500)) }

    @Test("nothing is due when nothing has happened")
    func nothing() {
        var period = period()
        #expect(period.deadline == nil)
        let look1 = period.isOver(at: .max)
        #expect(!look1)
    }

    @Test("the period ends once nothing has happened for a while")
    func quiet() {
        var period = period()
        period.note(at: 1000 * millisecond)
        period.note(at: 1100 * millisecond)
        #expect(period.deadline == 1300 * millisecond)
        let look2 = period.isOver(at: 1299 * millisecond)
        #expect(!look2)
        let look3 = period.isOver(at: 1300 * millisecond)
        #expect(look3)
        let look4 = period.isOver(at: 2000 * millisecond)
        #expect(!look4)
    }

    @Test("endless changes are read in the end")
    func limit() {
        var period = period()
        for time in stride(from: 1000 as UInt64, through: 1450, by: 50) { period.note(at: time * millisecond) }
        #expect(period.deadline == 1500 * millisecond)
        let look5 = period.isOver(at: 1500 * millisecond)
        #expect(look5)
    }

    @Test("after another reading the period begins anew")
    func reset() {
        var period = period()
        period.note(at: 1000 * millisecond)
        period.reset()
        #expect(period.deadline == nil)
        period.note(at: 5000 * millisecond)
        #expect(period.deadline == 5200 * millisecond)
    }
}
