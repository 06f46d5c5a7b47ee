// SPDX-License-Identifier: Apache-2.0
import IOCore
import StrictJSON

/// How long the turns of the workers' loops have taken on the processor, at one moment.
struct TurnFigures: Equatable, Sendable {
    /// All workers together, by the first of `TurnRecord.bounds` that is not exceeded; the last number counts those beyond
    /// every bound.
    var counts = Array(repeating: 0, count: TurnRecord.bounds.count + 1)
    /// Of the workers' threads, in microseconds.
    var processorTime = 0
    /// The longest turn of the last minute of each worker; nil when none has taken a millisecond.
    var longest: [LongTurn?] = []

    init() {}

    /// - Parameter now: nanoseconds of the monotonic clock.
    init(_ records: [TurnRecord], at now: UInt64) {
        for record in records {
            for (index, count) in record.counts.enumerated() { counts[index] += count }
            processorTime += record.processorTime
            longest.append(record.longest(at: now))
        }
    }

    /// `/workers`: for each worker the longest turn of the last minute.
    var document: String {
        let workers = longest.map { turn in
            var line = JSONLine()
            if let turn { line.add("longestTurn", Self.json(turn)) }
            return line.object
        }
        var line = JSONLine()
        line.add("workers", array: workers)
        return line.text
    }

    static func json(_ turn: LongTurn) -> JSONLine {
        var line = JSONLine()
        line.add("milliseconds", number: ExpositionText.seconds(turn.microseconds * 1000))
        line.add("work", strings: turn.work.names)
        return line
    }
}
