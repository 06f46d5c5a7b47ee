// SPDX-License-Identifier: Apache-2.0
/// The charsets of text in requests and responses.
///
/// Conversion is strict in both directions: it fails instead of replacing characters by question marks.
public enum TextEncoding: Sendable, Hashable, CaseIterable {
    /// UTF-8 (RFC 3629).
    case utf8
    /// US-ASCII: seven bits.
    case ascii
    /// ISO-8859-1: each byte is the scalar of that number.
    case isoLatin1
    /// windows-1252, by the WHATWG's Encoding Standard.
    case windows1252
    /// UTF-16; written with a byte order mark, and read by its mark, or as big-endian without one (RFC 2781).
    case utf16
    /// UTF-16, the high byte first.
    case utf16BigEndian
    /// UTF-16, the low byte first.
    case utf16LittleEndian

    /// - Parameter charset: a name of the IANA registry or a common alias, in any case; the result is nil for others.
    public init?(charset: String) {
        switch charset.lowercased() {
        case "utf-8", "utf8", "unicode-1-1-utf-8": self = .utf8
        case "us-ascii", "ascii", "iso646-us", "ansi_x3.4-1968": self = .ascii
        case "iso-8859-1", "iso_8859-1", "iso8859-1", "latin1", "l1": self = .isoLatin1
        case "windows-1252", "cp1252", "x-cp1252": self = .windows1252
        case "utf-16", "utf16": self = .utf16
        case "utf-16be": self = .utf16BigEndian
        case "utf-16le": self = .utf16LittleEndian
        default: return nil
        }
    }

    /// The name for a `charset` parameter.
    public var charset: String {
        switch self {
        case .utf8: "utf-8"
        case .ascii: "us-ascii"
        case .isoLatin1: "iso-8859-1"
        case .windows1252: "windows-1252"
        case .utf16: "utf-16"
        case .utf16BigEndian: "utf-16be"
        case .utf16LittleEndian: "utf-16le"
        }
    }

    /// Whether ASCII text has the same bytes as in ASCII.
    package var extendsASCII: Bool {
        switch self {
        case .utf8, .ascii, .isoLatin1, .windows1252: true
        case .utf16, .utf16BigEndian, .utf16LittleEndian: false
        }
    }

    /// - Returns: nil when the charset cannot encode a character.
    public func encode(_ text: String) -> [UInt8]? {
        switch self {
        case .utf8: return Array(text.utf8)
        case .ascii: return text.utf8.allSatisfy { $0 < 0x80 } ? Array(text.utf8) : nil
        case .isoLatin1: return Self.mapped(text) { $0.value < 0x100 ? UInt8($0.value) : nil }
        case .windows1252: return Self.mapped(text, Windows1252.byte)
        case .utf16: return [0xFE, 0xFF] + Self.bigEndian(text)
        case .utf16BigEndian: return Self.bigEndian(text)
        case .utf16LittleEndian:
            return text.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
        }
    }

    /// Decodes bytes, without a byte order mark.
    ///
    /// - Returns: nil when the bytes are not valid in this charset.
    public func decode(_ bytes: [UInt8]) -> String? {
        switch self {
        case .utf8:
            let content = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
            return String(validating: content, as: UTF8.self)
        case .ascii:
            return bytes.allSatisfy { $0 < 0x80 } ? String(decoding: bytes, as: UTF8.self) : nil
        case .isoLatin1:
            var text = String.UnicodeScalarView()
            text.append(contentsOf: bytes.lazy.map { Unicode.Scalar($0) })
            return String(text)
        case .windows1252:
            var text = String.UnicodeScalarView()
            for byte in bytes {
                guard let scalar = Windows1252.scalar(byte) else { return nil }
                text.append(scalar)
            }
            return String(text)
        case .utf16:
            if bytes.starts(with: [0xFF, 0xFE]) { return Self.fromUTF16(bytes[2...], isLittleEndian: true) }
            let content = bytes.starts(with: [0xFE, 0xFF]) ? bytes[2...] : bytes[...]
            return Self.fromUTF16(content, isLittleEndian: false)
        case .utf16BigEndian: return Self.fromUTF16(bytes[...], isLittleEndian: false)
        case .utf16LittleEndian: return Self.fromUTF16(bytes[...], isLittleEndian: true)
        }
    }

    private static func mapped(_ text: String, _ byte: (Unicode.Scalar) -> UInt8?) -> [UInt8]? {
        var bytes: [UInt8] = []
        for scalar in text.unicodeScalars {
            guard let byte = byte(scalar) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    private static func bigEndian(_ text: String) -> [UInt8] {
        text.utf16.flatMap { [UInt8(truncatingIfNeeded: $0 >> 8), UInt8(truncatingIfNeeded: $0)] }
    }

    private static func fromUTF16(_ bytes: ArraySlice<UInt8>, isLittleEndian: Bool) -> String? {
        guard bytes.count.isMultiple(of: 2) else { return nil }
        let units = stride(from: bytes.startIndex, to: bytes.endIndex, by: 2).map { index in
            let (high, low) = isLittleEndian ? (bytes[index + 1], bytes[index]) : (bytes[index], bytes[index + 1])
            return UInt16(high) << 8 | UInt16(low)
        }
        return String(validating: units, as: UTF16.self)
    }
}

/// The charset windows-1252: ISO-8859-1 except for 0x80 to 0x9F, five of which are undefined.
private enum Windows1252 {
    private static let upper: [UInt16] = [
        0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017D, 0,
        0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E,
        0x0178,
    ]

    static func scalar(_ byte: UInt8) -> Unicode.Scalar? {
        guard (0x80...0x9F).contains(byte) else { return Unicode.Scalar(byte) }
        let value = upper[Int(byte) - 0x80]
        return value == 0 ? nil : Unicode.Scalar(value)
    }

    static func byte(_ scalar: Unicode.Scalar) -> UInt8? {
        if scalar.value < 0x80 || (0xA0...0xFF).contains(scalar.value) { return UInt8(scalar.value) }
        guard scalar.value > 0xFF else { return nil }
        return upper.firstIndex { UInt32($0) == scalar.value }.map { UInt8($0 + 0x80) }
    }
}
