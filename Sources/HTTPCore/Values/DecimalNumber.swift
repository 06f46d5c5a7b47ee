// SPDX-License-Identifier: Apache-2.0
/// Strict parsing of decimal digits: no sign, no white space, no list.
package enum DecimalNumber {
    /// - Returns: nil when it is empty, has another byte, or is larger than `Int.max`. Leading zeros are allowed.
    package static func parse(_ text: borrowing Span<UInt8>) -> Int? {
        guard text.count > 0 else { return nil }
        var value = 0
        var index = 0
        while index < text.count {
            guard ASCII.isDigit(text[index]) else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.addingReportingOverflow(Int(text[index] &- UInt8(ascii: "0")))
            if overflow || carry { return nil }
            value = sum
            index &+= 1
        }
        return value
    }
}
