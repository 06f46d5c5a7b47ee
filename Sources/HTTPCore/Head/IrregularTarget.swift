// SPDX-License-Identifier: Apache-2.0
import IOCore

/// What programs write into a request target although no target has it, in the form that every reader understands
/// alike. What two readers could take differently is refused.
enum IrregularTarget {
    /// Removes a fragment, which is never sent (RFC 3986, section 3.5), and percent-encodes the bytes of UTF-8 above
    /// 0x7F (RFC 3987, section 3.1).
    static func makeRegular(_ target: borrowing Span<UInt8>) -> Result<[UInt8], RequestFault> {
        let end = target.firstIndex(of: ASCII.numberSign) ?? target.count
        // `*` and an authority have no fragment.
        let hasPath = target.extracting(0..<end).firstIndex(of: ASCII.slash) != nil
        guard hasPath || end == target.count else { return .failure(.targetFragment) }
        let whole = Array(copying: target.extracting(0..<end))
        guard whole.contains(where: { $0 >= 0x80 }) else { return .success(whole) }
        guard let escaped = URLReference.escaped(whole.span) else { return .failure(.targetInvalidByte) }
        return .success(escaped)
    }

    /// User information in an authority (RFC 3986, section 3.2.1).
    struct Userinfo {
        /// Its length in the authority, without `@`.
        let count: Int
        /// The value of Authorization (RFC 7617); nil without a name and a password.
        let authorization: [UInt8]?
    }

    /// The user information of `authority`; nil if there is none, or one that another reader could divide differently:
    /// a second `@`, a backslash, a control character or an encoded delimiter.
    static func userinfo(of authority: borrowing Span<UInt8>) -> Userinfo? {
        guard let end = authority.firstIndex(of: ASCII.at), authority.firstIndex(of: ASCII.at, from: end &+ 1) == nil
        else { return nil }
        var decoded: [UInt8] = []
        var hasPassword = false
        var index = 0
        while index < end {
            var byte = authority[index]
            index &+= 1
            if byte == ASCII.percent {
                guard index &+ 1 < end, let high = ASCII.hexadecimalValue(authority[index]),
                    let low = ASCII.hexadecimalValue(authority[index &+ 1])
                else { return nil }
                byte = high << 4 | low
                guard byte >= 0x20, byte != ASCII.delete, !isDelimiter(byte) else { return nil }
                index &+= 2
            } else if byte == ASCII.colon {
                hasPassword = true
            } else if !ASCII.isUnreserved(byte), !isSubDelimiter(byte) {
                return nil
            }
            decoded.append(byte)
        }
        guard end > 0 else { return Userinfo(count: 0, authorization: nil) }
        if !hasPassword { decoded.append(ASCII.colon) }
        return Userinfo(count: end, authorization: Array("Basic ".utf8) + Array(Base64.encode(decoded).utf8))
    }

    /// `gen-delims` of RFC 3986, section 2.2, and the backslash, which browsers take for a slash.
    private static func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case ASCII.colon, ASCII.slash, ASCII.questionMark, ASCII.numberSign, ASCII.openBracket, ASCII.closeBracket,
            ASCII.at, ASCII.backslash:
            true
        default: false
        }
    }

    /// `sub-delims` of RFC 3986, section 2.2.
    private static func isSubDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "&"), UInt8(ascii: "'"), UInt8(ascii: "("),
            UInt8(ascii: ")"), ASCII.asterisk, UInt8(ascii: "+"), ASCII.comma, ASCII.semicolon, ASCII.equals:
            true
        default: false
        }
    }
}
