package import IOCore

/// The current date for Date fields, formatted once a second and copied otherwise.
package struct CachedDate: Sendable {
    private var second = Int.min
    private var text: [UInt8] = []

    package init() {}

    /// Sets `bytes` to the date of this second.
    @inline(__always)
    package mutating func update(unixSeconds: Int) {
        if unixSeconds != second { format(unixSeconds) }
    }

    /// IMF-fixdate of the last `update`; empty before the first.
    package var bytes: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { text.span }
    }

    /// Writes the IMF-fixdate of this second.
    package mutating func append(unixSeconds: Int, to buffer: inout ByteBuffer) {
        update(unixSeconds: unixSeconds)
        buffer.append(text)
    }

    @inline(never)
    private mutating func format(_ unixSeconds: Int) {
        second = unixSeconds
        text = HTTPDate.format(unixSeconds: unixSeconds)
    }
}

/// Times for logs, `2026-11-21T06:00:00.123Z` (RFC 3339, UTC): formatted once a second, except for the milliseconds.
package struct CachedTimestamp: Sendable {
    private var second = Int.min
    private var prefix: [UInt8] = []

    package init() {}

    /// Writes the 24 bytes of this time. Years from 0 to 9999.
    package mutating func append(unixMilliseconds: Int, to buffer: inout ByteBuffer) {
        var millisecond = unixMilliseconds % 1000
        if millisecond < 0 { millisecond += 1000 }
        let current = (unixMilliseconds - millisecond) / 1000
        if current != second { format(current) }
        buffer.append(prefix)
        buffer.append(UInt8(ascii: "0") + UInt8(millisecond / 100))
        buffer.append(UInt8(ascii: "0") + UInt8(millisecond / 10 % 10))
        buffer.append(UInt8(ascii: "0") + UInt8(millisecond % 10))
        buffer.append(UInt8(ascii: "Z"))
    }

    @inline(never)
    private mutating func format(_ unixSeconds: Int) {
        second = unixSeconds
        prefix = Timestamp.bytes(CivilTime(unixSeconds: unixSeconds))
        prefix.append(ASCII.dot)
    }
}
