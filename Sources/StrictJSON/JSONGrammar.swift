// SPDX-License-Identifier: Apache-2.0
/// The parts of JSON's grammar that are common to the readers of documents and of responses.
package enum JSONGrammar {
    /// Finds the end of a number: `[-] int [frac] [exp]` (RFC 8259, section 6).
    ///
    /// - Returns: the first index that does not belong to it, and whether it is complete: a digit is missing otherwise.
    package static func number(in bytes: [UInt8], from start: Int) -> (end: Int, isComplete: Bool) {
        var index = start
        func has(_ sign: Unicode.Scalar) -> Bool { index < bytes.count && bytes[index] == UInt8(ascii: sign) }
        func skipDigits() -> Bool {
            let first = index
            while index < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[index]) { index += 1 }
            return index > first
        }
        if has("-") { index += 1 }
        if has("0") { index += 1 } else if !skipDigits() { return (index, false) }
        if has(".") {
            index += 1
            guard skipDigits() else { return (index, false) }
        }
        if has("e") || has("E") {
            index += 1
            if has("+") || has("-") { index += 1 }
            guard skipDigits() else { return (index, false) }
        }
        return (index, true)
    }

    /// What follows a backslash in a string (RFC 8259, section 7).
    package enum Escape {
        case character(Unicode.Scalar)
        case unknown
        /// `\u` without four hexadecimal digits.
        case incomplete
        case halfOfPair
    }

    /// Reads an escape.
    ///
    /// - Parameter index: behind the backslash; afterwards the first index that does not belong to the escape.
    package static func escape(in bytes: [UInt8], at index: inout Int) -> Escape {
        guard index < bytes.count else { return .unknown }
        let character: Unicode.Scalar
        switch bytes[index] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): character = Unicode.Scalar(bytes[index])
        case UInt8(ascii: "b"): character = "\u{8}"
        case UInt8(ascii: "f"): character = "\u{c}"
        case UInt8(ascii: "n"): character = "\n"
        case UInt8(ascii: "r"): character = "\r"
        case UInt8(ascii: "t"): character = "\t"
        case UInt8(ascii: "u"):
            index += 1
            return unicodeEscape(in: bytes, at: &index)
        default: return .unknown
        }
        index += 1
        return .character(character)
    }

    private static func unicodeEscape(in bytes: [UInt8], at index: inout Int) -> Escape {
        guard var code = fourDigits(in: bytes, at: &index) else { return .incomplete }
        if code & 0xfc00 == 0xd800, bytes[index...].starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]) {
            index += 2
            guard let low = fourDigits(in: bytes, at: &index) else { return .incomplete }
            if low & 0xfc00 == 0xdc00 { code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)) }
        }
        return Unicode.Scalar(code).map { .character($0) } ?? .halfOfPair
    }

    private static func fourDigits(in bytes: [UInt8], at index: inout Int) -> UInt32? {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard index < bytes.count, let digit = Character(Unicode.Scalar(bytes[index])).hexDigitValue else {
                return nil
            }
            value = value << 4 | UInt32(digit)
            index += 1
        }
        return value
    }
}
