// SPDX-License-Identifier: Apache-2.0
/// Measures the turns of a loop by the time that its thread was on a processor: a busy machine does not count.
///
/// That clock costs a system call, the monotonic clock none. A turn is never longer on the processor than on the monotonic
/// clock, so a turn shorter than `precision` needs no other clock. The processor's clock is read when the turns since its last
/// reading have taken `precision` together. The long turn that ended then has had at most what the processor's clock has
/// advanced, and no more than its own monotonic time; it gets the smaller one. That is at most `precision`, and the waits
/// for events since then, too much, and never too little.
///
/// A value: the loop tells the times.
package struct TurnMeter: Sendable {
    /// Nanoseconds; shorter turns are only counted.
    package static let precision: UInt64 = 1_000_000

    /// The monotonic time of the turns since the last reading.
    private var unread: UInt64 = 0
    /// The processor's clock at the last reading.
    private var lastReading: UInt64

    /// - Parameter processor: what the thread's processor clock says now.
    package init(processor: UInt64) { lastReading = processor }

    /// Notes a turn.
    ///
    /// - Parameter span: its nanoseconds by the monotonic clock.
    /// - Returns: whether the processor's clock has to be read, and `read` to be called.
    @inline(__always)
    package mutating func mustRead(after span: UInt64) -> Bool {
        unread &+= span
        return unread >= Self.precision
    }

    /// Notes a reading of the processor's clock at the end of a turn.
    ///
    /// - Parameter span: the turn's nanoseconds by the monotonic clock.
    /// - Returns: `turn`, the nanoseconds of the turn on the processor, and `sum`, those of the thread since the last reading.
    package mutating func read(_ processor: UInt64, after span: UInt64) -> (turn: UInt64, sum: UInt64) {
        let sum = processor > lastReading ? processor - lastReading : 0
        unread = 0
        lastReading = max(processor, lastReading)
        return (min(span, sum), sum)
    }
}

/// A turn that was long enough to be measured.
package struct LongTurn: Equatable, Sendable {
    /// On the processor.
    package var microseconds: Int
    package var work: TurnWork

    package init(microseconds: Int, work: TurnWork) {
        self.microseconds = microseconds
        self.work = work
    }
}
