// SPDX-License-Identifier: Apache-2.0
/// A set of final status codes: single ones, `200-299`, `4xx`.
public struct StatusCodes: Hashable, Sendable, CustomStringConvertible, ExpressibleByArrayLiteral {
    /// The ranges in their original order.
    public private(set) var ranges: [ClosedRange<Int>] = []

    public init(_ ranges: [ClosedRange<Int>] = []) { self.ranges = ranges }

    /// Single codes.
    public init(arrayLiteral codes: Int...) { ranges = codes.map { $0...$0 } }

    /// Adds `200`, `200-299` or `2xx`.
    ///
    /// - Returns: false for a text of another form, or without a final status.
    public mutating func insert(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        func number(_ digits: ArraySlice<UInt8>) -> Int? {
            guard digits.count == 3, digits.allSatisfy(ASCII.isDigit) else { return nil }
            return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        }
        let range: ClosedRange<Int>
        if bytes.count == 3, bytes[1...] == Array("xx".utf8)[...], let hundreds = number(bytes[..<1] + [48, 48]) {
            range = hundreds...(hundreds + 99)
        } else if bytes.count == 7, bytes[3] == UInt8(ascii: "-"), let lower = number(bytes[..<3]),
            let upper = number(bytes[4...]), lower <= upper
        {
            range = lower...upper
        } else if let code = number(bytes[...]) {
            range = code...code
        } else {
            return false
        }
        guard range.lowerBound >= 200, range.upperBound <= 599 else { return false }
        ranges.append(range)
        return true
    }

    public func contains(_ status: Int) -> Bool {
        for range in ranges where range.contains(status) { return true }
        return false
    }

    /// `200, 400-499`.
    public var description: String {
        ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
            .joined(separator: ", ")
    }
}
