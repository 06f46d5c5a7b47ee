// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// An IP address as a value, for the comparison of literals and for address rules.
///
/// An IPv4-mapped IPv6 address (`::ffff:0:0/96`, RFC 4291, section 2.5.5.2) is a spelling of an IPv4 address, and the
/// kernel connects to it as such: every initialiser converts it to the IPv4 address, so that no value of this type has
/// the mapped form. Other IPv6 addresses that lead to an IPv4 host (NAT64, 6to4, …) stay IPv6 addresses; only address
/// rules look at the embedded address (`embedsIPv4`).
package struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    /// The 128 bits in network order, most significant first; of IPv4 only the last 32 are used.
    package let high: UInt64
    package let low: UInt64
    package let isIPv4: Bool

    package init(ipv4: UInt32) {
        high = 0
        low = UInt64(ipv4)
        isIPv4 = true
    }

    package init(ipv6High: UInt64, low: UInt64) {
        isIPv4 = ipv6High == 0 && low >> 32 == 0xFFFF
        high = ipv6High
        self.low = isIPv4 ? low & 0xFFFF_FFFF : low
    }

    /// 4 or 16 bytes in network order; nil for any other count.
    package init?(networkOrder bytes: borrowing Span<UInt8>) {
        switch bytes.count {
        case 4:
            var value: UInt32 = 0
            for index in 0..<4 { value = value << 8 | UInt32(bytes[index]) }
            self.init(ipv4: value)
        case 16:
            var high: UInt64 = 0
            var low: UInt64 = 0
            for index in 0..<8 {
                high = high << 8 | UInt64(bytes[index])
                low = low << 8 | UInt64(bytes[index + 8])
            }
            self.init(ipv6High: high, low: low)
        default:
            return nil
        }
    }

    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(parsing: bytes.span)
    }

    /// Dotted-decimal IPv4 in full (four numbers, no leading zeros) or RFC 4291 IPv6 without brackets and zone.
    package init?(parsing text: borrowing Span<UInt8>) {
        if let value = Self.parseIPv4(text, 0..<text.count) {
            self.init(ipv4: value)
        } else {
            self.init(parsingIPv6: text)
        }
    }

    /// IPv6 text alone, as brackets hold it in a URI. The mapped form reads as its IPv4 address.
    package init?(parsingIPv6 text: borrowing Span<UInt8>) {
        guard let (high, low) = Self.parseIPv6(text) else { return nil }
        self.init(ipv6High: high, low: low)
    }

    package var isIPv6: Bool { !isIPv4 }

    /// The 32 bits of an IPv4 address.
    package var ipv4Value: UInt32? { isIPv4 ? UInt32(truncatingIfNeeded: low) : nil }

    /// 4 or 16 bytes in network order.
    package var networkOrder: [UInt8] {
        var bytes: [UInt8] = []
        if !isIPv4 {
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: high >> shift)) }
        }
        for shift in stride(from: isIPv4 ? 24 : 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: low >> shift))
        }
        return bytes
    }

    /// Whether the IPv6 address leads to an IPv4 host for which `predicate` is true, by one of the forms in which IPv6
    /// addresses embed IPv4 ones. An address may be read in several of them. It allocates nothing.
    ///
    /// - IPv4-compatible `::/96` without `::` and `::1` (RFC 4291, section 2.5.5.1)
    /// - IPv4-translated `::ffff:0:0:0/96` (SIIT, RFC 2765; RFC 6145 gave it up)
    /// - NAT64 `64:ff9b::/96` (RFC 6052), and the local-use `64:ff9b:1::/48` (RFC 8215), whose prefix has 48, 56, 64 or
    ///   96 bits; the address does not tell which, so each is tried
    /// - 6to4 `2002::/16` (RFC 3056)
    /// - Teredo `2001::/32`: the client's address with each bit inverted (RFC 4380, section 4)
    /// - ISATAP: the interface identifier `[02]00:5efe:a.b.c.d` under any prefix (RFC 5214, section 6.1)
    package func embedsIPv4(where predicate: (IPAddress) -> Bool) -> Bool {
        guard isIPv6 else { return false }
        func holds(_ bits: UInt64) -> Bool { predicate(IPAddress(ipv4: UInt32(truncatingIfNeeded: bits))) }
        if high == 0 {
            let group = low >> 32
            if group == 0, low > 1, holds(low) { return true }
            if group == 0xFFFF_0000, holds(low) { return true }
        }
        if high == 0x0064_FF9B_0000_0000, low >> 32 == 0, holds(low) { return true }
        if high >> 16 == 0x0064_FF9B_0001 {
            // RFC 6052, section 2.3: bits 64 to 71 are skipped, and the address follows the prefix. A wrong length
            // mostly yields an address in 0.0.0.0/8, to which no translator sends.
            func counts(_ bits: UInt64) -> Bool { bits >> 24 & 0xFF != 0 && holds(bits) }
            if counts(high << 16 | low >> 40 & 0xFFFF) || counts(high << 24 | low >> 32 & 0xFF_FFFF) { return true }
            if counts(low >> 24) || counts(low) { return true }
        }
        if high >> 48 == 0x2002, holds(high >> 16) { return true }
        if high >> 32 == 0x2001_0000, holds(~low) { return true }
        if low >> 32 | 0x0200_0000 == 0x0200_5EFE, holds(low) { return true }
        return false
    }

    /// Whether the first `length` bits are those of `other`; false for different families.
    package func hasPrefix(of other: IPAddress, length: Int) -> Bool {
        guard isIPv4 == other.isIPv4, length >= 0 else { return false }
        if isIPv4 {
            guard length <= 32 else { return false }
            return length == 0 || (low ^ other.low) >> UInt64(32 - length) == 0
        }
        guard length <= 128 else { return false }
        if length == 0 { return true }
        if length <= 64 { return (high ^ other.high) >> UInt64(64 - length) == 0 }
        return high == other.high && (low ^ other.low) >> UInt64(128 - length) == 0
    }

    /// Canonical text: dotted decimal, or RFC 5952 (lower case, longest run of zeros as `::`).
    package var description: String {
        var bytes: [UInt8] = []
        appendText(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }
}

