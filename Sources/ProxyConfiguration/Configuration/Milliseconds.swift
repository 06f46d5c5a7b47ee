// SPDX-License-Identifier: Apache-2.0
/// A span of time in the configuration: whole milliseconds, at least one.
package struct Milliseconds: Hashable, Comparable, Sendable {
    package var count: Int

    package init(_ count: Int) {
        self.count = count
    }

    package var nanoseconds: Int { count * 1_000_000 }

    package static func < (left: Milliseconds, right: Milliseconds) -> Bool { left.count < right.count }

    /// The longest span in a configuration: ten days, which every timer supports.
    package static let longest = Milliseconds(240 * 3_600_000)

    /// Reads `"250ms"`, `"30s"`, `"5m"`, `"1h"`: a whole number without sign or leading zero, and a unit. Nil for
    /// anything else, for zero (`"0s"`) and for more than `longest`.
    package init?(parsing text: String) {
        guard let (number, unit) = Quantity.split(text) else { return nil }
        let scale: Int
        switch unit {
        case "ms": scale = 1
        case "s": scale = 1000
        case "m": scale = 60_000
        case "h": scale = 3_600_000
        default: return nil
        }
        guard let count = Quantity.scaled(number, by: scale), count <= Self.longest.count else { return nil }
        self.count = count
    }
}

extension Milliseconds: CustomStringConvertible {
    /// The span in the largest unit that divides it, as in a configuration.
    package var description: String {
        if count % 3_600_000 == 0 { return "\(count / 3_600_000)h" }
        if count % 60_000 == 0 { return "\(count / 60_000)m" }
        if count % 1000 == 0 { return "\(count / 1000)s" }
        return "\(count)ms"
    }
}

/// Sizes in the configuration: `"64KB"`, `"10MB"`, `"1GB"` in powers of 1,024.
package enum ByteCount {
    /// The number of bytes; nil for text that is not a whole number with a unit, for zero, and for numbers beyond an
    /// Int.
    package static func parse(_ text: String) -> Int? {
        guard let (number, unit) = Quantity.split(text) else { return nil }
        switch unit {
        case "KB": return Quantity.scaled(number, by: 1 << 10)
        case "MB": return Quantity.scaled(number, by: 1 << 20)
        case "GB": return Quantity.scaled(number, by: 1 << 30)
        default: return nil
        }
    }

    /// The size in the largest unit that divides it, as in a configuration.
    package static func describe(_ bytes: Int) -> String {
        if bytes > 0, bytes % (1 << 30) == 0 { return "\(bytes >> 30)GB" }
        if bytes > 0, bytes % (1 << 20) == 0 { return "\(bytes >> 20)MB" }
        if bytes > 0, bytes % (1 << 10) == 0 { return "\(bytes >> 10)KB" }
        return "\(bytes) bytes"
    }
}

/// A whole number with its unit.
private enum Quantity {
    static func split(_ text: String) -> (number: Int, unit: Substring)? {
        let digits = text.utf8.prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
        guard let first = digits.first, first != UInt8(ascii: "0"), let number = Int(Substring(digits)) else {
            return nil
        }
        return (number, text[digits.endIndex...])
    }

    static func scaled(_ number: Int, by scale: Int) -> Int? {
        let (product, overflow) = number.multipliedReportingOverflow(by: scale)
        return overflow ? nil : product
    }
}
