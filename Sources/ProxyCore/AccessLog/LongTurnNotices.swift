// SPDX-License-Identifier: Apache-2.0
import IOCore
import StrictJSON

/// Decides which turns that were too long have an event: at most one a second, which counts the others and tells the longest. A
/// value without a clock: times are milliseconds that only grow.
struct LongTurnNotices: Sendable {
    /// Microseconds on the processor from which on a turn has an event: other clients of the loop have noticed it.
    static let bound = 100_000
    private static let pause: Int64 = 1000

    private var lastNotice: Int64?
    /// The turns since the last event.
    private var count = 0
    private var longest: (worker: Int, turn: LongTurn)?

    /// Notes a turn of at least `bound`.
    ///
    /// - Returns: the event that is due now.
    mutating func note(_ turn: LongTurn, ofWorker worker: Int, now: Int64) -> EventLine? {
        count += 1
        if turn.microseconds >= longest?.turn.microseconds ?? 0 { longest = (worker, turn) }
        if let lastNotice, now - lastNotice < Self.pause { return nil }
        guard let (worker, turn) = longest else { return nil }
        defer {
            lastNotice = now
            count = 0
            longest = nil
        }
        let names = turn.work.names
        return EventLine(event: "warning")
            .with("code", "loop_turn_long")
            .with("worker", worker)
            .with("milliseconds", turn.microseconds / 1000)
            .with("work", strings: names)
            .with("count", count)
            .with(
                "message",
                "worker \(worker) needed \(turn.microseconds / 1000) ms of the processor for one turn of its loop "
                    + "(\(names.joined(separator: ", "))): all its other clients have waited"
            )
    }
}
