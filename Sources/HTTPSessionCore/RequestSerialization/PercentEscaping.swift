// SPDX-License-Identifier: Apache-2.0
/// Percent-encoding for the names and values of a query string.
public enum PercentEscaping {
    /// Escapes every byte except `A-Z a-z 0-9 - . _ ~ / ?`, with upper-case digits.
    ///
    /// RFC 3986's general and sub-delimiters are escaped, except `/` and `?`, which section 3.4 permits in a query so
    /// that URLs can be parameters. Bytes are escaped one by one, so that no boundary can split a character, for
    /// example an emoji of several scalars.
    ///
    /// - Parameters:
    ///   - text: a name or a value, not escaped yet: a percent sign becomes `%25`.
    ///   - encoding: one that extends ASCII.
    /// - Returns: nil when the encoding cannot encode a character, or does not extend ASCII.
    public static func escape(_ text: String, encoding: TextEncoding = .utf8) -> String? {
        guard encoding.extendsASCII, let bytes = encoding.encode(text) else { return nil }
        return escape(bytes)
    }

    static func escape(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var escaped: [UInt8] = []
        escaped.reserveCapacity(bytes.count)
        for byte in bytes {
            if isUnescaped(byte) {
                escaped.append(byte)
            } else {
                escaped += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: escaped, as: UTF8.self)
    }

    private static func isUnescaped(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"), UInt8(ascii: "/"), UInt8(ascii: "?"):
            true
        default: false
        }
    }
}
