// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The reason why a text is not a host.
public enum HostFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The text is empty.
    case empty
    /// A byte that is not allowed in host names.
    case invalidCharacter(UInt8)
    /// Two consecutive dots, or a leading dot.
    case emptyLabel
    /// A label of more than 63 bytes.
    case labelTooLong
    /// More than 253 bytes.
    case tooLong
    /// A number that some programs read as an IPv4 address (`2130706433`, `127.1`, `0x7f.1`, `0177.0.0.1`).
    case ambiguousNumber
    /// Brackets without an IPv6 address in them.
    case invalidIPv6

    public var description: String {
        switch self {
        case .empty: "the host is empty"
        case .invalidCharacter(let byte):
            byte > 0x20 && byte < 0x7F
                ? "the host holds the character '\(Character(UnicodeScalar(byte)))', which no host name has"
                : "the host holds the byte 0x\(String(byte, radix: 16)); write an international name as an A-label (xn--…)"
        case .emptyLabel: "the host has an empty label (two dots together, or one in front)"
        case .labelTooLong: "a label of the host has more than 63 characters"
        case .tooLong: "the host has more than 253 characters"
        case .ambiguousNumber: "the host is a number in a legacy form; write an IPv4 address as four decimal numbers"
        case .invalidIPv6: "the brackets of the host do not hold an IPv6 address"
        }
    }
}

/// A host in normal form: lower case, A-labels, without a trailing dot; IP literals by value, an IPv4-mapped IPv6
/// literal as the IPv4 address that it maps.
///
/// All comparisons of hosts (pins, access rules, pools) use this type, so that no spelling of a name evades a rule.
/// Names are ASCII: letters, digits, hyphen and underscore; international names are converted to A-labels before.
public struct Host: Hashable, Sendable, CustomStringConvertible {
    /// The kinds of hosts.
    public enum Kind: UInt8, Hashable, Sendable {
        case name, ipv4, ipv6
    }

    public let kind: Kind

    /// The normal form: a name in lower case, dotted decimal, or RFC 5952 text without brackets (never IPv4-mapped).
    package let bytes: [UInt8]

    /// Parses a host of an authority: a name, an IPv4 address, or an IPv6 address in brackets.
    package init(normalizing text: borrowing Span<UInt8>) throws(HostFault) {
        var bytes: [UInt8] = []
        bytes.append(text)
        let normal = try Self.normalize(0..<bytes.count, of: &bytes)
        kind = normal.kind
        self.bytes = Array(bytes[normal.range])
    }

    /// Parses a name, an IPv4 address, or an IPv6 address with or without brackets.
    ///
    /// - Throws: `HostFault` when the text is not a host; it is never repaired.
    public init(_ text: String) throws(HostFault) {
        let utf8 = Array(text.utf8)
        if utf8.contains(ASCII.colon), utf8.first != ASCII.openBracket {
            guard let address = IPAddress(parsing: utf8.span) else { throw .invalidIPv6 }
            self.init(address)
        } else {
            try self.init(normalizing: utf8.span)
        }
    }

    package init(_ address: IPAddress) {
        kind = address.isIPv4 ? .ipv4 : .ipv6
        var bytes: [UInt8] = []
        address.appendText(to: &bytes)
        self.bytes = bytes
    }

    /// Makes a host from a result of `normalize`.
    init(normalForm bytes: [UInt8], kind: Kind) {
        self.bytes = bytes
        self.kind = kind
    }

    /// The address of an IP literal; nil for a name.
    package var address: IPAddress? {
        kind == .name ? nil : IPAddress(parsing: bytes.span)
    }

    /// The normal form as text; IPv6 without brackets.
    public var description: String { String(decoding: bytes, as: UTF8.self) }

    /// The form for an authority: IPv6 in brackets.
    public var authorityText: String { kind == .ipv6 ? "[\(description)]" : description }

