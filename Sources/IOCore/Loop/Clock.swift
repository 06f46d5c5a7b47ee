import CShims

/// Time as the loops measure it.
package enum Clock {
    /// Nanoseconds of the monotonic clock; only differences mean something.
    @inline(__always)
    package static var monotonic: UInt64 { pinproxy_monotonic() }

    /// Microseconds since 1970, for dates that people read.
    @inline(__always)
    package static var realtime: Int64 { pinproxy_realtime() }
}

/// A length of time in nanoseconds, written as people say it: `.seconds(10)`.
package struct TimeSpan: Hashable, Comparable, Sendable {
    package var nanoseconds: UInt64

    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }
    package static func milliseconds(_ count: Int) -> TimeSpan { TimeSpan(nanoseconds: UInt64(count) * 1_000_000) }
    package static func seconds(_ count: Int) -> TimeSpan { TimeSpan(nanoseconds: UInt64(count) * 1_000_000_000) }
    package static func < (left: TimeSpan, right: TimeSpan) -> Bool { left.nanoseconds < right.nanoseconds }

    /// Whole milliseconds, rounded up.
    package var milliseconds: Int { Int((nanoseconds + 999_999) / 1_000_000) }
}
