// SPDX-License-Identifier: Apache-2.0
/// `bytes first-last/total` (RFC 9110, section 14.4).
package struct ContentRange: Equatable {
    package let first: Int
    /// Less than `Int.max`, so that the length of the part and of the complete representation do not overflow.
    package let last: Int
    /// The length of the complete representation; nil for `*`.
    package let total: Int?

    /// - Returns: nil for another unit, an unsatisfied range (`bytes */123`), and contradictory numbers.
    package init?(_ text: borrowing Span<UInt8>) {
        let unit = Array("bytes ".utf8)
        guard text.count > unit.count, text.extracting(0..<unit.count).equalsIgnoringCase(unit.span) else { return nil }
        guard let dash = text.firstIndex(of: UInt8(ascii: "-"), from: unit.count),
            let slash = text.firstIndex(of: UInt8(ascii: "/"), from: dash),
            let first = DecimalNumber.parse(text.extracting(unit.count..<dash)),
            let last = DecimalNumber.parse(text.extracting(dash + 1..<slash)),
            first <= last, last < Int.max
        else { return nil }
        let rest = text.extracting(slash + 1..<text.count)
        if rest.equals("*") {
            total = nil
        } else {
            guard let size = DecimalNumber.parse(rest), last < size else { return nil }
            total = size
        }
        self.first = first
        self.last = last
    }
}
