// SPDX-License-Identifier: Apache-2.0
import HTTPCore
package import IOCore

extension ByteBuffer {
    /// Appends the inside of a JSON string (RFC 8259, section 7): quotes, backslashes and control characters are
    /// escaped, and bytes that are not ASCII stay as they are.
    mutating func append(jsonEscaping text: borrowing Span<UInt8>) {
        var start = 0
        var next = 0
        while let index = text.firstIndexForJSON(from: next) {
            let byte = text[index]
            next = index + 1
            append(text.extracting(start..<index))
            start = index + 1
            switch byte {
            case UInt8(ascii: "\""): append("\\\"")
            case UInt8(ascii: "\\"): append("\\\\")
            case UInt8(ascii: "\n"): append("\\n")
            default:
                append("\\u00")
                append(byte >> 4 < 10 ? byte >> 4 + 48 : byte >> 4 + 87)
                append(byte & 15 < 10 ? byte & 15 + 48 : byte & 15 + 87)
            }
        }
        append(text.extracting(start..<text.count))
    }

    /// Appends a whole JSON string, for texts off the request path.
    package mutating func append(jsonString text: String) {
        append(UInt8(ascii: "\""))
        append(jsonEscaping: Array(text.utf8).span)
        append(UInt8(ascii: "\""))
    }

    /// Appends microseconds as milliseconds with up to three decimals: `12.4`.
    mutating func append(milliseconds microseconds: Int64) {
        guard microseconds > 0 else { return append(decimal: Int(microseconds / 1000)) }
        let whole = UInt64(microseconds) / 1000
        let rest = UInt32(truncatingIfNeeded: UInt64(microseconds) &- whole &* 1000)
        let hundreds = rest / 100
        let tens = rest / 10 &- hundreds &* 10
        let ones = rest &- rest / 10 &* 10
        // A dot and three digits at once, as many of them as count. Most times are below ten: one more digit before these.
        let fraction = UInt64(0x3030_302E &+ hundreds &<< 8 &+ tens &<< 16 &+ ones &<< 24)
        let count = ones > 0 ? 4 : tens > 0 ? 3 : hundreds > 0 ? 2 : 0
        if whole < 10 { return append(bytesOf: 0x30 &+ whole &+ fraction &<< 8, count: count &+ 1) }
        append(decimal: Int(whole))
        append(bytesOf: fraction, count: count)
    }
}
