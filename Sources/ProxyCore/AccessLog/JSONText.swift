import HTTPCore
import IOCore

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
    mutating func append(jsonString text: String) {
        append(UInt8(ascii: "\""))
        append(jsonEscaping: Array(text.utf8).span)
        append(UInt8(ascii: "\""))
    }

    /// Appends microseconds as milliseconds with up to three decimals: `12.4`.
    mutating func append(milliseconds microseconds: Int64) {
        let whole = microseconds / 1000
        let rest = UInt32(truncatingIfNeeded: microseconds &- whole &* 1000)
        append(decimal: Int(whole))
        guard microseconds > 0, rest > 0 else { return }
        let hundreds = rest / 100
        let tens = rest / 10 &- hundreds &* 10
        let ones = rest &- rest / 10 &* 10
        // A dot and three digits at once, then as many of them as count.
        let text = 0x3030_302E &+ hundreds &<< 8 &+ tens &<< 16 &+ ones &<< 24
        append(bytesOf: text, count: ones > 0 ? 4 : tens > 0 ? 3 : 2)
    }
}