// MARK: - Text

extension IPAddress {
    /// Strict dotted decimal: four numbers up to 255 without leading zeros.
    static func parseIPv4(_ text: borrowing Span<UInt8>, _ range: Range<Int>) -> UInt32? {
        guard range.count >= 7, range.count <= 15 else { return nil }
        var value: UInt32 = 0
        var parts = 0
        var number: UInt32 = 0
        var digits = 0
        for index in range {
            let byte = text[index]
            if ASCII.isDigit(byte) {
                if digits > 0, number == 0 { return nil }
                number = number &* 10 &+ UInt32(byte &- UInt8(ascii: "0"))
                digits += 1
                if number > 255 { return nil }
            } else if byte == ASCII.dot {
                guard digits > 0, parts < 3 else { return nil }
                value = value << 8 | number
                parts += 1
                number = 0
                digits = 0
            } else {
                return nil
            }
        }
        guard digits > 0, parts == 3 else { return nil }
        return value << 8 | number
    }

    private static func parseIPv6(_ text: borrowing Span<UInt8>) -> (high: UInt64, low: UInt64)? {
        guard text.count >= 2, text.count <= 45 else { return nil }
        // Two runs of groups, before and after `::`, each shifted in from the right.
        var before: (high: UInt64, low: UInt64) = (0, 0)
        var groups: (high: UInt64, low: UInt64) = (0, 0)
        var count = 0
        var countBefore: Int?
        var index = 0
        if text[0] == ASCII.colon {
            guard text[1] == ASCII.colon else { return nil }
            countBefore = 0
            index = 2
        }
        func shift(_ group: UInt64, by bits: UInt64, into value: inout (high: UInt64, low: UInt64)) {
            value = (value.high << bits | value.low >> (64 - bits), value.low << bits | group)
        }
        while index < text.count {
            let start = index
            var group: UInt64 = 0
            while index < text.count, let digit = ASCII.hexadecimalValue(text[index]) {
                group = group << 4 | UInt64(digit)
                index += 1
                if index - start > 4 { return nil }
            }
            if index < text.count, text[index] == ASCII.dot {
                guard count <= 6, let last = parseIPv4(text, start..<text.count) else { return nil }
                shift(UInt64(last), by: 32, into: &groups)
                count += 2
                index = text.count
                break
            }
            guard index > start, count < 8 else { return nil }
            shift(group, by: 16, into: &groups)
            count += 1
            if index == text.count { break }
            guard text[index] == ASCII.colon else { return nil }
            index += 1
            if index < text.count, text[index] == ASCII.colon {
                guard countBefore == nil else { return nil }
                countBefore = count
                before = groups
                groups = (0, 0)
                index += 1
            } else if index == text.count {
                return nil
            }
        }
        guard let countBefore else { return count == 8 ? groups : nil }
        guard count < 8 else { return nil }
        // The groups before `::` go to the front.
        var moved = before
        for _ in countBefore..<8 { shift(0, by: 16, into: &moved) }
        return (moved.high | groups.high, moved.low | groups.low)
    }

    private func group(_ index: Int) -> UInt64 {
        let word = index < 4 ? high : low
        return word >> UInt64(48 - 16 * (index & 3)) & 0xFFFF
    }

    func appendText(to bytes: inout [UInt8]) {
        if isIPv4 {
            Self.appendDotted(low, to: &bytes)
            return
        }
        let last = 8
        // The longest run of at least two zero groups, the first of equals.
        var runStart = 0
        var runLength = 0
        var index = 0
        while index < last {
            var end = index
            while end < last, group(end) == 0 { end += 1 }
            if end - index > max(runLength, 1) { (runStart, runLength) = (index, end - index) }
            index = max(end, index + 1)
        }
        index = 0
        while index < last {
            if runLength > 0, index == runStart {
                bytes.append(ASCII.colon)
                bytes.append(ASCII.colon)
                index += runLength
                continue
            }
            if index > 0, index != runStart + runLength || runLength == 0 { bytes.append(ASCII.colon) }
            bytes.append(contentsOf: String(group(index), radix: 16).utf8)
            index += 1
        }
    }

    private static func appendDotted(_ value: UInt64, to bytes: inout [UInt8]) {
        for shift in stride(from: UInt64(24), through: 0, by: -8) {
            let part = UInt8(truncatingIfNeeded: value >> shift)
            if part >= 100 { bytes.append(UInt8(ascii: "0") + part / 100) }
            if part >= 10 { bytes.append(UInt8(ascii: "0") + part / 10 % 10) }
            bytes.append(UInt8(ascii: "0") + part % 10)
            if shift > 0 { bytes.append(ASCII.dot) }
        }
    }
}

extension SocketAddress {
    package init(_ address: IPAddress, port: UInt16) {
        if let ipv4 = address.ipv4Value {
            self.init(ipv4: ipv4, port: port)
        } else {
            self.init(ipv6Upper: address.high, lower: address.low, port: port)
        }
    }
}
