// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import IOCore

@Suite("The clock of a loop")
struct LoopClockTests {
    @Test("a clock moved by hand stands still, and drives its timers")
    func byHand() throws {
        let loop = try EventLoop(clock: .byHand)
        let (start, wall) = (loop.now, loop.wallClock)
        var fired = 0
        let timer = LoopTimer { fired += 1 }
        loop.arm(timer, after: .seconds(3600))
        #expect(loop.turn(waitingAtMost: .milliseconds(2)) == false)
        #expect(loop.now == start && loop.freshNow == start && loop.wallClock == wall && loop.freshWallClock == wall)
        #expect(fired == 0 && !loop.hasNothingPlanned)
        loop.advance(by: .seconds(3599))
        loop.turn(waitingAtMost: .milliseconds(0))
        #expect(fired == 0)
        loop.advance(by: .seconds(1))
        #expect(loop.turn(waitingAtMost: .milliseconds(0)))
        #expect(fired == 1 && loop.hasNothingPlanned)
        #expect(loop.now == start + 3_600_000_000_000 && loop.wallClock == wall + 3_600_000_000)
    }

    @Test("a negative span is zero, and one too large is the longest")
    func spans() {
        #expect(TimeSpan.milliseconds(1500).nanoseconds == 1_500_000_000)
        #expect(TimeSpan.microseconds(2).nanoseconds == 2000)
        for count in [-1, Int.min] {
            #expect(TimeSpan.seconds(count).nanoseconds == 0 && TimeSpan.milliseconds(count).nanoseconds == 0)
        }
        #expect(TimeSpan.seconds(.max).nanoseconds == .max && TimeSpan.milliseconds(.max).nanoseconds == .max)
        #expect(TimeSpan(nanoseconds: .max).milliseconds == 18_446_744_073_710)
        #expect(TimeSpan(nanoseconds: 1).milliseconds == 1 && TimeSpan.milliseconds(7).milliseconds == 7)
    }

    @Test("a timer after the longest span is never due")
    func longestSpan() throws {
        let loop = try EventLoop(clock: .byHand)
        var fired = 0
        let timer = LoopTimer { fired += 1 }
        loop.arm(timer, after: TimeSpan(nanoseconds: .max))
        loop.advance(by: .seconds(3600))
        loop.turn(waitingAtMost: .milliseconds(0))
        #expect(fired == 0)
    }
}
