// SPDX-License-Identifier: Apache-2.0
package import IOCore

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
