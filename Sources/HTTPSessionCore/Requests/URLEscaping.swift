// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// What a URL cannot have in its path, query and fragment (RFC 3986, appendix A) is percent-encoded, as Foundation's `URL(string:)`
/// and browsers do it: spaces, characters beyond ASCII, `"`, `<`, `>`, `[`, `]`, `^`, a grave accent, `{`, `|`, `}`, and a percent
/// sign that begins no escape. Escapes stay, also beside such characters: Foundation encodes their percent signs once more then.
///
/// Control characters and backslashes stay too, so that they are refused, and so does all of the authority: hosts have a form of
/// their own.
enum URLEscaping {
    private static let percent = UInt8(ascii: "%")
    private static let mark = UInt8(ascii: "#")
    /// A bit for each byte below 128 that cannot be there, `%` and `#` among them.
    private static let excluded: (UInt64, UInt64) = {
        var bits: (UInt64, UInt64) = (0, 0)
        for byte in " \"<>[]^`{|}%#".utf8 {
            if byte < 64 { bits.0 |= 1 << byte } else { bits.1 |= 1 << (byte - 64) }
        }
        return bits
    }()

    static func escape(_ text: String) -> String {
        let excluded = excluded
        // The bytes of a string one by one cost fifty instructions each.
        let needsNone = text.utf8.withContiguousStorageIfAvailable { bytes in
            bytes.allSatisfy { !isAmong(excluded, $0) }
        }
        if needsNone ?? false { return text }
        let bytes = Array(text.utf8)
        var index = end(ofAuthority: bytes)
        var escaped = Array(bytes[..<index])
        escaped.reserveCapacity(bytes.count + 16)
        var isInFragment = false
        while index < bytes.count {
            let byte = bytes[index]
            let needsEscape =
                switch byte {
                case percent: !isEscape(bytes, index)
                // The first one begins the fragment.
                case mark: isInFragment
                default: isAmong(excluded, byte)
                }
            if byte == mark { isInFragment = true }
            escaped += needsEscape ? [percent, digit(byte >> 4), digit(byte & 15)] : [byte]
            index += 1
        }
        return String(decoding: escaped, as: UTF8.self)
    }

    @inline(__always)
    private static func isAmong(_ excluded: (UInt64, UInt64), _ byte: UInt8) -> Bool {
        if byte < 64 { return excluded.0 >> byte & 1 != 0 }
        return byte >= 0x80 || excluded.1 >> (byte - 64) & 1 != 0
    }

    private static func isEscape(_ bytes: [UInt8], _ index: Int) -> Bool {
        index + 2 < bytes.count && ASCII.hexadecimalValue(bytes[index + 1]) != nil
            && ASCII.hexadecimalValue(bytes[index + 2]) != nil
    }

    /// Where path, query or fragment begin.
    private static func end(ofAuthority bytes: [UInt8]) -> Int {
        let ends = Array("/?#".utf8)
        var start = 0
        // A scheme ends with the first colon before any of `/?#`.
        let colon = UInt8(ascii: ":")
        if let found = bytes.firstIndex(where: { $0 == colon || ends.contains($0) }), bytes[found] == colon {
            start = found + 1
        }
        guard bytes[start...].starts(with: Array("//".utf8)) else { return start }
        return bytes[(start + 2)...].firstIndex(where: ends.contains) ?? bytes.count
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
    }
}