    /// Appends the form for an authority, without a text in between.
    package func appendAuthority(to text: inout [UInt8]) {
        if kind == .ipv6 { text.append(ASCII.openBracket) }
        text += bytes
        if kind == .ipv6 { text.append(ASCII.closeBracket) }
    }

    /// The host and a port as in an authority: `example.com:443`, `[::1]:443`.
    package func authorityText(port: UInt16) -> String { "\(authorityText):\(port)" }
}

// MARK: - Normal form

extension Host {
    /// Finds the normal form of the text at `range` of `storage`: the text itself, or a copy behind the end of `storage`,
    /// if it has to be changed. `storage` may have grown even when it throws.
    ///
    /// Text and normal form share one array because a request head keeps both in its own memory.
    ///
    /// - Returns: the kind, and the place of the normal form.
    static func normalize(
        _ range: Range<Int>,
        of storage: inout [UInt8]
    ) throws(HostFault) -> (kind: Kind, range: Range<Int>) {
        let start = range.lowerBound
        var end = range.upperBound
        guard end > start else { throw .empty }
        if storage[start] == ASCII.openBracket {
            guard end - start >= 2, storage[end - 1] == ASCII.closeBracket,
                let address = IPAddress(parsingIPv6: storage.span.extracting(start + 1..<end - 1))
            else { throw .invalidIPv6 }
            let normal = storage.count
            address.appendText(to: &storage)
            return (address.isIPv4 ? .ipv4 : .ipv6, normal..<storage.count)
        }
        if storage[end - 1] == ASCII.dot {
            end -= 1
            guard end > start else { throw .emptyLabel }
        }
        guard end - start <= 253 else { throw .tooLong }
        let (lastLabel, hasCapitals) = try labels(storage.span.extracting(start..<end))

        // If the last label is a number, `inet_aton` and browsers interpret the whole as an address.
        var kind = Kind.name
        if isNumber(storage.span, start &+ lastLabel..<end) {
            guard IPAddress.parseIPv4(storage.span, start..<end) != nil else { throw .ambiguousNumber }
            kind = .ipv4
        }
        guard hasCapitals else { return (kind, start..<end) }
        let normal = storage.count
        storage.reserveCapacity(normal &+ end &- start)
        for index in start..<end { storage.append(ASCII.lowercased(storage[index])) }
        return (kind, normal..<storage.count)
    }

    /// Checks the labels of a name.
    ///
    /// - Returns: the beginning of the last one, and whether there are capital letters.
    private static func labels(_ text: borrowing Span<UInt8>) throws(HostFault) -> (last: Int, hasCapitals: Bool) {
        var start = 0
        var seen: UInt8 = 0xFF
        for index in text.indices {
            let byte = text[index]
            if (byte | 0x20) &- UInt8(ascii: "a") < 26 {
                // Bit 5 is that of small letters.
                seen &= byte
            } else if byte == ASCII.dot {
                if index == start { throw .emptyLabel }
                if index &- start > 63 { throw .labelTooLong }
                start = index &+ 1
            } else if !(ASCII.isDigit(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")) {
                throw .invalidCharacter(byte)
            }
        }
        if text.count == start { throw .emptyLabel }
        if text.count &- start > 63 { throw .labelTooLong }
        return (start, seen & 0x20 == 0)
    }

    /// Decimal digits, or `0x` and hexadecimal digits (none are needed).
    private static func isNumber(_ text: borrowing Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard ASCII.isDigit(text[range.lowerBound]) else { return false }
        var index = range.lowerBound
        var digitsOnly = true
        if range.count >= 2, text[index] == UInt8(ascii: "0"), text[index + 1] | 0x20 == UInt8(ascii: "x") {
            index += 2
            digitsOnly = false
        }
        while index < range.upperBound {
            guard let value = ASCII.hexadecimalValue(text[index]), value < 10 || !digitsOnly else { return false }
            index += 1
        }
        return true
    }
}
