// SPDX-License-Identifier: Apache-2.0
/// The turns of a loop: how many took how long on the processor, and the longest of each of the last sixty seconds. The loop
/// writes, any thread reads, and neither waits for the other.
package final class TurnRecord: Sendable {
    /// Upper bounds in microseconds, ascending. Turns below the first one are not measured, only counted.
    package static let bounds: [Int64] = [
        1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000,
    ]
    private static let sumPlace = bounds.count + 1
    private static let ringPlace = sumPlace + 1
    /// The seconds that the longest turn is looked for in.
    private static let ringCount = 60

    private let table = CounterTable(count: ringPlace + ringCount)

    package init() {}

    // MARK: The loop's thread

    /// Counts a turn that was shorter than `TurnMeter.precision`.
    @inline(__always)
    package func noteShort() { table.add(1, at: 0) }

    /// Adds time of the thread on the processor.
    ///
    /// - Parameter nanoseconds: since the last call.
    package func noteProcessor(nanoseconds: UInt64) { table.add(Int(clamping: nanoseconds), at: Self.sumPlace) }

    /// Counts a turn that was measured.
    ///
    /// - Parameter now: nanoseconds of the monotonic clock.
    package func note(_ turn: LongTurn, at now: UInt64) {
        var index = 0
        while index < Self.bounds.count, turn.microseconds > Self.bounds[index] { index += 1 }
        table.add(1, at: index)
        let entry = Entry(second: Entry.second(of: now), turn: turn)
        let place = Self.place(of: entry.second)
        if let former = Entry(table.value(at: place)), former.second == entry.second,
            former.turn.microseconds >= entry.turn.microseconds
        {
            return
        }
        table.set(entry.word, at: place)
    }

    private static func place(of second: UInt64) -> Int { ringPlace + Int(second % UInt64(ringCount)) }

    // MARK: Any thread

    /// The turns by the first of `bounds` that is not exceeded; the last number counts those beyond every bound.
    package var counts: [Int] { (0...Self.bounds.count).map { table.value(at: $0) } }

    /// The time of the thread on the processor, its waits included, in microseconds; of the time since the last millisecond or less.
    package var processorTime: Int { table.value(at: Self.sumPlace) / 1000 }

    /// The longest turn of the last minute; nil when none has taken a millisecond.
    ///
    /// - Parameter now: nanoseconds of the monotonic clock.
    package func longest(at now: UInt64) -> LongTurn? {
        let second = Entry.second(of: now)
        var longest: LongTurn?
        for place in Self.ringPlace..<(Self.ringPlace + Self.ringCount) {
            guard let entry = Entry(table.value(at: place)), entry.isWithin(UInt64(Self.ringCount), of: second) else {
                continue
            }
            if entry.turn.microseconds > longest?.microseconds ?? -1 { longest = entry.turn }
        }
        return longest
    }

    /// The longest turn of a second as one word, which is read and written whole: 24 bits of the second, 12 of the work,
    /// 28 of the microseconds, which suffice for four minutes.
    private struct Entry {
        var second: UInt64
        var turn: LongTurn

        private static let timeBits: UInt64 = 28
        private static let workBits = UInt64(TurnWork.count)
        private static let mostTime: UInt64 = 1 << timeBits - 1
        private static let mostSecond: UInt64 = 1 << (64 - timeBits - workBits) - 1

        static func second(of now: UInt64) -> UInt64 { now / 1_000_000_000 & mostSecond }

        init(second: UInt64, turn: LongTurn) {
            self.second = second
            self.turn = turn
        }

        /// nil for a word that was never written. Turns that are noted took time, so that no entry's word is 0.
        init?(_ word: Int) {
            guard word != 0 else { return nil }
            let bits = UInt64(bitPattern: Int64(word))
            second = bits >> (Self.timeBits + Self.workBits)
            turn = LongTurn(
                microseconds: Int(bits & Self.mostTime),
                work: TurnWork(rawValue: UInt16(bits >> Self.timeBits & (1 << Self.workBits - 1)))
            )
        }

        var word: Int {
            let time = min(UInt64(clamping: turn.microseconds), Self.mostTime)
            let bits = second << (Self.timeBits + Self.workBits) | UInt64(turn.work.rawValue) << Self.timeBits | time
            return Int(Int64(bitPattern: bits))
        }

        /// The seconds begin anew after half a year.
        func isWithin(_ count: UInt64, of now: UInt64) -> Bool { (now &- second) & Self.mostSecond < count }
    }
}
