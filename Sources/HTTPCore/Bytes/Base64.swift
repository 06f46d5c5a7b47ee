// SPDX-License-Identifier: Apache-2.0
/// Strict base64 (RFC 4648, section 4): padding is required; white space, other alphabets and stray bits are errors.
package enum Base64 {
    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        encode(bytes.span, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    package static func encode(_ bytes: borrowing Span<UInt8>, to text: inout [UInt8]) {
        var index = 0
        while index &+ 3 <= bytes.count {
            let group = UInt32(bytes[index]) << 16 | UInt32(bytes[index &+ 1]) << 8 | UInt32(bytes[index &+ 2])
            text.append(digit(group >> 18))
            text.append(digit(group >> 12))
            text.append(digit(group >> 6))
            text.append(digit(group))
            index &+= 3
        }
        let rest = bytes.count - index
        guard rest > 0 else { return }
        let group = UInt32(bytes[index]) << 16 | (rest == 2 ? UInt32(bytes[index + 1]) << 8 : 0)
        text.append(digit(group >> 18))
        text.append(digit(group >> 12))
        text.append(rest == 2 ? digit(group >> 6) : UInt8(ascii: "="))
        text.append(UInt8(ascii: "="))
    }

    /// The digit for the lowest six bits.
    @inline(__always)
    private static func digit(_ bits: UInt32) -> UInt8 {
        let value = UInt8(truncatingIfNeeded: bits & 63)
        return switch value {
        case 0..<26: UInt8(ascii: "A") &+ value
        case 26..<52: UInt8(ascii: "a") &- 26 &+ value
        case 52..<62: value &- 52 &+ UInt8(ascii: "0")
        case 62: UInt8(ascii: "+")
        default: UInt8(ascii: "/")
        }
    }

    package static func decode(_ text: [UInt8]) -> [UInt8]? {
        guard text.count % 4 == 0, !text.isEmpty else { return nil }
        let padding = text.suffix(2).filter { $0 == UInt8(ascii: "=") }.count
        if padding == 2, text[text.count - 2] != UInt8(ascii: "=") { return nil }
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        var held: UInt32 = 0
        for byte in text.dropLast(padding) {
            guard let digit = value(byte) else { return nil }
            bits = bits << 6 | digit
            held += 6
            if held >= 8 {
                held -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> held))
                bits &= 1 << held - 1
            }
        }
        // Two spellings of one pin would defeat the search for duplicates.
        return bits == 0 ? bytes : nil
    }

    private static func value(_ byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
