// SPDX-License-Identifier: Apache-2.0
import CShims

/// Time as the loops measure it.
package enum Clock {
    /// Nanoseconds of the monotonic clock; only differences are meaningful.
    @inline(__always)
    package static var monotonic: UInt64 { pinproxy_monotonic() }

    /// Nanoseconds that the calling thread was on a processor. A system call, unlike the others.
    package static var processorTimeOfThread: UInt64 { pinproxy_thread_processor_time() }

    /// Microseconds since 1970, for dates.
    @inline(__always)
    package static var realtime: Int64 { pinproxy_realtime() }

    /// Seconds since 1970, of the same clock. The one of time(2) is a tick behind it: of two readers of both, one may take a
    /// certificate for valid that has ended for the other.
    package static var seconds: Int64 { pinproxy_realtime() / 1_000_000 }
}

/// A length of time in nanoseconds, written as `.seconds(10)`.
///
/// Other modules inline what makes one, so that a limit is a constant of the program.
@usableFromInline
package struct TimeSpan: Hashable, Comparable, Sendable {
    @usableFromInline package var nanoseconds: UInt64

    @inlinable
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }
    /// A negative count becomes 0; a count that is too large becomes the longest span.
    @inlinable
    package static func microseconds(_ count: Int64) -> TimeSpan { scaled(Int(count), by: 1000) }
    @inlinable
    package static func milliseconds(_ count: Int) -> TimeSpan { scaled(count, by: 1_000_000) }
    @inlinable
    package static func seconds(_ count: Int) -> TimeSpan { scaled(count, by: 1_000_000_000) }

    /// The nearest span: nothing for a negative count and for one that is not a number, at most half of the longest one.
    package static func seconds(fractional count: Double) -> TimeSpan {
        TimeSpan(nanoseconds: count > 0 ? UInt64(min(count * 1e9, 9e18)) : 0)
    }

    @inlinable
    static func scaled(_ count: Int, by scale: UInt64) -> TimeSpan {
        let (product, overflow) = UInt64(clamping: count).multipliedReportingOverflow(by: scale)
        return TimeSpan(nanoseconds: overflow ? .max : product)
    }

    @inlinable
    package static func < (left: TimeSpan, right: TimeSpan) -> Bool { left.nanoseconds < right.nanoseconds }

    /// Whole milliseconds, rounded up.
    package var milliseconds: Int { Int(nanoseconds / 1_000_000) + (nanoseconds % 1_000_000 == 0 ? 0 : 1) }
}

/// The source of a loop's time.
package enum LoopClock: Sendable {
    case system
    /// Only `EventLoop.advance` moves it, so that tests are deterministic.
    case byHand
}
