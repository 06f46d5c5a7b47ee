import HTTPCore
import IOCore

/// Which answers are handed on: `responses` of the defaults or of a host. The first rule that matches decides; where
/// none does, what is acceptable.
package struct ResponseRules: Sendable {
    package var rules: [ResponseRule] = []
    /// nil: any.
    package var acceptableStatusCodes: StatusCodes?
    /// nil: any, and none.
    package var acceptableContentTypes: [MediaTypePattern]?
    /// The longest body that is handed on.
    package var maxBytes: Int?

    package init() {}

    var isTrivial: Bool {
        rules.isEmpty && acceptableStatusCodes == nil && acceptableContentTypes == nil && maxBytes == nil
    }
}

/// One of `responses.rules`. What it does not say matches everything.
package struct ResponseRule: Sendable {
    package enum Action: Sendable {
        case allow
        /// The client gets an error instead.
        case cancel
        /// The body goes to a file in that folder, and the client is told where.
        case becomeDownload(directory: String)
    }

    package var statuses: StatusCodes?
    package var contentTypes: [MediaTypePattern]?
    /// Of a body whose length is known.
    package var minBytes: Int?
    package var maxBytes: Int?
    package var action: Action

    package init(_ action: Action) { self.action = action }
}

/// A set of status codes: single ones, `200-299`, `4xx`.
package struct StatusCodes: Hashable, Sendable, CustomStringConvertible {
    package private(set) var ranges: [ClosedRange<Int>] = []

    package init(_ ranges: [ClosedRange<Int>] = []) { self.ranges = ranges }

    /// Takes in `200`, `200-299` or `2xx`.
    ///
    /// - Returns: false for a text that is none of these, or names no final status.
    package mutating func insert(_ text: String) -> Bool {
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

    package func contains(_ status: Int) -> Bool {
        for range in ranges where range.contains(status) { return true }
        return false
    }

    package var description: String {
        ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
            .joined(separator: ", ")
    }
}

/// A media type, or several: `text/html`, `image/*`, `*/*`. Parameters and case do not count.
package struct MediaTypePattern: Hashable, Sendable, CustomStringConvertible {
    package let description: String
    /// Empty for `*`.
    private let type: [UInt8]
    private let subtype: [UInt8]

    /// - Returns: nil for a text that is no media type, or has parameters.
    package init?(_ text: String) {
        let lower = text.lowercased()
        guard let (type, subtype) = Self.parts(Array(lower.utf8).span), !lower.contains(";") else { return nil }
        let star = Array("*".utf8)
        guard type != star || subtype == star else { return nil }
        self.type = type == star ? [] : type
        self.subtype = subtype == star ? [] : subtype
        description = lower
    }

    /// Whether it takes in what a `Content-Type` field says (RFC 9110, section 8.3).
    func matches(_ value: borrowing Span<UInt8>) -> Bool {
        guard let (type, subtype) = Self.parts(value) else { return false }
        return (self.type.isEmpty || type.span.equalsIgnoringCase(self.type.span))
            && (self.subtype.isEmpty || subtype.span.equalsIgnoringCase(self.subtype.span))
    }

    var isAny: Bool { type.isEmpty }

    private static func parts(_ value: borrowing Span<UInt8>) -> (type: [UInt8], subtype: [UInt8])? {
        let end = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
        let essence = value.extracting(value.trimmingBlanks(0..<end))
        guard let slash = essence.firstIndex(of: UInt8(ascii: "/")) else { return nil }
        let type = essence.extracting(0..<slash)
        let subtype = essence.extracting((slash + 1)..<essence.count)
        guard HTTPFields.isValidName(type), HTTPFields.isValidName(subtype) else { return nil }
        return (Array(copying: type), Array(copying: subtype))
    }
}
