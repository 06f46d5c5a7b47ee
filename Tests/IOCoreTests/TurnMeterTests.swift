// SPDX-License-Identifier: Apache-2.0
import Glibc
import Testing

@testable import IOCore

@Suite("The turns of a loop")
struct TurnMeterTests {
    private static let millisecond: UInt64 = 1_000_000

    private func mustRead(_ meter: inout TurnMeter, after span: UInt64) -> Bool { meter.mustRead(after: span) }

    @Test("short turns read the processor's clock once a millisecond at most")
    func shortTurns() {
        var meter = TurnMeter(processor: 0)
        for _ in 0..<9 { #expect(!mustRead(&meter, after: Self.millisecond / 10)) }
        #expect(mustRead(&meter, after: Self.millisecond / 10))
        _ = meter.read(Self.millisecond, after: Self.millisecond / 10)
        #expect(!mustRead(&meter, after: Self.millisecond / 10))
    }

    @Test("a long turn counts at most its time on the processor")
    func busyMachine() {
        var meter = TurnMeter(processor: 5 * Self.millisecond)
        #expect(mustRead(&meter, after: 300 * Self.millisecond))
        let (turn, sum) = meter.read(7 * Self.millisecond, after: 300 * Self.millisecond)
        #expect(turn == 2 * Self.millisecond)
        #expect(sum == 2 * Self.millisecond)
    }

    @Test("a long turn counts at most its own time")
    func turnsBefore() {
        var meter = TurnMeter(processor: 0)
        #expect(!mustRead(&meter, after: 900_000))
        #expect(mustRead(&meter, after: 4 * Self.millisecond))
        let (turn, sum) = meter.read(4_900_000, after: 4 * Self.millisecond)
        #expect(turn == 4 * Self.millisecond)
        #expect(sum == 4_900_000)
    }

    @Test("a long turn counts at most a millisecond too much")
    func precision() {
        // Before it, turns with almost a millisecond of the processor; the turn itself had none for half of its time.
        var meter = TurnMeter(processor: 0)
        #expect(!mustRead(&meter, after: 999_999))
        #expect(mustRead(&meter, after: 40 * Self.millisecond))
        let (turn, _) = meter.read(999_999 + 20 * Self.millisecond, after: 40 * Self.millisecond)
        #expect(turn == 999_999 + 20 * Self.millisecond)
    }

    @Test("a clock that goes back, and times that cannot be, count nothing")
    func strangeClocks() {
        var meter = TurnMeter(processor: 10)
        #expect(mustRead(&meter, after: .max))
        let back = meter.read(5, after: .max)
        #expect(back == (0, 0))
        #expect(mustRead(&meter, after: Self.millisecond))
        let forth = meter.read(12, after: Self.millisecond)
        #expect(forth == (2, 2))
    }

    @Test("turns are counted by the first bound that they do not exceed")
    func buckets() {
        let record = TurnRecord()
        record.noteShort()
        record.noteShort()
        for microseconds in [400, 1_000, 1_001, 2_500, 99_999, 100_001, 10_000_000, 10_000_001, .max] {
            record.note(LongTurn(microseconds: microseconds, work: []), at: 0)
        }
        #expect(record.counts == [4, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 2])
        #expect(record.counts.count == TurnRecord.bounds.count + 1)
    }

    @Test("the longest turn of the last minute is reported with its work")
    func longest() {
        let record = TurnRecord()
        let second: UInt64 = 1_000_000_000
        #expect(record.longest(at: 100 * second) == nil)
        let long = LongTurn(microseconds: 34_000_000, work: [.handshake, .policy])
        record.note(LongTurn(microseconds: 3_000, work: .name), at: 100 * second)
        record.note(long, at: 100 * second + 1)
        record.note(LongTurn(microseconds: 5_000, work: .cache), at: 100 * second + 2)
        record.note(LongTurn(microseconds: 7_000, work: .timer), at: 130 * second)
        #expect(record.longest(at: 100 * second) == long)
        #expect(record.longest(at: 159 * second) == long)
        #expect(record.longest(at: 160 * second) == LongTurn(microseconds: 7_000, work: .timer))
        #expect(record.longest(at: 190 * second) == nil)
        // The same place, a minute later.
        record.note(LongTurn(microseconds: 2_000, work: .name), at: 190 * second)
        #expect(record.longest(at: 190 * second) == LongTurn(microseconds: 2_000, work: .name))
    }

    @Test("a turn of any length and kind fits its word")
    func words() {
        let second: UInt64 = 1_000_000_000
        for bit in 0..<UInt16(TurnWork.count) {
            let record = TurnRecord()
            let turn = LongTurn(microseconds: 268_435_455, work: TurnWork(rawValue: 1 << bit))
            record.note(turn, at: 16_777_215 * second)
            #expect(record.longest(at: 16_777_216 * second) == turn)
            #expect(turn.work.names.count == 1)
        }
        let record = TurnRecord()
        record.note(LongTurn(microseconds: .max, work: .frames), at: .max)
        #expect(record.longest(at: .max) == LongTurn(microseconds: 268_435_455, work: .frames))
    }

    @Test("a loop counts its turns, and names the work of long ones")
    func loop() throws {
        let loop = try EventLoop()
        let thread = try LoopThread(name: "loop") { loop.run() }
        let measured = Measured()
        let done = Latch(count: 1)
        loop.submit {
            loop.didMeasureTurn = { measured.append($0) }
            loop.noteWork(.cache)
            let start = Clock.processorTimeOfThread
            while Clock.processorTimeOfThread &- start < 20_000_000 {}
        }
        loop.submit { done.countDown() }
        done.wait()
        loop.submit { loop.stop() }
        thread.join()
        #expect(measured.turns.contains { $0.microseconds >= 20_000 && $0.work.isSuperset(of: [.cache, .message]) })
        let longest = try #require(loop.turns.longest(at: Clock.monotonic))
        #expect(longest.microseconds >= 20_000)
        #expect(loop.turns.counts.reduce(0, +) >= 2)
        #expect(loop.turns.processorTime >= 20_000)
    }

    @Test("a turn that sleeps takes no time of the processor")
    func sleepingTurn() throws {
        let loop = try EventLoop()
        let thread = try LoopThread(name: "loop") { loop.run() }
        loop.submit { usleep(60_000) }
        loop.submit { loop.stop() }
        thread.join()
        #expect(loop.turns.counts.reduce(0, +) >= 1)
        // By the monotonic clock it took sixty milliseconds.
        #expect(loop.turns.longest(at: Clock.monotonic)?.microseconds ?? 0 < 50_000)
    }
}

private final class Measured: @unchecked Sendable {
    private let lock = PosixLock()
    private var kept: [LongTurn] = []
    func append(_ turn: LongTurn) { lock.withLock { kept.append(turn) } }
    var turns: [LongTurn] { lock.withLock { kept } }
}
