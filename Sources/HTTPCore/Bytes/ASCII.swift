// SPDX-License-Identifier: Apache-2.0
/// The character classes of RFC 9110 section 5.6 and RFC 3986, as predicates of a byte.
@usableFromInline
package enum ASCII {
    @usableFromInline static let space = UInt8(ascii: " ")
    @usableFromInline static let tab = UInt8(ascii: "\t")
    @usableFromInline static let carriageReturn = UInt8(ascii: "\r")
    @usableFromInline static let lineFeed = UInt8(ascii: "\n")
    @usableFromInline static let colon = UInt8(ascii: ":")
    @usableFromInline static let comma = UInt8(ascii: ",")
    @usableFromInline static let dot = UInt8(ascii: ".")
    @usableFromInline static let slash = UInt8(ascii: "/")
    @usableFromInline static let quote = UInt8(ascii: "\"")
    @usableFromInline static let backslash = UInt8(ascii: "\\")
    @usableFromInline static let semicolon = UInt8(ascii: ";")
    @usableFromInline static let equals = UInt8(ascii: "=")
    @usableFromInline static let questionMark = UInt8(ascii: "?")
    @usableFromInline static let numberSign = UInt8(ascii: "#")
    @usableFromInline static let percent = UInt8(ascii: "%")
    @usableFromInline static let at = UInt8(ascii: "@")
    @usableFromInline static let asterisk = UInt8(ascii: "*")
    @usableFromInline static let openBracket = UInt8(ascii: "[")
    @usableFromInline static let closeBracket = UInt8(ascii: "]")
    @usableFromInline static let delete: UInt8 = 0x7F

    /// `tchar` of RFC 9110 5.6.2, one bit for each character: two words in registers are faster than a table in memory.
    @usableFromInline static let lowTokens: UInt64 = 0x03FF_6CFA_0000_0000
    @usableFromInline static let highTokens: UInt64 = 0x57FF_FFFF_C7FF_FFFE

    @inlinable
    @inline(__always)
    package static func isToken(_ byte: UInt8) -> Bool {
        let word = byte < 64 ? lowTokens : highTokens
        return byte < 128 && (word &>> UInt64(byte & 63)) & 1 == 1
    }

    @inlinable
    @inline(__always)
    package static func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }

    @inlinable
    @inline(__always)
    package static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- UInt8(ascii: "a") < 26 }

    /// `unreserved` of RFC 3986 section 2.3.
    package static func isUnreserved(_ byte: UInt8) -> Bool {
        isLetter(byte) || isDigit(byte) || byte == UInt8(ascii: "-") || byte == dot || byte == UInt8(ascii: "_")
            || byte == UInt8(ascii: "~")
    }

    /// The value of a hexadecimal digit, nil for any other byte.
    @inlinable
    @inline(__always)
    package static func hexadecimalValue(_ byte: UInt8) -> UInt8? {
        if isDigit(byte) { return byte &- UInt8(ascii: "0") }
        let letter = (byte | 0x20) &- UInt8(ascii: "a")
        return letter < 6 ? letter &+ 10 : nil
    }

    /// The digit for a value below 16, in upper case.
    package static func hexDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "A") &+ value &- 10
    }

    @inlinable
    @inline(__always)
    package static func lowercased(_ byte: UInt8) -> UInt8 {
        byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
    }

    /// The bytes of field values: HTAB, SP, VCHAR and obs-text (RFC 9110 5.5).
    @inlinable
    @inline(__always)
    static func isFieldValue(_ byte: UInt8) -> Bool {
        (byte >= 0x20 && byte != delete) || byte == tab
    }

    /// `OWS`: the white space around field values and list members.
    @inlinable
    @inline(__always)
    package static func isBlank(_ byte: UInt8) -> Bool { byte == space || byte == tab }
}
